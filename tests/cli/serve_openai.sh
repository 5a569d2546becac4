#!/usr/bin/env bash
# OpenAI's own client and the server. `scripts/deps --node` brings the client,
# or TANDEM_NODE_MODULES is a folder that has it.
. "$(dirname "$0")/lib.sh"

modules=${TANDEM_NODE_MODULES:-${XDG_CACHE_HOME:-$HOME/.cache}/tandem/node/node_modules}
command -v node >/dev/null || skip 'no node'
[ -d "$modules/openai" ] || skip "no openai in $modules"

run_ok "$TANDEM" synth --like tiny -o "$tmp/chats.gguf"

# serve NAME OPTION...: start a server; $tmp/NAME.url has its address.
servers=()
serve() {
  local name=$1
  shift
  "$TANDEM" serve --listen 127.0.0.1:0 -t 1 "$@" 2>"$tmp/$name.said" &
  servers+=($!)
  for _ in $(seq 1000); do
    sed -n 's/.* answers at //p' "$tmp/$name.said" >"$tmp/$name.url"
    [ ! -s "$tmp/$name.url" ] || return 0
    sleep 0.02
  done
  fail "no server: $(cat "$tmp/$name.said")"
}
serve texts
serve chats -m "$tmp/chats.gguf"
run_ok node tests/cli/serve_openai.cjs "$modules" "$(cat "$tmp/texts.url")" \
  "$(cat "$tmp/chats.url")"
echo "$out"
check_eq 'tests that went well' "$(grep -c '^ok ' "$tmp/out")" 11
kill "${servers[@]}"
for server in "${servers[@]}"; do
  wait "$server"
  check_eq 'status of a server' $? 0
done
finish
