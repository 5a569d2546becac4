#!/usr/bin/env bash
# tandem eval: exact counts for every way of marking, the same however the
# pair is run.
. "$(dirname "$0")/lib.sh"

model=$tmp/tiny.gguf
run_ok "$TANDEM" synth --like tiny --seed 4 -o "$model"
n=9 # tokens of an output

# holds PART...: the table does, with single spaces
holds() {
  local word part
  read -rd '' -a word <<<"$out"
  for part; do
    check_has 'the table' "${word[*]}" "$part"
  done
}

# answer PROMPT: set $answer to the model's continuation, as a JSON string.
answer() {
  run_ok "$TANDEM" run -m "$model" -p "$1" -n $n -t 1 --spin 0 --json
  local it
  member text
  answer=$it
}

# item ID PROMPT CHECK ANSWER FACTS LEVEL: one more of $items.
item() {
  {
    printf '{"id":"%s","prompt":"%s","answer":%s,"check":"%s",' \
      "$1" "$2" "$4" "$3"
    printf '"facts":%s,"level":%s}\n' "$5" "$6"
  } >>"$items"
}

# ---- items with right and with wrong answers --------------------------------
items=$tmp/qa.jsonl
answer 'Hello world'
first=$answer
item qa-0 'Hello world' text "$answer" '[]' 0
answer 'A dog'
item qa-1 'A dog' facts '" x"' "[$answer]" 1
item qa-2 'A dog' facts '" x"' "[$answer,\"no such fact\"]" 1
item qa-3 'Hello world' text '" something else"' '[]' 2
number='' line=''
for word in 'Hello world' A The Read One Two Red Dog Cat Sun Moon Sea; do
  answer "$word"
  case $answer in
  '"\n'* | '" "' | '""') ;;
  *) line=$word line_is=$answer ;;
  esac
  case $answer in
  *[0-9]*) number=$word number_is=$answer ;;
  esac
  [ -z "$number" ] || [ -z "$line" ] || break
done
if [ -z "$number" ] || [ -z "$line" ]; then
  echo 'the model writes no number, or no line' >&2
  exit 1
fi
item qa-4 "$number" number "$number_is" '[]' 2
item qa-5 "$number" number '" 123456789"' '[]' 3
item qa-6 "$line" exact "${line_is%\"}\\nmore\"" '[]' 3
item qa-7 "$line" exact '" something else"' '[]' 3

# eval OPTION...: of these items.
evaluate() {
  run_ok "$TANDEM" eval "$items" -m "$model" -n $n "$@"
}

evaluate --outputs "$tmp/want"
holds 'qa 4 / 8 50.0 % ' 'level 1 1 / 2 50.0 % ' 'level 2 1 / 2 50.0 % ' \
  'level 3 1 / 3 33.3 % '
check_lacks 'the table' "$out" 'level 0'
check_lacks 'the table' "$out" accepted
check_lacks 'the table' "$out" mean
check_eq 'stderr' "$err" ''
# The bounds of Wilson's interval for 4 of 8, by another program.
bounds=$(awk 'BEGIN {
  z = 1.959963984540054; n = 8; p = 4 / 8
  half = z * sqrt(p * (1 - p) / n + z * z / (4 * n * n))
  middle = p + z * z / (2 * n); scale = 100 / (1 + z * z / n)
  printf "%.1f to %.1f %%", (middle - half) * scale, (middle + half) * scale
}')
holds "$bounds"

evaluate --json
is items items 8
is right right 4
is accuracy accuracy 0.5
is task task '"qa"'
check_has 'levels' "$out" '{"level":3,"items":3,"right":1,'
is complete complete true
is error error null
check_lacks 'JSON' "$out" draft
member logits_hash
hash=$it
member generated_tokens
check_eq 'tokens that 8 outputs have at most' $((it <= 8 * n)) 1

evaluate --items 3 --show 2
holds 'qa 2 / 3 66.7 % '
check_has 'what --show prints' "$out" 'qa-0: right'
check_has 'what --show prints' "$out" '---- wanted: x'
check_lacks 'what --show 2 prints' "$out" 'qa-2'

