#!/usr/bin/env bash
# The server: its answers, its errors, and its end.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/serve_lib.sh"
# shellcheck disable=SC2154 # code, out, status, server, url and tmp are theirs
refused() { # STATUS CODE PARAM, of the last answer
  check_eq "status of $out" "$code" "$1"
  check_eq "code of $out" "$(member code)" "$2"
  check_eq "param of $out" "$(member param)" "$3"
}

# ---- status -----------------------------------------------------------------
serve
get /health
check_eq 'health' "$code $out" '200 {"status":"ok"}'
get /v1/models
check_eq 'name of the model' "$(member id)" target
check_eq 'context of the model' "$(member context_length)" 1024
check_eq 'whether the model chats' "$(member chat)" true
get /
check_eq 'status of the page' "$code" 200
get /nothing
refused 404 not_found null
get /health -X PUT
refused 405 method_not_allowed null

post /tokenize '{"prompt":"Hello there"}'
check_eq 'tokens' "$(sed 's/.*\[\(.*\)\].*/\1/; s/,/ /g' <<<"$out")" \
  "$("$TANDEM" tokenize -p 'Hello there')"
post /detokenize "${out%,*}}"
check_eq 'their text' "$out" '{"text":"Hello there"}'
post /detokenize '{"tokens":[999999]}'
refused 400 invalid_value tokens

# ---- texts ------------------------------------------------------------------
prompt='Problem: Calculate 6 * 12.\nSolution:'
run_ok "$TANDEM" run -n 24 -t 1 --spin 0 -p "$(printf '%b' "$prompt")"
want=$(head -n 1 "$tmp/out")
post /v1/completions "{\"prompt\":\"$prompt\",\"max_tokens\":24}"
check_eq 'status of a completion' "$code" 200
text=$(member text)
check_eq 'its text' "$(printf '%b' "$text" | head -n 1)" "$want"
check_has 'a completion' "$out" '"settings":{"method":"autoregressive"'
check_has 'a completion' "$out" '"timings":{"prompt_n":'
greedy=$text

# whole STREAM_FILE: the text of a stream's chunks.
whole() {
  sed -nE 's/^data: .*"text":"(([^"\\]|\\.)*)".*/\1/p' "$1" | tr -d '\n'
}
post /v1/completions "{\"prompt\":\"$prompt\",\"max_tokens\":24,\"stream\":true}"
check_eq 'the text of a stream' "$(whole "$tmp/body")" "$greedy"
check_eq 'the beginning of a stream' "$(head -n 1 "$tmp/body")" \
  ': reading the prompt'
check_eq 'the end of a stream' "$(grep . "$tmp/body" | tail -n 1)" \
  'data: [DONE]'
check_has 'the last chunk' "$(grep '^data: {' "$tmp/body" | tail -n 1)" \
  '"timings":'

drawn='"temperature":0.9,"top_p":0.95,"seed":7,"max_tokens":12'
run_ok "$TANDEM" run -n 12 -t 1 --spin 0 -p Read: --temp 0.9 --top-p 0.95 --seed 7 \
  --stream 1
