#!/usr/bin/env bash
# Weights and logits that are infinite or not a number: a text is written with a
# warning and a count, figures are not.
. "$(dirname "$0")/lib.sh"

model=$tmp/m.gguf
run_ok "$TANDEM" synth --like tiny --quant q8_0 -o "$tmp/good.gguf"
run_ok "$TANDEM" inspect "$tmp/good.gguf"
listing=$out
echo 'The dog has a red kite and it is a good dog' >"$tmp/text"

# spoil TENSOR BYTE OCTAL...: overwrite bytes of it in a copy.
spoil() {
  local at
  at=$(awk -v name="$1" '$1 == name { print $NF }' <<<"$listing")
  cp "$tmp/good.gguf" "$model"
  # shellcheck disable=SC2059 # octal escapes
  printf "$3" | dd of="$model" bs=1 seek=$((at + $2)) conv=notrunc status=none
}

# An undamaged model passes.
run_ok "$TANDEM" run -m "$tmp/good.gguf" -p Hi -n 4 --json
check_eq 'stderr of a good model' "$err" ''
is 'rows of a good model' rows_not_finite 0
is 'weights of a good model' weights_not_finite 0

# bad TENSOR BYTE OCTAL WEIGHTS: expect so many bad weights in it.
bad() {
  local what="$1 + $2" weights=$4
  spoil "$1" "$2" "$3"
  run "$TANDEM" run -m "$model" -p Hi -n 4 --json --stats
  # The state may be none that a layer computes: that is an error as ever.
  if [ "$status" -eq 0 ]; then
    check_has "stderr, $what" "$err" \
      "warning: $weights weights of the model file are infinite or not a number"
  else
    check_has "stderr, $what" "$err" 'a hidden state'
  fi
  is "weights, $what" weights_not_finite "$weights"
  check_has "--stats, $what" "$err" ", $weights weights of the model file"
  printf '%s\n' 'A dog has' >"$tmp/prompts.txt"
  for command in "perplexity $tmp/text" "eval $tmp/prompts.txt -n 3" \
    "logits --ids 40,41,42 -o $tmp/logits"; do
    # shellcheck disable=SC2086 # words
    run "$TANDEM" $command -m "$model"
    check_eq "status of ${command%% *}, $what" "$status" 1
    case $err in
    *"$weights weights of the model file"* | *'a hidden state'*) checks=$((checks + 1)) ;;
    *) fail "${command%% *}, $what, prints '$err'" ;;
    esac
  done
  checks=$((checks + 1))
  [ ! -e "$tmp/logits" ] || fail "logits are left, $what"
  run "$TANDEM" convert "$model" "$tmp/m.tdm"
  check_eq "status of convert, $what" "$status" 1
  check_has "convert, $what" "$err" 'infinite or not a number'
}

bad output_norm.weight 8 '\000\000\300\177' 1           # NaN
bad output_norm.weight 0 '\000\000\200\377' 1           # -infinity
bad blk.1.attn_norm.weight 4 '\001\000\200\177' 1       # NaN
bad blk.2.ffn_norm.weight 4 '\000\000\200\177' 1        # infinity
bad blk.0.ffn_gate.weight 34 '\000\176' 32              # a scale
bad blk.3.attn_v.weight 68 '\000\174' 32
bad token_embd.weight 340 '\000\374' 32

# Weights that are numbers, and logits that are none.
spoil output_norm.weight 0 '\377\377\177\177\377\377\177\177'
run "$TANDEM" run -m "$model" -p Hi -n 4 --json
check_eq 'status with huge norms' "$status" 0
check_has 'stderr with huge norms' "$err" 'rows of logits hold values'
is 'weights with huge norms' weights_not_finite 0
checks=$((checks + 1))
member rows_not_finite
[ "$it" -gt 0 ] || fail "no rows counted: $out"
run "$TANDEM" logits -m "$model" --ids 40,41,42,43,44 -o "$tmp/logits"
check_eq 'status of logits with huge norms' "$status" 1
check_has 'stderr of logits with huge norms' "$err" 'of 5 rows of logits'

# Logits that are numbers, but larger than any model's: 1e32 in the norm.
spoil output_norm.weight 0 '\256\305\235\164'
run "$TANDEM" run -m "$model" -p Hi -n 4 --json
check_eq 'status with large norms' "$status" 0
check_has 'stderr with large norms' "$err" 'beyond 2^56'
check_eq 'warnings with large norms' "$(grep -c warning: <<<"$err")" 1
finish
