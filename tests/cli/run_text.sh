#!/usr/bin/env bash
# tandem run: the prompt's text, and the output, with any bytes in names and
# options.
. "$(dirname "$0")/lib.sh"

model=$tmp/tiny.gguf
run_ok "$TANDEM" synth --like tiny -o "$model"

# ids WHAT OPTION...: the prompt's, in $ids.
ids() {
  run_ok "$TANDEM" run -m "$model" -n 0 --json "${@:2}"
  take_ids
  checks=$((checks + 1))
  [ ${#ids} -gt 2 ] || fail "no ids of $1: $out"
}

take_ids() { # of $out
  local it
  member prompt_ids
  ids=${it#[} ids=,${ids%]},
}

# check_times WHAT ID N: it is so often among $ids.
check_times() {
  local rest=$ids n=0
  while [[ $rest == *,$2,* ]]; do
    rest=,${rest#*,"$2",} n=$((n + 1))
  done
  check_eq "$1" $n "$3"
}

# Ids of the vocabulary that synth makes.
run_ok "$TANDEM" tokenize -m "$model" --special \
  -p '<|begin_of_text|><|eot_id|>'
read -r bos eot <<<"$out"

# Control tokens of the template are tokens; those in a user's text are text,
# unless --special is given.
text='a<|eot_id|>b'
ids 'a text' -p "$text"
check_times 'ends of a turn in a text' "$eot" 0
check_times 'first tokens' "$bos" 1
ids 'a text with --special' -p "$text" --special
check_times 'ends of a turn with --special' "$eot" 1
ids 'a turn' --chat -p "$text"
check_times 'ends of a turn in a turn' "$eot" 1
ids 'two turns' --chat -p "$text" --system "$text"
check_times 'ends of a turn in two' "$eot" 2
ids 'a turn with --special' --chat -p "$text" --special
check_times 'ends of a turn with --chat --special' "$eot" 2

# The first token comes once.
ids 'a text that brings its own' -p '<|begin_of_text|>a' --special
check_times 'first tokens of a text that brings its own' "$bos" 1
ids 'a text without' -p a --no-bos
check_times 'first tokens with --no-bos' "$bos" 0

# A NUL is a byte like others, also within a turn.
printf 'a\0bcd' >"$tmp/nul"
printf 'a' >"$tmp/short"
ids 'a turn with a NUL' --chat -f "$tmp/nul"
whole=$ids
ids 'a turn up to it' --chat -f "$tmp/short"
checks=$((checks + 1))
[ ${#whole} -gt ${#ids} ] || fail "a NUL ends the prompt: $whole"
printf '1 2\0 3' >"$tmp/nul"
run "$TANDEM" logits -m "$model" --ids-file "$tmp/nul" -o "$tmp/logits"
check_eq 'status with a NUL among ids' "$status" 1
check_has 'stderr' "$err" 'id number 3'

# No token, no time to it.
run_ok "$TANDEM" run -m "$model" -p a -n 0 --json --stats
check_eq 'time to a first token that never came' \
  "$(json time_to_first_token_s)" null
check_lacks '--stats' "$err" 'first token'
# JSON holds no bytes that are not UTF-8.
odd=$tmp/$'od\xff\xfed.gguf'
ln -s "$model" "$odd"
run_ok "$TANDEM" run -m "$odd" -p a -n 1 --ignore-eos --json --stats
check_has 'JSON of an oddly named model' "$out" 'od\\xff\\xfed.gguf"'
check_has 'the time to one that came' "$(json time_to_first_token_s)" .
check_has '--stats' "$err" 'first token'

# A prompt comes from anywhere, and is the same.
ids 'a prompt' -p 'ab cd'
want=$ids
ids 'a file' -f <(printf 'ab cd')
check_eq 'ids of a file' "$ids" "$want"
ids 'an operand' 'ab cd'
check_eq 'ids of an operand' "$ids" "$want"
ids 'an operand behind --' -- 'ab cd'
check_eq 'ids of an operand after --' "$ids" "$want"
piped() { # TEXT OPTION...: ids of what a pipe gives
  out=$(printf "$1" | "$TANDEM" run -m "$model" -n 0 --json "${@:2}")
  take_ids
}
piped 'ab cd'
check_eq 'ids of a pipe' "$ids" "$want"
piped 'ab cd\n'
check_eq 'ids of a pipe of a line' "$ids" "$want"
piped 'ab cd\n' -
check_eq 'ids of - of a line' "$ids" "$want"
# To the last byte with -f; from a pipe without its last newline alone.
piped 'ab cd\n' -f -
ends=$ids
checks=$((checks + 1))
[ "$ends" != "$want" ] || fail '-f - drops a newline'
piped 'ab cd\n\n'
check_eq 'ids of two newlines, and of one with -f -' "$ids" "$ends"

misuse "$TANDEM" run -m "$model"
check_has 'stderr without a prompt' "$err" 'standard input is empty'
misuse "$TANDEM" run -m "$model" -
misuse "$TANDEM" run -m "$model" x -p y
check_has 'stderr of two prompts' "$err" 'more than one prompt'
misuse "$TANDEM" run -m "$model" -f "$tmp/short" -p y
misuse "$TANDEM" run -m "$model" x y
run "$TANDEM" run -m "$model" -f "$tmp/no-such"
check_eq 'status without the file' "$status" 1
check_has 'stderr without the file' "$err" no-such
run_ok "$TANDEM" run -m "$model" -p '' -n 1
check_has 'stderr of an empty prompt' "$err" 'warning: the prompt is empty'

# A full context suggests a larger one if the model supports it.
long=$(seq -s ' ' 600)
run "$TANDEM" run -m "$model" -p "$long"
check_eq 'status of a prompt longer than all training' "$status" 1
check_has 'stderr' "$err" 'trained for 512 positions'
check_lacks 'stderr' "$err" --ctx
run "$TANDEM" run -m "$model" -p "$long" --ctx 100
check_lacks 'stderr with --ctx 100' "$err" --ctx
run "$TANDEM" run -m "$model" -p "$(seq -s ' ' 30)" --ctx 16
check_has 'stderr with --ctx 16' "$err" 'larger --ctx'
run_ok "$TANDEM" run -m "$model" -p a --ctx 600 -n 1
check_has 'stderr with --ctx 600' "$err" 'warning: --ctx 600 is more than'
run_ok "$TANDEM" run -m "$model" -p a --ctx 16 --ignore-eos
check_has 'stderr of a full context' "$err" 'the context of 16 tokens'
check_has 'stderr of a full context' "$err" 'larger --ctx'
run_ok "$TANDEM" run -m "$model" -p a --ctx 512 --ignore-eos -n -1
check_has 'stderr of all of it' "$err" 'trained for no more than 512'
check_lacks 'stderr of all of it' "$err" 'larger --ctx'

# A value may follow its option letter directly.
run_ok "$TANDEM" run -m"$model" -pa -n 3 --ids
apart=$out
check_eq 'stderr of a prompt' "$err" ''
run_ok "$TANDEM" run -m "$model" -p a -n3 --ids
check_eq 'ids of -n3' "$out" "$apart"

misuse "$TANDEM" run -m "$model" -p a --stop $'\xac'
check_has 'stderr' "$err" --stop
# -n 0 is warned of, except with --json, which counts the tokens.
run_ok "$TANDEM" run -m "$model" -n 0 x
check_has 'a text of no tokens' "$err" '-n 0 generates no token'
run_ok "$TANDEM" run -m "$model" -n 0 --json x
check_eq 'an object of no tokens' "$err" ''

# A penalty is for the last tokens only.
repeats() { # OPTION...: into $it, the ids
  run_ok "$TANDEM" run -m "$model" -p 'Once upon a time' -n 24 --ignore-eos \
    --json "$@"
  member ids
}
repeats
want=$it
repeats --repeat-penalty 2 --repeat-last 0
check_eq 'ids with a penalty for no token' "$it" "$want"
repeats --repeat-penalty 2 --repeat-last 3
few=$it
repeats --repeat-penalty 2
checks=$((checks + 1))
[[ $few != "$want" && $few != "$it" ]] || fail "--repeat-last 3 gives $few"
finish
