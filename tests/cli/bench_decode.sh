#!/usr/bin/env bash
# The benchmark of decoding runs on a small model and says what it measured.
. "$(dirname "$0")/lib.sh"

model=$tmp/tiny.gguf
run_ok "$TANDEM" synth --like tiny -o "$model"
run_ok "$TANDEM" bench decode -m "$model" --rounds 1
for what in 'prompt of' 'pass of 1 row ' 'pass of 16 rows' 'one process' \
  'times that of one process'; do
  check_has 'the table' "$out" "$what"
done
run_ok "$TANDEM" bench decode -m "$model" --rounds 1 -t 1 --json
check_has 'the object' "$out" '"bench":"decode"'
check_has 'the object' "$out" '"pair_to_one_process":'
check_eq 'rows measured' "$(grep -o '"what":"[a-z ]*","rows":[0-9]*' <<<"$out" |
  sed 's/.*://' | xargs | cut -d ' ' -f 2-)" '1 2 4 8 16 1'
# Every rate is of what was timed.
check_eq 'rates that are not positive' \
  "$(grep -oE '"(tokens_per_s|ops_per_s)":[-0-9.e+]+' <<<"$out" |
    awk -F: '$2 <= 0' | wc -l)" 0

run_ok "$TANDEM" synth --like tiny-llada -o "$tmp/llada.gguf"
run "$TANDEM" bench decode -m "$tmp/llada.gguf"
check_eq 'status with a diffusion model' "$status" 1
check_has 'stderr' "$err" 'diffusion model'
finish