want=$(head -n 1 "$tmp/out")
post /v1/completions "{\"prompt\":\"Read:\",\"n\":2,$drawn}"
check_eq 'texts of n = 2' "$(grep -o '"index":' <<<"$out" | wc -l)" 2
second=${out#*\"index\":1}
check_eq 'the second of them' \
  "$(printf '%b' "$(out=$second member text)" | head -n 1)" "$want"

post /v1/completions '{"prompt":"Read:","max_tokens":30,"stop":["e"]}'
check_lacks 'a text that ends before an e' "$(member text)" e

# The first token of a text, excluded by its id, is not its first token.
post /v1/completions "{\"prompt\":\"$prompt\",\"max_tokens\":1}"
first=$(member text)
post /tokenize "{\"prompt\":\"$first\",\"bos\":false}"
id=$(sed -E 's/.*\[([0-9]+).*/\1/' <<<"$out")
post /v1/completions "{\"prompt\":\"$prompt\",\"max_tokens\":1,
  \"logit_bias\":{\"$id\":-100}}"
check_eq 'status with a bias' "$code" 200
checks=$((checks + 1))
[ "$(member text)" != "$first" ] || fail "the excluded token $id: $out"
check_has 'the settings' "$out" "\"logit_bias\":{\"$id\":-100}"

# What is cached of a prompt is not computed again.
post /v1/completions "{\"prompt\":\"$prompt\",\"max_tokens\":24}"
check_eq 'a text again' "$(member text)" "$greedy"
checks=$((checks + 1))
[ "$(member cache_n)" -gt 8 ] || fail "nothing was cached: $out"

# Of each token how likely it was, and its text, as many as there are.
post /v1/completions '{"prompt":"Read:","max_tokens":3,"logprobs":2}'
check_eq 'logprobs' \
  "$(grep -o '"token_logprobs":\[[^]]*\]' <<<"$out" | tr -cd , | wc -c)" 2
check_eq 'the likeliest' \
  "$(grep -oE '\{"[^"]*":-?[0-9.e-]+,"[^"]*":-?[0-9.e-]+\}' <<<"$out" |
    wc -l)" 3

# JSON, and JSON by a schema; unsupported parts of a schema are refused.
json='"prompt":"As JSON:","max_tokens":64,"temperature":1,"seed":1'
schema='{"type":"object","properties":{"age":{"type":"integer","minimum":10,
  "maximum":99}},"required":["age"],"additionalProperties":false}'
format="{\"type\":\"json_schema\",\"json_schema\":{\"schema\":$schema}}"
post /v1/completions "{$json,\"response_format\":$format}"
check_eq 'a text by a schema' \
  "$(printf '%b' "$(sed 's/\\"/"/g' <<<"$(member text)")" | tr -d ' \n\t' |
    sed 's/[1-9][0-9]/NN/')" '{"age":NN}'
post /v1/completions "{$json,\"response_format\":{\"type\":\"json_object\"}}"
check_has 'a text that is an object' "$(member text | tr -d ' ')" '{'
format='{"type":"json_schema","json_schema":{"schema":{"pattern":"a+"}}}'
post /v1/completions "{$json,\"stream\":true,\"response_format\":$format}"
refused 400 invalid_value response_format
check_has 'the message' "$out" "'pattern'"

# ---- embeddings -------------------------------------------------------------
# The values do not depend on other texts, and the texts share passes.
vector() { # INDEX: the values of that embedding in $out
  sed -E "s/.*\"index\":$1,\"embedding\":(\[[^]]*\]|\"[^\"]*\").*/\1/" \
    <<<"$out"
}
passes=$(metric passes_total)
post /v1/embeddings '{"input":["a cat","a dog","a bird","x","y","z"],"user":"u"}'
check_eq 'status of embeddings' "$code" 200
checks=$((checks + 1))
passes=$(($(metric passes_total) - passes))
[ "$passes" -lt 6 ] || fail "6 embeddings take $passes passes"
second=$(vector 1)
check_eq 'values of an embedding' "$(tr -cd , <<<"$second" | wc -c)" 383
post /v1/embeddings '{"input":"a dog","encoding_format":"float","model":"target"}'
check_eq 'an embedding alone' "$(vector 0)" "$second"
check_has 'an embedding' "$out" '"usage":{"prompt_tokens":3,"total_tokens":3}'
post /v1/embeddings '{"input":"a dog","encoding_format":"base64"}'
check_eq 'values in base64' "$(vector 0 | tr -d '"' | base64 -d | od -An -tf4 -N4 |
  tr -d ' ' | cut -c -8)" "$(cut -c 2-9 <<<"$second")"
