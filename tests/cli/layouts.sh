#!/usr/bin/env bash
# The same numbers however the weights lie and whoever multiplies them; and the
# phone's clock, which is the same everywhere.
. "$(dirname "$0")/lib.sh"

model=$tmp/tiny.gguf
run_ok "$TANDEM" synth --like tiny --quant q4_0 --ffn-down q8_0 -o "$model"
prompt='Once upon a time, there was a little girl named Lily. She loved to'

ask=("$TANDEM" run -m "$model" -p "$prompt" -n 8 --ignore-eos --json)

# Of a greedy run the hash of all logits, their number, and the ids, in $got.
numbers() { # OPTION...
  run_ok "${ask[@]}" "$@"
  take_numbers
}
take_numbers() {
  got=
  [[ $out =~ \"logits_hash\":\"[0-9a-f]+ ]] && got=${BASH_REMATCH[0]}
  [[ $out =~ \"logits_rows\":[0-9]+ ]] && got+=" ${BASH_REMATCH[0]}"
  [[ $out =~ \"ids\":\[[0-9,]+ ]] && got+=" ${BASH_REMATCH[0]}"
}

# Every layout and precision, and combinations that only some layouts have:
# int8 differs from f16 only with tiles, and the cache has the same form with
# all.
declare -A want some=([rows]='f32 f16 f16-kv16 npu'
  [tiles]='f32 f16 f16-kv16 int8 npu' [groups]='f16 npu' [super]='f32 f16 npu')
for layout in rows tiles groups super; do
  ! full || some[$layout]='f32 f16 f16-kv16 int8 npu'
  for precision in ${some[$layout]}; do
    how="--layout $layout --precision $precision"
    # shellcheck disable=SC2086 # several options
    numbers $how -t 1
    want[$how]=$got
    check_has "numbers, $how" "$got" ' "logits_rows":8 "ids":['
    # shellcheck disable=SC2086
    numbers $how --coherence check --prefill-chunk 5 --va-slots 3 --threads 3
    check_eq "numbers, $how, checked cache, other chunks, few slots, threads" \
      "$got" "${want[$how]}"
  done
done
f16=${want['--layout tiles --precision f16']}
checks=$((checks + 2))
[ "${want['--layout tiles --precision int8']}" != "$f16" ] ||
  fail 'int8 computes what f16 does'
[ "${want['--layout super --precision f16']}" != "$f16" ] ||
  fail 'super-groups hold what the file does'

# Every instruction set gives the same bits.
for kern in base avx2 avx512 vnni amx; do
  for how in '--layout tiles --precision int8' '--layout tiles --precision f16' \
    '--layout super --precision npu'; do
    # shellcheck disable=SC2086 # several options
    TANDEM_CPU=$kern run "${ask[@]}" $how
    case $err in *'CPU lacks the instructions'*) continue 2 ;; esac
    take_numbers
    check_eq "numbers, $how, kernels $kern" "$got" "${want[$how]}"
  done
done

# ---- the phone's clock -------------------------------------------------------
phone() { # OPTION...: in $got
  run_ok "${ask[@]}" "$@"
  got=
  [[ $out =~ \"phone\":\{[^}]*\} ]] && got=${BASH_REMATCH[0]}
}
check_phone() { # WHAT OPTION...
  phone "${@:2}"
  check_eq "$1" "$got" "$one"
}

phone --clock soc:sd8gen3
one=$got
check_has 'phone time' "$one" '"clock":"soc:sd8gen3"'
check_has 'phone time' "$one" '"total_ps":'
! full || check_phone 'phone time again' --clock soc:sd8gen3
check_phone 'phone time of one thread, through a socket' \
  --clock soc:sd8gen3 -t 1 --doorbell socket --coherence check
checks=$((checks + 2))
phone --clock soc:sd8gen2
[ "$got" != "$one" ] || fail 'two phones are as fast'
phone --clock wall
[ -z "$got" ] || fail 'a phone on the wall'"'"'s clock'

# Padding is paid for: prompts of 10 and of 20 tokens fill one graph of 32.
paid() { # PROMPT
  run_ok "$TANDEM" run -m "$model" -p "$1" -n 1 --json --clock soc:sd8gen3 \
    --prefill-chunk 32 --no-bos
  json matrix_tiles
}
check_eq 'tiles of a short prompt and of a longer one' \
  "$(paid 'One day')" "$(paid 'One day, there was a little dog')"

misuse "$TANDEM" run -m "$model" -p Hi --clock soc:nokia3310
check_has 'stderr of an unknown phone' "$err" nokia3310
misuse "$TANDEM" run -m "$model" -p Hi --clock sd8gen3
check_has 'stderr of a clock that is none' "$err" 'soc:sd8gen3'
finish
