#!/usr/bin/env bash
# The diffusion models that come with the program answer and summarise.
. "$(dirname "$0")/lib.sh"

export TANDEM_MODELS=$root/flash/models
[ -e "$TANDEM_MODELS/diffusion.gguf" ] && [ -e "$TANDEM_MODELS/block.gguf" ] ||
  skip 'no flash/models/diffusion.gguf or block.gguf'

answer() { # METHOD PROMPT OPTION...
  local method=$1 prompt=$2
  shift 2
  run_ok "$TANDEM" run --method "$method" -p "$prompt" -n 32 -t 1 "$@"
  answer=$out
}

answers() { # METHOD PROMPT PART: the answer has it, however the pair is run
  local want fewer=(--block-steps 8)
  ! full || fewer=()
  answer "$1" "$2"
  echo "answer of $1:$answer"
  check_has "the answer of $1" "$answer" "$3"
  want=$answer
  answer "$1" "$2" --block-steps 8 --json
  check_has 'why it ends' "$out" '"stop":"eos"'
  full || [[ ! $out =~ \"text\":\"([^\"]*) ]] || want=${BASH_REMATCH[1]}
  answer "$1" "$2" --coherence check --threads 2 --doorbell eventfd \
    --prefill-chunk 7 ${fewer[@]+"${fewer[@]}"}
  check_eq 'that of a prompt in pieces with --coherence check' "$answer" "$want"
}

answers llada 'Read: Nora was in the tower. Tom was at the zoo. Felix was in the park.
Question: Where is Nora?
Answer:' 'Nora is in the '
answers block 'Read: The post office closes at 21:45. The museum closes at 17:45.
Question: Which place closes at 17:45?
Answer:' ' The museum closes at 17:45.'

# Floors that a broken model or method does not reach; the card has the rest.
summaries() { # METHOD LEAST: at least so many % are right
  local right some=(--items 3 -n 64 --block-steps 8 -t 1)
  ! full || some=(--items 10)
  run_ok "$TANDEM" eval summary --method "$1" "${some[@]}" --json
  right=$(json accuracy | awk '{ printf "%d", 100 * $1 }')
  check_eq "summaries by $1: $right % are at least $2 %" \
    "$([ "$right" -ge "$2" ] && echo yes)" yes
}

summaries llada 70
summaries block 70
finish
