#!/usr/bin/env bash
# A model grown from a smaller one generates the smaller one's text, in the
# shape of a real model.
. "$(dirname "$0")/lib.sh"
need_plain_library # half a gigabyte, and as many multiplications a token

grown=$tmp/grown.gguf
run_ok "$TANDEM" synth --like qwen2.5-0.5b --grow draft -o "$grown"
run_ok "$TANDEM" inspect "$grown"
check_has 'the shape' "$(tr -s ' ' <<<"$out")" \
  'shape 24 layers, width 896, 14 heads (2 of keys and values) of 64'
check_has 'the vocabulary' "$(tr -s ' ' <<<"$out")" 'vocabulary 151936 tokens'
check_has 'the context' "$(tr -s ' ' <<<"$out")" 'context 1024 tokens'

# Passes of so large a model take long: one prompt and few tokens, and more with
# TANDEM_TEST_FULL=yes.
say() { # MODEL TOKENS OPTION...: what it says behind $prompt
  run_ok "$TANDEM" run -m "$1" -p "$prompt" -n "$2" -t 1 --ctx 128 \
    --prefill-chunk 4 "${@:3}"
}
prompts=('Once upon a time') exact=2 more=4
if full; then
  prompts+=('The little dog saw a'
    $'Read: The bakery opens at 8:15.\nQuestion: When does it open?\nAnswer:')
  exact=20 more=20
fi
for prompt in "${prompts[@]}"; do
  # In float32: in int8 nearly equal tokens may change places.
  say draft $exact --precision f32
  want=$out
  say "$grown" $exact --precision f32 --layout rows
  check_eq "text of the grown model after '$prompt'" "$out" "$want"
  # Behind the first prompt nothing else is nearly as likely.
  if full; then
    say "$grown" $more
  else
    say draft $more
  fi
  want=$out
  say "$grown" $more --method sdnpu
  check_eq 'the same by sdnpu' "$out" "$want"
done

run "$TANDEM" synth --like tiny --grow target -o "$tmp/none.gguf"
check_eq 'status of a shape that is too small' "$status" 1
check_has stderr "$err" "target.gguf': the model cannot be grown into the shape tiny"
run "$TANDEM" synth --like qwen2.5-0.5b --grow "$tmp/no-such" -o "$tmp/none.gguf"
check_eq 'status without the model' "$status" 1
check_has stderr "$err" "$tmp/no-such"
[ ! -e "$tmp/none.gguf" ] || fail 'a file is left of a model that was refused'
misuse "$TANDEM" synth --like tiny --grow "$tmp/none.gguf" --seed 2 -o "$tmp/x"
check_has 'a seed of weights that are not drawn' "$err" '--seed cannot be used with --grow'
finish