post /v1/embeddings '{"input":[1,999999]}'
refused 400 invalid_value input
post /v1/embeddings "{\"input\":[\"a\",\"$(printf 'a %.0s' {1..1100})\"]}"
refused 400 context_length_exceeded input
check_has 'the message' "$out" 'room for 1024 tokens; the longest input has 11'
post /v1/embeddings '{"input":"a","dimensions":500}'
refused 400 invalid_value dimensions
post /v1/embeddings '{"prompt":"a"}'
refused 400 unsupported_parameter prompt
post /v1/embeddings '{}'
refused 400 missing_required_parameter input

# ---- errors -----------------------------------------------------------------
post /v1/completions '{"prompt":"x","foo":1}'
refused 400 unsupported_parameter foo
post /v1/completions '{"prompt":"x","suffix":"y"}'
refused 400 unsupported_parameter suffix
post /v1/completions '{"prompt":"x","logit_bias":{"999999":1}}'
refused 400 invalid_value logit_bias
post /v1/completions '{"prompt":"x","max_tokens":8,"suffix":"","user":"u"}'
check_eq 'status with what changes nothing' "$code" 200
post /v1/completions '{"prompt":"x","method":"chain"}'
refused 400 not_offered method
check_has 'the message' "$out" "started with method 'autoregressive'"
post /v1/completions '{"prompt":"x","model":"gpt"}'
refused 404 model_not_found model
post /v1/completions '{"prompt":"x","max_tokens":1024}'
refused 400 context_length_exceeded prompt
check_has 'the message' "$out" 'room for 1024 tokens'
post /v1/completions '{"prompt":"x","temperature":-1}'
refused 400 invalid_value temperature
post /v1/completions '{"max_tokens":3}'
refused 400 missing_required_parameter prompt
post /v1/completions '{"prompt":'
refused 400 invalid_json null
get /v1/models -H 'Host: evil.example:80'
refused 403 host_refused null
get /v1/models -H 'Origin: http://evil.example'
refused 403 origin_refused null

get /metrics
check_has 'metrics' "$out" 'tandem_http_requests_total{path="/v1/completions",'
check_has 'metrics' "$out" '# TYPE tandem_passes_total counter'
ends TERM 0

# ---- access -----------------------------------------------------------------
run "$TANDEM" serve --listen 0.0.0.0:0
check_eq 'status where others could ask' "$status" 1
check_has 'the message' "$err" --api-key-file
printf '%s\n' secret-key other-key >"$tmp/keys"
chmod 600 "$tmp/keys"
run_ok "$TANDEM" synth --like tiny -o "$tmp/tiny.gguf"
serve --api-key-file "$tmp/keys" --body-max 1K --queue 0 -m "$tmp/tiny.gguf"
get /health
check_eq 'health without a key' "$code" 200
get /v1/models
refused 401 invalid_api_key null
get /v1/models -H 'Authorization: Bearer secret-kez'
refused 401 invalid_api_key null
get /v1/models -H 'Authorization: Bearer secret-key'
check_eq 'status with the key' "$code" 200
post /v1/completions "{\"prompt\":\"$(printf '%01024d' 0)\"}" \
  -H 'Authorization: Bearer secret-key'
