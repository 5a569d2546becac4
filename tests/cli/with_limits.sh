#!/usr/bin/env bash
# scripts/with-limits: its errors; and, if control groups can be made, limits
# of memory and reads, and the command's exit status.
. "$(dirname "$0")/lib.sh"

limits=$root/scripts/with-limits

# ---- without control groups -------------------------------------------------
run "$limits" --help
check_eq 'status of --help' "$status" 0
check_has 'help' "$out" 'Usage: scripts/with-limits'
for wrong in '' 'true' '--memory' '--memory 1G' '--memory 0 true' \
  '--memory -1 true' '--memory 1T true' '--memory 1.5G true' \
  '--memory 09999999999G true' '--memory 1G --' '--read-rate x true' \
  '--read-rate 1M --swap true' '--no-such-option true' '-- true'; do
  # shellcheck disable=SC2086 # words
  misuse "$limits" $wrong
done
run "$limits" --read-rate 1M --file "$tmp/none" true
check_eq 'status without a file' "$status" 1
check_has 'stderr' "$err" "'$tmp/none' (--file)"
run "$limits" --read-rate 1M --file /proc/version true
check_eq 'status of a file on no disk' "$status" 1
check_has 'stderr' "$err" "on 'proc'"

# Plain files stand in for cgroup v2's, to check what is written. The command
# reads its group and removes the files.
if [ "$(id -u)" -eq 0 ] && unshare -m true 2>/dev/null; then
  disk=$(findmnt -no SOURCE -T "$root" 2>/dev/null || true)
  cat >"$tmp/v2.sh" <<'END'
