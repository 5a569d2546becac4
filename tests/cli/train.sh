#!/usr/bin/env bash
# The training pipeline with tiny models: every model trains, continues from
# its checkpoint, and is written as GGUF, which the pair reads and runs. Time
# limit: 5 times the usual. The number of steps is fixed, so it ends, but
# slowly on a busy machine.
. "$(dirname "$0")/lib.sh"

python=${TANDEM_PYTHON:-/usr/bin/python3}
train=$root/scripts/train
export PYTHONDONTWRITEBYTECODE=1
# So small a model gains nothing from a second thread.
export OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive
case $TANDEM in
*/release/*) ;;
*) skip 'the pipeline is tried once, with the release build' ;;
esac
"$python" -c 'from importlib.util import find_spec as find
assert find("torch") and find("regex")' 2>/dev/null ||
  skip "$python has no PyTorch or no regex module; see scripts/train/README.md"

trained=$tmp/train models=$tmp/models
mkdir -p "$trained" "$models"

check() { # WHAT COMMAND...
  local what=$1
  shift
  checks=$((checks + 1))
  if ! "$@" >"$tmp/log" 2>&1; then
    fail "$what"
    tail -n 20 "$tmp/log"
  fi
}

# Later arguments replace those of the stage; its seed, its teacher and other
# defining arguments stay.
stage() { # NAME TOKENS [ARGUMENT of scripts/train/train.py...]
  local name=$1 tokens=$2
  shift 2
  PYTHON=$python TANDEM_TRAIN_ARGS="--miniature --items 500 --batch 512
    --drill-steps 0 --warmup 10 --rate 4 --log-every 20 --held-out 4
    --threads 1 --tokens $tokens $*" TANDEM_BETWEEN_ARGS='--problems 8' \
    TANDEM_REWRITE_ARGS='--items 8' \
    "$train/all" --out "$trained" "$name"
}

fell() { # MODEL PART: the loss ended below PART of what it was at first
  awk -F, -v part="$2" 'NR == 2 { first = $4 } { last = $4 }
    END { printf "%s to %s\n", first, last; exit !(NR > 2 && last < part * first) }' \
    "$trained/$1.csv"
}

column() { # MODEL NUMBER: of its log
  cut -d, -f"$2" "$trained/$1.csv" | paste -sd ' '
}

writes() { # FILE ARGUMENT...: the tokens of a text
  local to=$1
  shift
  "$TANDEM" run -p 'Read: Anna has a red kite.' -n 24 --ids --ignore-eos \
    --repeat-penalty 4 "$@" >"$to"
}

check 'a model grows into a deeper one that says the same' \
  "$python" - "$train" "$trained" <<'END'
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import torch
import corpus, gguf, grow, objective
from model import Model, Shape
from train import load_model, shape_of

torch.manual_seed(1)
small, wanted = Shape(64, 1, 256, 2, 1, 2048, 1024), shape_of("target", True)
model = Model(small)
gguf.write_model(Path(sys.argv[2]) / "seed.gguf", model, corpus.vocabulary(), "Seed", "F32")
# If half of the units write nothing, nothing changes between the halves, and
# the grown model computes the same numbers.
down = model.blocks[0].ffn.down.weight.data.mul_(20)
down[:, torch.randperm(256)[:128]] = 0
deeper = Model(wanted)
deeper.load_state_dict(grow.grown(small, model.state_dict(), wanted))
ids = torch.randint(4, 2048, (2, 40))
mask = objective.visibility(torch.ones_like(ids), True).float()
with torch.no_grad():
    one, two = (m.logits(m(ids, mask)) for m in (model, deeper))
print((one - two).abs().max(), one.std())
assert wanted.block_count > 2 * small.block_count and (one - two).abs().max() < 1e-4 * one.std()
END
# A mask of all kinds of tiles, lengths that end within one, and shared keys,
# against scores written out, in double precision.
check 'attention over what is seen is attention' \
  "$python" - "$train" "$trained" <<'END'
import sys
sys.path.insert(0, sys.argv[1])
import torch
import fused

fused.load(sys.argv[2])
if not fused.tiles:
    print("this processor has no matrix unit; what stands in for it is tried")
torch.manual_seed(1)
kind = fused.precision("cpu")
bound = 1e-5 if kind == torch.float32 else 0.006 if fused.tiles else 0.03
for rows, length, heads, kv_heads, width, causal in (
    (2, 64, 2, 1, 32, True), (2, 70, 4, 2, 64, False), (1, 33, 2, 2, 128, True),
    (2, 200, 6, 2, 64, True), (1, 5, 1, 1, 32, False), (1, 40, 2, 1, 160, True),
):
    shapes = [(rows, length, n, width) for n in (heads, kv_heads, kv_heads, heads)]
    q, k, v, d = (torch.randn(shape).to(kind) for shape in shapes)
    part = torch.randint(0, 3, (rows, length)).sort(1).values
    seen = part[:, :, None] == part[:, None]
    if causal:
        seen = seen & torch.ones(length, length, dtype=torch.bool).tril()
    mask = torch.zeros(seen.shape).masked_fill(~seen, -1e4)[:, None].to(kind)
    ours = [x.clone().requires_grad_() for x in (q, k, v)]
    out = fused.attend(*ours, mask)
    out.backward(d)
    exact = [x.double().requires_grad_() for x in (q, k, v)]
    kv = [x.repeat_interleave(heads // kv_heads, 2) for x in exact[1:]]
    score = torch.einsum("bqhn,bkhn->bhqk", exact[0], kv[0]) / width ** 0.5
    want = torch.einsum("bhqk,bkhn->bqhn", (score + mask.double()).softmax(-1), kv[1])
    want.backward(d.double())
    pairs = [(out, want)] + [(x.grad, y.grad) for x, y in zip(ours, exact)]
    far = [((x.double() - y).norm() / y.norm()).item() for x, y in pairs]
    print(rows, length, heads, kv_heads, width, causal, far)
    assert max(far) < bound, far
END
check 'the base begins, grown from a smaller one' stage base 1e4 --init "$trained/seed.gguf"
check 'the base goes on' stage base 3e4 --init "$trained/seed.gguf"
check_eq 'where it went on, from its checkpoint' "$(column base 1)" 'step 19 20 40 58'
# The rate of learning is near its end, not where the checkpoint had it.
check 'how fast it learns went on, too' "$python" - "$train" "$trained" <<'END'
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import torch
from optimizer import optimizers
from train import load_model

def rates(states):
    return [group["lr"] for state in states for group in state["param_groups"]]

base = Path(sys.argv[2]) / "base.pt"
now = rates(torch.load(base)["optimizers"])
first = rates(o.state_dict() for o in optimizers(load_model(base)))
print(now, first)
assert all(0 < a < 0.2 * b for a, b in zip(now, first))
END
# With all positions of an answer masked: training at each position sees what
# decoding reads there.
check 'what denoising models learn is what they are asked' "$python" - "$train" <<'END'
import dataclasses, sys
sys.path.insert(0, sys.argv[1])
import torch
import fused
import objective
from corpus import ANSWER, PROMPT
from decode import Cache, forward
from model import Model
from tokenizer import MASK
from train import shape_of

LENGTH, BEGIN = 32, 7
torch.manual_seed(1)
ids = torch.randint(4, 2000, (1, BEGIN + 2 * LENGTH))
role = torch.full_like(ids, ANSWER)
role[:, :BEGIN] = PROMPT
torch.rand = lambda shape, generator=None: torch.full(tuple(shape), 0.5)
objective.IN_ORDER = 0
seen = {}
objective.denoising = lambda model, hidden, want, weight: seen.update(hidden=hidden, want=want)

@torch.no_grad()
def asked(model, shift):
    if not model.shape.block_length:
        masked = ids.clone()
        masked[:, BEGIN:] = MASK
        return forward(model, masked, Cache(), both_ways=True)[0, BEGIN - shift :][: 2 * LENGTH]
    cache = Cache()
    last, out = forward(model, ids[:, :BEGIN], cache)[0, -1:], []
    for first in (BEGIN, BEGIN + LENGTH):
        own = forward(model, torch.full((1, LENGTH), MASK), cache, both_ways=True, keep=False)[0]
        out += [last, own[:-1]] if shift else [own]
        last = forward(model, ids[:, first : first + LENGTH], cache, both_ways=True)[0, -1:]
    return torch.cat(out)

for kind in ("diffusion-base", "block-base"):
    for shift in (False, True):
        shape = dataclasses.replace(shape_of(kind, True), shift_logits=shift)
        model = Model(shape).eval()
        with torch.no_grad(), fused.computing("cpu"):
            objective.loss(model, ids, torch.zeros_like(ids), role, torch.Generator())
        assert (seen["want"] == ids[0, BEGIN:]).all()
        want = asked(model, shift)
        far = ((seen["hidden"].float() - want).norm() / want.norm()).item()
        print(kind, shift, far)
        assert far < 0.02, far
END
# What is masked in order: all from a position on, but for ends of text that stand.
check 'which positions are masked' "$python" - "$train" <<'END'
import sys
sys.path.insert(0, sys.argv[1])
import torch
import objective
from corpus import RESPONSE
from tokenizer import END

torch.manual_seed(1)
place = torch.arange(RESPONSE).repeat(500, 1)
ids = torch.where(place < torch.randint(1, RESPONSE, (500, 1)), 5, END)
share, ends = torch.rand(2, 500, 1).expand(-1, -1, RESPONSE)
draw = torch.rand(500, RESPONSE)
masked, weight = objective.chosen_masks(ids, place, share, torch.tensor(True), ends, draw)
for row in range(500):
    count = round(RESPONSE * share[row, 0].item())
    open_, words = place[row] >= RESPONSE - count, ids[row] != END
    assert (masked[row][words] == open_[words]).all()
    assert not masked[row][~open_].any()
    tail = masked[row][open_ & ~words]
    if ends[row, 0] < 0.25:
        assert tail.all()
    if ends[row, 0] > 0.75:
        assert not tail.any()
    near = weight[row][RESPONSE - count :]
    assert torch.allclose(near, objective.NEAR / torch.arange(1.0, count + 1))
masked, weight = objective.chosen_masks(ids, place, share, torch.tensor(False), ends, draw)
assert (masked == (draw < share)).all() and (weight == 1 / share).all()
END
# Some wrong tokens, taken from the answer, which must be predicted.
check 'which tokens are wrong' "$python" - "$train" <<'END'
import sys
sys.path.insert(0, sys.argv[1])
import torch
from objective import NEAR, RIGHT, WRONG, with_wrong_ones

ids = torch.arange(64 * 200).view(64, 200)
segment = torch.arange(200).div(100, rounding_mode="floor").expand(64, -1)
visible = (torch.arange(200) % 10 < 7).expand(64, -1)
given, weight = with_wrong_ones(ids, segment, visible, torch.Generator().manual_seed(3))
wrong = given != ids
assert not wrong[~visible].any() and not weight[~visible].any()
assert (weight[wrong] == NEAR).all() and (weight[visible & ~wrong] == RIGHT).all()
there = visible.nonzero()[:, 1].unique()
assert all(int(t) % 200 in there for t in given[wrong])  # of the same row, and visible
assert (given.div(200, rounding_mode="floor") == ids.div(200, rounding_mode="floor")).all()
share = wrong.view(64, 2, 100).sum(-1) / visible.view(64, 2, 100).sum(-1)
assert 0.35 < (share == 0).float().mean() < 0.75 and share.max() < 1.6 * WRONG, share
END
check 'it is continued' stage continued 2e4
check 'it is exercised' stage exercise 3e4
check 'the target lies between' stage target 0
check 'the small target imitates it' stage small-base 2e4
check 'the small target is exercised' stage small-exercise 2e4
check 'the small target learns more sums, and lies between' stage small 1e4
check 'the draft imitates it' stage draft 2e4
check 'the eagle reads its states' stage eagle 2e4
for kind in diffusion block; do
  check "the $kind model starts from it" stage "$kind-base" 6e4
  check "the $kind model is exercised" \
    stage "$([ "$kind" = block ] && echo block-exercise || echo diffusion-revise)" 1e4
  check "the $kind model lies between" stage "$kind-mixed" 0
  check "the $kind model learns to write in parallel" \
    stage "$([ "$kind" = block ] && echo block-parallel || echo diffusion)" 1e4
done
check 'the target writes stories' stage stories 0
check 'the block model learns from its own decoding' stage block-answers 1e4
check 'and is what comes of it' stage block 0
check 'the exit predictors' "$python" "$train/exit_predictor.py" --out "$trained" \
  --corpus corpus-continued.npz --steps 10 --batch 512 --held-out 4
check 'the reward head' "$python" "$train/reward.py" --out "$trained" \
  --steps 2 --problems 8 --samples 4
check 'that of the small target' "$python" "$train/reward.py" --out "$trained" \
  --steps 2 --problems 8 --samples 4 --model small
check 'the loss of the base falls' fell base 0.8
check 'the loss of the small target falls' fell small-base 0.9
check 'the loss of the draft falls' fell draft 0.9
check 'the loss of the diffusion model falls' fell diffusion-base 0.95
check 'the loss of the block diffusion model falls' fell block-base 0.95
check_has 'the log of the base' "$(head -n 1 "$trained/base.csv")" \
  ,summary-long,qa-long,ui-long,reply-long
check 'the export' "$python" "$train/export.py" --out "$trained" --models "$models"
check 'the curve of the loss is drawn' grep -q '<polyline' "$models/logs/exercise.svg"
check 'the items' "$python" "$train/items.py" --out "$models/tasks" --items 5 --math 5 --long 5

export TANDEM_MODELS=$models
for name in target small draft eagle diffusion block exit exit-third reward reward-small; do
  check "$name.gguf is read" "$TANDEM" inspect "$models/$name.gguf"
done
check_eq "the verifier's own blocks" \
  "$("$TANDEM" inspect "$models/reward.gguf" | awk '$1 ~ /^blk/' | wc -l)" 36
check_eq 'the blocks below the exits' \
  "$(for name in exit exit-third; do
    "$TANDEM" inspect "$models/$name.gguf" | awk '$1 == "tandem-exit.layer" { print $3 }'
  done | paste -sd ' ')" '2 1'

check 'the target writes' writes "$tmp/plain"
check 'not the same token on and on' \
  test "$(tr ' ' '\n' <"$tmp/plain" | sort -u | wc -l)" -gt 8
check 'the draft takes part' writes "$tmp/chain" --method chain
check 'and the text is the same' cmp "$tmp/plain" "$tmp/chain"
for name in exit exit-third; do
  check "$name takes part" writes "$tmp/lever" --method lever --prune-always \
    --exit "$models/$name.gguf"
  check "and the text is the same with $name" cmp "$tmp/plain" "$tmp/lever"
done
check 'the small target writes' writes "$tmp/small" -m "$models/small.gguf"
check 'the diffusion model writes' "$TANDEM" run -p 'Read: Anna has a red kite.' \
  -n 12 --method llada
check 'the block diffusion model writes' "$TANDEM" run \
  -p 'Read: Anna has a red kite.' -n 12 --method block
# Trained so little, the model would only end the text, so that token is
# forbidden; with random weights it generates something else everywhere.
prompts=('Read: Anna has a red kite.' x)
check 'what block diffusion models write' "$python" - "$train" "$trained" "${prompts[@]}" <<'END'
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import torch
import corpus, gguf
from decode import write_blocks
from model import Model
from tokenizer import END, START
from train import load_model, shape_of

out, vocabulary = Path(sys.argv[2]), corpus.vocabulary()
trained = load_model(out / "block.pt")
torch.manual_seed(1)
drawn = Model(shape_of("block-base", True))
for parameter in drawn.parameters():
    if parameter.dim() == 2:
        torch.nn.init.normal_(parameter, std=2 / parameter.shape[1] ** 0.5)
for name, model in ("trained", trained), ("drawn", drawn):
    model.token_embd.weight.data[END] *= -1
    path = out / f"{name}.gguf"
    gguf.write_model(path, model, vocabulary, name, "Q4_0", "Q8_0")
    model = load_model(path)
    for number, prompt in enumerate(sys.argv[3:]):
        text = write_blocks(model, [START, *vocabulary.encode(prompt)], 64)
        (out / f"{name}-{number}").write_text(" ".join(map(str, text)) + "\n")
END
for name in trained drawn; do
  for number in 0 1; do
    run_ok "$TANDEM" run --method block -m "$trained/$name.gguf" -n 64 --ids \
      -p "${prompts[number]}" --precision f32
    check_eq "prompt $number by the $name model" "$out" "$(cat "$trained/$name-$number")"
    check_eq 'and how many ids' "$(wc -w <<<"$out")" 64
  done
done
check 'the items are marked' "$TANDEM" eval qa
check 'and the long ones, of a block diffusion model' "$python" "$train/check.py" \
  "$trained/block.pt" qa-long --items-in "$models/tasks" --items 1 --limit 32
check 'several at once, with several tokens a pass' "$python" "$train/check.py" \
  "$trained/block.pt" qa story --items-in "$models/tasks" --items 3 --limit 64 \
  --threshold 0.9
check 'whose prompts are long' "$python" - "$models/tasks" <<'END'
import json, sys
from pathlib import Path
for task in ("summary-long", "qa-long", "ui-long", "reply-long"):
    lines = (Path(sys.argv[1]) / f"{task}.jsonl").read_text().splitlines()
    least = min(len(json.loads(line)["prompt"]) for line in lines)
    print(task, len(lines), least)
    assert len(lines) == 5 and least > 1000
END
check 'and lie in rows of their own' "$python" - "$trained" <<'END'
import sys
import numpy
for name in ("corpus", "corpus-block"):
    with numpy.load(f"{sys.argv[1]}/{name}.npz") as arrays:
        sizes = {n: a.shape for n, a in arrays.items()}
        used = (arrays["rows1024"][:, 1] > 0).sum(1)
    print(name, sizes)
    assert sizes["rows256"][0] > 0 and sizes["rows1024"][0] > 0
    assert all(used > 512)
END
finish
