#!/usr/bin/env bash
# Drafts found in text, with eight clients at a time: with each drafter every
# answer is that of plain decoding, whether the prompt is new, its beginning is
# cached, or all of it is. With TANDEM_TEST_FULL=yes, all drafters take part.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/serve_lib.sh"
# shellcheck disable=SC2154 # code, out, server, url, checks and tmp are theirs

# ask I: a request, in JSON. Eight prompts begin alike, and the answers copy.
story='Once upon a time there was a little red hen who lived on a farm.'
ask() {
  echo "{\"prompt\":\"$story $story $story She had $1 eggs. Once upon a\"," \
    "\"max_tokens\":40}"
}

run_ok "$TANDEM" synth --like tiny -o "$tmp/tiny.gguf"
tiny=(-m "$tmp/tiny.gguf")
serve "${tiny[@]}"
for i in 1 2 3 4 5 6 7 8; do
  post /v1/completions "$(ask "$i")"
  check_eq "status of text $i" "$code" 200
  want[i]=$(member text)
done
ends INT 0

for i in 1 2 3 4 5 6 7 8; do
  echo next
  echo "url = \"URL/v1/completions\""
  echo "output = \"$tmp/answer.$i\""
  echo "data = \"$(ask "$i" | sed 's/[\\"]/\\&/g')\""
done | tail -n +2 >"$tmp/asked"

# all WHAT: ask the server all at once.
all() {
  rm -f "$tmp"/answer.*
  sed "s,URL,$url," "$tmp/asked" |
    curl -sZ --parallel-immediate -K - 2>"$tmp/progress"
  cached=0
  for i in 1 2 3 4 5 6 7 8; do
    out=$(<"$tmp/answer.$i")
    check_eq "text $i, $*" "$(member text)" "${want[i]}"
    cached=$((cached + $(member cache_n)))
  done
}

# drafts OPTION...: of a server with these.
drafts() {
  serve "${tiny[@]}" --texts 8 "$@"
  all "$@"
  all "$@, cached"
  checks=$((checks + 2))
  [ $cached -gt 400 ] || fail "only $cached tokens were cached: $*"
  # In such short texts tables of n-grams may guess nothing right.
  [[ $* == *ngram-* ]] || [ "$(metric accepted_tokens_total)" -gt 0 ] ||
    fail "nothing accepted: $*"
  ends INT 0
}

# Rows are filled whatever they cost, on a busy machine, too.
kinds=(suffix 'ngram-mod --ngram-mod-match 4 --ngram-mod-min 2')
if full; then
  drafts --method sdnpu --fill-rows
  drafts --method sdnpu --fill-rows --calibration --reuse
  kinds+=(pld 'ngram-map --ngram-map-key 3 --ngram-map-length 8' recycle)
fi
for kind in "${kinds[@]}"; do
  # shellcheck disable=SC2086 # a kind and its options
  drafts --method sdnpu --fill-rows --draft $kind
done
drafts --method sdnpu --fill-rows --reuse --reuse-checked --recycle-rows all
drafts --method chain --draft sam

# With a history of other texts.
for i in 1 2 3; do
  echo "{\"prompt\":\"$story\",\"answer\":\"${want[i]}\"}"
done | run_ok "$TANDEM" history import "${tiny[@]}" "$tmp/history" -
drafts --method sdnpu --fill-rows --draft sam+suffix+rest+recycle \
  --history "$tmp/history"

# Streams with the tree of each pass, and the state of the request after it.
serve --method specinfer --draft recycle
asked='{"prompt":"Once upon a","max_tokens":24,"stream":true'
post /v1/completions \
  "$asked,\"timings_per_token\":true,\"stream_options\":{\"include_draft\":true}}"
tree='"drafts":[{"pass":1,"nodes":[{"parent":-1,'
check_has 'the first tree' "$(grep -m 1 drafts\" "$tmp/body")" "$tree"
check_has 'a tree of several nodes' "$out" '{"parent":1,"text":"'
check_eq 'passes that have a tree' \
  "$(grep -o '"pass":[0-9]*' "$tmp/body" | cut -d : -f 2 | tr '\n' ' ')" \
  "$(seq -s ' ' $(($(member passes) - 1))) "
check_eq 'chunks without timings' \
  "$(grep '^data: {' "$tmp/body" | grep -vc '"timings":{')" 0
post /v1/completions "$asked}"
check_lacks 'a stream without trees' "$out" '"drafts":['
check_eq 'its timings' "$(grep -c '"timings":{' "$tmp/body")" 1
ends INT 0

# With a history, an answer is drafted from that of another request, of which
# nothing is cached; without one, nothing is kept. The clock of a phone makes
# passes cost the same each time.
sum='{"prompt":"Problem: Calculate 6 * 12.\\nSolution:","max_tokens":99}'
# again OPTION...: how many passes the text takes the second time.
again() {
  serve --keep 0 --method sdnpu --draft suffix \
    --clock soc:sd8gen2 "$@"
  post /v1/completions "$sum"
  check_eq 'the end of an answer' "$(member finish_reason)" stop
  first=$(member passes)
  post /v1/completions "$sum"
  second=$(member passes)
  ends INT 0
}
again
# The first request also learns what passes cost.
checks=$((checks + 1))
[ "$second" -ge $((first - 1)) ] ||
  fail "$second passes without a history, $first the first time"
: >"$tmp/answers"
chmod 600 "$tmp/answers"
again --history "$tmp/answers"
checks=$((checks + 1))
[ "$second" -lt $((first * 2 / 3)) ] ||
  fail "$second passes with a history, $first without"

finish
