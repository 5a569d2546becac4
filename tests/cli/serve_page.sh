#!/usr/bin/env bash
# The server's page in a browser: it answers the default question at once, and
# by keyboard alone at three widths; it asks for a key; it draws drafted trees
# and the text of a model that fills masks. The middle width, and a picture of
# the page, are made with TANDEM_TEST_FULL=yes, or without node.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/serve_lib.sh"
# shellcheck disable=SC2154 # url, out, status and tmp are theirs

browser=$(command -v chromium || command -v chromium-browser ||
  command -v google-chrome) || skip 'no chromium'

if full || ! command -v node >/dev/null; then
  # Time passes as fast as the page waits for nothing but time, so this is a
  # matter of seconds; the text is whole long before.
  serve
  run timeout 100 "$browser" --headless --no-sandbox --disable-gpu \
    --user-data-dir="$tmp/browser" --virtual-time-budget=400000 \
    --window-size=1000,1200 --screenshot="$tmp/page.png" \
    --dump-dom "$url/#write"
  check_eq 'status of the browser' "$status" 0
  page=$out
  check_has 'the question' "$page" '<li class="user">What is 12 + 30?</li>'
  check_has 'the answer' "$page" 'aria-busy="false">12 + 30 = 42.<'
  check_has 'the server' "$page" 'method autoregressive · int8 · wall clock · 1024 tokens'
  check_has 'requests under way' "$page" \
    '<th scope="row">requests under way</th><td>0</td>'
  check_eq 'the picture is one' "$(head -c 4 "$tmp/page.png" | tr -d '\211')" PNG
  ends INT 0
fi

command -v node >/dev/null || skip 'no node'

# drive NAME WIDTH [KEY]: use the page by keyboard; the driver's checks pass.
drive() {
  mkdir -p "$tmp/$1"
  run timeout 280 node tests/cli/serve_page.cjs "$browser" "$url" "$tmp/$1" "${@:2}"
  check_eq "status of the driver, $1" "$status" 0
  check_lacks "checks of the driver, $1" "$out" 'not ok'
  check_has "checks of the driver, $1" "$out" 'ok the console has no error'
}
serve --allow-methods autoregressive,specinfer
drive wide 1280
! full || drive tablet 768
check_has 'the race' "$out" 'ok their texts are the same'
ends INT 0
echo secret-key >"$tmp/keys"
chmod 600 "$tmp/keys"
serve --api-key-file "$tmp/keys" --method specinfer --draft sam+recycle
drive phone 360 secret-key
ends INT 0
serve -m flash/models/diffusion.gguf --method llada
drive fill 768
ends INT 0
finish
