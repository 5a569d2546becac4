#!/usr/bin/env bash
# OpenAI's own client and the server. `scripts/deps --node` brings the client,
# or TANDEM_NODE_MODULES is a folder that has it.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/serve_lib.sh"
# shellcheck disable=SC2154 # out, server, url and tmp are theirs

modules=${TANDEM_NODE_MODULES:-${XDG_CACHE_HOME:-$HOME/.cache}/tandem/node/node_modules}
command -v node >/dev/null || skip 'no node'
[ -d "$modules/openai" ] || skip "no openai in $modules"

run_ok "$TANDEM" synth --like tiny -o "$tmp/chats.gguf"

serve
texts=$server texts_url=$url
serve -m "$tmp/chats.gguf"
run_ok node tests/cli/serve_openai.cjs "$modules" "$texts_url" "$url"
echo "$out"
check_eq 'tests that went well' "$(grep -c '^ok ' "$tmp/out")" 11
ends TERM 0
server=$texts ends TERM 0
finish
