#!/usr/bin/env bash
# When either process dies during a text, the other one ends within a second
# with a message, and nothing is left over.
. "$(dirname "$0")/lib.sh"
without_leak_search

model=$tmp/tiny.gguf
run_ok "$TANDEM" synth --like tiny -o "$model"

gone() { # PID: no such process, or one nobody has waited for yet
  local state
  ! read -r _ _ state _ <"/proc/$1/stat" || [ "$state" = Z ]
}

# Milliseconds. It takes a tenth of a second, but a busy disk may hold a write
# up.
soon=4000

# await WHAT LIMIT_MS COMMAND...: until the command succeeds.
await() {
  local what=$1 until=$((${EPOCHREALTIME/[.,]/} + $2 * 1000))
  shift 2
  checks=$((checks + 1))
  until "$@" 2>/dev/null; do
    if [ ${EPOCHREALTIME/[.,]/} -gt $until ]; then
      fail "$what: not in time"
      return 1
    fi
    sleep 0.01
  done
}

# The host's only child.
find_npu() {
  npu=$(grep -ls "^PPid:[[:space:]]*$host\$" /proc/[0-9]*/status)
  npu=${npu#/proc/} npu=${npu%/status}
}

# Start a text that takes minutes, and wait for its first words after those of
# the previous text. Sets $host and, unless --device is among the options,
# $npu.
start() { # OPTION...
  rm -f "$tmp/text"
  "$TANDEM" run -m "$model" -p x -n -1 --ignore-eos --ctx 100000 \
    --va-slots 3 "$@" >"$tmp/text" 2>"$tmp/said" &
  host=$!
  await 'the first words' 60000 test -s "$tmp/text"
  case $* in
  *--device*) ;;
  *) find_npu ;;
  esac
}

ended() { # WANTED_STATUS TEXT: the host has, soon
  await 'the end of the host' $soon gone "$host"
  gone "$host" || kill -9 "$host"
  status=0
  wait "$host" || status=$?
  check_eq 'status of the host' "$status" "$1"
  check_has 'stderr of the host' "$(<"$tmp/said")" "$2"
  # A newline, which $(...) would leave out.
  check_eq 'end of the text' "$(tail -c 1 "$tmp/text" && echo .)" $'\n.'
}

listen() { # OPTION...
  rm -f "$tmp/npu.said"
  "$TANDEM_NPU" --listen "$tmp/npu.sock" "$@" 2>"$tmp/npu.said" &
  npu=$!
  await 'a listening device' 60000 grep -q listening "$tmp/npu.said"
}

no_socket() {
  checks=$((checks + 1))
  [ ! -e "$tmp/npu.sock" ] || fail 'the socket is left'
}

for doorbell in poll eventfd socket; do
  # The device, started by the host.
  start --doorbell $doorbell --restarts 0
  kill -9 "$npu"
  ended 3 "(pid $npu) died (killed by signal 9"
  checks=$((checks + 1))
  [ ! -e "/proc/$npu" ] || fail "the device $npu has an entry still"

  # The host of a device it started.
  start --doorbell $doorbell --restarts 0
  kill -9 "$host"
  wait "$host" 2>/dev/null
  await 'the end of the device' $soon gone "$npu"
done

# A device that listened.
listen --once
start --device "$tmp/npu.sock" --restarts 0
kill -9 "$npu"
wait "$npu" 2>/dev/null
ended 3 "(pid $npu) is gone"
no_socket

# The host of one that listened.
listen --once
start --device "$tmp/npu.sock" --restarts 0
kill -9 "$host"
wait "$host" 2>/dev/null
await 'the end of the device' $soon gone "$npu" || kill -9 "$npu"
status=0
wait "$npu" || status=$?
checks=$((checks + 1))
[ "$status" -ne 0 ] || fail 'the device calls the death of its host a success'
no_socket

# One that hangs.
TANDEM_NPU_FAULT=hang-after:200 run "$TANDEM" run -m "$model" -p x -n 500 \
  --ignore-eos --device-timeout 0.5 --restarts 0
check_eq 'status with a device that hangs' "$status" 3
check_has stderr "$err" 'no progress for 0.5 s'

# Ctrl-C ends the text, not the manners. (A shell's background jobs ignore
# SIGINT, which a program may not undo; so ask for it in another way.)
rm -f "$tmp/text"
(
  trap - INT
  exec env --default-signal=INT "$TANDEM" run -m "$model" -p x -n -1 \
    --ignore-eos --ctx 100000 --stats >"$tmp/text" 2>"$tmp/said"
) &
host=$!
await 'the first words' 60000 test -s "$tmp/text"
find_npu
kill -INT "$host"
ended 130 'stopped by interrupted'
await 'the end of the device' $soon gone "$npu"

# A reader that is slow is waited for: Ctrl-C cuts no write short.
mkfifo "$tmp/slow"
exec 9<>"$tmp/slow"
dd if=/dev/zero of="$tmp/slow" bs=4096 count=1024 oflag=nonblock \
  2>"$tmp/dd" # until it is full
(
  trap - INT
  exec env --default-signal=INT "$TANDEM" run -m "$model" -p x -n -1 \
    --ignore-eos --ctx 100000 >"$tmp/slow" 2>"$tmp/said" 9>&-
) &
host=$!
writes() { # PID: it is in write(2) to standard output
  [[ $(cat "/proc/$1/syscall" 2>"$tmp/no") =~ ^[0-9]+\ 0x1\  ]]
}
await 'a write to the full pipe' 60000 writes "$host"
kill -INT "$host"
sleep 0.1
cat <&9 >"$tmp/text" 9<&- &
reader=$!
ended 130 ''
check_lacks 'stderr' "$(<"$tmp/said")" write
kill "$reader"
exec 9>&-

# A reader that has enough ends the pair without a word.
check_eq 'the first bytes' "$("$TANDEM" run -m "$model" -p x -n -1 \
  --ignore-eos --ctx 100000 2>"$tmp/said" | head -c 9 | wc -c)" 9
said=$(<"$tmp/said")
check_lacks 'stderr' "$said" gone
check_lacks 'stderr' "$said" write

# ---- another program in the device's place -----------------------------------
run env TANDEM_NPU=/bin/true "$TANDEM" run -m "$model" -n 1 -p hi
check_eq 'status with /bin/true as the device' "$status" 3
check_has 'stderr with /bin/true as the device' "$err" \
  "'/bin/true' ended before it answered"
finish
