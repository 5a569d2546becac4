#!/usr/bin/env bash
# tandem stress: every area holds, finds what is planted, and makes it small.
# TANDEM_STRESS_RUNS=N for more schedules of each area, TANDEM_SEED for others.
# How long a plan takes to be made small, and how small it becomes, depends on
# the seed: here it is always the same.
# Time limit: 3 times what others have.
. "$(dirname "$0")/lib.sh"

seed=${TANDEM_SEED:-1}
echo "seed $seed"
cd "$tmp" || exit 1

# ---- what holds, and what is planted --------------------------------------------
try() { # AREA RUNS STEPS
  local area=$1 runs=${TANDEM_STRESS_RUNS:-$2} plan steps
  ! sanitized || runs=$((runs / 4 + 1))
  run_ok "$TANDEM" stress "$area" --runs "$runs" --seed "$seed"
  check_has "$area" "$out" "$runs runs of seed $seed in "
  check_has "$area" "$out" 'all held: '
  check_eq "stderr of $area" "$err" ''

  # Making it small takes many runs, which are those of other builds.
  case $area in va | faults) ! sanitized || return ;; esac
  run "$TANDEM" stress "$area" --runs 300 --seed "$seed" --plant --out "$tmp"
  check_eq "status of $area with a plant" "$status" 1
  plan=$(sed -n 's/^tandem: the plan is in \([^;]*\); .*/\1/p' <<<"$err")
  check_has "$area" "$err" "again: tandem stress --replay $plan --plant"
  steps=$(grep -cv '#\|^tandem-stress 1 ' "$plan")
  checks=$((checks + 1))
  [ "$steps" -le "$3" ] || fail "$area: $steps steps are left: $(cat "$plan")"
  check_eq "the plan of $area" "$(sed 1d <<<"$out")" "$(cat "$plan")"
  # It fails again with what is planted, and not without.
  run "$TANDEM" stress --replay "$plan" --plant --out "$tmp/none"
  check_eq "status of $area's plan" "$status" 1
  check_lacks "$area: what cannot be made smaller" "$err" 'the plan is in'
  run_ok "$TANDEM" stress --replay "$plan"
}
try va 20 6
try coherence 60 4
try ring 150 3
try faults 4 3
try flash 20 3

# ---- one seed, the same figures ---------------------------------------------------
tally() { # SEED
  run_ok "$TANDEM" stress ring --runs 20 --seed "$1" --json
  sed 's/"seconds":[^,]*,//' <<<"$out"
}
one=$(tally 5)
check_eq 'the same seed' "$(tally 5)" "$one"
check_has 'JSON' "$one" '"area":"ring","seed":5,"runs":20,"held":true'
[ "$(tally 6)" != "$one" ] || fail 'another seed gives the same'

# ---- all of them ------------------------------------------------------------------
run_ok "$TANDEM" stress all --runs 2 --seed "$seed" --json
check_eq 'areas' "$(grep -c '"runs":2,.*"held":true' <<<"$out")" 5

# ---- Ctrl-C -----------------------------------------------------------------------
"$TANDEM" stress ring --minutes 5 >out 2>err &
pid=$!
for ((i = 0; i < 100; i++)); do
  pgrep -P $pid >/dev/null && break
  sleep 0.1
done
kill -INT $pid
status=0
wait $pid || status=$?
check_eq 'status after SIGINT' "$status" 130
check_has 'stdout after SIGINT' "$(cat out)" 'all held until the interruption'

# ---- misuse -----------------------------------------------------------------------
misuse "$TANDEM" stress
misuse "$TANDEM" stress everything
misuse "$TANDEM" stress ring --runs 0
misuse "$TANDEM" stress ring --replay x
printf 'tandem-stress 1 ring\nput units=0\n' >bad.plan
misuse "$TANDEM" stress --replay bad.plan
check_has stderr "$err" "'bad.plan': line 2: 'units=0'"
run "$TANDEM" stress --replay none.plan
check_eq 'status without the file' "$status" 1
left=$(find . "${TMPDIR:-/tmp}" -maxdepth 1 -name 'tandem-stress-*' -newer bad.plan)
check_eq 'left behind' "$left" ''

finish
