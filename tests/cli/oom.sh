#!/usr/bin/env bash
# Allocations that fail, two of each command and of a device: it says so in
# one sentence, and leaves nothing. scripts/test fails more of them, `make oom`
# every single one.
. "$(dirname "$0")/lib.sh"

oom=tests/oom/run
[ -z "${TANDEM_OOM_APART:-}" ] ||
  skip 'more of them fail in a stage of their own'
build=$(dirname "$TANDEM")
[ -e "$build/oom/oom.so" ] ||
  skip "no $build/oom/oom.so: not for builds with a sanitizer"

run_ok $oom --help
check_has help "$out" 'Usage: '
misuse $oom
misuse $oom -O "$build" --in nobody
misuse $oom -O "$build" nonsense
run_ok $oom -O "$build" --self-test

seed=${TANDEM_SEED:-$RANDOM}
echo "seed $seed (TANDEM_SEED repeats it)"
sample() { # N OPTION...: of each command N allocations, others by each seed
  run $oom -O "$build" --seed "$seed" --sample "$@"
  checks=$((checks + 1))
  [ "$status" -eq 0 ] || fail "allocations that fail, --sample $*:
$(grep -v ' 0 wrong' <<<"$out")$err"
  check_has "the tally of --sample $*" "$out" ' commands, 0 wrong'
}
sample 2
sample 2 --kind map convert logits run run-streamed
sample 6 --in device run
sample 2 --in device --kind map run
finish
