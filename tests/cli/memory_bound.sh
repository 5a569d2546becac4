#!/usr/bin/env bash
# What both processes have in memory together while layers are streamed: no more
# than the budget, the slots, the cache, the output matrix and 100 MB. A budget
# given as a size includes the output matrix, or the matrix is streamed. So it is
# if memory is short.
. "$(dirname "$0")/lib.sh"

sanitized && skip 'a sanitizer has memory of its own'

run_ok "$TANDEM" synth --like qwen2.5-0.5b -o "$tmp/model.gguf"
run_ok "$TANDEM" convert "$tmp/model.gguf" "$tmp/model.tdm"
rm "$tmp/model.gguf"

# most PID: into $most, in KiB, of the process and its children until it ends.
# What they share counts once.
most() {
  local sum p name kib rest npu=
  most=0
  while kill -0 "$1"; do
    sum=0
    [ -n "$npu" ] || npu=$(pgrep -P "$1")
    for p in $1 $npu; do
      while read -r name kib rest; do
        [ "$name" = Pss: ] && sum=$((sum + kib)) && break
      done <"/proc/$p/smaps_rollup"
    done
    ((sum <= most)) || most=$sum
    sleep 0.02
  done 2>/dev/null
}

output=$((151936 * 896 * 18 / 32)) # bytes of the output matrix

# bounded BUDGET OPTION...
bounded() {
  local budget=$1 most it name stay slots bound streamed=false
  shift
  "$TANDEM" run -m "$tmp/model.tdm" -p 'Hi there' -n 2 --ignore-eos --json \
    --method flash-ar --dram-budget "$budget" "$@" >"$tmp/json" 2>"$tmp/err" &
  most $!
  wait $! || fail "$budget: $(<"$tmp/err")"
  out=$(<"$tmp/json")
  local resident_layers layers slot_bytes weight_bytes bytes_per_pass kv_bytes
  for name in resident_layers layers slots slot_bytes weight_bytes \
    bytes_per_pass kv_bytes; do
    member $name
    printf -v $name %d "${it%.0}" || fail "$budget: $name is '$it'"
  done
  slots=$((slots * slot_bytes))
  stay=$((weight_bytes - bytes_per_pass + output))
  case $budget in
  *M) # the slots are part of a size
    stay=$((${budget%M} << 20)) slots=0
    ((stay > output)) || streamed=true
    ;;
  esac
  check_has "$budget" "$out" "\"output_streamed\":$streamed"
  bound=$((stay + slots + kv_bytes + 100000000))
  checks=$((checks + 3))
  ((most > 20000)) || fail "$budget: only $most KiB were seen"
  ((resident_layers < layers)) || fail "$budget: nothing streams: $out"
  ((most * 1024 <= bound)) ||
    fail "$budget: $((most * 1024)) bytes, not $bound"
}

bounded 0% --threads 1
bounded 40% --coherence check
member ids
want=$it
bounded 60M --threads 1
bounded 130M --threads 1

# ---- a cap on memory ----------------------------------------------------------
if "$root/scripts/with-limits" --memory 1G true 2>/dev/null; then
  run_ok "$root/scripts/with-limits" --memory 180M "$TANDEM" run \
    -m "$tmp/model.tdm" -p 'Hi there' -n 2 --ignore-eos --json -t 1 \
    --method flash-ar --dram-budget 40% --stats
  is 'ids under a cap' ids "$want"
  check_has 'stats under a cap' "$err" 'the output matrix streamed'
fi

finish
