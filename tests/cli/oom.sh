#!/usr/bin/env bash
# Allocations that fail, a sample of them: every command but run (oom_run.sh)
# says so in one sentence, and leaves nothing; so does a device. `make oom`
# fails every single one.
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

seed=${TANDEM_SEED:-$RANDOM}
echo "seed $seed (TANDEM_SEED repeats it)"
sample() { # N OPTION...: of each command N allocations, others by each seed
  run $oom -O "$build" --seed "$seed" --sample "$@"
  checks=$((checks + 1))
  [ "$status" -eq 0 ] || fail "allocations that fail, --sample $*:
$(grep -v ' 0 wrong' <<<"$out")$err"
  check_has "the tally of --sample $*" "$out" ' commands, 0 wrong'
}
mapfile -t names < <($oom -O "$build" --list | grep -v '^run')
sample 12 "${names[@]}"
sample 2 --kind map convert verify logits
sample 12 --in device run run-check
sample 4 --in device --kind map run
finish
