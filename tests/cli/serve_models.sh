#!/usr/bin/env bash
# A server with several models and methods: they are loaded when a request names
# them, within a bound of memory, and unloaded when they are idle.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/serve_lib.sh"
# shellcheck disable=SC2154 # code, out, status, server, url and tmp are theirs
command -v jq >/dev/null || skip 'no jq'

mkdir "$tmp/models"
for i in 1 2 3; do
  run_ok "$TANDEM" synth --like tiny --seed $i -o "$tmp/models/m$i.gguf"
  run_ok "$TANDEM" run -t 1 --spin 0 -m "$tmp/models/m$i.gguf" -p Hi -n 12 \
    --json
  want[i]=$(jq -r .text <<<"$out")
done
head -c 3000 "$tmp/models/m1.gguf" >"$tmp/models/broken.gguf"

# ask MODEL [MEMBERS]: $code, $out and $text of a short completion.
ask() {
  post /v1/completions \
    "{\"prompt\":\"Hi\",\"max_tokens\":12,\"temperature\":0,\"model\":\"$1\"${2-}}"
  text=$(jq -r '.choices[0].text' <<<"$out")
}
state() { # JQ_FILTER, of /state
  curl -s "$url/state" | jq -r "$1"
}
phase() { # MODEL, in /v1/models
  curl -s "$url/v1/models" | jq -r ".data[] | select(.id == \"$1\") | .state"
}
pairs() { # number of device processes of the server
  pgrep -c -P "$server" || true
}
refused() { # STATUS CODE PARAM TEXT, of the last answer
  check_eq "status of $out" "$code" "$1"
  check_eq "code of $out" "$(member code)" "$2"
  check_eq "param of $out" "$(member param)" "$3"
  check_has 'the message' "$out" "$4"
}

# ---- models ------------------------------------------------------------------
serve --models "$tmp/models"
check_eq 'the models' \
  "$(curl -s "$url/v1/models" | jq -r '[.data[].id] | join(" ")')" \
  'broken m1 m2 m3'
check_eq 'state of a model before its use' "$(phase m1)" unloaded
check_eq 'device processes before any request' "$(pairs)" 0
ask m1
check_eq 'text of m1' "$text" "${want[1]}"
check_eq 'state of a model after its use' "$(phase m1)" loaded
check_eq 'context of a model that is loaded' \
  "$(curl -s "$url/v1/models" | jq '.data[1].context_length')" 512
ask broken
refused 500 model_failed model 'broken.gguf'
ask m2
check_eq 'text of m2 after another one failed' "$text" "${want[2]}"
ask m4
refused 404 model_not_found model "did you mean 'm"
post /v1/completions '{"prompt":"Hi"}'
refused 400 missing_required_parameter model "'m1', 'm2', 'm3'"
post /tokenize '{"prompt":"Hi","model":"m3"}'
check_eq 'status of tokens of a third model' "$code" 200
ask m1 ',"method":"chain"'
refused 400 not_offered method "started with method 'autoregressive'"
get /metrics
check_has 'metrics' "$out" \
  'tandem_answers_total{model="m1",method="autoregressive"} 1'
one=$(state '.engines[] | select(.model == "m1") | .memory_bytes')
ends TERM 0

# ---- memory ------------------------------------------------------------------
# Room for two and a half of three models.
bound=$((one * 5 / 2))
held() {
  check_eq 'models in memory within the bound' \
    "$(state "[.engines[].memory_bytes] | add <= $bound and . != []")" true
}
serve --models "$tmp/models" --memory $bound
for i in 1 2 3 1 3 2; do
  ask m$i
  check_eq "text of m$i in turn" "$text" "${want[i]}"
  held
  checks=$((checks + 1))
  [ "$(pairs)" -le 2 ] || fail "$(pairs) pairs of processes"
done
check_eq 'the least recently used model' "$(phase m1)" unloaded
checks=$((checks + 1))
rss=$(ps -o rss= --pid "$server" --ppid "$server" |
  awk '{ n += $1 } END { print n * 1024 }')
[ "$rss" -lt $bound ] || fail "$rss bytes are resident, more than $bound"

# All at once, none is lost.
full && many=24 || many=12
for i in $(seq $many); do
  echo next
  echo "url = \"$url/v1/completions\""
  echo "output = \"$tmp/at_once.$i\""
  echo 'data = "{\"prompt\":\"Hi\",\"max_tokens\":12,\"temperature\":0,' \
    "\\\"model\\\":\\\"m$((i % 3 + 1))\\\"}\""
