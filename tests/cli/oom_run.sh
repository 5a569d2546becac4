#!/usr/bin/env bash
# As oom.sh, of tandem run: each method, streaming, drafts.
. "$(dirname "$0")/lib.sh"

oom=tests/oom/run
build=$(dirname "$TANDEM")
[ -e "$build/oom/oom.so" ] ||
  skip "no $build/oom/oom.so: not for builds with a sanitizer"
seed=${TANDEM_SEED:-$RANDOM}
echo "seed $seed (TANDEM_SEED repeats it)"

mapfile -t names < <($oom -O "$build" --list | grep '^run')
for what in '--sample 12' '--sample 3 --kind map'; do
  # shellcheck disable=SC2086 # words
  run $oom -O "$build" --seed "$seed" $what "${names[@]}"
  checks=$((checks + 1))
  [ "$status" -eq 0 ] || fail "allocations that fail, $what:
$(grep -v ' 0 wrong' <<<"$out")$err"
  check_has "the tally of $what" "$out" ' commands, 0 wrong'
done
finish
