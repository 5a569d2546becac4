#!/usr/bin/env bash
# What both processes have in memory together while layers are streamed: no more
# than the budget, the slots, the cache and 100 MB. The model's output matrix,
# 73 MiB, would break it.
. "$(dirname "$0")/lib.sh"

command -v python3 >/dev/null || skip 'no python3'
sanitized && skip 'a sanitizer has memory of its own'

run_ok "$TANDEM" synth --like qwen2.5-0.5b -o "$tmp/model.gguf"
run_ok "$TANDEM" convert "$tmp/model.gguf" "$tmp/model.tdm"
rm "$tmp/model.gguf"

# most PID: of the process and its children, in KiB, until it ends. What they
# share counts once.
most() {
  local most=0 sum p name kib rest npu=
  while kill -0 "$1" 2>/dev/null; do
    sum=0
    [ -n "$npu" ] || npu=$(pgrep -P "$1")
    for p in $1 $npu; do
      while read -r name kib rest; do
        [ "$name" != Pss: ] || sum=$((sum + kib))
      done <"/proc/$p/smaps_rollup"
    done
    ((sum <= most)) || most=$sum
    sleep 0.02
  done 2>/dev/null
  echo $most
}

# bounded BUDGET OPTION...
bounded() {
  local budget=$1 kib
  shift
  "$TANDEM" run -m "$tmp/model.tdm" -p 'Hi there' -n 4 --ignore-eos --json \
    --method flash-ar --dram-budget "$budget" "$@" >"$tmp/json" 2>"$tmp/err" &
  kib=$(most $!)
  wait $! || fail "$budget: $(cat "$tmp/err")"
  checks=$((checks + 1))
  [ "$kib" -gt 20000 ] || fail "$budget: only $kib KiB were seen"
  run_ok python3 -c '
import json, sys
budget, kib, run = sys.argv[1], int(sys.argv[2]), json.load(open(sys.argv[3]))
flash = run["flash"]
assert flash["resident_layers"] < flash["layers"], flash
slots = flash["slots"] * flash["slot_bytes"]
stay = run["weight_bytes"] - flash["bytes_per_pass"]
if budget.endswith("M"):  # the slots are part of it
    stay, slots = (int(budget[:-1]) << 20), 0
bound = stay + slots + run["kv_bytes"] + 100e6
assert kib * 1024 <= bound, "%s: %.1f MB, not %.1f" % (
    budget, kib * 1024 / 1e6, bound / 1e6)
' "$budget" "$kib" "$tmp/json"
}

bounded 0% --threads 1
bounded 40% --coherence check
bounded 60M --threads 1

finish
