#!/usr/bin/env bash
# The trained models in flash/models: their files, and that they are good for
# something. How good exactly is the card's to say (tandem eval all).
. "$(dirname "$0")/lib.sh"

models=$root/flash/models
export TANDEM_MODELS=$models
[ -e "$models/target.gguf" ] || skip 'no flash/models/target.gguf'

accuracy() { # JSON: the per cent that were right
  grep -oE '"accuracy":[0-9.]+' <<<"$1" |
    awk -F: 'NR == 1 { printf "%d", 100 * $2 }'
}

check_at_least() { # WHAT VALUE LEAST
  check_eq "$1: $2 is at least $3" "$([ "$2" -ge "$3" ] && echo yes)" yes
}

bytes=$(cat "$models"/*.gguf | wc -c)
check_eq "all models, $bytes bytes, are at most 40 MB" \
  "$([ "$bytes" -le 40000000 ] && echo yes)" yes

# Any bytes come back from any vocabulary of ours.
head -c 4096 /dev/urandom >"$tmp/bytes"
for name in target draft diffusion; do
  file=$models/$name.gguf
  [ -e "$file" ] || continue
  "$TANDEM" tokenize -m "$file" <"$tmp/bytes" >"$tmp/ids" &&
    "$TANDEM" detokenize -m "$file" --raw <"$tmp/ids" >"$tmp/back"
  check_eq "$name: status of the round trip" $? 0
  check_eq "$name: the round trip" "$(od -c <"$tmp/back")" \
    "$(od -c <"$tmp/bytes")"
done

# Floors that a broken model or runtime does not reach, far below the card.
# The arithmetic of a program with a sanitizer is that of the others, and slow.
case $TANDEM in *address*) finish ;; esac
for task in qa:45 summary:80 ui:25 reply:75 math:20 code:50; do
  run_ok "$TANDEM" eval "${task%:*}" --items 20 --json
  check_at_least "${task%:*}" "$(accuracy "$out")" "${task#*:}"
done
finish
