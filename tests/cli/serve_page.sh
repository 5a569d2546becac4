#!/usr/bin/env bash
# The server's page in a browser: it writes a text and draws how that went.
. "$(dirname "$0")/lib.sh"

browser=$(command -v chromium || command -v chromium-browser ||
  command -v google-chrome) || skip 'no chromium'

"$TANDEM" serve --listen 127.0.0.1:0 -t 1 2>"$tmp/said" &
server=$!
url=
for _ in $(seq 1000); do
  url=$(sed -n 's/.* answers at //p' "$tmp/said")
  [ -z "$url" ] || break
  sleep 0.02
done
check_has 'where the server is' "$url" http://127.0.0.1:

# Time passes as fast as the page waits for nothing but time, so this is a
# matter of seconds; the text is whole long before.
run timeout 100 "$browser" --headless --no-sandbox --disable-gpu \
  --user-data-dir="$tmp/browser" --virtual-time-budget=400000 \
  --window-size=1000,1200 --screenshot="$tmp/page.png" \
  --dump-dom "$url/#write"
check_eq 'status of the browser' "$status" 0
page=$out

prompt=$(sed -n '/<textarea/,/<\/textarea>/s/.*rows="4">//p; /^Solution/p' \
  host/serve/page.html | sed 's/<.*//')
run_ok "$TANDEM" run -n 128 -t 1 -p "$prompt"
check_has 'the page' "$page" "aria-live=\"polite\" class=\"\">$out"
check_has 'the page' "$page" 'tokens read in'
check_has 'the page' "$page" 'autoregressive, int8, wall clock, 1024 tokens'
check_has 'the page' "$page" '<th>texts under way</th><td>0</td>'
passes=$(sed -n 's|.*<th>passes</th><td>\([0-9]*\)</td>.*|\1|p' <<<"$page")
checks=$((checks + 1))
[ "${passes:-0}" -gt 0 ] || fail "the page has no passes: '$passes'"
check_eq 'the picture is one' "$(head -c 4 "$tmp/page.png" | tr -d '\211')" PNG

kill $server
wait $server
check_eq 'status of the server' $? 0
finish
