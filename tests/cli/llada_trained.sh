#!/usr/bin/env bash
# The diffusion model that comes with the program answers a question.
. "$(dirname "$0")/lib.sh"

[ -e "$root/flash/models/diffusion.gguf" ] ||
  skip 'no flash/models/diffusion.gguf'
export TANDEM_MODELS=$root/flash/models

prompt='Read: Nora was in the tower. Tom was at the zoo. Felix was in the park.
Question: Where is Nora?
Answer:'
answer() { # OPTION...
  run_ok "$TANDEM" run --method llada -p "$prompt" -n 64 "$@"
  answer=$out
}

answer
want=$answer
echo "answer:$want"
check_has 'the answer' "$want" tower
answer --coherence check --threads 1
check_eq 'the answer with --coherence check' "$answer" "$want"
answer --block-steps 8
echo "in 8 passes a block:$answer"
answer --json
check_has 'why it ends' "$out" '"stop":"eos"'
finish
