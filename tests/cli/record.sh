#!/usr/bin/env bash
# scripts/record-outputs: two records of one build are equal, and the
# differences between two records are named.
. "$(dirname "$0")/lib.sh"

record=scripts/record-outputs
unset TANDEM_DATA # what is made here is enough
build=$(dirname "$TANDEM")

# Two methods: one of a causal and one of a diffusion model.
only=method-l
! full || only=method-
run_ok $record -O "$build" --quick --only $only "$tmp/a"
check_has 'the output' "$out" ' runs in '
run_ok $record -O "$build" --quick --only $only -j 1 "$tmp/b"
run_ok $record --compare "$tmp/a" "$tmp/b"
check_has 'two records of one build' "$out" ' runs the same, 0 not'
lever=$(<"$tmp/a/run/method-lever.txt")
check_has 'the record' "$lever" $'\nlogits_hash "'
check_has 'what the wall clock measured' "$lever" $'\ntotal_s WALL'
check_has 'what the phone takes' "$lever" $'\nphone.total_ps '
check_lacks 'what the phone takes' "$(grep ^phone "$tmp/a"/run/*)" WALL
check_eq 'runs that failed' \
  "$(grep -L '^status 0$' "$tmp/a"/run/*.txt)" ''

# ---- a difference is found ------------------------------------------------
sed -i 's/^phone.total_ps .*/phone.total_ps 1/' "$tmp/b/run/method-lever.txt"
rm "$tmp/b/run/method-llada.txt"
echo 'status 0' >"$tmp/b/run/method-other.txt"
run $record --compare "$tmp/a" "$tmp/b"
check_eq 'status of a comparison that differs' "$status" 1
check_has 'the comparison' "$out" 'DIFFERS run/method-lever'
check_has 'the comparison' "$out" '+phone.total_ps 1'
check_has 'the comparison' "$out" 'GONE    run/method-llada'
check_has 'the comparison' "$out" 'NEW     run/method-other'
check_has 'the comparison' "$out" ' runs the same, 3 not'

# ---- help apart -----------------------------------------------------------
run_ok $record -O "$build" --quick --only help/run "$tmp/c"
run_ok cp -r "$tmp/c" "$tmp/d"
echo more >>"$tmp/d/help/run.txt"
mkdir "$tmp/c/run" "$tmp/d/run"
cp "$tmp/a/run/method-lever.txt" "$tmp/c/run"
cp "$tmp/a/run/method-lever.txt" "$tmp/d/run"
run $record --compare "$tmp/c" "$tmp/d"
check_eq 'status with another help text' "$status" 1
run_ok $record --compare --no-help "$tmp/c" "$tmp/d"

# ---- wording apart --------------------------------------------------------
rm "$tmp/c/help/run.txt" "$tmp/d/help/run.txt"
sed -i 's/^method "/by "/; s/^\$ .*/$ another command line/' \
  "$tmp/d/run/method-lever.txt"
run $record --compare --no-help "$tmp/c" "$tmp/d"
check_eq 'status with another key' "$status" 1
run_ok $record --compare --ids-only "$tmp/c" "$tmp/d"
sed -i 's/^\(logits_hash "\)./\1x/' "$tmp/d/run/method-lever.txt"
run $record --compare --ids-only "$tmp/c" "$tmp/d"
check_eq 'status with another hash' "$status" 1

if full; then
  run_ok $record -O "$build" --quick --list
  check_has 'the list of runs' "$out" help/man
fi
run_ok $record -O "$build" --quick --list --no-help
check_has 'the list of runs' "$out" run/method-chain
check_lacks 'the list without help' "$out" help/

# ---- misuse ---------------------------------------------------------------
run_ok $record --help
check_has 'help' "$out" 'Usage: '
misuse $record --nonsense
misuse $record "$tmp/e"
misuse $record -O "$tmp" "$tmp/e"
misuse $record -O "$build" "$tmp/a"
misuse $record --compare "$tmp/a"
misuse $record --compare "$tmp/a" "$tmp/none"
misuse $record -O "$build" --quick --only nonsense "$tmp/e"
finish