mount -t tmpfs none /sys/fs/cgroup || exit 77
cd /sys/fs/cgroup || exit 77
echo cpu pids >cgroup.controllers
echo "$1" >cgroup.subtree_control
shift
exec "$@"
END
  run unshare -m bash "$tmp/v2.sh" 'cpu io' "$limits" --memory 1M true
  check_eq 'status without a controller' "$status" 1
  check_has 'stderr' "$err" "echo '+memory' >/sys/fs/cgroup/cgroup.subtree"
  run unshare -m bash "$tmp/v2.sh" cpu "$limits" --memory 1M \
    --read-rate 1M --file "$root" true
  if [ -b "$disk" ]; then
    check_has 'stderr' "$err" "echo '+memory +io' >"
  fi
  # shellcheck disable=SC2016 # the command's own
  run unshare -m bash "$tmp/v2.sh" 'cpu memory pids io' "$limits" \
    --memory 3M sh -c 'cd with-limits-*; grep . memory.max memory.swap.max
      [ "$(cat cgroup.procs)" = $$ ] && echo entered; rm -f ./*; exit 9'
  check_eq 'status of the command' "$status" 9
  check_eq 'limits of v2' "$(xargs <<<"$out")" 'memory.max:3145728 entered'
  if [ -b "$disk" ]; then
    run unshare -m bash "$tmp/v2.sh" 'cpu memory pids io' "$limits" \
      --read-rate 1K --file "$root" \
      sh -c 'cd with-limits-*; cat io.max; rm -f ./*'
    check_eq 'status of the command' "$status" 0
    check_eq 'the limit of v2 but for the disk' "${out#*:*[0-9] }" rbps=1024
  fi
fi

# ---- with them ---------------------------------------------------------------
run "$limits" --memory 1G true
if [ "$status" -ne 0 ]; then
  check_eq 'status without control groups' "$status" 1
  check_has 'stderr' "$err" 'with-limits: '
  [ "$failures" -ne 0 ] || skip "limits cannot be set here: $err"
  finish
fi
if [ "$(id -u)" -eq 0 ] && command -v setpriv >/dev/null; then
  # Its text, because the folder may be closed to others.
  run setpriv --reuid=65534 --regid=65534 --clear-groups \
    bash -c "$(cat "$limits")" with-limits --memory 1G true
  check_eq 'status of somebody else' "$status" 1
  check_has 'stderr' "$err" 'cannot make a control group in'
  check_eq 'lines of stderr' "$(wc -l <"$tmp/err")" 1
fi

left() { find /sys/fs/cgroup -maxdepth 6 -name "with-limits-$1" 2>/dev/null; }

run "$limits" --memory 1G -- sh -c 'echo said; echo complained >&2; exit 7'
check_eq 'status' "$status" 7
check_eq 'stdout' "$out" said
check_eq 'stderr' "$err" complained
check_eq 'standard input' "$(echo typed | "$limits" --memory 1G cat)" typed
run "$limits" --memory 1G "$tmp/none"
check_eq 'status of no command' "$status" 127
run "$limits" --memory 1G sh -c 'kill -USR1 $$'
check_eq 'status of a signal' "$status" 138
check_lacks 'stderr' "$err" memory

# A buffer of 64 MiB, completely written.
hog=(dd if=/dev/zero of=/dev/null bs=64M count=1)
run_ok "$limits" --memory 128M "${hog[@]}"
check_lacks 'stderr with room' "$err" with-limits
run "$limits" --memory 16M "${hog[@]}"
check_eq 'status beyond the cap' "$status" 137
check_has 'stderr' "$err" 'out of memory: the kernel killed 1 process at 16777'
check_eq 'lines of stderr' "$(wc -l <"$tmp/err")" 1
# One that the command starts, and survives.
run "$limits" --memory 16M sh -c '"$@"; echo $?' sh "${hog[@]}"
check_eq 'status of what survives' "$status" 0
check_has 'stdout' "$out" 137
check_has 'stderr' "$err" 'out of memory'
# The page cache is given up before anything is killed.
head -c 48M /dev/zero >"$tmp/zeros"
sync "$tmp/zeros" # what is yet to be written cannot be given up
# shellcheck disable=SC2016 # sh's own $1
run_ok "$limits" --memory 16M sh -c 'cat "$1" >/dev/null' - "$tmp/zeros"
check_lacks 'stderr of one that reads' "$err" with-limits

# Remaining processes are killed with the group, also when this script gets a
# signal.
run_ok "$limits" --memory 1G sh -c 'sleep 1000 & echo $!; exec >&-'
# One that is dead may not have been collected yet.
check_eq 'processes left' "$(ps -o stat= -p "$out" | grep -v '^Z')" ''
"$limits" --memory 1G sh -c 'echo $$; exec sleep 1000' >"$tmp/pid" &
script=$!
for _ in $(seq 200); do
  [ ! -s "$tmp/pid" ] || break
  sleep 0.05
done
kill -TERM $script
status=0
wait $script || status=$?
check_eq 'status after SIGTERM' "$status" 143
check_eq 'the command after SIGTERM' "$(ps -o pid= -p "$(cat "$tmp/pid")")" ''
check_eq 'control groups left' "$(left "$script")" ''
# A command may take its time, and its status counts.
"$limits" --memory 1G bash -c 'trap "sleep 0.3; exit 5" TERM; echo $$
  while :; do sleep 0.05; done' >"$tmp/pid" &
script=$!
for _ in $(seq 200); do
  [ "$(wc -l <"$tmp/pid")" -lt 1 ] || break
  sleep 0.05
done
kill -TERM $script
status=0
wait $script || status=$?
check_eq 'status of one that ends by itself' "$status" 5

# ---- reading -----------------------------------------------------------------
head -c 8M /dev/urandom >"$tmp/data"
sync -d "$tmp/data"
data=$tmp/data
run "$limits" --read-rate 1G --file "$data" true
if [ "$status" -ne 0 ]; then
  data=$root/flash/models/target.gguf
  run "$limits" --read-rate 1G --file "$data" true
fi
if [ "$status" -ne 0 ] ||
  ! dd if="$data" of=/dev/null bs=1M count=8 iflag=direct 2>/dev/null; then
  [ "$failures" -ne 0 ] || skip "reading cannot be limited here: $err"
  finish
fi
began=$(date +%s%N)
run_ok "$limits" --read-rate 8M --file "$data" --memory 1G \
  dd if="$data" of=/dev/null bs=1M count=8 iflag=direct
took=$((($(date +%s%N) - began) / 1000000))
checks=$((checks + 1))
# A second, except for reads that may come at once.
[ $took -ge 800 ] || fail "8 MiB at 8 MiB/s took $took ms"
finish
