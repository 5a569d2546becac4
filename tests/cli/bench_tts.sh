#!/usr/bin/env bash
# Accuracy against cost by the number of samples: the figures of a few items are
# those that the runs themselves have, and the estimates what they must be.
. "$(dirname "$0")/lib.sh"
export TANDEM_MODELS=$root/flash/models
[ -e "$TANDEM_MODELS/small.gguf" ] || skip 'no flash/models/small.gguf'

tts() { # OPTION...
  run_ok "$TANDEM" bench tts --items 3 -n 80 --models small "$@"
}
tts --at 1,4 --methods sample,vote --clock soc:sd8gen3 --json
check_eq rows "$(jq -c '[.tables.accuracy[] | [.how, .samples]]' <"$tmp/out")" \
  '[["small, greedy","1"],["small, sample","1"],["small, sample","4"],["small, vote","1"],["small, vote","4"]]'
row() { # HOW SAMPLES FIGURE
  jq ".tables.accuracy[] | select(.how == \"small, $1\" and .samples == \"$2\") |
    .$3" <"$tmp/out"
}
one=$(row sample 1 right)
check_eq 'one sample, whatever chooses' "$(row vote 1 right)" "$one"
check_eq 'its tokens' "$(row vote 1 tokens)" "$(row sample 1 tokens)"
check_eq 'the same samples' "$(row vote 4 tokens)" "$(row sample 4 tokens)"
jq -e '[.tables.accuracy[] | .low <= .right and .right <= .high] | all' \
  <"$tmp/out" >/dev/null || fail 'a share outside its interval'
jq -e '.tables.pass[0] | .pass_at_1 <= .pass_at_4' <"$tmp/out" >/dev/null ||
  fail 'pass@4 below pass@1'
jq -ne "$(row sample 4 right) == $(jq '.tables.pass[0].pass_at_4' <"$tmp/out")" \
  >/dev/null || fail 'pass@4 of four is not the share with a right one'
jq -ne "$(row vote 4 phone_s) < 4 * $(row vote 1 phone_s)" >/dev/null ||
  fail 'four samples take as long as four times one'
checks=$((checks + 4))

tts --at 2 --methods vote --csv
check_has csv "$out" 'accuracy,"small, vote",2,tokens,'
tts --at 2 --methods vote
check_has text "$out" 'small, vote'
check_has text "$out" 'pass@k'

misuse "$TANDEM" bench tts --methods chain
check_has 'a method of one text' "$err" 'chain, which has no use for samples'
misuse "$TANDEM" bench tts --at 4,2
check_has 'numbers that fall' "$err" 'does not ascend'
misuse "$TANDEM" bench tts --task all
misuse "$TANDEM" bench tts --models a,b,c
finish
