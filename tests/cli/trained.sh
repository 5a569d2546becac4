#!/usr/bin/env bash
# The trained models in flash/models: the files exist, and the models have some
# accuracy. The model card has the exact figures (tandem eval all).
. "$(dirname "$0")/lib.sh"

models=$root/flash/models
export TANDEM_MODELS=$models
[ -e "$models/target.gguf" ] || skip 'no flash/models/target.gguf'

check_at_least() { # WHAT VALUE LEAST
  check_eq "$1: $2 is at least $3" "$([ "$2" -ge "$3" ] && echo yes)" yes
}

bytes=$(cat "$models"/*.gguf | wc -c)
check_eq "all models, $bytes bytes, are at most 42 MB" \
  "$([ "$bytes" -le 42000000 ] && echo yes)" yes

# Any bytes come back from any vocabulary of ours.
tail -c 4096 "$models/draft.gguf" >"$tmp/bytes" # weights: as good as random
for name in target draft diffusion; do
  file=$models/$name.gguf
  [ -e "$file" ] || continue
  "$TANDEM" tokenize -m "$file" <"$tmp/bytes" >"$tmp/ids" &&
    "$TANDEM" detokenize -m "$file" --raw <"$tmp/ids" >"$tmp/back"
  check_eq "$name: status of the round trip" $? 0
  run_ok cmp "$tmp/back" "$tmp/bytes"
done

# The page of the server begins with a question of README, where cli/documents
# runs it; its answer is right.
check_has 'the answer in README' "$(<README.md)" "The answer is $((7 * 8 + 5))."
check_has 'the chat in README' "$(<README.md)" "12 + 30 = $((12 + 30))."
grep -q "'What is 12 + 30?'" host/serve/page.html
check_eq 'the page has the question' $? 0

# Floors that a broken model or runtime does not reach, far below the card.
some=6
! full || some=20
run_ok "$TANDEM" eval short --items $some --json
for floor in summary:80 qa:45 ui:25 reply:75 math:20 code:50; do
  [[ ${out#*"\"task\":\"${floor%:*}\""} =~ \"right\":([0-9]+) ]]
  check_at_least "${floor%:*}" $((100 * BASH_REMATCH[1] / some)) "${floor#*:}"
done
finish
