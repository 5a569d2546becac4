#!/usr/bin/env bash
# The diffusion model that comes with the program answers and summarises.
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
check_has 'the form of the answer' "$want" 'Nora is in the '
answer --coherence check --threads 1
check_eq 'the answer with --coherence check' "$answer" "$want"
answer --block-steps 8
echo "in 8 passes a block:$answer"
answer --json
check_has 'why it ends' "$out" '"stop":"eos"'

# A floor that a broken model or method does not reach; the card has the rest.
# Once, since it takes minutes under a sanitizer.
case $TANDEM in
*/release/*)
  run_ok "$TANDEM" eval summary --method llada --items 10 --json
  right=$(grep -oE '"accuracy":[0-9.]+' <<<"$out" |
    awk -F: 'NR == 1 { printf "%d", 100 * $2 }')
  check_eq "summaries: $right % are at least 20 %" \
    "$([ "$right" -ge 20 ] && echo yes)" yes
  ;;
esac
finish
