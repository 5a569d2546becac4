#!/usr/bin/env bash
# Life where something is missing: no memfd, no io_uring, few descriptors, small
# files, full disks, processes that are stopped. Each time the right text, or one
# message and a documented exit status, in time and with nothing left behind.
. "$(dirname "$0")/lib.sh"

generate=(run -p 'Once upon a time' -n 8 --ctx 128)
run_ok "$TANDEM" "${generate[@]}"
want=$out

left_behind() { # WHAT
  check_eq "devices left by $1" "$(pgrep -P $$ tandem-npu)" ''
  check_eq "files left by $1" "$(find "$tmp" /dev/shm -newer "$tmp/begin" \
    \( -name '*.tmp*' -o -name '*tandem:*' \) 2>/dev/null)" ''
}
touch "$tmp/begin"

# refused WHAT PART COMMAND...: no text, and sentences one of which has PART.
refused() {
  local what=$1 part=$2
  shift 2
  run timeout 30 "$@"
  checks=$((checks + 1))
  case $status in 1 | 3) ;; *) fail "status of $what is $status: $err" ;; esac
  check_eq "text of $what" "$out" ''
  check_has "stderr of $what" "$err" "$part"
  checks=$((checks + 1))
  [ "$(wc -l <"$tmp/err")" -le 2 ] || fail "stderr of $what: $err"
  left_behind "$what"
}

# ---- calls that the system does not have ------------------------------------
image=$tmp/target.tdm
run_ok "$TANDEM" convert flash/models/target.gguf "$image"
streamed=("${generate[@]}" -m "$image" --dram-budget 40%)
without=$tmp/without_calls
if ${CC:-cc} -std=gnu11 -o "$without" tests/cli/without_calls.c -lseccomp \
  2>"$tmp/cc" && "$without" EPERM ptrace -- true; then
  for code in ENOSYS EPERM; do
    refused "no memfd, $code" 'memfd' \
      "$without" $code memfd_create -- "$TANDEM" "${generate[@]}"
    run_ok "$without" $code io_uring_setup -- "$TANDEM" "${streamed[@]}" --stats
    check_eq "text without io_uring, $code" "$out" "$want"
    check_has "statistics without io_uring, $code" "$err" 'no io_uring: '
    left_behind "no io_uring, $code"
  done
else
  echo "not checked: calls that fail: $(head -n 1 "$tmp/cc")"
fi

# ---- few descriptors, small files -------------------------------------------
limited() { # LIMIT VALUE COMMAND...
  # shellcheck disable=SC2016 # the shell's own
  bash -c 'ulimit "$1" "$2" && shift 2 && exec "$@"' - "$@"
}
ran=no
for n in 4 5 6 7 8 10 12 14 16 24 40; do
  sanitized && [ $n -lt 40 ] && [ $((n % 4)) -ne 0 ] && continue
  run timeout 30 bash -c "ulimit -n $n; exec \"\$@\"" - \
    "$TANDEM" "${generate[@]}"
  if [ "$status" -eq 0 ]; then
    check_eq "text with $n descriptors" "$out" "$want"
    ran=$n
  else
    check_eq "whether more than $ran descriptors do" $ran no
    refused "$n descriptors" tandem \
      bash -c "ulimit -n $n; exec \"\$@\"" - "$TANDEM" "${generate[@]}"
  fi
done
checks=$((checks + 1))
[ $ran != no ] || fail 'not even 40 descriptors do'
refused 'memory of 16 KiB' 'control memfd: File too large' \
  bash -c 'ulimit -f 16; exec "$@"' - "$TANDEM" "${generate[@]}"
refused 'memory of 1000 KiB' "buffer 'tandem:" \
  bash -c 'ulimit -f 1000; exec "$@"' - "$TANDEM" "${generate[@]}"
refused 'files of 100 KiB' 'File too large' bash -c 'ulimit -f 100; exec "$@"' \
  - "$TANDEM" convert flash/models/target.gguf "$tmp/large.tdm"
check_eq 'a file that became too large' "$(ls "$tmp/large.tdm" 2>&1 | wc -l)" 1
checks=$((checks + 1))
[ ! -e "$tmp/large.tdm" ] || fail 'a file that became too large is left'

