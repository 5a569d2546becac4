#!/usr/bin/env bash
# tandem bench decode: runs on a small model and reports its measurements.
. "$(dirname "$0")/lib.sh"

model=$tmp/tiny.gguf
run_ok "$TANDEM" synth --like tiny -o "$model"
run_ok "$TANDEM" bench decode -m "$model" --rounds 1 --beside 1
for what in 'prompt of' 'pass of 1 row ' 'pass of 16 rows' 'one process' \
  'times as long as in one process' 'busy: pass of 1 row' 'With 1 busy thread'; do
  check_has 'the table' "$out" "$what"
done
run_ok "$TANDEM" bench decode -m "$model" --rounds 1 -t 1 --json
check_has 'the object' "$out" '"bench":"decode"'
check_has 'the object' "$out" '"pair_to_one_process":'
check_eq 'rows measured' "$(grep -o '"what":"[a-z ]*","rows":[0-9]*' <<<"$out" |
  sed 's/.*://' | xargs | cut -d ' ' -f 2-)" '1 2 4 8 16 1'
# Every rate follows from the measured time.
check_eq 'rates that are not positive' \
  "$(grep -oE '"(tokens_per_s|ops_per_s)":[-0-9.e+]+' <<<"$out" |
    awk -F: '$2 <= 0' | wc -l)" 0

# Samples of a prompt: read once for all of them, or for each, and the phone too.
run_ok "$TANDEM" bench decode -m "$model" --rounds 1 -t 1 --samples 1,5 \
  --prompt 200
check_has 'the table' "$out" 'apart MiB'
check_has 'the table' "$out" 'sd8gen3'
run_ok "$TANDEM" bench decode -m "$model" --rounds 1 -t 1 --samples 1,12 \
  --prompt 200 --json
figure() { # NAME NTH
  local rest=$out i
  for ((i = 0; i < $2; i++)); do
    [[ $rest == *"\"$1\":"* ]] || return
    rest=${rest#*"\"$1\":"}
  done
  echo "${rest%%[!0-9.e+-]*}"
}
check_eq 'the rows' "$(grep -o '"samples":"[0-9]*"' <<<"$out" | xargs)" \
  'samples:1 samples:12'
check_eq 'one reads what it sees' "$(figure kv_read_bytes 1)" \
  "$(figure kv_apart_bytes 1)"
if [[ ${TANDEM_CPU:-} != ref ]]; then
  check_eq 'twelve read less than a quarter' "$(awk \
    "BEGIN { print $(figure kv_read_bytes 2) * 4 < $(figure kv_apart_bytes 2) }")" 1
fi
check_eq 'which the phone is spared' \
  "$(awk "BEGIN { print $(figure phone_pass_of_apart 2) < 1 }")" 1
for bad in '' 0 1,,2 65 1,x 8,; do
  run "$TANDEM" bench decode -m "$model" --samples "$bad"
  check_eq "status of --samples '$bad'" "$status" 1
  check_has 'stderr' "$err" 'try 1,8,16,32'
done
run "$TANDEM" bench decode -m "$model" --samples 2 --prompt 600
check_eq 'status of too long a prompt' "$status" 1
check_has 'stderr' "$err" 'shorter --prompt'

# Texts of prompts of their own, side by side.
run_ok "$TANDEM" bench texts -m "$model" --rounds 1 -t 1 --texts 1,16 \
  --prompt 40
check_has 'the table' "$out" 'phone: prompts s'
run_ok "$TANDEM" bench texts -m "$model" --rounds 1 -t 1 --texts 1,16 \
  --prompt 40 --json
check_eq 'the rows' "$(grep -o '"texts":"[0-9]*"' <<<"$out" | xargs)" \
  'texts:1 texts:16'
check_eq 'sixteen are four times as fast on the phone' \
  "$(awk "BEGIN { print (4 <= $(figure phone_growth 2)) }")" 1
# Eight at a time take fewer passes than one or two.
run_ok "$TANDEM" bench texts -m "$model" --rounds 1 -t 1 --texts 8 \
  --task math --method chain --draft pld --json
check_has 'the measurement' "$out" '"method":"chain","task":"math"'
run_ok "$TANDEM" bench texts -m "$model" --texts 8 --task math --rounds 1 \
  --method vote --samples 2 --json
check_has 'the measurement' "$out" '"method":"vote","task":"math"'
run "$TANDEM" bench texts -m "$model" --texts 1,4 --prompt 16 --method chain \
  --draft oracle:0.8
check_eq 'status of a method whose requests run alone' "$status" 1
check_has 'stderr' "$err" 'cannot share passes'
run "$TANDEM" bench texts -m "$model" --texts 1,65
check_eq 'status of --texts 1,65' "$status" 1
check_has 'stderr' "$err" 'try 1,4,16,32'

# The option of a run changes nothing that is written.
run_ok "$TANDEM" run -m "$model" -p 'one two' -n 8 --json
told=$(grep -o '"logits_hash":"[0-9a-f]*"' <<<"$out")
run_ok "$TANDEM" run -m "$model" -p 'one two' -n 8 --json --attend-apart
check_eq 'the hash with --attend-apart' \
  "$(grep -o '"logits_hash":"[0-9a-f]*"' <<<"$out")" "$told"
check_eq 'the bytes with --attend-apart' "$(figure kv_read_bytes 1)" \
  "$(figure kv_apart_bytes 1)"

run_ok "$TANDEM" synth --like tiny-llada -o "$tmp/llada.gguf"
run "$TANDEM" bench decode -m "$tmp/llada.gguf"
check_eq 'status with a diffusion model' "$status" 1
run "$TANDEM" bench texts -m "$tmp/llada.gguf"
check_eq 'status of texts with a diffusion model' "$status" 1
check_has 'stderr' "$err" 'diffusion model'
finish
