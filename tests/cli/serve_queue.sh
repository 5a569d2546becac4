#!/usr/bin/env bash
# The server's queue: clients take turns, a full queue refuses, deadlines.
# shellcheck disable=SC2154 # code, out, server, url and tmp are the libraries'
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/serve_lib.sh"

as() { # CLIENT: options of curl
  printf -- '-H\nAuthorization: Bearer %s' "$1"
}
mapfile -t greedy < <(as greedy-key)
mapfile -t small < <(as small-key)
mapfile -t monitor < <(as monitor-key)
metric() { # as in serve_lib.sh, with a key; NAME [LABEL]
  curl -s "${monitor[@]}" "$url/metrics" |
    awk -v name="tandem_$1" -v label="${2:-}" \
      '($1 == name || index($1, name "{") == 1) && index($1, label) { n += $2 }
      END { print n + 0 }'
}
clients=()
# queued FILE BODY CURL_OPTION...: a request that waits, answered to FILE later.
queued() {
  local before
  before=$(metric texts_waiting)
  curl -sN "$url/v1/completions" -d "$2" -w '%{http_code}' "${@:3}" >"$1" &
  clients+=($!)
  metric_is texts_waiting $((before + 1))
}
refused() { # STATUS CODE, of the last answer
  check_eq "status of $out" "$code" "$1"
  check_eq "code of $out" "$(member code)" "$2"
}

# A greedy client's text runs, and its next four fill the queue. The device is
# stopped, so that nothing ends meanwhile.
printf '%s\n' greedy-key small-key monitor-key >"$tmp/keys"
chmod 600 "$tmp/keys"
short='{"prompt":"Read:","max_tokens":4}'
serve --texts 1 --queue 4 --api-key-file "$tmp/keys" "${slow[@]}"
device=$(pgrep -P "$server" | head -n 1)
long_stream "$tmp/long" "${greedy[@]}"
long=$!
kill -STOP "$device"
for i in 1 2 3 4; do
  queued "$tmp/greedy.$i" "$short" "${greedy[@]}"
done
post /v1/completions "$short" "${greedy[@]}" -D "$tmp/head"
refused 429 queue_full
check_has 'the message' "$out" '4 texts are waiting'
check_has 'its type' "$out" '"type":"rate_limit_error"'
retry=$(sed -n 's/^Retry-After: \([0-9]*\).*/\1/Ip' "$tmp/head")
checks=$((checks + 1))
[ "${retry:-0}" -ge 1 ] || fail "Retry-After is '$retry'"

# Another client may add a text; it is refused when its deadline passes.
post /v1/completions '{"prompt":"x","timeout":0.05}' "${small[@]}"
refused 504 deadline_exceeded
check_eq 'the param' "$(member param)" timeout
post /v1/completions '{"prompt":"x","timeout":0.05,"stream":true}' "${small[@]}"
refused 504 deadline_exceeded
queued "$tmp/small" "${short/%\}/,\"stream\":true\}}" "${small[@]}"
check_eq 'waiting clients' "$(metric clients_waiting)" 2
post /v1/completions "$short" "${greedy[@]}"
refused 429 queue_full
check_has 'the message' "$out" 'its share of the queue'
check_eq 'refusals because the queue was full' \
  "$(metric refused_total 'reason="queue_full"')" 1
check_eq 'refusals because of the share' \
  "$(metric refused_total 'reason="client_share"')" 1
check_eq 'refusals because of the deadline' \
  "$(metric refused_total 'reason="deadline_exceeded"')" 2
check_eq 'missed deadlines' "$(metric deadlines_missed_total)" 2
# A stream in the queue begins after a second, so that no proxy gives up.
until [[ $(<"$tmp/small") == *': waiting'* ]]; do
  kill -0 "$server" || break
  pause
done
check_eq 'the first line of a stream that waits' "$(head -n 1 "$tmp/small")" \
  ': waiting'

# The small client's text came last, and is the first to run.
kill $long
wait $long 2>/dev/null
kill -CONT "$device"
wait_of() { # FILE: $waited, its microseconds in the queue; its status is 200
  out=$(<"$1")
  check_eq "the status in $1" "${out: -3}" 200
  waited=$(member waiting_ms | awk '{ print int($1 * 1000) }')
}
wait "${clients[@]}"
wait_of "$tmp/small"
mine=$waited
for i in 1 2 3 4; do
  wait_of "$tmp/greedy.$i"
  checks=$((checks + 1))
  [ "$mine" -lt "$waited" ] ||
    fail "the small client waited for $mine us, the greedy one for $waited us"
done
check_eq 'times in the queue' "$(metric queue_seconds_count)" 8
ends TERM 0
finish
