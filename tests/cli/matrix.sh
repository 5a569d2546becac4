#!/usr/bin/env bash
# The same greedy tokens however the pair is run; and a device that forgets
# one invalidation is found out.
. "$(dirname "$0")/lib.sh"

if [ -n "${TANDEM_DATA:-}" ]; then
  model=$TANDEM_DATA/models/stories260K-f32.gguf
else
  model=$tmp/tiny.gguf
  run_ok "$TANDEM" synth --like tiny -o "$model"
fi
# Longer than a chunk of 32, so that prefill has more than one pass.
prompt='Once upon a time, there was a little girl named Lily. She loved to'
prompt="$prompt play outside in the park with her dog. One day"

ids() { # OPTION...
  run_ok "$TANDEM" run -m "$model" -p "$prompt" -n 60 --ignore-eos --ids "$@"
}

ids
want=$out
check_eq 'number of ids' "$(echo "$want" | wc -w)" 60

same() { # OPTION...
  ids "$@"
  check_eq "ids with $*" "$out" "$want"
}
for coherence in off strict check; do
  for doorbell in poll eventfd socket; do
    same --coherence $coherence --doorbell $doorbell
  done
done
same --threads 1
same --threads 2
same --threads 3 --doorbell eventfd
for chunk in 1 32 256; do
  same --prefill-chunk $chunk
done
same --prefill-chunk 32 --threads 1 --coherence check --doorbell socket
same --spin 0
same --spin 5000
same --evict-seed 0 --coherence strict
same --evict-seed 99 --coherence strict
same --ctx 512
# Few slots: weights come and go.
same --va-slots 3
same --va-slots 4 --coherence check
same --va-window 16M
for kern in ref base; do
  TANDEM_CPU=$kern run "$TANDEM" run -m "$model" -p "$prompt" -n 60 \
    --ignore-eos --ids
  check_eq "status with kernels $kern" "$status" 0
  [ $kern = ref ] || check_eq "ids with kernels $kern" "$out" "$want"
done

# ---- a device that listens ------------------------------------------------
# One for all of them, and one that ends with its host.
listen() { # OPTION...
  rm -f "$tmp/npu.err"
  "$TANDEM_NPU" --listen "$tmp/npu.sock" "$@" 2>"$tmp/npu.err" &
  npu=$!
  for _ in $(seq 100); do
    grep -qs listening "$tmp/npu.err" && break
    sleep 0.05
  done
}
listen
for doorbell in poll eventfd socket; do
  same --device "$tmp/npu.sock" --doorbell $doorbell --coherence check
done
kill $npu
status=0
wait $npu || status=$?
check_eq 'status of the listening device' "$status" 143
check_eq 'socket left behind' "$(ls "$tmp/npu.sock" 2>/dev/null)" ''
listen --once
same --device "$tmp/npu.sock"
[ $failures -eq 0 ] || kill $npu # it may still wait for a host
status=0
wait $npu || status=$?
check_eq 'status of the device for one host' "$status" 0
check_eq 'socket left behind' "$(ls "$tmp/npu.sock" 2>/dev/null)" ''

# ---- counters --------------------------------------------------------------
json() { # KEY...: their values in $tmp/out
  local key
  for key in "$@"; do
    grep -o "\"$key\":[^,]*" "$tmp/out"
  done
}
run_ok "$TANDEM" run -m "$model" -p "$prompt" -n 60 --ignore-eos --json \
  --coherence check
check_eq 'counters' "$(json version generated_tokens violations stop | xargs)" \
  'version:1 generated_tokens:60 violations:0 stop:length'
a=$(json logits_hash logits_rows)
run_ok "$TANDEM" run -m "$model" -p "$prompt" -n 60 --ignore-eos --json \
  --prefill-chunk 7 --threads 1
check_eq 'hash and number of logits' "$(json logits_hash logits_rows)" "$a"
check_has 'number of logits' "$a" '"logits_rows":60'

# The same seed draws the same tokens; another does not.
ids --temp 1 --seed 3
drawn=$out
ids --temp 1 --seed 3 --threads 1 --prefill-chunk 32
check_eq 'ids drawn again' "$out" "$drawn"
ids --temp 1 --seed 4
checks=$((checks + 1))
[ "$out" != "$drawn" ] || fail 'two seeds drew the same tokens'

# ---- one invalidation forgotten ----------------------------------------------
# The tenth of the activations: by then the device has old ones to use.
fault=drop-invalidate:tandem:io#10
TANDEM_NPU_FAULT=$fault run "$TANDEM" run -m "$model" -p "$prompt" -n 60 \
  --ignore-eos --ids --coherence off
check_eq 'ids with a forgotten invalidation, off' "$out" "$want"
TANDEM_NPU_FAULT=$fault run "$TANDEM" run -m "$model" -p "$prompt" -n 60 \
  --ignore-eos --ids --coherence strict --evict-seed 0
check_eq 'status with it, strict' "$status" 0
checks=$((checks + 1))
[ "$out" != "$want" ] || fail 'strict hides a forgotten invalidation'
TANDEM_NPU_FAULT=$fault run "$TANDEM" run -m "$model" -p "$prompt" -n 60 \
  --ignore-eos --ids --coherence check --evict-seed 0
check_eq 'status with it, check' "$status" 1
check_has 'stderr' "$err" 'stale read: tandem:io'
check_has 'stderr' "$err" 'of the coherence contract'
finish
