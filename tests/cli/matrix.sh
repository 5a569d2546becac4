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
read -ra words <<<"$want"
check_eq 'number of ids' ${#words[@]} 60

same() { # OPTION...
  ids "$@"
  check_eq "ids with $*" "$out" "$want"
}
# All pairs of coherence and doorbell, and with them each of the others. With
# few slots weights come and go.
same --coherence off --doorbell poll --prefill-chunk 256 --threads 2
same --coherence off --doorbell eventfd --threads 3
same --coherence off --doorbell socket --va-slots 3
same --coherence strict --doorbell poll --evict-seed 0 --spin 0
same --coherence strict --doorbell eventfd --prefill-chunk 1
same --coherence strict --doorbell socket --evict-seed 99 --ctx 512
same --coherence check --doorbell poll --va-slots 4 --spin 5000
same --coherence check --doorbell eventfd --va-window 16M
same --coherence check --doorbell socket --prefill-chunk 32 --threads 1
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
no_socket() {
  checks=$((checks + 1))
  [ ! -e "$tmp/npu.sock" ] || fail 'a socket is left over'
}
listen
for doorbell in poll eventfd socket; do
  same --device "$tmp/npu.sock" --doorbell $doorbell --coherence check
done
kill $npu
status=0
wait $npu || status=$?
check_eq 'status of the listening device' "$status" 143
no_socket
listen --once
same --device "$tmp/npu.sock"
[ $failures -eq 0 ] || kill $npu # it may still wait for a host
status=0
wait $npu || status=$?
check_eq 'status of the device for one host' "$status" 0
no_socket

# ---- counters --------------------------------------------------------------
run_ok "$TANDEM" run -m "$model" -p "$prompt" -n 60 --ignore-eos --json \
  --coherence check
is version version 1
is tokens generated_tokens 60
is violations violations 0
is 'why it ends' stop '"length"'
is 'number of logits' logits_rows 60
member logits_hash
hash=$it
check_has 'hash of logits' "$hash" '"'
run_ok "$TANDEM" run -m "$model" -p "$prompt" -n 60 --ignore-eos --json \
  --prefill-chunk 7 --threads 1
is 'hash of logits in other chunks' logits_hash "$hash"
is 'their number' logits_rows 60

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
check_has 'stderr' "$err" 'of the cache-maintenance rules'
finish
