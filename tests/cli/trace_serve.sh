#!/usr/bin/env bash
# --trace of a server: each text's wait, prompt and generation, the texts of
# each pass, a complete trace when the server is killed, and a file that stays
# below its limit.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/serve_lib.sh"
command -v jq >/dev/null || skip 'no jq'

traced() { # OPTION...
  serve --trace "$tmp/s.pft" "$@"
}
ask() { # PROMPT TOKENS N
  curl -s "$url/v1/completions" -o /dev/null \
    -d '{"prompt":"'"$1"'","max_tokens":'"$2"',"n":'"$3"',"temperature":0.9}'
}
sum() { jq "$1" "$tmp/sums"; }

# Five texts, some in passes that they share; then it is killed.
traced
ask 'Once upon a time' 8 2 &
first=$!
ask 'The little dog' 6 2
wait $first
ask 'Lily' 4 1
state=$(curl -s "$url/state")
kill -9 $server
wait $server 2>/dev/null
run_ok "$TANDEM" trace --json "$tmp/s.pft"
cp "$tmp/out" "$tmp/sums"
for key in passes rows padded_rows; do
  of=$(sed 's/^rows/rows_used/; s/^padded_rows/rows_padded/' <<<$key)_total
  check_eq "$key" "$(sum .$key)" "$(jq ".$of" <<<"$state")"
done
check_eq 'tokens of prompts' "$(sum .prompt_tokens)" \
  "$(jq .prompt_tokens_total <<<"$state")"
check_eq 'texts, and waits for their turn' "$(sum '[.texts, .queued]|join(" ")')" \
  '"5 5"'
check_eq 'what has no end but the window and the start' \
  "$(sum '.unanswered, .lost, .events_lost, .rotated' | paste -sd' ')" '0 0 0 0'
check_eq 'a text has rows of each pass that writes a token of it' \
  "$(sum '[.work[]|select(.track == "texts" and .kind == "pass")]|.[0].times >=
    '"$(jq .tokens_total <<<"$state")")" true
check_eq 'what the device did is there to the last' \
  "$(sum '[.work[]|select(.track == "device" and .kind == "request")]|.[0].times')" \
  "$(sum .round_trips)"
run_ok "$TANDEM" trace "$tmp/s.pft"
for part in 'queued       5 requests' 'texts      text '; do
  check_has 'the summary' "$out" "$part"
done
run_ok "$TANDEM" trace --html "$tmp/s.html" "$tmp/s.pft"
for part in '"queued"' '"decode"' '"texts"'; do
  check_has 'the page' "$(cat "$tmp/s.html")" "$part"
done

# Beyond the limit the newest events are kept, and the number of dropped ones
# is reported.
traced --trace-limit 1M
ask 'Once upon a time' 200 4
ends TERM 0
for file in s.pft s.pft.1; do
  check_eq "$file has at most half of the limit" \
    "$(($(stat -c %s "$tmp/$file") <= 512 << 10))" 1
  run_ok "$TANDEM" trace --json "$tmp/$file"
  cp "$tmp/out" "$tmp/$file.json"
done
check_eq 'packets in earlier files' "$(jq '.rotated > 0' "$tmp/s.pft.json")" true
# All texts began before either file. The last one ends in one of the two: the
# newest file may begin just after it.
check_eq 'the text that is under way when a file begins' \
  "$(jq -s '(map(.texts) | add) > 0 and .[0].unfinished == 0' \
    "$tmp/s.pft.json" "$tmp/s.pft.1.json")" true
run_ok "$TANDEM" trace "$tmp/s.pft"
check_has 'the summary' "$out" 'rotated      '
run "$TANDEM" run -t 1 -n 1 -p x --trace /dev/null --trace-limit 1M
check_eq 'status of a limit for something other than a file' "$status" 1
check_has 'the message' "$err" 'not a regular file'

# ---- a FIFO ------------------------------------------------------------------------
mkfifo "$tmp/fifo"
run timeout 20 "$TANDEM" run -t 1 -n 1 -p x --trace "$tmp/fifo"
check_eq 'status without a reader' "$status" 1
check_has 'the message' "$err" "nobody reads from the trace"
# The reader has the FIFO open before the program starts, and reaches its end only
# when descriptor 7, a writer, is closed after the program has ended.
exec 7<>"$tmp/fifo" 8<"$tmp/fifo"
cat <&8 >"$tmp/read" 7<&- &
reader=$!
exec 8<&-
run_ok "$TANDEM" run -t 1 -n 1 -p x --trace "$tmp/fifo"
exec 7<&-
wait $reader
run_ok "$TANDEM" trace "$tmp/read"
finish
