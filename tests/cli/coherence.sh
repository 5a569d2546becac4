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
  check_has 'stderr' "$err" 'tandem: 1 violation of the cache-maintenance rules'
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

# ---- two levels of cache -------------------------------------------------------
# Ranged calls do not reach memory, so the device cleans and flushes all of it.
generate --contract 2
check_eq 'status with two levels' "$status" 0
check_eq 'stderr with two levels' "$err" ''
check_eq 'ids with two levels' "$out" "$want"
for call in clean flush; do
  rm -f "$reports"
  TANDEM_NPU_FAULT=drop-$call-all#4 generate --contract 2 \
    --coherence-report "$reports"
  check_eq "status without $call-all" "$status" 1
  check_has "reports without $call-all" "$(kinds)" ", ${call}_all for tandem:"
done

# ---- the rings through a cache ---------------------------------------------------
for contract in 1 2; do
  for doorbell in poll eventfd socket; do
    generate --coherence-ctrl on --contract $contract --doorbell $doorbell
    what="with cached rings, contract $contract, $doorbell"
    check_eq "status $what" "$status" 0
    check_eq "stderr $what" "$err" ''
    check_eq "ids $what" "$out" "$want"
  done
done
# The 2nd clean is of the first completion's index. If the evictor does not
# write the index back by chance, the host loses the device.
without_a_ring_call() { # FAULT MISSING OPTION...
  rm -f "$reports"
  TANDEM_NPU_FAULT=$1 generate --coherence-ctrl on --restarts 0 \
    --device-timeout 2 --coherence-report "$reports" "${@:3}"
  check_has "status with $1" " 1 3 " " $status "
  check_has "stderr with $1" "$err" 'tandem-npu: check: '
  check_has "reports with $1" "$(kinds)" "$2"
}
without_a_ring_call drop-clean:tandem:ctrl#1 \
  'lost write, tandem:ctrl, clean of tandem:ctrl '
without_a_ring_call drop-clean:tandem:ctrl#2 \
  'lost write, tandem:ctrl, clean of tandem:ctrl ' --evict-seed 0
check_eq 'status without the index of a completion' "$status" 3
without_a_ring_call drop-invalidate:tandem:ctrl#20 \
  'stale read, tandem:ctrl, invalidate of tandem:ctrl '
check_has 'the host function' "$err" ', ring_publish'
without_a_ring_call drop-clean-all#8 ', clean_all for tandem:ctrl' --contract 2
without_a_ring_call drop-word:tandem:ctrl \
  'stale read, tandem:ctrl, invalidate of tandem:ctrl '

# ---- DMA -------------------------------------------------------------------------
# What follows is computed on bytes that DMA has not brought yet. In the diffusion
# model, transfer 7 brings the weights of a norm. Without them, states are infinite,
# which ends a block of more rows than are looked at together.
without_a_wait() { # BUFFER OPTION...
  rm -f "$reports"
  TANDEM_NPU_FAULT=drop-wait:$1#7 run "$TANDEM" run -n 16 --ignore-eos \
    -p 'Once upon a time there was a king who had three sons, and' \
    --threads 1 --coherence check --coherence-report "$reports" "${@:2}"
  check_eq "status without a wait for $1" "$status" 1
  check_has "reports without a wait for $1" "$(kinds)" \
    "read before a wait, $1, wait for the DMA of "
}
without_a_wait tandem:weights0 -m "$model"
if [ -e "$root/flash/models/diffusion.gguf" ]; then
  without_a_wait tandem:weights5 -m "$root/flash/models/diffusion.gguf" \
    --method llada-npu --evict-seed 1 --contract 2
  check_has 'stderr of an unusable state' "$err" 'state that is not finite'
fi

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
