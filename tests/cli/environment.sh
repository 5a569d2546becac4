#!/usr/bin/env bash
# Restricted environments: no memfd, no io_uring, few descriptors, small file
# limits, full disks, stopped processes. Each time the right text, or a message
# and a documented exit status, within a time limit and with nothing left over.
. "$(dirname "$0")/lib.sh"

# 3 MiB of weights in 4 blocks.
model=$tmp/model.gguf image=$tmp/model.tdm
run_ok "$TANDEM" synth --like tiny --quant f32 -o "$model"
run_ok "$TANDEM" convert "$model" "$image"
of=(run -m "$model" -p 'Once upon a time' --ignore-eos -t 1)
generate=("${of[@]}" -n 8 --ctx 128)
run_ok "$TANDEM" "${generate[@]}"
want=$out

left_behind() { # WHAT: seen behind each part, for processes and files stay
  nothing_left "$1"
  check_eq "files left by $1" "$(find "$tmp" -name '*.tmp*')" ''
}

# refused WHAT PART COMMAND...: no text, and sentences one of which has PART.
refused() {
  run timeout 300 "${@:3}"
  was_refused "$1" "$2"
}
was_refused() { # WHAT PART: what was run last
  local what=$1 part=$2 lines
  checks=$((checks + 1))
  case $status in 1 | 3) ;; *) fail "status of $what is $status: $err" ;; esac
  check_eq "text of $what" "$out" ''
  check_has "stderr of $what" "$err" "$part"
  checks=$((checks + 1))
  mapfile -t lines <"$tmp/err"
  [ ${#lines[@]} -le 2 ] || fail "stderr of $what: $err"
}
limited() { # LIMIT N COMMAND...: as ulimit says
  (ulimit "$1" "$2" && exec timeout 300 "${@:3}")
}

# ---- calls that the system does not have ------------------------------------
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
  done
  left_behind 'calls that fail'
else
  echo "not checked: calls that fail: $(head -n 1 "$tmp/cc")"
fi

# ---- few descriptors, small files -------------------------------------------
ran=no
for n in 4 5 6 7 8 10 12 14 16 40; do
  run limited -n $n "$TANDEM" "${generate[@]}"
  if [ "$status" -eq 0 ]; then
    check_eq "text with $n descriptors" "$out" "$want"
    ran=$n
  else
    check_eq "whether more than $ran descriptors do" $ran no
    was_refused "$n descriptors" tandem
  fi
done
checks=$((checks + 1))
[ $ran != no ] || fail 'not even 40 descriptors do'
left_behind 'few descriptors'
run limited -f 16 "$TANDEM" "${generate[@]}"
was_refused 'memory of 16 KiB' 'control memfd: File too large'
run limited -f 400 "$TANDEM" "${generate[@]}"
was_refused 'memory of 400 KiB' "buffer 'tandem:"
run limited -f 100 "$TANDEM" convert "$model" "$tmp/large.tdm"
was_refused 'files of 100 KiB' 'File too large'
left_behind 'small files'
checks=$((checks + 1))
[ ! -e "$tmp/large.tdm" ] || fail 'a file that became too large is left'

# ---- a full disk --------------------------------------------------------------
if [ -w /dev/full ]; then
  no_room() { # COMMAND...: its standard output has no room
    status=0
    "$@" >/dev/full 2>"$tmp/err" || status=$?
    err=$(<"$tmp/err")
    check_eq "status on a full disk of $*" "$status" 1
    check_has "stderr on a full disk of $*" "$err" 'No space left on device'
  }
  no_room "$TANDEM" "${generate[@]}"
  no_room "$TANDEM" "${generate[@]}" --json
  no_room "$TANDEM" "${generate[@]}" --ids
  no_room "$TANDEM" "${generate[@]}" -N 2 --temp 1
  no_room "$TANDEM" inspect "$model" --json
  no_room "$TANDEM" verify "$image"
  no_room "$TANDEM" doctor --json
  no_room "$tandem_stress" ring --runs 1 --seed 1
  no_room "$TANDEM_NPU" --version
  no_room "$TANDEM_NPU" --help
  no_room "$TANDEM_NPU" --man
  left_behind 'full disks'
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
  for to in "synth --like tiny -o" "convert $model"; do
    rm -rf "$tmp/disk"
    # shellcheck disable=SC2086 # words
    refused "$to on a full disk" 'No space left' unshare -m bash \
      "$tmp/full.sh" "$tmp/disk" "$TANDEM" $to "$tmp/disk/out"
    check_eq "files left by $to" "$(<"$tmp/left")" ''
    left_behind "$to"
  done
  # A full /dev/shm has no effect: buffers have no names there.
  run unshare -m sh -c 'mount -t tmpfs -o size=4k none /dev/shm &&
    head -c 4096 /dev/zero >/dev/shm/all; exec "$@"' - \
    "$TANDEM" "${generate[@]}"
  check_eq 'text with a full /dev/shm' "$out" "$want"
fi

# ---- stopped ------------------------------------------------------------------
began=$SECONDS
long=("${of[@]}" -n 60 --ctx 128)
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
  check_eq "text with the $1 stopped" "$(<"$tmp/text")" "$want"
  [ "$1" = host ] || check_has "stderr with the $1 stopped" \
    "$(<"$tmp/said")" 'made no progress'
}
stopped host
stopped device
# A host that is stopped and then killed: its device does not stay.
"$TANDEM" "${of[@]}" -n -1 --ctx 20000 >"$tmp/text" 2>&1 &
host=$!
for ((try = 0; try < 6000; try++)); do
  npu=$(pgrep -P $host tandem-npu) && break
  sleep 0.05
done
kill -STOP $host
kill -9 $host
wait $host 2>/dev/null
for ((try = 0; try < 6000; try++)); do
  [ -e "/proc/$npu/exe" ] || break
  sleep 0.05
done
checks=$((checks + 1))
[ ! -e "/proc/$npu/exe" ] || fail "the device $npu of a dead host is left"
checks=$((checks + 1))
[ $((SECONDS - began)) -lt 300 ] || fail "it took $((SECONDS - began)) s"
finish
