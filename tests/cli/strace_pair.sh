#!/usr/bin/env bash
# scripts/strace-pair describes a run correctly with every doorbell.
. "$(dirname "$0")/lib.sh"

pair=$root/scripts/strace-pair

# What needs no tracing.
run "$pair" --help
check_eq 'status of --help' "$status" 0
check_has 'help' "$out" 'Usage: scripts/strace-pair'
for wrong in '' '-o' '--no-such-option' '-- run --device /tmp/x'; do
  # shellcheck disable=SC2086 # words
  run "$pair" $wrong
  check_eq "status of strace-pair $wrong" "$status" 2
  check_has "stderr of strace-pair $wrong" "$err" --help
done
run "$pair" -r "$tmp"
check_eq 'status of -r without traces' "$status" 1
check_has 'stderr' "$err" "'$tmp/host.strace'"
ln -s "$(command -v bash)" "$(command -v dirname)" "$tmp/"
run env PATH="$tmp" bash "$pair" run -m x -p x
check_eq 'status without strace' "$status" 1
check_has 'stderr' "$err" 'strace is not installed'

command -v strace >/dev/null 2>&1 || skip 'no strace'
strace -f -o "$tmp/try" true 2>/dev/null || skip 'strace is not permitted here'

# The leak checker cannot work in a process that is being traced.
export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0"
model=$tmp/tiny.gguf
run_ok "$TANDEM" synth --like tiny --seed 1 -o "$model"

# The numbers of a line of the totals.
totals() { # NAME
  sed -n "s/^ *$1 *\([0-9.][0-9. ]*\)\$/\1/p" "$tmp/out"
}

for bell in poll eventfd socket; do
  # Spinning for longer than any wait: with poll neither side sleeps.
  run_ok "$pair" -o "$tmp/$bell" -- run -m "$model" -p 'a b c' -n 6 \
    --ignore-eos -t 1 --doorbell "$bell" --spin 10000000
  [ "$status" -eq 0 ] || continue
  story=$out
  for part in 'creates tandem:ctrl' 'creates tandem:kv' 'creates tandem:io' \
    'creates tandem:weights0' "doorbell $bell, coherence off" \
    'descriptors: tandem:ctrl' 'welcome, 1 thread' 'tandem:weights0, ' \
    'maps 0x00001000 tandem:kv' '-> device: goodbye'; do
    check_has "$bell" "$story" "$part"
  done
  check_eq "ends of $bell" "$(grep -c 'exited with 0$' "$tmp/out")" 2
  checks=$((checks + 1))
  grep -q ' 0 unmaps$' "$tmp/out" || fail "$bell: no count of unmaps"
  # shellcheck disable=SC2046 # words
  set -- $(totals 'each of [0-9]*')
  check_eq "columns of $bell: $*" $# 6
  case $bell in
  poll)
    check_eq 'doorbells of a token with poll' "$*" '0.0 0.0 0.0 0.0 0.0 0.0'
    ;;
  *)
    checks=$((checks + 1))
    [ "${1%.*}" -ge 1 ] || fail "$bell: the host rings $1 times a token"
    # Each request is rung for, and each completion; some are heard merged.
    # The host rings once more, for its goodbye.
    # Over the whole run: a host that is awake anyway may see a completion,
    # and print its text, before the device has come to ring for it.
    # shellcheck disable=SC2046 # words
    set -- $(for span in 'up to the first text' 'up to the last text' \
      'after it'; do totals "$span"; done |
      awk '{ host += $1; device += $3 } END { print host, device }')
    check_eq "rings of $bell, host and device" "${1:-}" $((${2:-0} + 1))
    ;;
  esac
  run_ok "$pair" -r "$tmp/$bell"
  check_has "story of the kept traces of $bell" "$story" "$out"
done

# Without any spinning they sleep on futexes and are woken. On a busy machine
# it may be always the same side that comes late, so both are counted together.
run_ok "$pair" -- run -m "$model" -p 'a b c' -n 2 --ignore-eos --spin 0
# shellcheck disable=SC2046 # words
set -- $(totals 'up to the first text')
checks=$((checks + 1))
if [ $# -ne 6 ] || [ $(($1 + $3)) -lt 1 ] || [ $(($5 + $6)) -lt 1 ]; then
  fail "futexes of poll without spin: '$*'"
fi

# A small window: maps and unmaps are reported.
run_ok "$pair" -a -- run -m "$model" -p 'a b c' -n 2 --ignore-eos --va-slots 3
check_has 'three slots' "$out" 'unmaps 0x'

# A host that fails leaves no device running.
run "$pair" -o "$tmp/none" -- run -m "$tmp/none.gguf" -p x
check_eq 'status of a run without a model' "$status" 1
check_has 'stderr' "$err" 'none.gguf'
check_has 'story' "$out" 'host    exited with 1'
finish