done | tail -n +2 >"$tmp/requests"
curl -sZ --parallel-immediate --parallel-max $many -K "$tmp/requests" \
  2>"$tmp/progress" &
while kill -0 $! 2>/dev/null; do
  held
  pause 0.2
done
for i in $(seq $many); do
  check_eq "text $i of $many at once" \
    "$(jq -r '.choices[0].text' "$tmp/at_once.$i")" "${want[i % 3 + 1]}"
done

# A stream that uses its model for long yields to another model in the end.
ends TERM 0
serve -m "$tmp/models/m1.gguf" "${slow[@]}"
one=$(state .memory_bytes) # of a small window, so of a small cache
ends TERM 0
serve --models "$tmp/models" --memory $((one * 3 / 2)) "${slow[@]}"
post /v1/completions '{"prompt":"Hi","model":"m1","max_tokens":1}'
: >"$tmp/long"
curl -sN "$url/v1/completions" -d '{"prompt":"Hi","max_tokens":60,"model":"m1",
  "temperature":2,"seed":1,"stream":true}' >"$tmp/long" &
until [[ $(<"$tmp/long") == *'data: {'* ]]; do pause; done
ask m2
check_eq 'text of a model that waits for memory' "$text" "${want[2]}"
wait $!
check_eq 'the end of the stream before it' \
  "$(grep . "$tmp/long" | tail -n 1)" 'data: [DONE]'
# A stream that waits gets comments. The model before is free when its client
# has gone.
begins() { # FILE TEXT PATH MEMBERS: a stream; wait until it has the text
  : >"$1"
  curl -sN "$url/v1/$3" -d "{\"stream\":true,$4}" >"$1" &
  until [[ $(<"$1") == *"$2"* ]]; do
    kill -0 $! || break
    pause
  done
}
prompt='"prompt":"Hi","temperature":2,"seed":1'
begins "$tmp/long" 'data: {' completions "$prompt,\"model\":\"m1\",
  \"max_tokens\":400"
long=$!
begins "$tmp/waits" ': loading the model' completions '"prompt":"Hi","model":"m3",
  "temperature":0,"max_tokens":12'
waits=$!
# A stream of a response, too, gets the error that follows in its own format.
begins "$tmp/fails" ': loading the model' responses '"input":"Hi","model":"broken"'
kill $long
wait $waits $!
check_has 'the event of a response whose model is broken' \
  "$(grep -A 1 '^event: error' "$tmp/fails")" \
  'data: {"type":"error","sequence_number":0,"code":"model_failed","message":"'
check_lacks 'its stream' "$(<"$tmp/fails")" DONE
check_eq 'text of a stream that has waited' \
  "$(sed -n 's/^data: {/{/p' "$tmp/waits" | jq -j '.choices[0].text')" \
  "${want[3]}"
ends TERM 0
# m1 is to yield to m2, but in the end m3 makes the room: a request for m1 that
# has waited meanwhile goes on.
serve --models "$tmp/models" --memory $((one * 5 / 2)) "${slow[@]}"
begins "$tmp/m1" 'data: {' completions "$prompt,\"model\":\"m1\",
  \"max_tokens\":400"
busy=$!
begins "$tmp/m3" 'data: {' completions "$prompt,\"model\":\"m3\",
  \"max_tokens\":400"
free=$!
begins "$tmp/m2" ': loading the model' completions "$prompt,\"model\":\"m2\",
  \"max_tokens\":1"
opens=$!
begins "$tmp/again" ': ' completions "$prompt,\"model\":\"m1\",
  \"max_tokens\":1"
again=$!
kill $free
wait $free
wait $opens $again
check_eq 'the end of a request for an engine that need not yield' \
  "$(grep . "$tmp/again" | tail -n 1)" 'data: [DONE]'
kill $busy
wait $busy
ends TERM 0
serve --models "$tmp/models" --memory $((one / 2))
ask m1
refused 500 model_failed model 'MiB of memory, but the limit of this server'
ends TERM 0

# ---- idle --------------------------------------------------------------------
serve --models "$tmp/models" --idle-unload 1
for round in 1 2; do
  ask m1
  check_eq "text of m1 in round $round" "$text" "${want[1]}"
  until [ "$(phase m1)" = unloaded ] && [ "$(pairs)" = 0 ]; do
    pause 0.2
  done