# ---- on a phone --------------------------------------------------------------
check_lacks 'JSON without a phone' "$out" '"phone":'
# What the phone takes to write the first two items, one by one: prompts of
# tandem run and of the evaluation are the same, and so is their price.
ps=0 tokens=0 joules=0
for word in 'Hello world' 'A dog'; do
  run_ok "$TANDEM" run -m "$model" -p "$word" -n $n --json \
    --clock soc:sd8gen3
  ps=$((ps + $(json total_ps)))
  tokens=$((tokens + $(json generated_tokens)))
  joules=$(awk -v a="$joules" -v b="$(json energy_j)" 'BEGIN { print a + b }')
done
evaluate --items 2 --clock soc:sd8gen3 --json --ctx 512
is clock clock '"soc:sd8gen3"'
figures=$(sed 's/.*"phone"/"phone"/' <<<"$out")
checks=$((checks + 1))
awk -v want_ps="$ps" -v want_n="$tokens" -v want_j="$joules" \
  -v ps="$(json total_ps)" -v n="$(json generated_tokens)" \
  -v j="$(json energy_j)" -v per_token="$(json energy_per_token_j)" \
  -v rate="$(out=$figures json tokens_per_s)" '
  function near(a, b) { return a - b < 1e-3 * b && b - a < 1e-3 * b }
  BEGIN { exit !(want_ps > 0 && n == want_n && near(ps, want_ps) &&
    near(j, want_j) && near(per_token, j / n) &&
    near(rate, n / (ps / 1e12))) }' ||
  fail "figures of the phone, not $ps ps, $joules J, $tokens tokens: $out"
one=$(json total_ps)
evaluate --items 2 --clock soc:sd8gen3 --json --ctx 512 --threads 1
is 'the phone, with one thread here' total_ps "$one"
evaluate --items 2 --clock soc:sd8elite
check_has 'the table' "$out" 'tokens/s  phone tokens/s  mJ/token'
check_eq 'columns of the table' "$(awk 'NR == 2 { print NF }' <<<"$out")" 14

# ---- the same however it is run ---------------------------------------------
check_eq 'lines of outputs' "$(wc -l <"$tmp/want")" 8
check_eq 'the first output' "$(head -n 1 "$tmp/want")" \
  "{\"task\":\"qa\",\"id\":\"qa-0\",\"right\":true,\"output\":$first}"
check_eq 'items that were right' \
  "$(grep right.:true "$tmp/want" | grep -o 'qa-[0-9]' | xargs)" \
  'qa-0 qa-1 qa-4 qa-6'

same() { # OPTION...
  evaluate --outputs "$tmp/got" --json "$@"
  is "hash with $*" logits_hash "$hash"
  checks=$((checks + 1))
  cmp -s "$tmp/got" "$tmp/want" || fail "outputs with $* differ"
}
same --threads 1 --coherence strict --prefill-chunk 4
same --threads 3 --coherence check --doorbell eventfd --ctx 512

# An item does not depend on those before it.
tac "$items" >"$tmp/back.jsonl"
run_ok "$TANDEM" eval "$tmp/back.jsonl" -m "$model" -n $n --outputs "$tmp/got"
checks=$((checks + 1))
tac "$tmp/got" | sed 's/"task":"back"/"task":"qa"/' | cmp -s - "$tmp/want" ||
  fail 'outputs depend on the order of the items'

# Sampling: the same seed draws the same; the first item as tandem run does.
evaluate --temp 1.5 --seed 7 --outputs "$tmp/a"
evaluate --temp 1.5 --seed 7 --outputs "$tmp/b" --threads 1
evaluate --temp 1.5 --seed 8 --outputs "$tmp/c"
checks=$((checks + 2))
cmp -s "$tmp/a" "$tmp/b" || fail 'outputs of the same seed differ'
! cmp -s "$tmp/a" "$tmp/c" || fail 'outputs of two seeds are the same'
run_ok "$TANDEM" run -m "$model" -p 'Hello world' -n $n --temp 1.5 --seed 7 \
  --json
