#!/usr/bin/env bash
# A device that is killed at any moment is replaced, and the text is what it
# would have been: every method, in memory and streamed, in every placement,
# while a prompt is read and while the answer is written. TANDEM_KILLS=300 for
# more moments; TANDEM_SEED repeats them.
. "$(dirname "$0")/lib.sh"
export XDG_CACHE_HOME=$tmp/cache # where what passes take is remembered

# With a sanitizer half of the ways, others each time.
few=24
! sanitized || few=12
kills=${TANDEM_KILLS:-$few}
seed=${TANDEM_SEED:-$((RANDOM * 32768 + RANDOM))}
RANDOM=$seed
echo "seed $seed"

image=$tmp/target.tdm
run_ok "$TANDEM" convert flash/models/target.gguf "$image"
prompt=$(printf 'Read: The %s of the house met the baker at the market. ' \
  old young tall quiet kind loud)'Summary:'

# What is run: a line each.
ways=(
  '--method autoregressive'
  '--method autoregressive --graph-switch greedy'
  '--method autoregressive --va-window 16M --va-slots 3 --placement belady'
  '--method autoregressive --va-window 16M --placement swap'
  '--method chain'
  '--method chain --draft-on device'
  '--method specinfer'
  '--method eagle2-tree'
  '--method sdnpu --graph-switch best'
  '--method lever'
  "--method flash-ar -m $image --dram-budget 40%"
  "--method lever -m $image --dram-budget 40%"
  "--method edgellm -m $image --dram-budget 20%"
  '--method llada'
  '--method fast-dllm'
  '--method llada-npu'
  '--method block'
  '--method linear-spec'
  '--method autoregressive --coherence strict'
  '--method chain --doorbell eventfd'
  '--method llada-npu --doorbell socket'
)

now_ms() {
  echo $(($(date +%s%N) / 1000000))
}

# The one child of $host that is a device; there is a moment without.
kill_device() {
  local pid
  pid=$(pgrep -P "$host" tandem-npu) && kill -9 "$pid" 2>/dev/null
}

text() { # WAY...: of the whole, without anybody being killed
  "$TANDEM" run "$@" -n 32 --ignore-eos -p "$prompt" 2>"$tmp/said"
}

left_behind() {
  pgrep -x -f "tandem-npu --fd 3" -P 1 || true
}

first=$((RANDOM % ${#ways[@]}))
declare -A want took
killed=0 worst=0
orphans=$(left_behind)
for ((i = 0; i < kills; i++)); do
  way=${ways[(first + i) % ${#ways[@]}]}
  # shellcheck disable=SC2206 # words
  words=($way)
  if [ -z "${want[$way]:-}" ]; then
    began=$(now_ms)
    want[$way]=$(text "${words[@]}" | md5sum)
    took[$way]=$(($(now_ms) - began + 1))
  fi
  "$TANDEM" run "${words[@]}" -n 32 --ignore-eos -p "$prompt" --stats \
    >"$tmp/text" 2>"$tmp/said" &
  host=$!
  moment=$((RANDOM % took[$way]))
  sleep "$(printf '%d.%03d' $((moment / 1000)) $((moment % 1000)))"
  kill_device
  status=0
  wait $host || status=$?
  # One that is killed while it is being started is not replaced.
  if [ $status -eq 3 ] && ! grep -q 'took its place' "$tmp/said" &&
    [ ! -s "$tmp/text" ]; then
    continue
  fi
  check_eq "status of $way, killed after $moment ms ($(cat "$tmp/said"))" \
    $status 0
  check_eq "text of $way, killed after $moment ms" "$(md5sum <"$tmp/text")" \
    "${want[$way]}"
  if grep -q 'took its place' "$tmp/said"; then
    killed=$((killed + 1))
    check_has 'statistics' "$(cat "$tmp/said")" 'of a device that was lost'
    ms=$(sed -n 's/.*took its place within \([0-9]*\).*/\1/p' "$tmp/said")
    [ "$ms" -le $worst ] || worst=$ms
  fi
done
checks=$((checks + 1))
[ $killed -gt 0 ] || fail "none of $kills was killed in its life"
check_eq 'devices left behind' "$(left_behind)" "$orphans"
echo "$killed of $kills killed in their lives, replaced within $worst ms"

# One loss more than is allowed ends it as the first does without restarts.
host_of_losses() { # RESTARTS LOSSES
  "$TANDEM" run -n -1 --ignore-eos --ctx 1000 --restarts "$1" -p "$prompt" \
    -m target >"$tmp/text" 2>"$tmp/said" &
  host=$!
  for ((k = 0; k < $2; k++)); do
    until pgrep -P $host tandem-npu >"$tmp/pid" || [ ! -e /proc/$host ]; do
      :
    done
    until [ "$(grep -c 'took its' "$tmp/said")" -ge $k ] &&
      { [ $k -gt 0 ] || [ -s "$tmp/text" ]; }; do
      [ -e /proc/$host ] || break
    done
    kill_device
  done
  status=0
  wait $host || status=$?
}
host_of_losses 0 1
check_eq 'status without restarts' $status 3
check_lacks 'what is said' "$(cat "$tmp/said")" --restarts
host_of_losses 1 2
check_eq 'status behind one more' $status 3
check_has 'what is said' "$(cat "$tmp/said")" \
  'one loss more than the 1 within 60 s that --restarts allows'

# A hanging device is replaced, too: what it is asked is what is watched, and
# not that it lives.
want=$("$TANDEM" run -n 40 --ignore-eos -p "$prompt")
TANDEM_NPU_FAULT=hang-after:60 run_ok "$TANDEM" run -n 40 --ignore-eos \
  -p "$prompt" --device-timeout 0.3
check_eq 'text behind a device that hangs' "$out" "$want"
check_has stderr "$err" 'made no progress for 0.3 s'

# One that listened is connected to again, where another listens now.
listen() {
  rm -f "$tmp/npu.said"
  "$TANDEM_NPU" --listen "$tmp/npu.sock" 2>"$tmp/npu.said" &
  npu=$!
  until grep -q listening "$tmp/npu.said"; do sleep 0.01; done
}
want=$("$TANDEM" run -n 700 --ctx 1000 --ignore-eos -p "$prompt")
listen
rm -f "$tmp/text"
"$TANDEM" run -n 700 --ctx 1000 --ignore-eos -p "$prompt" \
  --device "$tmp/npu.sock" >"$tmp/text" 2>"$tmp/said" &
host=$!
until [ -s "$tmp/text" ]; do sleep 0.01; done
kill -9 "$npu"
wait "$npu" 2>"$tmp/no"
listen
status=0
wait $host || status=$?
check_eq 'status with another listener' $status 0
check_eq 'text with another listener' "$(cat "$tmp/text")" "$want"
check_has stderr "$(cat "$tmp/said")" 'took its place'
kill "$npu"
wait "$npu" 2>"$tmp/no"

# The first Ctrl-C is heeded while a stopped device is waited for.
rm -f "$tmp/text"
(
  trap - INT
  exec env --default-signal=INT "$TANDEM" run -n -1 --ignore-eos --ctx 1000 \
    -p "$prompt" >"$tmp/text" 2>"$tmp/said"
) &
host=$!
until [ -s "$tmp/text" ]; do sleep 0.01; done
pid=$(pgrep -P $host tandem-npu)
kill -STOP "$pid"
kill -INT $host
status=0
wait $host || status=$?
check_eq 'status with a stopped device' $status 130
check_eq 'entry of the stopped device' "$(ls -d "/proc/$pid" 2>/dev/null)" ''
finish
