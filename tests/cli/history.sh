#!/usr/bin/env bash
# --history and tandem history: which answers are kept, and the commands on a
# history.
. "$(dirname "$0")/lib.sh"

export TANDEM_MODELS=$root/flash/models TZ=UTC
[ -e "$TANDEM_MODELS/target.gguf" ] || skip 'no flash/models/target.gguf'
file=$tmp/answers
prompt='Read: Ann has a red kite. Tom has a blue ball.
Question: What does Ann have?
Answer:'

holds() { # WHAT N: so many records are in $file
  local out
  out=$("$TANDEM" history stats --json "$file")
  is "records behind $1" records "$2"
}
ask() { run "$TANDEM" run -p "$prompt" --history "$file" "$@"; }

# ---- which are kept --------------------------------------------------------
run_ok "$TANDEM" run -p "$prompt"
plain=$out
ask --stats
check_eq 'status' "$status" 0
check_eq 'the text with a history' "$out" "$plain"
check_has 'stats' "$err" 'history      1 answers'
check_has 'stats' "$err" 'this answer is kept'
holds 'an answer' 1
check_eq 'mode' "$(stat -c %a "$file")" 600

ask -n 2 --stats
check_has 'stats' "$err" 'this answer is not kept'
holds 'an answer cut by -n' 1
ask --stop "${plain:4:3}"
holds 'an answer cut by a stop string' 1
ask --ignore-eos -n 40
holds 'a text that went on behind its end' 1
run env TANDEM_NPU_FAULT=die-after:20 "$TANDEM" run -p "$prompt" \
  --history "$file" --restarts 0
check_eq 'status without a device' "$status" 3
holds 'an answer that was lost' 1
# Ctrl-C as soon as the text begins; by itself it ends after some 170 tokens.
mkfifo "$tmp/text"
"$TANDEM" run -t 1 -p 'Once upon a time' --history "$file" >"$tmp/text" &
{
  head -c 1 >"$tmp/first"
  kill -INT $!
  cat >"$tmp/rest"
} <"$tmp/text"
status=0
wait $! || status=$?
check_eq 'status of an interrupted text' "$status" 130
holds 'an interrupted text' 1
ask --history-frozen
check_eq 'status of a frozen one' "$status" 0
check_eq 'the text of a frozen one' "$out" "$plain"
holds 'a frozen one' 1
ask --json
check_has 'JSON' "$out" '"history":{"records":2,'
check_has 'JSON' "$out" '"kept":true'
holds 'another answer' 2

# Two at once, by a method that drafts, both kept.
draft=$root/flash/models/draft.gguf
if [ -e "$draft" ]; then
  "$TANDEM" run -p "$prompt" --history "$file" --method chain >"$tmp/one" &
  ask --method chain
  wait $!
  check_eq 'status of the other of two at once' $? 0
  check_eq 'text of one of two at once' "$(<"$tmp/one")" "$plain"
  check_eq 'text of the other' "$out" "$plain"
  holds 'two at once' 4
  run_ok "$TANDEM" history prune --keep 2 "$file"
fi
run_ok "$TANDEM" eval qa --items 2 --history "$file"
holds 'two items' 4

# ---- errors -----------------------------------------------------------------
misuse "$TANDEM" run -p x --history-max 1M
misuse "$TANDEM" run -p x --history-frozen
run "$TANDEM" run -p x --history "$tmp/none" --history-frozen
check_eq 'status without a file' "$status" 1
check_has 'stderr' "$err" 'cannot open the history'
checks=$((checks + 1))
[ ! -e "$tmp/none" ] || fail 'a frozen history was made'
chmod 644 "$file"
ask
check_eq 'status of a file that others read' "$status" 1
check_has 'stderr' "$err" "chmod 600 '$file'"
chmod 600 "$file"
run_ok "$TANDEM" synth --like tiny -o "$tmp/tiny.gguf"
for part in 'run -p x --history' 'history list' 'history import'; do
  # shellcheck disable=SC2086 # words
  run "$TANDEM" $part "$file" -m "$tmp/tiny.gguf"
  check_eq "status of $part with another vocabulary" "$status" 1
  check_has "stderr of $part" "$err" 'is a history of another vocabulary'
done
run "$TANDEM" run -p x --history "$tmp/tiny.gguf"
check_eq 'status of a file that is none' "$status" 1
holds 'all that' 4

# ---- tandem history --------------------------------------------------------
misuse "$TANDEM" history
misuse "$TANDEM" history forget "$file"
for part in list stats prune import; do
  run_ok "$TANDEM" history "$part" --help
  check_has "help of $part" "$out" "Usage: tandem history $part"
  misuse "$TANDEM" history "$part"
  misuse "$TANDEM" history "$part" --no-such-option "$file"
