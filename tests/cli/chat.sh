#!/usr/bin/env bash
# tandem chat: turns from a pipe, what is kept of them, and, on a terminal made
# by Python, edited lines and interrupted answers.
. "$(dirname "$0")/lib.sh"

model=$tmp/tiny.gguf
run_ok "$TANDEM" synth --like tiny -o "$model"

# chat TEXT OPTION...: the output for TEXT as standard input.
chat() {
  status=0
  printf '%b' "$1" | "$TANDEM" chat "${@:2}" >"$tmp/out" 2>"$tmp/err" ||
    status=$?
  # Bash warns of the zero bytes that it leaves out.
  { out=$(<"$tmp/out") err=$(<"$tmp/err"); } 2>/dev/null
}

# member NAME: of each line of $out, a number or a word.
member() {
  local line
  while read -r line; do
    [[ ! $line =~ .*\"$1\":\"?([^,}\"]*) ]] || printf '%s ' "${BASH_REMATCH[1]}"
  done <<<"$out"
}

# A line is a turn; only answers go to standard output. The first one is that
# of `tandem run --chat`.
run "$TANDEM" run -m "$model" --chat -p 'Hello' -n 12 --temp 3
want=$out
chat 'Hello\n' -m "$model" -n 12 --temp 3
check_eq 'status of a turn' "$status" 0
check_eq 'an answer' "$out" "$want"
check_eq 'stderr of a turn' "$err" ''
chat '\nHello\n\n/help\n' -m "$model" -n 12 --temp 3
check_eq 'an answer among empty lines' "$out" "$want"
check_has 'stderr of /help' "$err" /reset

# What was computed of a turn is not computed again, and changes nothing.
chat 'Hello\nAnd?\nWhy?\n' -m "$model" -n 9 --temp 3 --json
check_eq 'status of three turns' "$status" 0
check_eq 'turns' "$(member turn)" '1 2 3 '
read -r _ second third <<<"$(member prompt_tokens)"
read -r zero some more <<<"$(member cached_tokens)"
read -r first_n second_n _ <<<"$(member tokens)"
check_eq 'cached of the first' "$zero" 0
checks=$((checks + 2))
[ "$some" -gt "$first_n" ] && [ "$some" -lt "$second" ] ||
  fail "$some of $second tokens cached"
[ "$more" -ge $((second + second_n - 1)) ] && [ "$more" -lt "$third" ] ||
  fail "$more of $third tokens cached, after $second and $second_n"

# A saved conversation continues when loaded, with its settings; options of the
# command line have precedence.
chat "/set temp=3\nHello\n/save $tmp/kept.json\n" -m "$model" -n 12
check_eq 'the answer with /set' "$out" "$want"
check_eq 'mode of the saved file' "$(stat -c %a "$tmp/kept.json")" 600
check_has 'the saved file' "$(<"$tmp/kept.json")" '"temp": 3'
chat 'And?\n' -m "$model" --load "$tmp/kept.json" --json
check_has 'the turn after the loaded ones' "$(member tokens)" ' '
loaded=$(member prompt_tokens)
checks=$((checks + 1))
[ "$loaded" -gt 30 ] || fail "$loaded tokens after the loaded turns"
chat "/load $tmp/kept.json\nAnd?\n" -m "$model" --json
check_eq 'the same by /load' "$(member prompt_tokens)" "$loaded"
chat "/load $tmp/kept.json\n/reset\nHello\n" -m "$model" --json
checks=$((checks + 1))
[ "$(member prompt_tokens)" -lt "$loaded" ] || fail '/reset dropped nothing'
for bad in '{' '[]' '{"version":1}' '{"version":2,"turns":[]}' \
  '{"version":1,"turns":[{"role":"tool","content":"x"}]}' \
  '{"version":1,"turns":[{"role":"user","content":"x"}]}' \
  '{"version":1,"turns":[],"settings":{"method":"chain"}}' \
  '{"version":1,"turns":[],"settings":{"temp":-1}}'; do
  printf '%s' "$bad" >"$tmp/bad.json"
  chat 'Hello\n' -m "$model" --load "$tmp/bad.json"
  check_eq "status of $bad" "$status" 1
  check_has "stderr of $bad" "$err" bad.json
done
printf '{"version":2,"turns":[]}' >"$tmp/bad.json"
chat 'Hello\n' -m "$model" --load "$tmp/bad.json"
check_has 'a conversation of a later version' "$err" \
  'has version 2; this program supports version 1'

# Of many samples the one that is chosen is the answer, else the first.
chat '/set samples=2\nHello\nAnd?\n' -m "$model" -n 12 --temp 3 --json
check_eq 'status of turns of many samples' "$status" 0
check_eq 'turns of many samples' "$(member turn)" '1 2 '
first=${out%%$'\n'*} first=${first##*'"text":'}
chat 'Hello\n' -m "$model" -n 12 --temp 3 --json
alone=${out##*'"text":'}
check_eq 'the first of many samples' "${first%%,\"stop*}" "${alone%%,\"stop*}"
run "$TANDEM" run -m "$model" --chat -p 'Hello' -n 12 --temp 3 \
  --method mean-logprob -N 3
chosen=$out
chat '/method mean-logprob\n/set samples=3\nHello\n' -m "$model" -n 12 --temp 3
check_eq 'the likeliest of three samples' "$out" "$chosen"
chat '/set samples=0\nHello\n' -m "$model" -n 12 --temp 3
check_eq 'an answer where samples=0 was refused' "$out" "$want"
check_has 'stderr of samples=0' "$err" samples

# A full context is an error with numbers, and no turn is dropped.
chat 'Hello\n/set ctx=40\nHello again and again\n/reset\n' -m "$model" -n 3
check_eq 'status of a turn without room' "$status" 1
check_has 'stderr of a turn without room' "$err" 'has room for 40'
check_has 'stderr of a turn without room' "$err" /reset
chat 'Hello\n' -m "$model" --ctx 32 --temp 3 --seed 4 --json
check_has 'a turn until the context is full' "$(member stop)" context
check_has 'stderr of it' "$err" 'of 32 tokens is full'

# What cannot be set stays as it was.
chat '/method chian\n/method\n/set nothing=1\n/set temp=x\nHello\n/bad\n' \
  -m "$model" -n 12 --temp 3
check_eq 'the answer after the refused turn' "$out" "$want"
check_has stderr "$err" "unknown method 'chian'"
check_has stderr "$err" 'method autoregressive'
check_has stderr "$err" "there is no command '/bad'"
chat '/method chain\n/set draft=pld\nHello\n' -m "$model" -n 12 --temp 3
check_eq 'the answer by another method' "$out" "$want"
chat '/system Be brief.\nHello\n' -m "$model" -n 3 --json
with=$(member prompt_tokens)
chat 'Hello\n' -m "$model" -n 3 --json --system 'Be brief.'
check_eq 'a prompt by /system and --system' "$(member prompt_tokens)" "$with"

# Without a template the turns form one growing prompt.
plain=$tmp/plain.gguf
LC_ALL=C sed 's/tokenizer\.chat_template/tokenizer.gone_template/' \
  flash/models/draft.gguf >"$plain"
run_ok "$TANDEM" run -m "$plain" -p 'Once upon a time' -n 8
want=$out
chat 'Once upon a time\n' -m "$plain" -n 8
check_eq 'the text without a template' "$out" "$want"
check_eq 'number of warnings' "$(grep -c 'no known chat template' <<<"$err")" 1
chat '/system x\n' -m "$plain" -n 8
check_eq 'status of a system without a template' "$status" 1
misuse "$TANDEM" chat --no-such

# Lines that are typed are saved, unless --no-history is given.
if command -v script >/dev/null; then
  for options in '' --no-history; do
    # shellcheck disable=SC2086 # an option or none
    on_terminal XDG_STATE_HOME="$tmp/typed$options" "$TANDEM" chat -m "$model" \
      -n 1 $options <<<'Hello'
    check_eq "status of a chat on a terminal $options" "$status" 0
  done
  check_has 'the saved lines' \
    "$(cat "$tmp/typed/tandem/chat-history")" Hello
  check_eq 'what --no-history saves' \
    "$(find "$tmp/typed--no-history" -type f 2>/dev/null)" ''
fi

command -v python3 >/dev/null || skip 'the terminal: no python3'
run_ok python3 tests/cli/chat_terminal.py "$TANDEM" "$tmp/state"
check_has 'the terminal' "$out" 'stats: True'
check_has 'the terminal' "$out" 'status: 0'
said=$(<"$tmp/state/saved.json")
check_has 'a turn that was edited' "$said" '"Once upon a time"'
check_has 'a turn of two lines' "$said" '"one\ntwo"'
check_has 'a turn of a block' "$said" '"three\nfour"'
check_lacks 'the saved turns' "$said" dropped
check_eq 'mode of the lines' \
  "$(stat -c %a "$tmp/state/tandem/chat-history")" 600
finish
