#!/usr/bin/env bash
# tandem bench serve: servers that it starts, and a running one, under load. How
# fast they are depends on the machine, so only counts and the phone's clock are
# compared.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/serve_lib.sh"
# shellcheck disable=SC2154 # out, err, url, server, status and tmp are theirs
bench() { run "$TANDEM" bench serve "$@"; }
is() { check_eq "$1" "$(member "$2")" "$3"; } # WHAT NAME WANT
without_leak_search

# ---- errors, before a server is started --------------------------------------
refused() { # MESSAGE OPTION...
  local message=$1
  shift
  misuse "$TANDEM" bench serve "$@"
  check_has "stderr of $*" "$err" "$message"
}
refused "'warp'" --methods chain,warp
refused 'exclude' --prompts x --tasks qa
refused '--tasks none cannot be used' --tasks none
refused 'from 1 to 256' --at 0
refused 'from 1 to 256' --at 1,2,3,4,5,6
refused 'more than 16 methods' --methods "$(
  "$TANDEM" help methods | sed -n 's/^  \([^ ]*\)  .*/\1/p' | paste -sd ,
)"
urls=()
for ((i = 1; i <= 16; i++)); do urls+=(--url "http://127.0.0.1:$i"); done
refused 'together may list at most 16' --methods chain "${urls[@]}"
refused 'not http://HOST:PORT' --url ftp://127.0.0.1
refused 'not http://HOST:PORT' --url http://127.0.0.1:80/v1
refused '--model sets options of started servers' -m x.gguf \
  --url http://127.0.0.1:1
refused "'--' sets options" --url http://127.0.0.1:1 -- -t 1
refused 'after --' chain

fails() { # MESSAGE OPTION...
  local message=$1
  shift
  bench "$@"
  check_eq "status of $*" "$status" 1
  check_has "stderr of $*" "$err" "$message"
}
fails absent --prompts "$tmp/absent"
printf '%s\n' '2 + 3 =' 'Read: Anna has a red cup.' >"$tmp/two.txt"
fails 'are only 2; try' --prompts "$tmp/two.txt" --at 1,4
: >"$tmp/libcurl.so.4"
LD_LIBRARY_PATH=$tmp fails 'cannot load libcurl: ' --at 1
fails 'http://127.0.0.1:1: ' --url http://127.0.0.1:1
fails "'tandem serve' (chain) ended with status 2" --methods chain -- --warp
check_has 'stderr of a wrong option' "$err" "unknown option '--warp'"
printf '%s\n' '{"turns": []}' >"$tmp/none.jsonl"
fails "line 1: member 'turns' is empty" --prompts "$tmp/none.jsonl"

# ---- servers that are started ------------------------------------------------
serving=(-- -t 1 --spin 0 --clock soc:sd8gen3)
bench --methods autoregressive,chain --tasks qa,math --items 2 --at 1,2 -n 12 \
  "${serving[@]}"
check_eq 'status' "$status" 0
check_eq 'stderr' "$err" ''
check_has 'the text' "$out" '4 prompts of 2 categories, at most 12 tokens each'
check_eq 'rows' "$(awk '$2 ~ /^[12]$/ { print $1, $2 }' "$tmp/out")" \
  'autoregressive 1
autoregressive 2
chain 1
chain 2'

# On a phone's clock the times of one client are always the same.
bench --methods chain --tasks qa,math --items 2 --at 1 -n 12 --json \
  "${serving[@]}"
check_eq 'lines of --json' "$(wc -l <"$tmp/out")" 1
is 'the label' label chain
is 'the model' model_id target
is 'clients' max_concurrency 1
is 'answers' completed 4
is 'failures' failed 0
is 'cached tokens' total_cached_tokens 0
for field in num_prompts duration request_throughput output_throughput \
  total_token_throughput total_input_tokens total_output_tokens \
  mean_ttft_ms median_ttft_ms std_ttft_ms p90_ttft_ms p99_ttft_ms \
  mean_tpot_ms median_itl_ms p99_e2el_ms spec_decode_acceptance_rate \
  spec_decode_draft_tokens spec_decode_accepted_tokens tokens_per_pass \
  phone_s_per_token avg_prompt_t_s avg_pred_t_s avg_latency accept_rate; do
  checks=$((checks + 1))
  [[ $(member "$field") =~ ^[0-9.e-]+$ ]] || fail "no $field in $out"
done
check_has 'the summary' "$out" '"summary":[{"category":"qa","requests":2,"turns":2'
check_has 'the summary' "$out" '{"category":"overall","requests":4,"turns":4'
for field in phone_s_per_token tokens_per_pass total_output_tokens \
  spec_decode_accepted_tokens; do
  value[$field]=$(member "$field")
done
bench --methods chain --tasks qa,math --items 2 --at 1 -n 12 --json --rounds 2 \
  "${serving[@]}"
is 'prompts of two rounds' num_prompts 8
is 'answers of two rounds' completed 8
is 'tokens of two rounds' total_output_tokens $((2 * value[total_output_tokens]))
is 'accepted tokens of two rounds' spec_decode_accepted_tokens \
  $((2 * value[spec_decode_accepted_tokens]))
is 'tokens per pass of two rounds' tokens_per_pass "${value[tokens_per_pass]}"
is 'phone seconds of two rounds' phone_s_per_token "${value[phone_s_per_token]}"

# ---- a running server --------------------------------------------------------
cat >"$tmp/chats.jsonl" <<'END'
{"question_id": 1, "category": "math", "turns": ["What is 12 + 30?", "And 5 more?"]}
{"question_id": 2, "category": "home", "turns": ["Where is Anna?"]}
END
serve
bench --url "$url" --prompts "$tmp/chats.jsonl" --chat --at 2 -n 8 --json
check_eq 'status of chats' "$status" 0
is 'the label of a URL' label "$url"
is 'the kind' backend openai-chat
is 'answers to all turns' completed 3
check_has 'the summary of chats' "$out" '{"category":"math","requests":1,"turns":2'
check_lacks 'a server that drafts nothing' "$out" spec_decode
bench --url "$url" --prompts "$tmp/chats.jsonl" --at 2 -n 8 --json
is 'answers to first turns' completed 2

# A request that fails is counted, and the others go on.
{
  cat "$tmp/two.txt"
  printf 'word %.0s' {1..2000}
} >"$tmp/long.txt"
bench --url "$url" --prompts "$tmp/long.txt" --at 1 -n 8 --json
check_eq 'status with a failed request' "$status" 1
is 'answers beside a failed one' completed 2
is 'failed requests' failed 1
check_has 'stderr of a failed request' "$err" \
  "$url with 1 clients: 1 of 3 requests failed; the first error: status 400: "

# Ctrl-C ends the benchmark and the server that it has started.
"$TANDEM" bench serve --items 10 -n 64 --rounds 1000 \
  "${serving[@]}" >"$tmp/out" 2>"$tmp/err" &
job=$!
until pgrep -P $job >/dev/null || ! kill -0 $job; do
  pause
done
kill -INT $job
wait $job
check_eq 'status of an interrupted benchmark' $? 130
ends TERM 0
nothing_left 'all servers'
finish
