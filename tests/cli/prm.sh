#!/usr/bin/env bash
# Process-reward models of both kinds, made by tandem synth: their scores of
# samples equal those of tandem score for the same texts, to the last digit;
# methods choose by them; and other models are refused.
. "$(dirname "$0")/lib.sh"
export TANDEM_MODELS=$root/flash/models
[ -e "$TANDEM_MODELS/small.gguf" ] || skip 'no flash/models/small.gguf'

problem='Problem: A shop has 29 cups. It gets 11 new cups. How many are there?
Solution:'
run_ok "$TANDEM" synth --like tiny --head classes -o "$tmp/classes.gguf"
run_ok "$TANDEM" synth --like tiny --head value --quant q8_0 -o "$tmp/value.gguf"
choose() { # KIND METHOD OPTION...
  local kind=$1 method=$2
  shift 2
  run_ok "$TANDEM" run -m small -p "$problem" -n 40 --temp 0.9 -t 1 --json \
    --show-samples --method "$method" --reward "$tmp/$kind.gguf" "$@"
  cp "$tmp/out" "$tmp/object"
}

# Of every sample that ended: its steps' scores, a line each; and its text as a
# solution to score.
scores() {
  jq -c '.samples[] | select(.state == "ended") | [.steps[].score]' "$tmp/object"
}
again() { # KIND
  jq -c --arg p "$problem" '.samples[] | select(.state == "ended")
    | {prompt: $p, solution: .text}' "$tmp/object" >"$tmp/texts.jsonl"
  run_ok "$TANDEM" score "$tmp/texts.jsonl" -m small --reward "$tmp/$1.gguf" \
    -t 1 --json
  jq -c 'select(.scores) | .scores' "$tmp/out"
}
for kind in classes value; do
  choose $kind best-of-n -N 4 --clock soc:sd8gen3
  scores >"$tmp/written"
  check_eq "scores of $kind" "$(again $kind)" "$(cat "$tmp/written")"
  check_eq 'samples' "$(wc -l <"$tmp/written")" 4
  [ "$(sort -u "$tmp/written" | wc -l)" -gt 1 ] || fail 'all scores are alike'
  # The sample with the best last score, and its time on the phone.
  check_eq "the choice of $kind" \
    "$(jq '[.samples[] | select(.chosen)][0].index' "$tmp/object")" \
    "$(jq '.samples | sort_by(-.steps[-1].score)[0].index' "$tmp/object")"
  check_eq 'a price' "$(jq '.reward.phone_ps > 0' "$tmp/object")" true
  check_eq 'the name' "$(jq -r .reward.name "$tmp/object")" "$tmp/$kind.gguf"
done
choose classes best-of-n -N 4 --aggregate min
check_eq 'the least of its steps' \
  "$(jq '[.samples[] | select(.chosen)][0].index' "$tmp/object")" \
  "$(jq '.samples | sort_by(-([.steps[].score] | min))[0].index' "$tmp/object")"
choose value beam -N 4 --beam-width 2
[ "$(jq '[.samples[] | select(.state == "cut")] | length' "$tmp/object")" -gt 0 ] ||
  fail 'no beam was cut'
run_ok "$TANDEM" eval math -m small --items 2 -n 40 --method weighted-vote -N 2 \
  --reward "$tmp/value.gguf" -t 1
check_has 'an evaluation' "$out" 'math'

# ---- errors -----------------------------------------------------------------
run_ok "$TANDEM" synth --like tiny -o "$tmp/writes.gguf"
run "$TANDEM" run -m small --method best-of-n -N 2 --reward "$tmp/writes.gguf" hi
check_eq 'a model that generates text' "$status" 1
check_has 'a model that generates text' "$err" 'has a head that scores'
run "$TANDEM" run -m "$tmp/classes.gguf" hi
check_eq 'a model that scores' "$status" 1
check_has 'a model that scores' "$err" "tensor 'cls.weight' is not supported"
misuse "$TANDEM" synth --like tiny-llada --head value -o "$tmp/no.gguf"
check_has 'a diffusion model' "$err" 'makes a reward model, which must be causal'
misuse "$TANDEM" synth --like tiny --head value --grow small -o "$tmp/no.gguf"
check_has 'a grown model' "$err" 'has no head that scores'
finish