# ---- a full disk --------------------------------------------------------------
if [ -w /dev/full ]; then
  full() { # COMMAND...: its standard output has no room
    run bash -c 'exec "$@" >/dev/full' - "$@"
    check_eq "status on a full disk of $*" "$status" 1
    check_has "stderr on a full disk of $*" "$err" 'No space left on device'
    left_behind "$*"
  }
  full "$TANDEM" "${generate[@]}"
  full "$TANDEM" "${generate[@]}" --json
  full "$TANDEM" "${generate[@]}" --ids
  full "$TANDEM" "${generate[@]}" -N 2 --temp 1
  full "$TANDEM" inspect flash/models/target.gguf --json
  full "$TANDEM" verify "$image"
  full "$TANDEM" doctor --json
  full "$TANDEM" stress ring --runs 1 --seed 1
  full "$TANDEM_NPU" --version
  full "$TANDEM_NPU" --help
  full "$TANDEM_NPU" --man
fi
cat >"$tmp/full.sh" <<'END'
mkdir "$1" && mount -t tmpfs -o size=64k none "$1" || exit 77
shift
"$@"
status=$?
find "$tmp/disk" -type f -size +0 >"$tmp/left"
exit $status
END
export tmp
if [ "$(id -u)" -eq 0 ] && unshare -m true 2>/dev/null; then
  for to in "synth --like tiny -o" "convert flash/models/target.gguf"; do
    rm -rf "$tmp/disk"
    # shellcheck disable=SC2086 # words
    refused "$to on a full disk" 'No space left' unshare -m bash \
      "$tmp/full.sh" "$tmp/disk" "$TANDEM" $to "$tmp/disk/out"
    check_eq "files left by $to" "$(cat "$tmp/left")" ''
  done
  # A full /dev/shm is nobody's business: buffers have no names there.
  run unshare -m bash -c 'mount -t tmpfs -o size=4k none /dev/shm &&
    head -c 4096 /dev/zero >/dev/shm/all; exec "$@"' - \
    "$TANDEM" "${generate[@]}"
  check_eq 'text beside a full /dev/shm' "$out" "$want"
fi

# ---- stopped ------------------------------------------------------------------
began=$SECONDS
long=(run -p 'Once upon a time' -n 60 --ignore-eos --ctx 128)
run_ok "$TANDEM" "${long[@]}"
want=$out
stopped() { # WHOM: host, which goes on, or the device, which is replaced
  mkfifo "$tmp/pipe"
  "$TANDEM" "${long[@]}" --device-timeout 2 --fault late=400@run#30 \
    >"$tmp/pipe" 2>"$tmp/said" &
  local host=$! whom=$!
  exec 8<"$tmp/pipe"
  rm "$tmp/pipe"
  head -c 1 <&8 >"$tmp/text"
  [ "$1" = host ] || whom=$(pgrep -P $host tandem-npu)
  kill -STOP "$whom"
  if [ "$1" = host ]; then
    sleep 0.5
    kill -CONT $host
  fi
  cat <&8 >>"$tmp/text"
  exec 8<&-
  status=0
  wait $host || status=$?
  check_eq "status with the $1 stopped" $status 0
  check_eq "text with the $1 stopped" "$(cat "$tmp/text")" "$want"
  [ "$1" = host ] || check_has "stderr with the $1 stopped" \
    "$(cat "$tmp/said")" 'made no progress'
}
stopped host
stopped device
# A host that is stopped and then killed: its device does not stay.
"$TANDEM" run -p x -n -1 --ctx 1000 --ignore-eos >"$tmp/text" 2>&1 &
host=$!
for ((try = 0; try < 100; try++)); do
  npu=$(pgrep -P $host tandem-npu) && break
  sleep 0.05
done
kill -STOP $host
kill -9 $host
wait $host 2>/dev/null
for ((try = 0; try < 100; try++)); do
  [ -e "/proc/$npu/exe" ] || break
  sleep 0.05
done
checks=$((checks + 1))
[ ! -e "/proc/$npu/exe" ] || fail "the device $npu of a dead host is left"
checks=$((checks + 1))
[ $((SECONDS - began)) -lt 60 ] || fail "it took $((SECONDS - began)) s"
finish
