#!/usr/bin/env bash
# tandem-stress: every area passes, finds planted bugs, and reduces the failing
# schedule. TANDEM_STRESS_RUNS=N for more schedules of each area,
# TANDEM_TEST_FULL=yes for some more, TANDEM_SEED for others. The time of
# reducing a schedule, and the result, depend on the seed: with these all are
# reduced quickly.
. "$(dirname "$0")/lib.sh"

seed=${TANDEM_SEED:-1}
echo "seed $seed"
cd "$tmp" || exit 1

# ---- passing areas, and planted bugs ----------------------------------------
try() { # AREA RUNS STEPS SEED: of what is planted
  local area=$1 runs=${TANDEM_STRESS_RUNS:-$2} plan steps
  full || runs=${TANDEM_STRESS_RUNS:-$((runs / 4 + 1))}
  run_ok "$tandem_stress" "$area" --runs "$runs" --seed "$seed"
  check_has "$area" "$out" "$runs runs of seed $seed in "
  check_has "$area" "$out" 'all passed: '
  check_eq "stderr of $area" "$err" ''

  # Reducing takes many runs, which are those of other builds.
  ! sanitized || [ "$area" != faults ] || return
  run "$tandem_stress" "$area" --runs 300 --seed "${TANDEM_SEED:-$4}" --plant --out "$tmp"
  check_eq "status of $area with a plant" "$status" 1
  plan=$(sed -n 's/^tandem-stress: the schedule is in \([^;]*\); .*/\1/p' <<<"$err")
  check_has "$area" "$err" "again: tandem-stress --replay $plan --plant"
  steps=$(grep -cv '#\|^tandem-stress 1 ' "$plan")
  checks=$((checks + 1))
  [ "$steps" -le "$3" ] || fail "$area: $steps steps are left: $(cat "$plan")"
  check_eq "the plan of $area" "$(sed 1d <<<"$out")" "$(cat "$plan")"
  # It fails again with the planted bug, and not without.
  run "$tandem_stress" --replay "$plan" --plant --out "$tmp/none"
  check_eq "status of $area's plan" "$status" 1
  check_lacks "$area: what cannot be made smaller" "$err" 'the schedule is in'
  run_ok "$tandem_stress" --replay "$plan"
}
try va 20 6 8
try coherence 60 4 1
try ring 150 3 1
try faults 4 3 1
try flash 20 3 1

# ---- the window by hand: late room, and a region ------------------------------------
# Three slots: the unmapped one causes four more maps, each of which is
# refused.
cat >va.plan <<'END'
tandem-stress 1 va
open pages=1024 slots=3 defer=4 extended=8
map pages=100
map pages=100
map pages=100
unmap nth=1
look
ask
ask
touch nth=1
END
run_ok "$tandem_stress" --replay va.plan --json
check_has 'late room' "$out" '"maps":3,"unmaps":1,"refused":0,"late":2,'
check_has 'late room' "$out" '"touches":0,"outside":1,'
sed -i 's/^ask$/again/; s/^touch .*/touch nth=1 from=8 end=at/' va.plan
cat >>va.plan <<'END'
place pages=5
beside
place pages=3
reach nth=1 bytes=4096
free nth=0
place pages=2
reach nth=0 from=64 end=behind
END
run_ok "$tandem_stress" --replay va.plan --json
check_has 'a region' "$out" '"maps":4,"unmaps":1,"refused":1,"late":0,'
check_has 'a region' "$out" '"placed":3,"freed":1,"touches":2,"outside":1,'
run_ok "$tandem_stress" --help
check_has '--help' "$(tr -s ' \n' '  ' <<<"$out")" '2000 tries'

# ---- resources after a device was replaced ----------------------------------
# The first run after the start, when all descriptors are open.
printf '%s\n' 'tandem-stress 1 faults' 'pair restarts=3' \
  'fault verb=die kind=run at=2' >left.plan
run_ok "$tandem_stress" --replay left.plan
check_has 'a device replaced' "$out" '1 replaced'
run "$tandem_stress" --replay left.plan --plant --out "$tmp"
check_eq 'status with a file left open' "$status" 1
check_has stderr "$err" 'autoregressive: after a device was replaced (1 in total): '

# ---- one seed, the same figures ---------------------------------------------------
tally() { # SEED
  run_ok "$tandem_stress" ring --runs 20 --seed "$1" --json
  sed 's/"seconds":[^,]*,//' <<<"$out"
}
one=$(tally 5)
check_eq 'the same seed' "$(tally 5)" "$one"
check_has 'JSON' "$one" '"area":"ring","seed":5,"runs":20,"held":true'
[ "$(tally 6)" != "$one" ] || fail 'another seed gives the same'

# ---- all of them ------------------------------------------------------------------
run_ok "$tandem_stress" all --runs 1 --seed "$seed" --json
check_eq 'areas' "$(grep -c '"runs":1,.*"held":true' <<<"$out")" 5

# ---- Ctrl-C -----------------------------------------------------------------------
"$tandem_stress" ring --minutes 5 >out 2>err &
pid=$!
for ((i = 0; i < 100; i++)); do
  pgrep -P $pid >/dev/null && break
  sleep 0.1
done
kill -INT $pid
status=0
wait $pid || status=$?
check_eq 'status after SIGINT' "$status" 130
check_has 'stdout after SIGINT' "$(cat out)" 'all passed until the interruption'

# ---- misuse -----------------------------------------------------------------------
misuse "$tandem_stress"
misuse "$tandem_stress" everything
misuse "$tandem_stress" ring --runs 0
misuse "$tandem_stress" ring --replay x
printf 'tandem-stress 1 ring\nput units=0\n' >bad.plan
misuse "$tandem_stress" --replay bad.plan
check_has stderr "$err" "'bad.plan': line 2: 'units=0'"
run "$tandem_stress" --replay none.plan
check_eq 'status without the file' "$status" 1
left=$(find . "${TMPDIR:-/tmp}" -maxdepth 1 -name 'tandem-stress-*' -newer bad.plan)
check_eq 'left over' "$left" ''

finish
