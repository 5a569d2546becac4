#!/usr/bin/env bash
# The same numbers however the weights lie and whoever multiplies them; and the
# phone's clock, which is the same everywhere.
. "$(dirname "$0")/lib.sh"

model=$tmp/tiny.gguf
run_ok "$TANDEM" synth --like tiny --quant q4_0 --ffn-down q8_0 -o "$model"
prompt='Once upon a time, there was a little girl named Lily. She loved to'

json() { # KEY...: their values in $tmp/out
  local key
  for key in "$@"; do
    grep -o "\"$key\":[^,]*" "$tmp/out"
  done
}

# Hash of all logits, and the ids, of a greedy run.
numbers() { # OPTION...
  run_ok "$TANDEM" run -m "$model" -p "$prompt" -n 24 --ignore-eos --json "$@"
  json logits_hash logits_rows
  grep -o '"ids":\[[^]]*\]' "$tmp/out"
}

all=yes
! sanitized || all=no
for layout in rows tiles groups super; do
  for precision in f32 f16 f16-kv16 int8 npu; do
    case $all:$layout-$precision in
    no:rows-f32 | no:tiles-f16 | no:tiles-int8 | no:groups-f16-kv16) ;;
    no:super-f16 | no:super-npu | yes:*) ;;
    *) continue ;;
    esac
    how="--layout $layout --precision $precision"
    # shellcheck disable=SC2086 # several options
    {
      want=$(numbers $how)
      check_eq "numbers, $how, one thread" "$(numbers $how -t 1)" "$want"
      check_eq "numbers, $how, checked cache, other chunks, few slots" \
        "$(numbers $how --coherence check --prefill-chunk 5 --va-slots 3 \
          --threads 3)" "$want"
    }
    case $layout-$precision in
    tiles-int8) int8=$want ;;
    tiles-f16) f16=$want ;;
    super-f16) super=$want ;;
    esac
  done
done
checks=$((checks + 2))
[ "$int8" != "$f16" ] || fail 'int8 computes what f16 does'
[ "$super" != "$f16" ] || fail 'super-groups hold what the file does'

# Every instruction set gives the same bits.
for kern in base avx2 avx512 vnni amx; do
  for how in '--precision int8' '--precision f16' \
    '--precision npu --layout super'; do
    # shellcheck disable=SC2086 # several options
    want=$(numbers $how)
    # shellcheck disable=SC2086
    TANDEM_CPU=$kern run "$TANDEM" run -m "$model" -p "$prompt" -n 24 \
      --ignore-eos --json $how
    case $err in *'processor lacks it'*) continue ;; esac
    check_eq "numbers, $how, kernels $kern" \
      "$(json logits_hash logits_rows && grep -o '"ids":\[[^]]*\]' "$tmp/out")" \
      "$want"
  done
done

# ---- the phone's clock -------------------------------------------------------
phone() { # OPTION...
  run_ok "$TANDEM" run -m "$model" -p "$prompt" -n 24 --ignore-eos --json "$@"
  grep -o '"phone":{.*}' "$tmp/out" | sed 's/}.*/}/'
}

one=$(phone --clock soc:sd8gen3)
check_has 'phone time' "$one" '"clock":"soc:sd8gen3"'
check_has 'phone time' "$one" '"total_ps":'
check_eq 'phone time again' "$(phone --clock soc:sd8gen3)" "$one"
check_eq 'phone time of one thread' "$(phone --clock soc:sd8gen3 -t 1)" "$one"
check_eq 'phone time through a socket' \
  "$(phone --clock soc:sd8gen3 --doorbell socket --coherence check)" "$one"
checks=$((checks + 2))
[ "$(phone --clock soc:sd8gen2)" != "$one" ] || fail 'two phones are as fast'
[ -z "$(phone --clock wall)" ] || fail 'a phone on the wall'"'"'s clock'

# Padding is paid for: prompts of 10 and of 20 tokens fill one graph of 32.
paid() { # PROMPT
  run_ok "$TANDEM" run -m "$model" -p "$1" -n 1 --json --clock soc:sd8gen3 \
    --prefill-chunk 32 --no-bos
  grep -o '"matrix_tiles":[0-9]*' "$tmp/out"
}
check_eq 'tiles of a short prompt and of a longer one' \
  "$(paid 'One day')" "$(paid 'One day, there was a little dog')"

misuse "$TANDEM" run -m "$model" -p Hi --clock soc:nokia3310
check_has 'stderr of an unknown phone' "$err" nokia3310
misuse "$TANDEM" run -m "$model" -p Hi --clock sd8gen3
check_has 'stderr of a clock that is none' "$err" 'soc:sd8gen3'
finish
