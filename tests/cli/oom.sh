#!/usr/bin/env bash
# Failing allocations: the test itself detects errors; and some allocations of
# a few commands and of a device fail, each with one message and nothing left
# over. scripts/test --all and `make oom` fail every single one;
# TANDEM_TEST_FULL=yes fails two of every command.
. "$(dirname "$0")/lib.sh"

oom=tests/oom/run
build=$(dirname "$TANDEM")
[ -e "$build/oom/oom.so" ] ||
  skip "no $build/oom/oom.so: not for builds with a sanitizer"

run_ok $oom --help
check_has help "$out" 'Usage: '
misuse $oom
misuse $oom -O "$build" --in nobody
misuse $oom -O "$build" nonsense
run_ok $oom -O "$build" --self-test

seed=${TANDEM_SEED:-1}
echo "seed $seed (TANDEM_SEED=N for others)"
sample() { # N OPTION...: of each command N allocations, others by each seed
  run $oom -O "$build" --seed "$seed" --sample "$@"
  checks=$((checks + 1))
  [ "$status" -eq 0 ] || fail "allocations that fail, --sample $*:
$(grep -v ' 0 wrong' <<<"$out")$err"
  check_has "the tally of --sample $*" "$out" ' commands, 0 wrong'
}
if full; then
  sample 2
  sample 2 --kind map convert logits run run-streamed
  sample 6 --in device run
  sample 2 --in device --kind map run
else
  sample 2 tokenize inspect-json convert run
  sample 1 --kind map run
  sample 2 --in device run
  sample 1 --in device --kind map run
fi
finish
