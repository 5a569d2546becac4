#!/usr/bin/env bash
# tandem tokenize and detokenize, on the vocabularies of other programs.
. "$(dirname "$0")/lib.sh"

run env TANDEM_MODELS="$tmp" "$TANDEM" tokenize -p x
check_eq 'status without any model' "$status" 1
check_has 'stderr' "$err" 'give a file by the option model (-m FILE)'
misuse "$TANDEM" tokenize -m x -p text -f file
misuse "$TANDEM" detokenize -m x --ids 1 -f file
run "$TANDEM" tokenize -m "$tmp/none.gguf" -p x
check_eq 'status without a model file' "$status" 1
check_has 'stderr' "$err" none.gguf

need_data tokenizers/ggml-vocab-qwen2.gguf
qwen=$TANDEM_DATA/tokenizers/ggml-vocab-qwen2.gguf
llama=$TANDEM_DATA/tokenizers/ggml-vocab-llama-spm.gguf

# tokens WHAT WANT OPTION...: the ids of $text, piped in.
tokens() {
  local what=$1 want=$2
  shift 2
  printf '%s' "$text" >"$tmp/text"
  run_ok "$TANDEM" tokenize "$@" -f "$tmp/text"
  check_eq "ids of $what" "$out" "$want"
}

text='Hello, world!'
tokens 'a text' '9707 11 1879 0' -m "$qwen"
tokens 'a text' '15043 29892 3186 29991' -m "$llama"
tokens 'a text with --bos' '1 15043 29892 3186 29991' -m "$llama" --bos
run_ok "$TANDEM" tokenize -m "$qwen" -p "$text"
check_eq 'ids of -p' "$out" '9707 11 1879 0'
run_ok "$TANDEM" tokenize -m "$qwen" -p "$text" --json
check_eq 'ids as JSON' "$out" \
  '{"version":1,"command":"tokenize","count":4,"ids":[9707,11,1879,0]}'
text=''
tokens 'no text' '' -m "$qwen"
text=$'Hello\n'
tokens 'a line, its end included' '9707 198' -m "$qwen"

text='<|im_start|>user'
tokens 'a control token with --special' '151644 872' -m "$qwen" --special
run_ok "$TANDEM" tokenize -m "$qwen" -p "$text"
check_lacks 'ids without --special' "$out" 151644
run_ok "$TANDEM" detokenize -m "$qwen" --ids '151644 872'
check_eq 'text without --special' "$out" user
run_ok "$TANDEM" detokenize -m "$qwen" --special --ids 151644,872
check_eq 'text with --special' "$out" "$text"

# Standard input is the default, and text comes back byte for byte.
printf ' two  lines\n\xf0\x9f\xa6\x99 \xe2\x82\xac\r\n' >"$tmp/text"
for model in "$qwen" "$llama"; do
  "$TANDEM" tokenize -m "$model" <"$tmp/text" >"$tmp/ids" &&
    "$TANDEM" detokenize -m "$model" -f - <"$tmp/ids" >"$tmp/back"
  check_eq 'status of the round trip' $? 0
  check_eq 'the round trip' "$(od -c <"$tmp/back")" "$(od -c <"$tmp/text")"
done

# Byte-level vocabularies hold any bytes; --raw gives them back.
for byte in {0..255}; do
  printf "\\x$(printf %x "$byte")a\\x$(printf %x $((255 - byte)))"
done >"$tmp/bytes"
for model in "$qwen" "$llama"; do
  "$TANDEM" tokenize -m "$model" <"$tmp/bytes" >"$tmp/ids" &&
    "$TANDEM" detokenize -m "$model" --raw <"$tmp/ids" >"$tmp/back"
  check_eq 'status of the round trip of all bytes' $? 0
  check_eq 'all bytes' "$(od -c <"$tmp/back")" "$(od -c <"$tmp/bytes")"
done

# What is no id is named, and nothing is written.
for ids in '1 x 2' '1 -1' '1 151646' '1 99999999999999999999' '1.5' '0x10'; do
  run "$TANDEM" detokenize -m "$qwen" --ids "$ids"
  check_eq "status of ids '$ids'" "$status" 1
  check_eq "stdout of ids '$ids'" "$out" ''
  check_has "stderr of ids '$ids'" "$err" 'id number '
done
check_has 'stderr' "$err" "'0x10'"

if [ -w /dev/full ]; then
  run bash -c '"$TANDEM" tokenize -m "$0" -p x >/dev/full' "$qwen"
  check_eq 'status of a full disk' "$status" 1
fi
finish
