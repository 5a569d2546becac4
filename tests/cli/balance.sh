#!/usr/bin/env bash
# Two servers behind HAProxy and nginx, configured as in docs/scale.md: answers
# and streams pass through, equal beginnings go to one server, and a server that
# is killed or ends costs no request.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/serve_lib.sh"
# shellcheck disable=SC2154 # code, out, server, url and tmp are theirs
command -v haproxy >/dev/null || command -v nginx >/dev/null ||
  skip 'no haproxy and no nginx'
without_leak_search

# balance NAME COMMAND...: use the balancer of that part of the document.
balance() {
  name=$1
  if ! command -v "$2" >/dev/null; then
    echo "no $2"
    return
  fi
  serve "${slow[@]}"
  first=$server first_url=$url
  serve "${slow[@]}"
  second=$server second_url=$url
  sed -n "/^\`\`\`$name\$/,/^\`\`\`\$/{/^\`\`\`/!p}" "$root/docs/scale.md" |
    sed "s|bind 127.0.0.1:8080|bind unix@$tmp/front|
      s|listen 127.0.0.1:8080|listen unix:$tmp/front|
      s|127.0.0.1:8081|${first_url#http://}|
      s|127.0.0.1:8082|${second_url#http://}|" >"$tmp/tandem.cfg"
  check_eq 'addresses in the configuration' \
    "$(grep -cE "$tmp/front|${first_url#http://}|${second_url#http://}" \
      "$tmp/tandem.cfg")" 3
  "${@:2}" >"$tmp/balancer.log" 2>&1 &
  balancer=$!
  until [ -S "$tmp/front" ] || ! kill -0 $balancer; do
    pause
  done

  front=http://localhost
  ask() { # SEED: a completion through the balancer, in $code and $out
    url=$front post /v1/completions \
      "{\"prompt\":\"$prompt\",\"max_tokens\":2,\"seed\":$1,\"temperature\":1}" \
      --unix-socket "$tmp/front"
  }
  answered() { # URL: how many requests for texts that server had
    url=$1 metric answers_total
  }

  # ---- answers, and where they come from ---------------------------------------
  prompt='Read: Anna has a red cup and Ben has a green one. '
  prompt+=$prompt$prompt$prompt$prompt$prompt
  url=$first_url post /v1/completions \
    "{\"prompt\":\"$prompt\",\"max_tokens\":2,\"seed\":1,\"temperature\":1}"
  want=$(member text)
  before="$(answered "$first_url") $(answered "$second_url")"
  for seed in 1 2 3 4; do
    ask $seed
    check_eq "status of seed $seed" "$code" 200
    [ $seed -ne 1 ] || check_eq 'a text through the balancer' "$(member text)" "$want"
  done
  read -r a b <<<"$before"
  check_eq 'requests of one server' \
    "$((($(answered "$first_url") - a) * ($(answered "$second_url") - b)))" 0

  # A stream arrives while it is generated.
  : >"$tmp/stream"
  curl -sN --unix-socket "$tmp/front" $front/v1/completions -d '{"prompt":"Once",
    "max_tokens":300,"temperature":2,"seed":1,"stream":true}' >"$tmp/stream" &
  reader=$!
  until [[ $(<"$tmp/stream") == *'data: {'* ]]; do
    kill -0 $reader || break
    pause
  done
  check_lacks 'a stream that has begun' "$(<"$tmp/stream")" '[DONE]'
  kill $reader
  wait $reader 2>/dev/null
  url=$front post /v1/completions \
    '{"prompt":"Once","max_tokens":2,"stream":true}' --unix-socket "$tmp/front"
  check_has 'a stream that has ended' "$out" '[DONE]'

  # ---- servers that are gone ---------------------------------------------------
  # Prompts of all kinds, so that some belong to the server that is gone.
  all_answered() { # WHAT
    local i bad=
    for i in {1..6}; do
      prompt="$i times seven is"
      ask "$i"
      [ "$code" = 200 ] || bad+=" $code"
    done
    check_eq "refusals $1" "$bad" ''
  }
  all_answered 'with two servers'
  checks=$((checks + 1))
  [ "$(answered "$first_url")" -gt 0 ] && [ "$(answered "$second_url")" -gt 0 ] ||
    fail 'one server had no request'
  kill -KILL $first
  wait $first
  all_answered 'after one server was killed'

  serve "${slow[@]}" --listen "${first_url#http://}"
  first=$server
  # The balancer uses it again.
  for ((i = 0; i < 1000 && $(answered "$first_url") == 0; i++)); do
    prompt="$i times two is"
    ask 1
  done
  kill -TERM $second # nothing runs, so it ends at once
  wait $second
  all_answered 'after the other one has ended'
  server=$first ends TERM 0
  kill $balancer
  wait $balancer
  rm -f "$tmp/front"
  nothing_left 'both servers'
}

balance haproxy haproxy -db -f "$tmp/tandem.cfg"
balance nginx nginx -c "$tmp/tandem.cfg" -e "$tmp/nginx.log" -g \
  "daemon off; pid $tmp/nginx.pid;"
finish
