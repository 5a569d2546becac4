#!/usr/bin/env bash
# The programs of docs/examples/coherence: the checker names each mistake and
# the missing call, and reports nothing for the corrected code.
. "$(dirname "$0")/lib.sh"
demos=$(dirname "$TANDEM")/docs/examples/coherence

shows() { # PROGRAM KIND MISSING SYMPTOM
  run "$demos/$1"
  check_eq "status of $1" "$status" 1
  check_has "$1" "$out" "$2: demo ["
  check_has "$1" "$out" "missing: $3"
  check_has "$1" "$out" "$4"
  run_ok "$demos/$1" right
  check_lacks "$1, mended" "$out" 'demo ['
  check_lacks "$1, mended" "$out" "$4"
}

shows polling 'stale read' 'invalidate of demo [0, 4)' 'still waiting'
shows lazy_ranges 'DMA over dirty lines' 'clean of demo [2048, 4096)' \
  'last byte fetched is 0'
shows state_word 'torn line' 'invalidate of demo [0, 64)' 'and it is 1'
shows inputs_only 'lost write' 'clean of demo [4096, 4352)' 'twice 21 is 0'
shows early_channel 'stale read' 'invalidate of demo [128, 136)' \
  'received is 0'

# The document shows the whole output of these programs.
words() { tr -s ' \n' ' ' | sed 's/ $//'; }
for program in early_channel hexagon_runtime; do
  run "$demos/$program"
  check_eq "status of $program" "$status" 1
  check_eq "output of $program, as in docs/coherence.md" \
    "$(words <<<"$out")" "$(awk -v command="$program" '
      /^```/ { inside = 0 }
      inside
      /^\$ build/ && $0 ~ "/" command "$" { inside = 1 }' docs/coherence.md |
      words)"
done
run_ok "$demos/hexagon_runtime" right
check_eq 'hexagon_runtime, mended' "$out" "token 1 is right
token 2 is right"

programs=(docs/examples/coherence/*.c)
check_eq 'number of programs' "${#programs[@]}" 6
finish