check_has 'the first output' "$(head -n 1 "$tmp/a")" "\"output\":$(json text)}"
# Items draw from streams of their own: qa-0 and qa-3 have the same prompt.
check_lacks 'the fourth output' "$(sed -n 4p "$tmp/a")" "$(json text)"
# So far apart that no sample of the first item has the numbers of another.
run_ok "$TANDEM" run -m "$model" -p 'Hello world' -n $n --temp 1.5 --seed 7 \
  --stream $((3 << 32)) --json
check_has 'the fourth output' "$(sed -n 4p "$tmp/a")" "\"output\":$(json text)}"

# ---- with a draft model ------------------------------------------------------
evaluate --method chain --draft "$model" --items 1
check_has 'the table' "$out" 'accepted length'
evaluate --method chain --draft "$model" --draft-len 3 --outputs "$tmp/got" \
  --json
checks=$((checks + 1))
cmp -s "$tmp/got" "$tmp/want" || fail 'outputs with a draft model differ'
awk -v length_is="$(json mean_accepted_length)" \
  -v rate="$(json acceptance_rate)" -v cycles="$(json draft_cycles)" \
  -v drafted="$(json drafted_tokens)" -v accepted="$(json accepted_tokens)" '
  function near(a, b) { return a - b < 1e-6 && b - a < 1e-6 }
  BEGIN { exit !(cycles > 0 && length_is > 1 && length_is <= 4 &&
    near(length_is, (accepted + cycles) / cycles) &&
    near(rate, accepted / drafted)) }' ||
  fail "figures of drafting: $out"
checks=$((checks + 1))
run_ok "$TANDEM" run -m "$model" --method chain --draft "$model" -p 'A dog' \
  -n $n --stats --json
check_has '--stats of tandem run' "$err" 'mean accepted length'
check_has '--json of tandem run' "$out" '"mean_accepted_length":'
misuse "$TANDEM" run -m "$model" --draft "$model" -p x
check_has stderr "$err" chain
misuse "$TANDEM" eval "$items" -m "$model" --method no-such
check_has stderr "$err" 'tandem help methods'
run "$TANDEM" eval "$items" -m "$model" --method llada
check_eq 'status with a model the method does not run' "$status" 1
check_has stderr "$err" 'is not a diffusion model'
# --help names every method there is.
methods=$("$TANDEM" help methods | sed -n 's/^  \([^ ]*\) .*/\1/p' | paste -sd' ')
run_ok "$TANDEM" run --help all
out=$(tr -s ' \n' ' ' <<<"$out")
for method in $methods; do
  check_has '--help' "$out" " $method "
done

# ---- prompts alone -----------------------------------------------------------
printf 'Hello world\n\nA dog\r\n' >"$tmp/mine.txt"
printf '{"prompt":"Hello world"}\n{"id":"dog","prompt":"A dog"}\n' \
  >"$tmp/mine.jsonl"
run_ok "$TANDEM" eval "$tmp/mine.txt" -m "$model" -n $n --outputs "$tmp/got" \
  --show 1
