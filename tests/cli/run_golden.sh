#!/usr/bin/env bash
# Logits and text of a real model, compared with independent programs.
. "$(dirname "$0")/lib.sh"

need_data golden/llama2c/greedy_0.ids
golden=$TANDEM_DATA/golden
model=$TANDEM_DATA/models/stories260K-f32.gguf

# next_of N: the token after each position of prompt N, chosen or given.
next_of() {
  sed -n 's/^next_tokens: //p' "$golden/llama2c/greedy_$1.ids" | xargs
}
prompt_of() {
  sed -n 's/^prompt_tokens: //p' "$golden/llama2c/greedy_$1.ids" | xargs
}

numbers() { # FILE of floats
  od -An -v -w4 -t f4 "$1"
}
# largest A B: the largest absolute difference of two files of floats, and
# how many there are; "nan" counts as different.
largest() {
  local text=$tmp/${2##*/}.text # the same for each precision
  [ -e "$text" ] || numbers "$2" >"$text"
  paste <(numbers "$1") "$text" | awk '
    NF != 2 || $1 !~ /^[-+.0-9e]+$/ { print "bad"; bad = 1; exit }
    { d = $1 - $2; if (d < 0) d = -d; if (d > most) most = d; n++ }
    END { if (!bad) print most + 0, n + 0 }'
}

# A difference must be seen, or all below means nothing.
printf '\0\0\200?\0\0\0@' >"$tmp/one_two"
printf '\0\0\200?\0\0\100@' >"$tmp/one_three"
check_eq 'largest difference of 1 2 and 1 3' \
  "$(largest "$tmp/one_two" "$tmp/one_three")" '1 2'
check_eq 'comparison of files of unlike length' \
  "$(largest "$tmp/one_two" /dev/null)" bad

# logits N PRECISION BOUND
logits() {
  local want=$golden/llama2c/greedy_$1.logits.f32 got
  local ids
  ids="1 $(next_of "$1" | sed 's/ [0-9]*$//')"
  run_ok "$TANDEM" logits -m "$model" --ids "$ids" --precision "$2" \
    -o "$tmp/logits"
  check_eq "size of the logits of prompt $1" "$(stat -c %s "$tmp/logits")" \
    "$(stat -c %s "$want")"
  got=$(largest "$tmp/logits" "$want")
  checks=$((checks + 1))
  echo "prompt $1, $2: largest difference, values: $got (bound $3)"
  awk -v got="${got% *}" -v bound="$3" \
    'BEGIN { exit !(got ~ /^[0-9.e+-]+$/ && got + 0 < bound) }' ||
    fail "prompt $1, $2: largest difference $got, bound $3"
}

for n in 0 1 2; do
  logits $n f32 1e-3
  logits $n f16 2e-2
  logits $n f16-kv16 1e-1
done

# By hand the ids come in many shapes.
ids=$(prompt_of 1)
run_ok "$TANDEM" logits -m "$model" --ids "$ids" -o "$tmp/a"
tr ' ' ',' <<<"$ids" >"$tmp/ids"
run_ok "$TANDEM" logits -m "$model" --ids-file "$tmp/ids" -o "$tmp/b" \
  --prefill-chunk 2
checks=$((checks + 1))
cmp "$tmp/a" "$tmp/b" || fail 'logits by --ids and --ids-file differ'
"$TANDEM" logits -m "$model" --ids "$ids" -o - >"$tmp/b"
checks=$((checks + 1))
cmp "$tmp/a" "$tmp/b" || fail 'logits to a file and to stdout differ'
run "$TANDEM" logits -m "$model" --ids '1 512' -o "$tmp/c"
check_eq 'status with an id outside the vocabulary' "$status" 1
check_has stderr "$err" 'id number 2 is 512'
run "$TANDEM" logits -m "$model" --ids '1 x' -o "$tmp/c"
check_has stderr "$err" "'x'"
run "$TANDEM" logits -m "$model" --ids "$(seq -s ' ' 511) 1 2" -o "$tmp/c"
check_has 'stderr with more ids than the context' "$err" '513 tokens'
check_eq 'file after refusals' "$(ls "$tmp/c" 2>/dev/null)" ''

# Greedy ids are the golden ones up to where two logits nearly tie.
for n in 0 1 2; do
  case $n in 2) tie=194 ;; *) tie=185 ;; esac
  given=$(prompt_of $n | wc -w)
  want=$(next_of $n | cut -d ' ' -f "$given-$tie")
  run_ok "$TANDEM" run -m "$model" -f "$golden/llama2c/greedy_$n.prompt" \
    -n $((tie - given + 1)) --ids
  check_eq "greedy ids of prompt $n" "$out" "$want"
done

# Text; with 4-bit files it differs after a while, since the other program
# rounds activations to 8 bits before multiplying.
text() { # MODEL N LEAST: so many bytes of the golden text, or all of it
  local want=$golden/llamacpp/$1.greedy_$2.txt
  local size
  size=$(($(stat -c %s "$want") - 1)) # without its last newline
  [ "$3" = all ] || size=$3
  run_ok "$TANDEM" run -m "$TANDEM_DATA/models/$1.gguf" \
    -f "$golden/llama2c/greedy_$2.prompt" -n 200 --precision f16
  check_eq "text of $1 after prompt $2" "$(head -c "$size" "$tmp/out")" \
    "$(head -c "$size" "$want")"
}
for n in 1 2; do
  text stories260K-f32 $n all
  text stories260K-pad192-q8_0 $n all
  text stories260K-pad192-q4_0 $n 70
done
finish
