#!/usr/bin/env bash
# Clients of the server: keys that change, clients that stop reading, and
# requests that run or wait when the server shuts down.
# shellcheck disable=SC2154 # code, out, server, url and tmp are the libraries'
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/serve_lib.sh"

with=() # options of curl in `metric`
metric() { # as in serve_lib.sh
  curl -s "${with[@]}" "$url/metrics" |
    awk -v name="tandem_$1" \
      '$1 == name || index($1, name "{") == 1 { n += $2 } END { print n + 0 }'
}
short='{"prompt":"Read:","max_tokens":4}'

# ---- keys -------------------------------------------------------------------
status_of() { # KEY
  get /v1/models -H "Authorization: Bearer $1"
  echo "$code"
}
said() { # TEXT: wait until the server prints it
  until [[ $(<"$tmp/said") == *"$1"* ]]; do
    kill -0 "$server" || break
    pause
  done
}
echo old-key >"$tmp/keys"
chmod 600 "$tmp/keys"
serve --api-key-file "$tmp/keys" "${slow[@]}"
with=(-H 'Authorization: Bearer old-key')
device=$(pgrep -P "$server" | head -n 1)
kill -STOP "$device"
curl -s "$url/v1/completions" -d "$short" "${with[@]}" -w '%{http_code}' \
  >"$tmp/admitted" &
admitted=$!
metric_is texts_under_way 1
echo new-key >"$tmp/keys"
kill -HUP "$server"
until [ "$(status_of new-key)" = 200 ]; do pause; done
check_eq 'status with a key that was removed' "$(status_of old-key)" 401
kill -CONT "$device"
wait $admitted
out=$(<"$tmp/admitted")
check_eq 'status of a request that was admitted before' "${out: -3}" 200
chmod 644 "$tmp/keys"
echo third-key >"$tmp/keys"
kill -HUP "$server"
said 'other users may read'
chmod 600 "$tmp/keys"
: >"$tmp/keys"
kill -HUP "$server"
said 'holds no key'
check_eq 'messages' "$(grep -c 'the old keys stay valid' "$tmp/said")" 2
check_eq 'status with the key as before' "$(status_of new-key)" 200
check_eq 'status with a key of the file that was not read' \
  "$(status_of third-key)" 401
ends TERM 0

# ---- clients that do not read -----------------------------------------------
# The answer does not fit into the buffers of the socket and of the pipe.
with=(--unix-socket "$tmp/http.sock")
serve --listen "unix:$tmp/http.sock" --idle 1
url=http://localhost
curl -sN "$url/v1/completions" "${with[@]}" -d '{"prompt":"Once","n":8,
  "max_tokens":300,"temperature":2,"seed":1,"logprobs":20,"stream":true}' |
  {
    read -r _
    metric_is 'clients_dropped_total{reason="unread"}' 1
  }
metric_is texts_under_way 0
check_eq 'clients that were dropped' \
  "$(metric 'clients_dropped_total{reason="unread"}')" 1
post /v1/completions "$short" "${with[@]}"
check_eq 'status of the next request' "$code" 200
ends TERM 0

# ---- a server that is stopped ------------------------------------------------
# After a stop of more than twice --idle, requests that were sent before and
# meanwhile are answered.
with=()
health() { # $out: the answer to /health on a connection that stays open
  local line length=0
  out=
  while IFS= read -r line <&9 && [ "$line" != $'\r' ]; do
    line=${line%$'\r'}
    out+=$line$'\n'
    [[ $line != Content-Length:* ]] || length=${line#*: }
  done
  IFS= read -rN "$length" line <&9
  out+=$line
}
ask_health() {
  printf 'GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n' >&9
}
serve --idle 1 "${slow[@]}"
: >"$tmp/long"
curl -sN "$url/v1/completions" -d '{"prompt":"Once","max_tokens":30,
  "temperature":2,"seed":1,"stream":true}' >"$tmp/long" &
