#!/usr/bin/env bash
# The coherence checker on both sides: a missing maintenance call is named,
# host and device fail, the reports are in the file, and reports that match a
# suppression pattern are not made. tests/device/test_violation.c has the exact
# texts of reports.
. "$(dirname "$0")/lib.sh"

model=$tmp/tiny.gguf
reports=$tmp/reports.jsonl
run_ok "$TANDEM" synth --like tiny -o "$model"

generate() { # OPTION...
  run "$TANDEM" run -m "$model" -p 'Once upon a time' -n 8 --ignore-eos --ids \
    --coherence check "$@"
}
kinds() { # the violations of the file: kind, buffer and missing call
  sed -n 's/.*"report":"violation","kind":"\([^"]*\)","buffer":"\([^"]*\)".*"missing":"\([^"[]*\).*/\1, \2, \3/p' \
    "$reports" | sort -u
}

generate
check_eq 'status' "$status" 0
check_eq 'stderr' "$err" ''
want=$out

# ---- each side's call, left out ------------------------------------------------
# With and without the evictor: lines that it wrote back by chance are reported
# too.
for seed in 0 1 2; do
  rm -f "$reports"
  TANDEM_NPU_FAULT=drop-clean:tandem:kv#3 generate --evict-seed $seed \
    --coherence-report "$reports"
  check_eq "status without a clean, seed $seed" "$status" 1
  check_eq "ids without a clean, seed $seed" "$out" "$want"
  check_has 'stderr' "$err" 'tandem-npu: check: lost write: tandem:kv'
  check_has 'stderr' "$err" '    missing: clean of tandem:kv ['
  check_has 'stderr' "$err" 'tandem: 1 violation of the coherence contract'
  check_eq "reports, seed $seed" "$(kinds)" \
    'lost write, tandem:kv, clean of tandem:kv '
done
rm -f "$reports"
TANDEM_NPU_FAULT=drop-invalidate:tandem:io#8 generate \
  --coherence-report "$reports"
check_eq 'status without an invalidation' "$status" 1
check_has 'stderr' "$err" 'stale read: tandem:io'
check_has 'stderr' "$err" '    written by: the CPU, bracket '
check_has 'stderr' "$err" ', pass_write_hidden'
check_has 'reports' "$(kinds)" \
  'stale read, tandem:io, invalidate of tandem:io '
check_has 'reports' "$(cat "$reports")" '"site":"pass_write_hidden"'

# Reports that are alike are printed once.
TANDEM_NPU_FAULT=drop-clean:tandem:kv generate
check_has 'stderr' "$err" ' more like this in tandem:kv (lost write in completion)'
check_eq 'reports printed' "$(grep -c 'check: lost write: tandem:kv' <<<"$err")" 1

# On a terminal they come after the generated text, which has words of its own.
if command -v script >/dev/null; then
  on_terminal TANDEM_NPU_FAULT=drop-clean:tandem:kv#3 \
    "$TANDEM" run -m "$model" -p 'Once upon a time' -n 8 --ignore-eos --ids \
    --coherence check </dev/null
  check_eq 'status on a terminal' "$status" 1
  check_has 'text on a terminal' "$shown" "$want"
  check_has 'then reports' "${shown##*"$want"}" 'tandem-npu: check: lost write'
fi

# A request refused after a stale read reports both.
TANDEM_NPU_FAULT=drop-invalidate generate
check_eq 'status without any invalidation' "$status" 1
check_has 'stderr' "$err" '(after a stale read: tandem:io ['
check_lacks 'stderr' "$err" 'not told'

# ---- a device that listens -----------------------------------------------------
rm -f "$reports"
TANDEM_NPU_FAULT=drop-clean:tandem:io#2 "$TANDEM_NPU" --listen "$tmp/npu" --once \
  --coherence-report "$reports" 2>"$tmp/device" &
generate --device "$tmp/npu"
check_eq 'status of the host' "$status" 1
status=0
wait $! || status=$?
check_eq 'status of the device' "$status" 1
check_eq 'reports' "$(kinds)" 'lost write, tandem:io, clean of tandem:io '

# ---- suppressed ----------------------------------------------------------------
cat >"$tmp/rules" <<'END'
# of the cache, whatever it is
*: tandem:kv: *
END
rm -f "$reports"
TANDEM_NPU_FAULT=drop-clean:tandem:kv#3 generate \
  --coherence-report "$reports" --coherence-suppress "$tmp/rules"
check_eq 'status with a suppressed report' "$status" 0
check_eq 'stderr with a suppressed report' "$err" ''
check_has 'summary' "$(tail -n 1 "$reports")" '"violations":0,"suppressed":1'

# ---- errors -----------------------------------------------------------------
run "$TANDEM" run -m "$model" -p x -n 1 --coherence-report "$reports"
check_has 'stderr without check' "$err" '--coherence check'
checks=$((checks + 1))
[ "$status" -ne 0 ] || fail 'a file of reports without --coherence check'
generate --device "$tmp/npu" --coherence-report "$reports"
check_has 'stderr with --device' "$err" 'tandem-npu --listen'
generate --coherence-suppress "$tmp/none"
check_has 'stderr of no rules' "$err" "suppressions '$tmp/none'"
checks=$((checks + 1))
[ "$status" -ne 0 ] || fail 'rules that are not there were read'
finish
