#!/usr/bin/env bash
# Tools and responses: OpenAI's own client, an agent, and many tools whose calls
# an independent validator checks. `scripts/deps --node` brings the client and
# the agent, or TANDEM_NODE_MODULES is a folder that has them. The answers' types
# are compiled, and many tools are tried, with TANDEM_TEST_FULL=yes.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/serve_lib.sh"
# shellcheck disable=SC2154 # checks, out, server, url and tmp are theirs

modules=${TANDEM_NODE_MODULES:-${XDG_CACHE_HOME:-$HOME/.cache}/tandem/node/node_modules}
command -v python3 >/dev/null || skip 'no python3'

run_ok "$TANDEM" synth --like tiny-dream -o "$tmp/dream.gguf"
run_ok python3 tests/cli/tools_model.py "$tmp/dream.gguf" "$tmp/qwen.gguf"

serve
chats=$server chats_url=$url
serve -m "$tmp/qwen.gguf"
if command -v node >/dev/null && [ -d "$modules/openai" ]; then
  run_ok node tests/cli/serve_tools.cjs "$modules" "$chats_url" "$url"
  echo "$out"
  check_eq 'tests that went well' "$(grep -c '^ok ' "$tmp/out")" 10
else
  echo "no openai in $modules"
fi
if ! full; then
  echo 'not compiled: the types of the answers'
elif [ -x "$modules/.bin/tsc" ]; then
  run_ok python3 tests/cli/serve_types.py "$chats_url" "$tmp/answers.ts"
  echo "$out"
  ln -s "$modules" "$tmp/node_modules"
  run_ok "$modules/.bin/tsc" --noEmit --strict --skipLibCheck --target es2022 \
    --module nodenext --moduleResolution nodenext "$tmp/answers.ts"
else
  echo "no typescript in $modules"
fi
if python3 -c 'import jsonschema' 2>/dev/null; then
  full && asked=(190 10) || asked=(20 5)
  run_ok python3 tests/cli/serve_tools.py "$url" "${asked[0]}" \
    "$chats_url" "${asked[1]}"
  echo "$out"
else
  echo 'no python3-jsonschema'
fi
ends TERM 0
server=$chats ends TERM 0

# Methods that fill masks obey the schema, too; a cut call is its beginning.
serve -m "$tmp/dream.gguf" --method llada --block 8
whole=0
for seed in 1 2 3 4; do
  post /v1/chat/completions '{"messages":[{"role":"user","content":"Hi"}],
    "max_tokens":128,"temperature":1,"seed":'$seed',"tool_choice":"required",
    "tools":[{"type":"function","function":{"name":"get","parameters":{
      "type":"object","required":["city"],"additionalProperties":false,
      "properties":{"city":{"enum":["Oslo","Rome"]}}}}}]}'
  arguments=$(printf '%b' "$(member arguments | sed 's/\\"/"/g')" | tr -d ' \n\r\t')
  checks=$((checks + 1))
  [[ -n $arguments && ('{"city":"Oslo"}' == "$arguments"* ||
    '{"city":"Rome"}' == "$arguments"*) ]] ||
    fail "arguments of seed $seed: $out"
  [[ $out != *'"finish_reason":"tool_calls"'* ]] || whole=$((whole + 1))
done
checks=$((checks + 1))
[ $whole -gt 0 ] || fail 'no call is whole'
ends TERM 0
finish