check_has 'the table' "$out" 'prompts'
check_has 'the table' "$out" 'nothing is marked right or wrong'
holds 'mine 2 '
check_lacks 'the table' "$out" accuracy
check_lacks 'the table' "$out" %
check_has 'what --show prints' "$out" '---- line-1
Hello world'
check_lacks 'what --show prints' "$out" wanted
answer 'A dog'
check_eq 'outputs' "$(cat "$tmp/got")" \
  "{\"task\":\"mine\",\"id\":\"line-1\",\"right\":null,\"output\":$first}
{\"task\":\"mine\",\"id\":\"line-3\",\"right\":null,\"output\":$answer}"
run_ok "$TANDEM" eval "$tmp/mine.jsonl" -m "$model" -n $n --json \
  --outputs "$tmp/json"
check_eq 'outputs by JSON' "$(sed 's/dog/line-3/' "$tmp/json")" \
  "$(cat "$tmp/got")"
for name in right accuracy interval_95 mean_accuracy error; do
  is "$name of prompts alone" $name null
done
is marked marked false
is items items 2
is complete complete true
checks=$((checks + 1))
member generated_tokens
[ "$it" -gt 0 ] || fail "no tokens: $out"
run "$TANDEM" perplexity "$tmp/mine.jsonl" -m "$model"
check_eq 'status of a likelihood of no answers' "$status" 1
check_has stderr "$err" "member 'id' is missing"
printf '\n' >"$tmp/none.txt"
run "$TANDEM" eval "$tmp/none.txt" -m "$model"
check_eq 'status without prompts' "$status" 1
check_has stderr "$err" 'has no prompts'

# ---- errors -----------------------------------------------------------------
misuse "$TANDEM" eval
misuse "$TANDEM" eval no-such-task
check_has stderr "$err" no-such-task
misuse "$TANDEM" eval qa ui
misuse "$TANDEM" eval qa --list
misuse "$TANDEM" eval qa --json --show 1
run "$TANDEM" eval "$tmp/none.jsonl" -m "$model"
check_eq 'status without a file' "$status" 1
check_has stderr "$err" none.jsonl
{
  cat "$items"
  echo '{"id":"x"}'
} >"$tmp/bad.jsonl"
run "$TANDEM" eval "$tmp/bad.jsonl" -m "$model"
check_eq 'status of a bad file' "$status" 1
check_eq 'stdout of a bad file' "$out" ''
check_has stderr "$err" "bad.jsonl', line 9: member 'prompt'"
run "$TANDEM" eval "$items" -m "$model" --ctx 2
check_eq 'status of a prompt too long' "$status" 1
check_has stderr "$err" "'qa-0'"
check_has stderr "$err" --ctx
run "$TANDEM" eval "$items" -m "$model" --outputs "$tmp/no/such"
check_eq 'status of outputs that cannot be' "$status" 1
check_has stderr "$err" "$tmp/no/such"
if [ -w /dev/full ]; then
  run "$TANDEM" eval "$items" -m "$model" -n $n --outputs /dev/full
  check_eq 'status of outputs to a full disk' "$status" 1
fi

# ---- ended early -----------------------------------------------------------
text=$(<"$items")
for _ in {1..100}; do echo "$text"; done >"$tmp/long.jsonl"
for form in '' --json; do
  rm -f "$tmp/got"
  "$TANDEM" eval "$tmp/long.jsonl" -m "$model" --outputs "$tmp/got" $form \
    >"$tmp/out" 2>"$tmp/err" &
  pid=$!
  until [ -s "$tmp/got" ] || ! kill -0 $pid; do sleep 0.02; done
  kill -INT $pid
  status=0
  wait $pid || status=$?
  out=$(cat "$tmp/out")
  check_eq 'status after Ctrl-C' "$status" 130
  check_has 'stderr after Ctrl-C' "$(cat "$tmp/err")" 'interrupted after'
  if [ -z "$form" ]; then
    check_has 'stdout after Ctrl-C' "$out" 'long '
  else
    is 'complete' complete false
    is 'items after Ctrl-C' items "$(wc -l <"$tmp/got")"
  fi
done
# Special tokens in a prompt are tokens, as with `run --special`.
turn='A dog<|eot_id|>A cat'
echo "{\"prompt\":\"$turn\"}" >"$tmp/turn.jsonl"
hash_of() { # COMMAND...: of the logits
  run_ok "$TANDEM" "$@" -m "$model" -n $n --json
  local it
  member logits_hash
  hash=$it
}
hash_of run "$turn"
plain=$hash
hash_of run --special "$turn"
want=$hash
hash_of eval "$tmp/turn.jsonl"
check_eq 'logits after a special token' "$hash" "$want"
checks=$((checks + 1))
[ "$want" != "$plain" ] || fail 'a special token makes no difference'
TANDEM_NPU_FAULT=die-after:300 run "$TANDEM" eval "$tmp/long.jsonl" \
  -m "$model" -n $n --restarts 0
check_eq 'status when the device dies' "$status" 3
check_has 'stdout when the device dies' "$out" 'long '
finish