refused 413 body_too_large null
# A client that writes everything before it reads.
raw() { # REQUEST, with \r\n: its answer, until the connection is closed
  local port=${url##*:}
  exec 9<>"/dev/tcp/127.0.0.1/${port%%/*}"
  printf '%b' "$1" >&9
  timeout 20 cat <&9 || :
  exec 9>&-
}
head='POST /tokenize HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer secret-key\r\n'
body=$(printf '%02048d' 0)
check_has 'a body that is too large' \
  "$(raw "${head}Connection: close\r\nContent-Length: 2048\r\n\r\n$body")" \
  'HTTP/1.1 413'
for framing in 'Content-Length: 2\r\nContent-Length: 3' \
  'Content-Length: 2\r\nTransfer-Encoding: chunked'; do
  out=$(raw "$head$framing\r\n\r\n{}")
  check_has "with $framing" "$out" 'HTTP/1.1 400'
  check_has "with $framing" "$out" 'Connection: close'
done
check_has 'lines that end with LF alone' \
  "$(raw "$(sed 's/\\r//g' <<<"$head")Content-Length: 2\n\n{}")" 'HTTP/1.1 400'
post /tokenize '{"prompt":["a","b"]}' -H 'Authorization: Bearer secret-key'
refused 400 invalid_type prompt
post /detokenize '{"tokens":[[1],[2]]}' -H 'Authorization: Bearer secret-key'
refused 400 invalid_type tokens

# A response is there for its own key alone.
post /v1/responses '{"input":"Hi","max_output_tokens":2}' \
  -H 'Authorization: Bearer secret-key'
check_eq 'status of a response' "$code" 200
id=$(grep -o '"resp_[^"]*"' <<<"$out" | tr -d '"')
for request in "/v1/responses/$id" "/v1/responses/$id -X DELETE" \
  "/v1/responses -d {\"input\":\"x\",\"previous_response_id\":\"$id\"}"; do
  # shellcheck disable=SC2086 # a path and options
  get $request -H 'Authorization: Bearer other-key'
  check_eq "status with another key: $request" "$code $(member code)" \
    '404 not_found'
done
get "/v1/responses/$id" -H 'Authorization: Bearer secret-key'
check_eq 'status with its own key' "$code" 200

# A chat with a system's and a user's turn gives the text of `tandem run
# --chat`.
run_ok "$TANDEM" run -t 1 --spin 0 -m "$tmp/tiny.gguf" --chat --system Be. -p Hi -n 6 \
  --temp 1 --seed 4 --json
want=$(member text)
drawn='"temperature":1,"seed":4,"max_tokens":6'
turns='{"role":"system","content":"Be."},{"role":"user","content":"Hi"}'
post /v1/chat/completions "{\"messages\":[$turns],$drawn}" \
  -H 'Authorization: Bearer secret-key'
check_eq 'an answer of a chat' "$(member content)" "$want"
turns+=',{"role":"assistant","content":"Ho"},{"role":"user","content":"Hi"}'
post /v1/chat/completions "{\"messages\":[$turns],$drawn}" \
  -H 'Authorization: Bearer secret-key'
check_eq 'status of a later turn' "$code" 200
checks=$((checks + 1))
[ "$(member prompt_tokens)" -gt 40 ] || fail "too few tokens of turns: $out"
ends INT 0

# A diffusion model.
run_ok "$TANDEM" synth --like tiny-llada -o "$tmp/fill.gguf"
filling=(-m "$tmp/fill.gguf" --method llada --block 8)
run_ok "$TANDEM" run -t 1 --spin 0 "${filling[@]}" -p Hi -n 8 --json
want=$(member text)
serve "${filling[@]}"
post /v1/completions '{"prompt":"Hi","max_tokens":8,"temperature":0}'
check_eq 'text of a diffusion model' "$(member text)" "$want"
# What may still change, on request: in the first pass, all but a token or two.
# A reader that is slower than the passes sees only the last one, so several may
# be needed.
body='{"prompt":"Hi","max_tokens":8,"temperature":0,"stream":true'
for _ in {1..100}; do
  post /v1/completions \
    "$body,\"stream_options\":{\"include_provisional\":true}}"
  check_eq 'its streamed text' "$(whole "$tmp/body")" "$want"
  [[ $out != *▢▢* ]] || break
done
check_has 'a chunk with masks' "$(grep provisional "$tmp/body")" ▢▢
post /v1/completions "$body}"
check_lacks 'a stream without provisional text' "$out" provisional
ends INT 0

# ---- how it ends --------------------------------------------------------------
serve --grace 0.05 --texts 1 --queue 0 "${slow[@]}"
long_stream "$tmp/long"
post /v1/completions '{"prompt":"x"}' -D "$tmp/head"
refused 429 queue_full null
check_has 'its header' "$(cat "$tmp/head")" 'Retry-After: 1'
# cut_off: the text of the stream had no time to come to its end.
cut_off() {
  wait $!
  check_has 'the end of a text that had no time' \
    "$(grep '^data: {' "$tmp/long" | tail -n 1)" '"code":"stopping"'
  check_eq 'last event of the long request' "$(grep . "$tmp/long" | tail -n 1)" 'data: [DONE]'
}
ends TERM 0
cut_off
serve --grace 3600 "${slow[@]}"

# If a client disconnects its text ends soon, and the following requests run.
curl -sN "$url/v1/completions" -d \
  '{"prompt":"Once","max_tokens":300,"temperature":2,"seed":1,"stream":true}' |
  head -n 3 >"$tmp/cut"
check_has 'the beginning of an abandoned text' "$(cat "$tmp/cut")" 'data: {'
post /v1/completions '{"prompt":"Read:","max_tokens":1}'
check_eq 'status of the next request' "$code" 200
metric_is texts_canceled_total 1
check_eq 'texts under way' "$(metric texts_under_way)" 0

# Among many others it is the same text, and so is each of those; and they share
# passes, which are long enough for all to come.
full && others=32 seeds='0 1 2 3' || others=16 seeds=3
before=$(metric passes_total)
for i in $(seq $others); do
  echo next
  echo "url = \"$url/v1/completions\""
  echo "output = \"$tmp/other.$i\""
  echo 'data = "{\"prompt\":\"Read:\",\"max_tokens\":12,' \
    "\\\"temperature\\\":0.9,\\\"seed\\\":$((i % 4))}\""
done | tail -n +2 >"$tmp/others"
curl -sZ --parallel-immediate -K "$tmp/others" 2>"$tmp/progress" &
post /v1/completions "{\"prompt\":\"$prompt\",\"max_tokens\":24}"
check_eq "a text among $others others" "$(member text)" "$greedy"
wait $!
for i in $seeds; do
  run_ok "$TANDEM" run -n 12 -t 1 --spin 0 -p Read: --temp 0.9 --seed "$i" --json
  want=$(member text)
  for k in $((i + 4)) $((i + others - 4)); do
    out=$(<"$tmp/other.$k")
    check_eq "text $k of $others" "$(member text)" "$want"
  done
done
shared=$(($(metric passes_total) - before))
checks=$((checks + 1))
[ $shared -lt $((others * 9)) ] ||
  fail "$shared passes for $((others + 1)) texts of a dozen tokens"

# After the first signal it accepts no more connections but finishes running
# texts; a second signal ends them.
long_stream "$tmp/long"
kill -TERM $server
until get /health; [ "$code" = 000 ]; do
  kill -0 $server || break
  pause
done
check_eq 'a connection after SIGTERM' "$code" 000
checks=$((checks + 1))
kill -0 $server || fail 'the first SIGTERM does not wait for a text'
ends TERM 0
cut_off

# A device that dies is replaced under a text; for good, and the server ends.
serve --fault die@run#10
post /v1/completions "{\"prompt\":\"$prompt\",\"max_tokens\":24}"
check_eq 'a text whose device died' "$(member text)" "$greedy"
get /metrics
check_eq 'restarts' "$(metric device_restarts_total)" 1
ends TERM 0
serve --fault die@run#10 --restarts 0
post /v1/completions "{\"prompt\":\"$prompt\",\"max_tokens\":24}"
refused 500 device_lost null
wait $server
check_eq 'status of a server without a device' $? 3

sock=$tmp/http.sock
serve --listen "unix:$sock"
check_eq 'mode of the socket' "$(stat -c %a "$sock")" 600
url=http://localhost
get /health --unix-socket "$sock"
check_eq 'health by a Unix socket' "$code" 200
ends TERM 0
check_eq 'the socket file at the end' "$(ls "$sock" 2>/dev/null)" ''
finish
