#!/usr/bin/env bash
# A method and a drafter need only one file and one row each: the build
# tests/tandem-echo adds echo-2 (tests/host/method/echo_2) and echo
# (tests/host/draft/echo), and nothing else in the source mentions them.
. "$(dirname "$0")/lib.sh"

plain=$TANDEM
more=$(dirname "$TANDEM")/tests/tandem-echo
[ -x "$more" ] || {
  echo "no $more; make tests builds it" >&2
  exit 1
}
target=$tmp/target.gguf
other=$tmp/other.gguf
run_ok "$plain" synth --like tiny -o "$target"
run_ok "$plain" synth --like tiny --seed 9 -o "$other"

# ---- their descriptions, made from their rows -------------------------------
for words in 'run --help all' 'eval --help all' 'help --man run' 'help --completion'; do
  # shellcheck disable=SC2086 # words
  run_ok "$more" $words
  check_has "$words" "${out//\\/}" --echo-times
  # shellcheck disable=SC2086 # words
  run_ok "$plain" $words
  check_lacks "$words of the program" "${out//\\/}" --echo-times
done
run_ok "$more" run --help all
check_has 'help' "$(tr -s ' \n' '  ' <"$tmp/out")" \
  'with echo-2: repeat the last two tokens so often (2)'

check_has 'help' "$(tr -s ' \n' '  ' <"$tmp/out")" \
  'echo-2 the last two tokens as the draft of the next'
check_has 'help' "$(tr -s ' \n' '  ' <"$tmp/out")" \
  'echo guesses that what came two tokens before comes again'

# ---- their options ----------------------------------------------------------
run_ok "$more" help methods
check_has 'help methods' "$out" '  echo-2  '
misuse "$more" run -p x --method echo-2 --echo-times 16
check_has 'the range' "$err" "'--echo-times' takes a whole number from 1 to 15"
misuse "$more" run -p x --method echo-2 --draft echo
check_has 'the reason' "$err" \
  'method echo-2, which does not use a draft model'
misuse "$plain" run -p x --method echo-2
check_lacks 'methods of the program' "$err" ', echo-2'
misuse "$plain" run -p x --echo-times 2

# ---- the text is plain decoding's, and the draft was right now and then ----
text=(run -m "$target" -p 'Once upon a time' -n 60 --ignore-eos -t 1 --json)
less() { # WHAT A B: A < B
  check_eq "$1: $2 below $3" "$(($2 < $3))" 1
}
run_ok "$plain" "${text[@]}"
essence
want=$essence

writes() { # ARGS
  run_ok "$more" "${text[@]}" "$@"
  essence
  check_eq "the text with $*" "$essence" "$want"
  take accepted_tokens drafted_tokens draft_cycles passes
}

writes --method echo-2
check_has 'the report' "$out" '"method":"echo-2"'
less accepted 0 "${value[accepted_tokens]}"
less passes "${value[passes]}" 60
writes --method echo-2 --echo-times 5
less drafted $((5 * value[draft_cycles])) "${value[drafted_tokens]}"

writes --method chain --draft echo
check_has 'the report' "$out" '"draft_model":"an echo"'
check_has 'the report' "$out" '"acceptance_simulated":false'
alone=${value[drafted_tokens]}
less drafted 0 "$alone"
writes --method lever --draft echo
writes --method chain --draft "echo+$other"
check_has 'the report' "$out" "\"draft_model\":\"an echo and $other\""
less drafted "$alone" "${value[drafted_tokens]}"
# A rehearsal gives the oracle its text; its logits count as well.
run_ok "$more" "${text[@]}" --method opt-tree --draft echo+oracle:0.7
essence
check_eq 'the text with an oracle' "${essence##*ids}" "${want##*ids}"
check_has 'the report' "$out" '"acceptance_simulated":true'
printf '%s\n' 'Once upon' 'a time' >"$tmp/prompts.txt"
run_ok "$more" eval "$tmp/prompts.txt" -m "$target" -n 8 -t 1 \
  --method echo-2 --json
check_has 'the evaluation' "$out" '"method":"echo-2"'

# ---- nothing else mentions them ---------------------------------------------
check_eq 'words of them in host/' \
  "$(grep -rlE 'echo[-_]2|drafter_echo|kind_echo' "$root/host")" ''

finish
