#!/usr/bin/env bash
# Retrieval speculation: texts, greedy and sampled, equal those of plain
# decoding with all drafts, calibration, reuse, and settings of the pair.
. "$(dirname "$0")/lib.sh"

export TANDEM_MODELS=$root/flash/models
[ -e "$TANDEM_MODELS/small.gguf" ] || skip 'no flash/models/small.gguf'
prompt=$(sed -n '1s/^{"id": "[^"]*", "prompt": "\(.*\)", "answer".*/\1/p' \
  flash/models/tasks/summary.jsonl)
printf '%b' "$prompt" >"$tmp/prompt"

tokens=16
! full || tokens=24
generate() { # OPTION...
  run_ok "$TANDEM" run -m small -f "$tmp/prompt" -n $tokens --json -t 1 "$@"
  essence
}
# shellcheck disable=SC2034 # what lib.sh compares
essential=(stop text ids)
same() { # OPTION...
  generate "${sampling[@]}" "$@"
  check_eq "the text with $*" "$essence" "$want"
}

# ---- greedily and sampled ----------------------------------------------------
for how in '' '--temp 0.8 --seed 7'; do
  read -ra sampling <<<"$how"
  generate "${sampling[@]}"
  want=$essence
  check_has 'the compared output' "$want" ids:
  # By a phone's clock it may draft other trees; which draft does not matter.
  for draft in sam pld sam+recycle sam+model; do
    same --method sdnpu --draft $draft
    ! full || same --method sdnpu --draft $draft --clock soc:sd8gen3
  done
  same --method sdnpu --draft sam+model --clock soc:sd8gen3
  same --method sdnpu --calibration --reuse
  same --method sdnpu --calibration --anchors request \
    --request-tokens 16
  keys=(single bigram longest)
  [ -z "$how" ] || full || keys=(longest)
  for key in "${keys[@]}"; do
    same --method sdnpu --calibration --anchor-key $key --successors 8 \
      --successor-share 1
  done
  same --method sdnpu --reuse --reuse-checked
  same --method sdnpu --draft recycle --recycle-rows all
  same --method sdnpu --reuse --reuse-age 8 --reuse-room 64 --verify-rows 64
  same --method sdnpu --verify-rows 2
  methods=(chain opt-tree eagle2-tree edgellm lever)
  [ -z "$how" ] || full || methods=(chain opt-tree)
  for method in "${methods[@]}"; do
    same --method $method --draft sam+calibrated+reuse
  done
done

# ---- however the pair is run -------------------------------------------------
sampling=()
generate
want=$essence
for coherence in strict check; do
  same --method sdnpu --coherence $coherence --evict-seed 5
  same --method sdnpu --coherence $coherence --calibration
done
same --method sdnpu --threads 2 --prefill-chunk 16
same --method sdnpu --doorbell eventfd --reuse --reuse-checked
same --method sdnpu --calibration --restarts 9 --fault die@run#2,die@run#3
same --method sdnpu --calibration --graph-switch best --prefill-chunk 256
same --method sdnpu --calibration --placement swap --va-window 24M
same --method sdnpu --calibration --coherence strict --va-window 24M

# ---- it finds something ------------------------------------------------------
generate --method sdnpu --clock soc:sd8gen2
take accepted_tokens draft_cycles
checks=$((checks + 1))
((value[accepted_tokens] > value[draft_cycles])) ||
  fail "${value[accepted_tokens]} accepted in ${value[draft_cycles]} passes"

# ---- options as words -------------------------------------------------------
misuse "$TANDEM" run -m small -p x --method sdnpu --verify-rows 1
misuse "$TANDEM" run -m small -p x --method sdnpu --anchors request
check_has 'anchors of nothing' "$err" '--anchors needs --draft calibrated'
misuse "$TANDEM" run -m small -p x --anchors request
misuse "$TANDEM" run -m small -p x --method sample --draft sam+calibrated
check_has 'logits that nobody computes' "$err" 'does not compute'
misuse "$TANDEM" run -m small -p x --method sdnpu --successors 9
run "$TANDEM" run -m small -p x --method sdnpu --draft sam:x
check_eq 'status of a drafter that is none' "$status" 1
check_has 'the reason' "$err" sam:x

# ---- statistics by source ------------------------------------------------------
run_ok "$TANDEM" run -m small -f "$tmp/prompt" -n 24 --json -t 1 \
  --method sdnpu --draft sam+model
member drafted_tokens
drafted=$it
member drafted_text
text=$it
member drafted_model
check_eq 'drafted tokens by source' $((text + it)) "$drafted"
run_ok "$TANDEM" run -m small -f "$tmp/prompt" -n 24 --stats -t 1 \
  --method sdnpu --draft sam+model
check_has '--stats' "$err" ' accepted by source: text '
finish
