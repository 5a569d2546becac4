#!/usr/bin/env bash
# A device that is killed at any moment is replaced, and the text is unchanged:
# every method, in memory and streamed, with every placement, while a prompt is
# read and while the answer is generated. TANDEM_KILLS=300 for more moments,
# TANDEM_SEED=N for others.
. "$(dirname "$0")/lib.sh"
without_leak_search
export XDG_CACHE_HOME=$tmp/cache # where what passes take is remembered

tiny=$tmp/tiny.gguf draft=$tmp/draft.gguf image=$tmp/tiny.tdm
run_ok "$TANDEM" synth --like tiny -o "$tiny"
run_ok "$TANDEM" synth --like tiny --quant q8_0 -o "$draft"
run_ok "$TANDEM" synth --like tiny-llada -o "$tmp/llada.gguf"
run_ok "$TANDEM" synth --like tiny-block -o "$tmp/block.gguf"
run_ok "$TANDEM" convert "$tiny" "$image"
printf -v prompt 'Read: The %s of the house met the baker at the market. ' \
  old young tall
prompt+=Summary:

# What is run: a line each. Greedy text is the same by every method that writes
# from left to right.
drafted="--draft $draft"
ways=(
  "-m $tiny"
  "-m $tiny --graph-switch greedy --graph-rows 16"
  "-m $tiny --va-window 3M --va-slots 3 --placement belady"
  "-m $tiny --va-window 3M --placement swap"
  "-m $tiny --method chain --doorbell eventfd $drafted"
  "-m $tiny --method chain --draft-on device $drafted"
  "-m $tiny --method specinfer --coherence strict $drafted"
  "-m $tiny --method eagle2-tree $drafted"
  "-m $tiny --method sdnpu --graph-switch best"
  "-m $tiny --method lever $drafted"
  "-m $image --method flash-ar --dram-budget 40%"
  "-m $image --method lever --dram-budget 40% $drafted"
  "-m $image --method edgellm --dram-budget 20% $drafted"
  "-m $tmp/llada.gguf --method llada"
  "-m $tmp/llada.gguf --method fast-dllm"
  "-m $tmp/llada.gguf --method llada-npu --doorbell socket"
  "-m $tmp/block.gguf --method block"
  '--method linear-spec'
)
kills=${#ways[@]} step=1
! full || kills=$((5 * ${#ways[@]}))
! sanitized || full || step=3
kills=${TANDEM_KILLS:-$kills}
seed=${TANDEM_SEED:-1}
RANDOM=$seed
echo "seed $seed"

now_ms() {
  echo $((${EPOCHREALTIME/./} / 1000))
}

# The one child of $host that is a device; there is a moment without.
kill_device() {
  local pid
  pid=$(pgrep -P "$host" tandem-npu) && kill -9 "$pid" 2>/dev/null
}

text() { # WAY...: of the whole, without anybody being killed
  "$TANDEM" run "$@" -t $t -n 32 --ignore-eos -p "$prompt" 2>"$tmp/said"
}

declare -A want took
killed=0 worst=0 ran=0
# A kill may come before the device has started or after it has ended, so
# repeat until one has hit a running device.
for ((i = 0; i < kills || (!killed && i < 50 * kills); i += step)); do
  ran=$((ran + 1))
  way=${ways[i % ${#ways[@]}]}
  read -ra words <<<"$way"
  writes=left_to_right t=$((1 + (i % 4 == 3)))
  case $way in
  *llada.gguf* | *--method\ block* | *linear-spec*) writes=$way ;;
  esac
  if [ -z "${want[$writes]:-}" ]; then
    began=$(now_ms)
    want[$writes]=$(text "${words[@]}" | md5sum)
    took[$writes]=$(($(now_ms) - began + 1))
  fi
  "$TANDEM" run "${words[@]}" -t $t -n 32 --ignore-eos -p "$prompt" --stats \
    >"$tmp/text" 2>"$tmp/said" &
  host=$!
  moment=$((RANDOM % took[$writes]))
  sleep "$(printf '%d.%03d' $((moment / 1000)) $((moment % 1000)))"
  kill_device
  status=0
  wait $host || status=$?
  said=$(<"$tmp/said")
  # One that is killed while it is being started is not replaced.
  if [[ $status -eq 3 && $said != *'took its place'* && ! -s $tmp/text ]]; then
    continue
  fi
  check_eq "status of $way, killed after $moment ms ($said)" $status 0
  check_eq "text of $way, killed after $moment ms" "$(md5sum <"$tmp/text")" \
    "${want[$writes]}"
  if [[ $said =~ took\ its\ place\ within\ ([0-9]+) ]]; then
    killed=$((killed + 1)) ms=${BASH_REMATCH[1]}
    check_has 'statistics' "$said" 'of a device that was lost'
    [ "$ms" -le "$worst" ] || worst=$ms
  fi
done
checks=$((checks + 1))
[ $killed -gt 0 ] || fail 'no device was killed at work'
nothing_left 'those who lost one'
echo "$killed of $ran killed at work, replaced within $worst ms"

# An endless text.
endless=("$TANDEM" run -m "$tiny" -t 1 -n -1 --ignore-eos --ctx 20000 -p "$prompt")
await() { # COMMAND...: until it succeeds, or the host is gone
  until "$@" || [ ! -e "/proc/$host" ]; do sleep 0.01; done
}

# One loss more than is allowed ends it as the first does without restarts.
lost() { # TIMES: that a device took another's place
  [ "$(grep -c 'took its' "$tmp/said")" -ge "$1" ]
}
host_of_losses() { # RESTARTS LOSSES
  rm -f "$tmp/text"
  "${endless[@]}" --restarts "$1" >"$tmp/text" 2>"$tmp/said" &
  host=$!
  await test -s "$tmp/text"
  for ((k = 0; k < $2; k++)); do
    await lost $k
    kill_device
  done
  status=0
  wait $host || status=$?
}
host_of_losses 0 1
check_eq 'status without restarts' $status 3
check_lacks 'the message' "$(cat "$tmp/said")" --restarts
host_of_losses 1 2
check_eq 'status after one more' $status 3
check_has 'the message' "$(cat "$tmp/said")" \
  '--restarts allows no more than 1 losses within 60 s'

# A hanging device is replaced too: the host watches the progress of requests,
# not only whether the process lives. On a busy machine other devices may be
# replaced as well.
few=(run -m "$tiny" -n 40 --ignore-eos -p "$prompt")
few_say=$("$TANDEM" "${few[@]}")
TANDEM_NPU_FAULT=hang-after:60 run_ok "$TANDEM" "${few[@]}" \
  --device-timeout 0.3 --restarts 100
check_eq 'text after a device that hangs' "$out" "$few_say"
check_has stderr "$err" 'made no progress for 0.3 s'

# One that listened is connected to again, where another listens now.
listen() {
  rm -f "$tmp/npu.said"
  "$TANDEM_NPU" --listen "$tmp/npu.sock" 2>"$tmp/npu.said" &
  npu=$!
  until grep -qs listening "$tmp/npu.said"; do sleep 0.01; done
}
"$TANDEM" run -m "$tiny" -n 300 --ignore-eos --ctx 20000 -p "$prompt" \
  >"$tmp/want" 2>"$tmp/no"
bytes=$(($(wc -c <"$tmp/want") - 1)) # all but the newline of an end
listen
rm -f "$tmp/text"
"${endless[@]}" --device "$tmp/npu.sock" >"$tmp/text" 2>"$tmp/said" &
host=$!
await test -s "$tmp/text"
kill -9 "$npu"
wait "$npu" 2>"$tmp/no"
listen
await lost 1
is_long() {
  [ "$(wc -c <"$tmp/text")" -ge "$bytes" ]
}
await is_long
kill -9 $host
wait $host 2>"$tmp/no"
run_ok cmp -n "$bytes" "$tmp/want" "$tmp/text"
check_has stderr "$(cat "$tmp/said")" 'took its place'
kill "$npu"
wait "$npu" 2>"$tmp/no"

# The first Ctrl-C is heeded while a stopped device is waited for.
rm -f "$tmp/text"
(
  trap - INT
  exec env --default-signal=INT "${endless[@]}" >"$tmp/text" 2>"$tmp/said"
) &
host=$!
await test -s "$tmp/text"
pid=$(pgrep -P $host tandem-npu)
kill -STOP "$pid"
kill -INT $host
status=0
wait $host || status=$?
check_eq 'status with a stopped device' $status 130
check_eq 'entry of the stopped device' "$(ls -d "/proc/$pid" 2>/dev/null)" ''
finish