done
for part in list stats prune; do
  run "$TANDEM" history "$part" "$tmp/none"
  check_eq "status of $part without a file" "$status" 1
done

rm "$file"
printf '%s\n' '{"prompt":"One.","answer":" Two.","time":86400}' '' \
  '{"answer":"Three is all.","time":1700000000,"id":7}' >"$tmp/lines"
run_ok "$TANDEM" history import "$file" "$tmp/lines"
check_has 'stdout of import' "$out" '2 records added, '
run_ok "$TANDEM" history list "$file"
check_eq 'list' "$(sed 's/^  *//; s/  */ /g; s/ $//' <<<"$out")" \
  "$(printf '%s\n' 'number when prompt ans. prompt begins answer begins' \
    '1 1970-01-02 00:00 3 5 One. Two.' \
    '2 2023-11-14 22:13 0 6 Three is all.')"
run_ok "$TANDEM" history list --json "$file"
check_has 'list --json' "$out" '"prompt":"One.","answer":" Two."'
check_has 'list --json' "$out" '"number":2,"time":1700000000,'

# Ids of an import are those that a model would have had: taken out and in
# again they are the same bytes.
cp "$tmp/out" "$tmp/taken"
mv "$file" "$tmp/first"
run_ok "$TANDEM" history import "$file" - <"$tmp/taken"
run bash -c '"$TANDEM" history import "$0" <"$1"' "$file" "$tmp/taken"
check_eq 'status of import from standard input' "$status" 0
run cmp "$tmp/first" "$file"
check_eq 'a history taken out and in again' "$status$out" 0

printf 'Of two\nlines' >"$tmp/document"
run_ok "$TANDEM" history import --text "$file" "$tmp/document" "$tmp/document"
run_ok "$TANDEM" history list "$file"
check_has 'list' "$out" 'Of two lines'
run_ok "$TANDEM" history stats "$file"
check_has 'stats' "$out" 'records      4, number 1 to 4, 1970-01-02 00:00 to 20'

# Lines that are wrong are named; those before them are there.
n=4
for bad in '{"prompt":"x"}' '{"answer":7}' '[1]' '{"answer":"x","time":"t"}' \
  'no JSON'; do
  printf '%s\n' '{"answer":"before"}' "$bad" '{"answer":"after"}' >"$tmp/lines"
  n=$((n + 1))
  run "$TANDEM" history import "$file" "$tmp/lines"
  check_eq "status of import of $bad" "$status" 1
  check_has "stderr of import of $bad" "$err" "$tmp/lines: line 2: "
  holds "import of $bad" $n
done

# ---- shorter, damaged ------------------------------------------------------
run_ok "$TANDEM" history prune --older-than 100 "$file"
check_eq 'prune' "$out" '2 records dropped, 7 left'
run_ok "$TANDEM" history prune --keep 3 --max 1G "$file"
check_eq 'prune' "$out" '4 records dropped, 3 left'
run_ok "$TANDEM" history list "$file"
check_has 'record numbers after prune' "$out" '     9  '
printf 'torn' >>"$file"
run_ok "$TANDEM" history list "$file"
check_has 'stderr of a torn one' "$err" '4 bytes at the end of'
run_ok "$TANDEM" history stats "$file"
check_has 'stats of a torn one' "$out" '0 bytes between records, 4 at the end'
printf '\377' | dd of="$file" bs=1 seek=106 conv=notrunc status=none
run_ok "$TANDEM" history list "$file"
check_has 'stderr of a damaged one' "$err" 'are damaged'
holds 'damage' 2
run_ok "$TANDEM" history prune "$file"
check_eq 'prune of a damaged one' "$out" '0 records dropped, 2 left'
run_ok "$TANDEM" history stats "$file"
check_has 'stats after that' "$out" '0 bytes between records, 0 at the end'
run "$TANDEM" history import --text --max 4K "$file" CHANGELOG.md
check_eq 'status of a document beyond the bound' "$status" 1
check_has 'stderr' "$err" 'may have only 4096'
holds 'a document beyond the bound' 2
# Of a long answer nothing is left out.
long=$(printf ' %s' {100..199})
printf '{"prompt":"All.","answer":"%s"}\n' "$long" >"$tmp/lines"
run_ok "$TANDEM" history import "$tmp/long" "$tmp/lines"
run_ok "$TANDEM" history list --json "$tmp/long"
check_has 'a long answer' "$out" "\"answer\":\"$long\""

finish
