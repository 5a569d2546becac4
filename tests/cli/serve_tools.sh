#!/usr/bin/env bash
# Tools and responses: OpenAI's own client, an agent, and many tools whose calls
# an independent validator checks. `scripts/deps --node` brings the client and
# the agent, or TANDEM_NODE_MODULES is a folder that has them.
. "$(dirname "$0")/lib.sh"

modules=${TANDEM_NODE_MODULES:-${XDG_CACHE_HOME:-$HOME/.cache}/tandem/node/node_modules}
command -v python3 >/dev/null || skip 'no python3'

run_ok "$TANDEM" synth --like tiny-dream -o "$tmp/dream.gguf"
run_ok python3 tests/cli/tools_model.py "$tmp/dream.gguf" "$tmp/qwen.gguf"

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
serve chats
serve qwen -m "$tmp/qwen.gguf"
if command -v node >/dev/null && [ -d "$modules/openai" ]; then
  run_ok node tests/cli/serve_tools.cjs "$modules" "$(cat "$tmp/chats.url")" \
    "$(cat "$tmp/qwen.url")"
  echo "$out"
  check_eq 'tests that went well' "$(grep -c '^ok ' "$tmp/out")" 10
else
  echo "no openai in $modules"
fi
if [ -x "$modules/.bin/tsc" ]; then
  run_ok python3 tests/cli/serve_types.py "$(cat "$tmp/chats.url")" \
    "$tmp/answers.ts"
  echo "$out"
  ln -s "$modules" "$tmp/node_modules"
  run_ok "$modules/.bin/tsc" --noEmit --strict --skipLibCheck --target es2022 \
    --module nodenext --moduleResolution nodenext "$tmp/answers.ts"
else
  echo "no typescript in $modules"
fi
if python3 -c 'import jsonschema' 2>/dev/null; then
  run_ok python3 tests/cli/serve_tools.py "$(cat "$tmp/qwen.url")" 190 \
    "$(cat "$tmp/chats.url")" 10
  echo "$out"
else
  echo 'no python3-jsonschema'
fi
kill "${servers[@]}"
for server in "${servers[@]}"; do
  wait "$server"
  check_eq 'status of a server' $? 0
done
finish
