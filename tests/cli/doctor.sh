#!/usr/bin/env bash
# tandem doctor on the command line; tests/host/doctor/test_doctor.c has the
# single probes under restricted limits.
. "$(dirname "$0")/lib.sh"

probes='device processor cores memory address-space memfd huge-pages futex
pidfd seccomp io_uring direct-read locked-memory strace perf gnuplot
session-bus system-bus libraries'

run_ok "$TANDEM" doctor
for p in $probes; do
  checks=$((checks + 1))
  grep -qE "^(ok|limited|missing) +$p +[^ ]" "$tmp/out" ||
    fail "no line for $p: '$out'"
done
check_has 'last line' "$(tail -n 1 "$tmp/out")" ' missing'
wide=$(grep -v ' try: ' "$tmp/out" | awk 'length($0) > 80 && NF > 3')
check_eq 'lines wider than 80' "$wide" ''

run_ok "$TANDEM" doctor --json
check_eq 'lines of --json' "$(wc -l <"$tmp/out")" 1
check_has 'the object' "$out" '"version":1'
check_has 'the object' "$out" '"ok":true'
for p in $probes; do
  check_has 'the object' "$out" "\"name\":\"$p\""
done

# A path that is not UTF-8 costs no finding.
mkdir "$tmp/"$'od\xffd'
ln -s "$(realpath "$TANDEM_NPU")" "$tmp/"$'od\xffd/npu'
run_ok env TANDEM_NPU="$tmp/"$'od\xffd/npu' "$TANDEM" doctor --json
check_has 'the object' "$out" '"name":"device"'
check_has 'the object' "$out" 'od\\xffd/npu'

# What cannot be done without decides the exit status, in both forms.
run env TANDEM_NPU=/nonexistent/npu "$TANDEM" doctor
check_eq 'status without a device program' "$status" 1
check_has 'stdout' "$out" "'/nonexistent/npu'"
check_has 'stderr' "$err" 'lacks: device'
run env TANDEM_NPU=/nonexistent/npu "$TANDEM" doctor --json
check_eq 'status without a device program' "$status" 1
check_has 'the object' "$out" '"ok":false'

# A program that is there is found, and one that is not is named with a way.
mkdir "$tmp/bin"
printf '#!/bin/sh\n' >"$tmp/bin/gnuplot"
chmod +x "$tmp/bin/gnuplot"
run_ok env PATH="$tmp/bin:$PATH" "$TANDEM" doctor
check_has 'report with gnuplot' "$(grep ' gnuplot ' "$tmp/out")" \
  "$tmp/bin/gnuplot"
run_ok env PATH="$tmp" "$TANDEM" doctor
check_has 'report without gnuplot' "$(grep ' gnuplot ' "$tmp/out")" missing
check_has 'report without gnuplot' "$out" 'install gnuplot-nox'

misuse "$TANDEM" doctor now

# ---- a report of a fault ------------------------------------------------------
run_ok "$TANDEM" doctor --report -
check_has 'a report before any error' "$out" 'none is known'
run "$TANDEM" run -m "$tmp/none.gguf" -p 'a private text' --stop private -n 3
run_ok "$TANDEM" doctor --report "$tmp/report"
check_has 'the output' "$out" 'read it before'
for part in "command  tandem run -m $tmp/none.gguf -p (14 bytes) --stop (7 bytes) -n 3" \
  "error    cannot open '$tmp/none.gguf'" 'Tandem 0.' 'Max open files' \
  ' io_uring ' "$(uname -r)"; do
  check_has 'the report' "$(cat "$tmp/report")" "$part"
done
check_lacks 'the report' "$(cat "$tmp/report")" private
check_eq 'mode of the stored error' "$(stat -c %a "$tmp/state/tandem/last-error")" 600
misuse "$TANDEM" doctor --report "$tmp/report" --json
run "$TANDEM" doctor --report "$tmp/no/such/folder"
check_has 'stderr' "$err" "cannot write '$tmp/no/such/folder'"
# Where nothing can be kept the command fails as it did.
run env XDG_STATE_HOME=/proc/none "$TANDEM" run -m "$tmp/none.gguf" -p x
check_eq 'status' "$status" 1
check_eq 'lines of stderr' "$(wc -l <"$tmp/err")" 1

# A bus that is there is found.
if command -v dbus-run-session >/dev/null 2>&1; then
  run_ok dbus-run-session -- "$TANDEM" doctor
  check_has 'report with a session bus' "$(grep session-bus "$tmp/out")" 'ok '
fi

if [ -w /dev/full ]; then
  run bash -c '"$TANDEM" doctor >/dev/full'
  check_eq 'status of a report to a full disk' "$status" 1
fi
finish
