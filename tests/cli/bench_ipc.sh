#!/usr/bin/env bash
# tandem bench ipc: that everything is measured and reported. How fast it is
# depends on the machine, so no figure is judged here.
. "$(dirname "$0")/lib.sh"

machine='cache line
sched_yield
futex
eventfd
pipe
Unix socket
D-Bus call'
tandem='ring poll
ring eventfd
ring socket'

run_ok "$TANDEM" bench ipc --rounds 1
while read -r row; do
  checks=$((checks + 1))
  grep -qE "^$row +([1-9][0-9]* +[0-9]|not measured: )" "$tmp/out" ||
    fail "no line for $row: '$out'"
done <<<"$machine
$tandem"
check_has 'table' "$out" 'wall clock'
check_eq 'lines wider than 80' "$(awk 'length($0) > 80' "$tmp/out")" ''

run_ok "$TANDEM" bench ipc --json --rounds 2
check_eq 'lines of --json' "$(wc -l <"$tmp/out")" 1
for field in '"version":1' '"bench":"ipc"' '"clock":"wall"' '"rounds":2' \
  '"processors":' '"clock_read_ns":' '"ratio":' '"target":2.0'; do
  check_has 'the object' "$out" "$field"
done
while read -r row; do
  check_has 'the object' "$out" "\"name\":\"$row\",\"of\":\"machine\""
done <<<"$machine"
while read -r row; do
  one=${out#*"\"name\":\"$row\",\"of\":\"tandem\""}
  one=${one%%\}*}
  for field in means trips median_ns p90_ns p99_ns p99_9_ns min_ns max_ns \
    per_second; do
    check_has "the object's '$row'" "$one" "\"$field\":"
  done
done <<<"$tandem"

# With one CPU the subjects that cannot be measured give a reason, and the
# others are measured.
if command -v taskset >/dev/null 2>&1; then
  cpu=$(taskset -cp $$ | sed 's/.*: //; s/[-,].*//')
  run_ok taskset -c "$cpu" "$TANDEM" bench ipc --rounds 1
  check_has 'table' "$out" 'the only processor'
  check_has 'table' "$out" 'cache line    not measured'
fi

# The device program is missing, or dies.
run env TANDEM_NPU=/nonexistent/npu "$TANDEM" bench ipc --rounds 1
check_eq 'status without a device program' "$status" 1
check_has 'stderr' "$err" "'/nonexistent/npu'"
check_eq 'stdout' "$out" ''
run env TANDEM_NPU_FAULT=die-after:700 "$TANDEM" bench ipc --rounds 1
check_eq 'status with a dying device' "$status" 3
check_has 'stderr' "$err" "measuring 'ring "
check_has 'stderr' "$err" 'died'

# A reader that went away is not a device that did.
run bash -c 'trap "" PIPE; "$TANDEM" bench ipc --rounds 1 | true
  exit ${PIPESTATUS[0]}'
check_eq 'status without a reader' "$status" 1
check_has 'stderr' "$err" 'cannot write to standard output'

misuse "$TANDEM" bench
misuse "$TANDEM" bench nothing
misuse "$TANDEM" bench ipc --rounds 0
finish
