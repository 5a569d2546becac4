#!/usr/bin/env bash
# A listening device: which hosts it serves and refuses, and its confinement.
. "$(dirname "$0")/lib.sh"

model=$tmp/tiny.gguf sock=$tmp/npu.sock
run_ok "$TANDEM" synth --like tiny -o "$model"

misuse "$TANDEM_NPU" --once
misuse "$TANDEM_NPU" --once --fd 0
misuse "$TANDEM_NPU" --fd 0
check_has stderr "$err" '--fd is not a socket; use --listen PATH'

await() { # WHAT COMMAND...: until the command succeeds
  local what=$1
  shift
  checks=$((checks + 1))
  for _ in $(seq 1000); do
    ! "$@" 2>/dev/null || return 0
    sleep 0.02
  done
  fail "$what: not in time"
}

"$TANDEM_NPU" --listen "$sock" 2>"$tmp/said" &
npu=$!
await 'a listening device' grep -q listening "$tmp/said"
check_eq 'mode of the socket' "$(stat -c %a "$sock")" 600
run "$TANDEM_NPU" --listen "$sock"
check_eq 'status of a second listener' "$status" 1
check_has stderr "$err" 'another process listens'

text() { # OPTION...: of a few tokens
  run_ok "$TANDEM" run -m "$model" -p 'a b' -n 8 --ignore-eos --ids "$@"
}
text
want=$out
for _ in 1 2 3; do
  text --device "$sock"
  check_eq 'ids from a device that listens' "$out" "$want"
done

# While a slow host is served, a second one has to wait, and is served then.
"$TANDEM" run -m "$model" -p x -n -1 --ignore-eos --ctx 100000 \
  --device "$sock" >"$tmp/long" 2>"$tmp/long.said" &
host=$!
await 'the first words' test -s "$tmp/long"
run "$TANDEM" run -m "$model" -p x -n 1 --device "$sock"
check_eq 'status of a second host' "$status" 1
check_has stderr "$err" "serves another host (pid $host)"

# What serves it is a process of its own, and confined.
serving=$(grep -ls "^PPid:[[:space:]]*$npu\$" /proc/[0-9]*/status)
confined() { # NAME
  sed -n "s/^$1:[[:space:]]*//p" "$serving"
}
if ! nm "$TANDEM_NPU" | grep -q ' __\(asan\|tsan\)_init'; then
  check_eq 'Seccomp of the device' "$(confined Seccomp)" 2
  check_eq 'NoNewPrivs of the device' "$(confined NoNewPrivs)" 1
fi
kill -9 "$host"
wait "$host" 2>/dev/null
text --device "$sock"
check_eq 'ids after a host was killed' "$out" "$want"

# If a device dies while it serves a host, the listening process starts the
# next one, and the endless text continues.
long() { # OPTION...
  "$TANDEM" run -m "$model" -p 'a b' --ignore-eos --ctx 100000 "$@"
}
long -n 300 >"$tmp/want" 2>"$tmp/warned"
bytes=$(($(wc -c <"$tmp/want") - 1)) # all but the newline of an end
long -n -1 --device "$sock" >"$tmp/got" 2>"$tmp/lost" &
other=$!
await 'the first words' test -s "$tmp/got"
serving=$(grep -ls "^PPid:[[:space:]]*$npu\$" /proc/[0-9]*/status)
serving=${serving#/proc/}
kill -9 "${serving%/status}"
await 'the next device' grep -q 'took its place' "$tmp/lost"
is_long() { # the text that came
  [ "$(wc -c <"$tmp/got")" -ge "$bytes" ]
}
await 'the text' is_long
pkill -9 -P "$other" # not the shell that waits for it
wait "$other" 2>/dev/null
run cmp -n "$bytes" "$tmp/want" "$tmp/got"
check_eq 'text, compared' "$status" 0
check_has 'the message of the listener' "$(cat "$tmp/said")" 'killed by signal 9'

kill "$npu"
status=0
wait "$npu" || status=$?
check_eq 'status of the listening device' "$status" 143
check_eq 'socket left over' "$(ls "$sock" 2>/dev/null)" ''
check_has 'the message' "$(cat "$tmp/said")" "the host (pid $host) is gone"

# A fault plan counts over all hosts: one device dies, and none after it;
# faults that were never triggered are reported at the end.
planned() { # START_OF_A_PROCESS STATUS
  rm -f "$tmp/said"
  "$TANDEM_NPU" --listen "$sock" --fault "die@run#5,late=1@start#$1" \
    2>"$tmp/said" &
  npu=$!
  await 'a listening device' grep -q listening "$tmp/said"
  text --device "$sock"
  check_eq 'ids through a death' "$out" "$want"
  check_has 'stderr of the first' "$err" 'took its place'
  text --device "$sock"
  check_eq 'ids after it' "$out" "$want"
  check_eq 'stderr of the second' "$err" ''
  kill "$npu"
  status=0
  wait "$npu" || status=$?
  check_eq "status with a start#$1" "$status" "$2"
}
planned 3 143
planned 4 4
check_has 'the message' "$(cat "$tmp/said")" \
  "the fault 'late=1@start#4' was never triggered"
finish
