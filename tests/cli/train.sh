#!/usr/bin/env bash
# The training pipeline, tried on miniatures: every model trains, goes on from
# its checkpoint, is written as GGUF, and the pair reads and runs it.
. "$(dirname "$0")/lib.sh"

python=${TANDEM_PYTHON:-/usr/bin/python3}
train=$root/scripts/train
export PYTHONDONTWRITEBYTECODE=1
case $TANDEM in
*/release/*) ;;
*) skip 'the pipeline is tried once, with the release build' ;;
esac
"$python" -c 'import torch, regex' 2>/dev/null ||
  skip "$python has no PyTorch or no regex module; see scripts/train/README.md"

check() { # WHAT COMMAND...
  local what=$1
  shift
  checks=$((checks + 1))
  if ! "$@" >"$tmp/log" 2>&1; then
    failures=$((failures + 1))
    echo "FAILED: $what"
    tail -n 20 "$tmp/log"
  fi
}

fell() { # MODEL PART: the loss ended below PART of what it was at first
  awk -F, -v part="$2" 'NR == 2 { first = $4 } { last = $4 }
    END { printf "%s to %s\n", first, last; exit !(NR > 2 && last < part * first) }' \
    "$tmp/train/$1.csv"
}

common=(--out "$tmp/train" --miniature --items 800 --batch 1024 --drill-steps 0
  --warmup 10 --log-every 10)
check 'the target begins' "$python" "$train/train.py" target "${common[@]}" --tokens 2e4
check 'the target goes on' "$python" "$train/train.py" target "${common[@]}" --tokens 8e4
check 'from its checkpoint, not from the first step' \
  test "$(cut -d, -f1 "$tmp/train/target.csv" | paste -sd ' ')" = \
  'step 10 19 20 30 40 50 60 70 78'
common+=(--tokens 4e4)
check 'the draft imitates it' "$python" "$train/train.py" draft "${common[@]}" \
  --teacher "$tmp/train/target.pt"
check 'the diffusion model starts from it' "$python" "$train/train.py" diffusion \
  "${common[@]}" --init "$tmp/train/target.pt"
check 'the exit predictor' "$python" "$train/exit_predictor.py" --out "$tmp/train" \
  --steps 10 --batch 1024
check 'the reward head' "$python" "$train/reward.py" --out "$tmp/train" --problems 4 --samples 2
check 'the loss of the target falls' fell target 0.8
check 'the loss of the draft falls' fell draft 0.9
check 'the export' "$python" "$train/export.py" --out "$tmp/train" --models "$tmp/models"
check 'the items' "$python" "$train/items.py" --out "$tmp/models/tasks" --items 5

export TANDEM_MODELS=$tmp/models
for name in target draft diffusion exit reward; do
  check "$name.gguf is read" "$TANDEM" inspect "$tmp/models/$name.gguf"
done
"$TANDEM" run -p 'Read: Anna has a red kite.' -n 12 --ids >"$tmp/plain" 2>"$tmp/log"
check 'the target writes' test -s "$tmp/plain"
"$TANDEM" run -p 'Read: Anna has a red kite.' -n 12 --ids --method chain >"$tmp/chain" 2>"$tmp/log"
check 'and the same with its draft' cmp "$tmp/plain" "$tmp/chain"
"$TANDEM" run -p 'Read: Anna has a red kite.' -n 12 --ids --method llada >"$tmp/masked" 2>"$tmp/log"
check 'the diffusion model writes' test -s "$tmp/masked"
check 'the items are marked' "$TANDEM" eval qa
finish
