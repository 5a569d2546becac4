#!/usr/bin/env bash
# EAGLE heads (--draft FILE): with every method, alone and joined, for one text
# and for samples that share passes, ids are those of plain decoding. The head's
# weights are random, and it mostly repeats the last token.
. "$(dirname "$0")/lib.sh"
export TANDEM_MODELS=$root/flash/models
[ -e "$TANDEM_MODELS/target.gguf" ] || skip 'no flash/models/target.gguf'

head=$tmp/eagle+1.gguf
python3 - "$head" <<'PY'
import random, struct, sys
random.seed(5)
D, FF, KV = 384, 256, 128
text = lambda s: struct.pack('<Q', len(s)) + s.encode()
u32 = lambda k, v: text('tandem-eagle.' + k) + struct.pack('<II', 4, v)
f32 = lambda k, v: text('tandem-eagle.' + k) + struct.pack('<If', 6, v)
keys = [text('general.architecture') + struct.pack('<I', 8) + text('tandem-eagle'),
        text('general.type') + struct.pack('<I', 8) + text('adapter'),
        u32('embedding_length', D), u32('feed_forward_length', FF),
        u32('attention.head_count', 6), u32('attention.head_count_kv', 2),
        u32('vocab_size', 2048), u32('context_length', 1024),
        f32('rope.freq_base', 1e4), f32('attention.layer_norm_rms_epsilon', 1e-5)]
blk = lambda n, *shape: (f'blk.0.{n}.weight', *shape)
tensors = [('eagle_embd_norm.weight', D), ('eagle_fc.weight', 2 * D, D),
           blk('attn_norm', D), blk('attn_q', D, D), blk('attn_k', D, KV),
           blk('attn_v', D, KV), blk('attn_output', D, D), blk('ffn_norm', D),
           blk('ffn_gate', D, FF), blk('ffn_up', D, FF), blk('ffn_down', FF, D),
           ('output_norm.weight', D)]

def data(name, cols, rows=None):
    if rows is None:
        return struct.pack(f'<{cols}f', *[random.uniform(.8, 1.2) for _ in range(cols)])
    out = bytearray()
    for r in range(rows):
        row = bytearray(random.randrange(-9, 10) & 255 for _ in range(cols))
        if name == 'eagle_fc.weight':
            row[r] = 127
        for at in range(0, cols, 32):
            out += struct.pack('<e', 1 / 128) + row[at:at + 32]
    return bytes(out)

infos, body = b'', b''
for t in tensors:
    infos += text(t[0]) + struct.pack(f'<I{len(t) - 1}QIQ', len(t) - 1, *t[1:],
                                      8 if len(t) > 2 else 0, len(body))
    body += data(*t)
    body += bytes(-len(body) % 32)
start = b'GGUF' + struct.pack('<IQQ', 3, len(tensors), len(keys)) + b''.join(keys) + infos
open(sys.argv[1], 'wb').write(start + bytes(-len(start) % 32) + body)
PY
[ -s "$head" ] || skip 'no python3'

tokens=16
! full || tokens=40
prompt='Read: 5 5 5 5 5 5. Tom has 3 3 3 3 apples.'
ids() { # OPTION...
  run_ok "$TANDEM" run "$prompt" -n $tokens --ignore-eos --ids "$@"
}
ids
want=$out
for method in chain specinfer opt-tree eagle2-tree edgellm lever; do
  ids --method "$method" --draft "$head"
  check_eq "ids with $method" "$out" "$want"
done
for draft in "$head+pld" "recycle+$head"; do
  ids --method eagle2-tree --draft "$draft"
  check_eq "ids with $draft" "$out" "$want"
done
ids --method chain --draft "$head" --coherence check --prefill-chunk 5
check_eq 'ids with a prompt in pieces' "$out" "$want"
ids --method sdnpu --draft "$head"
check_eq 'ids with sdnpu' "$out" "$want"

# ---- on a phone's clock, which prices the head ------------------------------
phone() { # OPTION...: into $it, the CPU's time
  run_ok "$TANDEM" run "$prompt" -n 24 --ignore-eos --json --method chain \
    --clock soc:sd8gen3 --draft "$head" "$@"
  essence
  member cpu_ps
}
phone
priced=$essence small=$it
phone --draft-as qwen2.5-0.5b
check_eq 'the text' "$essence" "$priced"
check_eq 'the CPU takes longer for a larger head' "$((it > small))" 1

# ---- from a flash image ------------------------------------------------------
run_ok "$TANDEM" convert "$TANDEM_MODELS/target.gguf" "$tmp/target.tdm"
ids -m "$tmp/target.tdm" --dram-budget 50% --method lever --draft "$head" \
  --profile learn
check_eq 'ids with a streamed target' "$out" "$want"

# ---- several texts -----------------------------------------------------------
samples() { # OPTION...
  run_ok "$TANDEM" run "$prompt" -n 24 -N 5 --temp 0.8 --seed 2 --json \
    --method sample "$@"
  all=$(grep -o '"ids":\[[^]]*\]' <<<"$out")
}
samples
want=$all
samples --draft "$head"
check_eq 'samples' "$all" "$want"

# ---- refused -----------------------------------------------------------------
refused() { # TEXT ARGS...
  local text=$1
  shift
  run "$TANDEM" run "$prompt" -n 4 "$@"
  check_eq "status of $*" "$status" 1
  check_has "stderr of $*" "$err" "$text"
}
refused 'leave out --draft-on' --method chain --draft "$head" --draft-on device
refused "this EAGLE head was made for another model" --method chain --draft "$head" -m small
refused 'give it as --draft' -m "$head"
run_ok "$TANDEM" help drafts
check_has 'help drafts' "$out" 'EAGLE head'

# ---- options of the draft model ------------------------------------------------
# They change the drafts and not the text.
essential=(stop ids)
story=(run -m small 'Once upon a time' -n 24 --ignore-eos -t 1 --json)
run_ok "$TANDEM" "${story[@]}"
essence
plain=$essence
nodes() { # METHOD DRAFT OPTION...: into $it, the number of expanded nodes
  run_ok "$TANDEM" "${story[@]}" --method "$1" --draft "$2" "${@:3}"
  essence
  check_eq "text of $*" "$essence" "$plain"
  member nodes_expanded
}
differ() { # OPTION VALUE METHOD DRAFT...: the option changes their number
  local usual
  nodes "${@:3}"
  usual=$it
  nodes "${@:3}" "$1" "$2"
  checks=$((checks + 1))
  [ "$it" -ne "$usual" ] || fail "$1 $2 expands $usual nodes, as without"
}
differ --eagle2-top-k 2 eagle2-tree model
differ --draft-temp 3 opt-tree model
differ --draft-seed 2 chain oracle:0.5
differ --draft-batch 1 lever model --clock soc:sd8gen3
finish