done
check_eq 'answers of both times' "$(metric answers_total)" 2
ends TERM 0

# ---- methods -----------------------------------------------------------------
run_ok "$TANDEM" run -t 1 --spin 0 -p Hi -n 12 --json
same=$(jq -r .text <<<"$out")
serve --allow-methods chain,lever,sdnpu
check_eq 'methods of the model' \
  "$(curl -s "$url/v1/models" | jq -c '.data[0].methods')" \
  '["autoregressive","chain","lever","sdnpu"]'
for choice in '"method":"autoregressive"' '"method":"chain"' \
  '"method":"chain","draft":"pld","options":{"draft-len":4}' \
  '"method":"lever"' '"method":"sdnpu","options":{"verify-rows":16}'; do
  ask target ",$choice"
  check_eq "text with $choice" "$text" "$same"
  method=${choice#*:\"}
  check_eq "method with $choice" "$(jq -r .settings.method <<<"$out")" \
    "${method%%\"*}"
done
check_eq 'engines' "$(state '.engines | length')" 5
check_eq 'what a request chose' \
  "$(state '.engines[] | select(.options["draft-len"]) | .options | tojson')" \
  '{"method":"chain","draft":"pld","draft-len":"4"}'
post /v1/completions '{"prompt":"Hi","method":"levre"}'
refused 400 not_offered method "did you mean 'lever'?"
post /v1/completions '{"prompt":"Hi","method":"vote"}'
refused 400 not_offered method 'autoregressive, chain, lever, sdnpu'
post /v1/completions '{"prompt":"Hi","method":"chain","draft":"x.gguf"}'
refused 400 not_offered draft 'no file'
post /v1/completions '{"prompt":"Hi","options":{"threads":2}}'
refused 400 unsupported_parameter options.threads "'--threads'"
post /v1/completions '{"prompt":"Hi","options":{"draft-len":2}}'
refused 400 invalid_value options.draft-len 'has no option'
# Engines without end: only a few are open at a time.
full && last=12 || last=6
for n in $(seq 2 $last); do
  post /v1/completions "{\"prompt\":\"Hi\",\"max_tokens\":2,
    \"method\":\"chain\",\"draft\":\"pld\",\"options\":{\"draft-len\":$n}}"
  check_eq "status of choice $n" "$code" 200
done
check_eq 'answers of all engines, also of closed ones' \
  "$(metric answers_total) $(state .answers_total)" "$((last + 4)) $((last + 4))"
checks=$((checks + 1))
[ "$(pairs)" -le 8 ] || fail "$(pairs) pairs of processes"
ends TERM 0

# ---- lost devices --------------------------------------------------------------
# Of several engines, one whose device is lost is opened anew.
serve --models "$tmp/models" --fault die@run#12 --restarts 0
ask m1
refused 500 device_lost null ''
post /v1/completions '{"prompt":"Hi","max_tokens":1,"model":"m1"}'
check_eq 'status after a lost device' "$code" 200
get /health
check_eq 'health after a lost device' "$code" 200
ask m1 # the second device dies, too, as planned
refused 500 device_lost null ''
ends TERM 0

# ---- wrong options -------------------------------------------------------------
mkdir "$tmp/empty"
run "$TANDEM" serve --models "$tmp/empty" --listen 127.0.0.1:0
check_eq 'status of a folder without models' "$status" 1
check_has 'the message' "$err" 'no .gguf'
run "$TANDEM" serve --allow-methods chian --listen 127.0.0.1:0
check_eq 'status of an unknown method' "$status" 2
check_has 'the message' "$err" "did you mean 'chain'?"
run "$TANDEM" serve --models "$tmp/models" --trace "$tmp/trace"
check_eq 'status of a trace of several engines' "$status" 2
run "$TANDEM" serve --models "$tmp/models" --dbus
check_eq 'status of a bus without -m' "$status" 2
check_has 'the message' "$err" 'add -m MODEL'
run "$TANDEM" serve -m "$tmp/models/m1.gguf" --memory 1M --listen 127.0.0.1:0
check_eq 'status of too little memory' "$status" 1
check_has 'the message' "$err" 'more than the 1.0 MiB of --memory'
finish