long=$!
until [[ $(<"$tmp/long") == *'data: {'* ]]; do pause; done
port=${url##*:}
exec 9<>"/dev/tcp/127.0.0.1/${port%%/*}"
ask_health
health
# The server answers this one after it has noted the end of the answer above; only
# then do its own limits of time hold for that connection.
get /health
kill -STOP "$server"
ask_health
curl -s "$url/v1/completions" -d "$short" -w '%{http_code}' >"$tmp/new" &
stopped=$SECONDS
until ((SECONDS > stopped + 3)); do pause; done
kill -CONT "$server"
health
check_has 'an answer on a connection that was open before' "$out" '200 OK'
exec 9>&-
wait $!
out=$(<"$tmp/new")
check_eq 'status of a request while the server was stopped' "${out: -3}" 200
wait $long
check_eq 'the end of a stream from before' "$(grep . "$tmp/long" | tail -n 1)" \
  'data: [DONE]'
# A client that sends only a part of a request is dropped.
exec 9<>"/dev/tcp/127.0.0.1/${port%%/*}"
printf 'GET /health' >&9
check_eq 'an answer to a part of a request' "$(timeout 60 cat <&9)" ''
exec 9>&-
check_eq 'clients that were dropped' \
  "$(metric 'clients_dropped_total{reason="incomplete"}')" 1
ends TERM 0

# ---- shutting down ----------------------------------------------------------
with=()
queued() { # FILE: a request that waits
  curl -s "$url/v1/completions" -d "$short" -w '%{http_code}' >"$1" &
  clients+=($!)
  metric_is texts_waiting "${#clients[@]}"
}
# Requests that wait are finished, too.
serve --grace 3600 --texts 1 "${slow[@]}"
port=${url##*:}
exec 9<>"/dev/tcp/127.0.0.1/${port%%/*}"
ask_health
health
check_has 'health' "$out" '200 OK'
device=$(pgrep -P "$server" | head -n 1)
long_stream "$tmp/long"
long=$!
kill -STOP "$device"
clients=()
queued "$tmp/first"
queued "$tmp/second"
kill -TERM "$server"
until get /health; [ "$code" = 000 ]; do pause; done
ask_health
health
check_has 'health of a server that shuts down' "$out" '503 '
check_has 'health of a server that shuts down' "$out" '"code":"draining"'
check_has 'health of a server that shuts down' "$out" 'finishes 3 texts'
exec 9>&-
kill $long
kill -CONT "$device"
wait "${clients[@]}"
for i in first second; do
  out=$(<"$tmp/$i")
  check_eq "status of the $i that waited" "${out: -3}" 200
done
wait "$server"
check_eq 'status of the server' $? 0

# Those that had no time to begin are refused.
serve --grace 0.05 --texts 1 "${slow[@]}"
long_stream "$tmp/long"
clients=()
queued "$tmp/first"
kill -TERM "$server"
wait "${clients[@]}"
out=$(<"$tmp/first")
check_eq 'status of one that had no time' "${out: -3}" 503
check_has 'its error' "$out" '"code":"stopping"'
wait "$server"
check_eq 'status of the server' $? 0

# ---- limits of connections -----------------------------------------------------
# An address that others reach, without keys; and a port that is in use.
with=()
run_ok "$TANDEM" synth --like tiny -o "$tmp/tiny.gguf"
serve -m "$tmp/tiny.gguf" --listen 0.0.0.0:0 --no-key --connections 2 \
  --header-max 8K
port=${url##*:} port=${port%%/*}
url=http://127.0.0.1:$port
get /v1/models -H "X: $(printf '%06000d' 0)"
check_eq 'status with a header of 6000 bytes' "$code" 200
get /v1/models -H "X: $(printf '%09000d' 0)"
check_eq 'status with a header above --header-max' "$code" 431
run "$TANDEM" serve -m "$tmp/tiny.gguf" --port "$port"
check_eq 'status with a port that is in use' "$status" 1
check_has 'the message' "$err" "cannot listen at '127.0.0.1:$port'"
exec 8<>"/dev/tcp/127.0.0.1/$port" 9<>"/dev/tcp/127.0.0.1/$port"
ask_health
health
check_has 'an answer to the second of two connections' "$out" '200 OK'
get /health -m 1
check_eq 'status on a third connection' "$code" 000
exec 8>&- 9>&-
until get /health && [ "$code" = 200 ]; do pause; done
ends TERM 0
finish
