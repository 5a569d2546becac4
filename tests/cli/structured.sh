#!/usr/bin/env bash
# tandem run --json-schema: the output is JSON that fits the schema, the same
# by every method that generates in order; methods that fill masks obey it, too.
. "$(dirname "$0")/lib.sh"

model=$tmp/tiny.gguf
run_ok "$TANDEM" synth --like tiny -o "$model"
schema='{"type":"object","properties":{"a":{"type":"integer","minimum":10,
"maximum":99},"b":{"enum":["x","yy"]},"c":{"type":"string","maxLength":4}},
"required":["a","b","c"],"additionalProperties":false}'

# Compare by text, without white space.
fits() { # WHAT TEXT
  checks=$((checks + 1))
  local flat a='"a":[1-9][0-9]' b='"b":"(x|yy)"' c='"c":"([^"\\]|\\.)*"' p
  flat=$(tr -d ' \n\t\r' <<<"$2")
  for p in "$a,$b,$c" "$a,$c,$b" "$b,$a,$c" "$b,$c,$a" "$c,$a,$b" "$c,$b,$a"; do
    ! grep -qE "^\{$p\}$" <<<"$flat" || return
  done
  fail "$1 does not fit: $2"
}

ended=0
for seed in 1 2 3 4 5 6 7 8; do
  run_ok "$TANDEM" run -m "$model" -p x --temp 2 --seed $seed -n 400 \
    --json-schema "$schema" --stats
  case $err in
  *'(eos)'* | *eos*)
    ended=$((ended + 1))
    fits "seed $seed" "$out"
    ;;
  esac
done
checks=$((checks + 1))
[ $ended -ge 4 ] || fail "only $ended of 8 texts ended"

# A file is the same as its text; drafts change nothing.
printf '%s' "$schema" >"$tmp/schema.json"
run_ok "$TANDEM" run -m "$model" -p x --temp 2 -n 120 --json-schema "$schema"
want=$out
for how in '--method autoregressive' '--method chain --draft pld' \
  '--method opt-tree --draft sam'; do
  # shellcheck disable=SC2086 # words
  run_ok "$TANDEM" run -m "$model" -p x --temp 2 -n 120 \
    --json-schema "$tmp/schema.json" $how
  check_eq "text with $how" "$out" "$want"
done

# Methods that fill masks.
for like in tiny-llada tiny-block; do
  run_ok "$TANDEM" synth --like $like -o "$tmp/$like.gguf"
done
while read -r like how; do
  # shellcheck disable=SC2086 # words
  run_ok "$TANDEM" run -m "$tmp/$like.gguf" -p x --temp 1.5 -n 400 \
    --json-schema "$schema" --method $how
  fits "$how" "$out"
done <<'END'
tiny-llada llada --block-steps 4
tiny-llada dream --order random
tiny-llada fast-dllm --threshold 0.05
tiny-llada fast-dllm --factor 3
tiny-llada multi-block --entropy 3
tiny-llada llada-npu --visible 0.02 --stable 0.1
tiny-llada llada-npu --prompt-chunks --refresh host
tiny-block block --threshold 0.05
tiny-block block --no-cache
tiny-block multi-block --threshold 0.05
tiny-block llada-npu --visible 0.05 --stable 0.1
END

# A text that ends too soon is incomplete JSON, with a message.
run_ok "$TANDEM" run -m "$model" -p x -n 2 --json --json-schema '{"minItems":1,"type":"array"}'
check_has 'JSON of a short text' "$out" '"stop":"length"'

# What is refused.
misuse "$TANDEM" run -m "$model" -p x \
  --json-schema '{"properties":{"a":{"pattern":"b"}}}'
check_has stderr "$err" "#/properties/a: the keyword 'pattern'"
misuse "$TANDEM" run -m "$model" -p x --json-schema '{"type":'
check_has stderr "$err" 'not valid JSON: line 1'
misuse "$TANDEM" run -m "$model" -p x --json-schema '{}' --ignore-eos
run "$TANDEM" run -m "$model" -p x --json-schema "$tmp/no-such"
check_eq 'status without the file' "$status" 1
check_has 'stderr without the file' "$err" no-such
finish
