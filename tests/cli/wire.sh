#!/usr/bin/env bash
# docs/wire.md: its listing, bytes and examples match the implementation.
. "$(dirname "$0")/lib.sh"

command -v python3 >/dev/null || skip 'no python3'
python3 -c 'import os; os.memfd_create' 2>"$tmp/no" || skip 'an old python3'
: "${CC:=cc}"

block() { # NAME: what stands in docs/wire.md between ```NAME and ```
  sed -n "/^\`\`\`$1\$/,/^\`\`\`\$/p" docs/wire.md | sed '1d;$d'
}

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

# ---- the listing, and the host that runs a graph ---------------------------
block python >"$tmp/nop.py"
lines=$(wc -l <"$tmp/nop.py")
checks=$((checks + 1))
[ "$lines" -gt 10 ] && [ "$lines" -lt 60 ] ||
  fail "a NOP from an empty file takes $lines lines"
"$TANDEM_NPU" --listen "$tmp/npu" 2>"$tmp/said" &
npu=$!
await 'a listening device' grep -q listening "$tmp/said"
run_ok python3 "$tmp/nop.py" "$tmp/npu"
check_eq 'the output of the listing' "$out" 'nop: status 0'
run_ok python3 docs/examples/npu_host.py "$tmp/npu"
check_has 'the output of npu_host.py' "$out" 'the layer: as computed here'
check_eq 'steps of npu_host.py' "$(grep -c ': ok$' "$tmp/out")" 6
kill "$npu"
wait "$npu" 2>/dev/null
check_eq 'complaints of the device' "$(grep -v listening "$tmp/said")" ''

# ---- the device ------------------------------------------------------------
run_ok $CC -std=gnu11 -Wall -Wextra -Werror -I. -o "$tmp/device" \
  docs/examples/npu_device.c
for host in "$tmp/nop.py" docs/examples/npu_host.py; do
  "$tmp/device" "$tmp/own" &
  device=$!
  await 'a device of our own' grep -q " 00010000 .* $tmp/own\$" /proc/net/unix
  run python3 "$host" "$tmp/own"
  check_has "$host" "$out" nop
  status=0
  wait "$device" || status=$?
  check_eq 'status of npu_device.c' "$status" 0
done
check_eq 'its answers' "$out" 'nop: ok
map tandem:weights: ok
map tandem:kv: ok
map tandem:io: ok
load: this device knows nop and map alone'

# ---- the bytes -------------------------------------------------------------
for name in hello welcome nop; do
  block $name >"$tmp/$name"
done
run_ok timeout 60 python3 - "$tmp" <<'END'
import mmap, os, socket, struct, subprocess, sys
tmp = sys.argv[1]

def told(name):
    return [bytes.fromhex(line[:36].replace(" ", ""))
            for line in open(f"{tmp}/{name}")]

path = f"{tmp}/bytes"
listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
listener.bind(path)
listener.listen()
host = subprocess.Popen([sys.executable, f"{tmp}/nop.py", path],
                        stdout=subprocess.PIPE, text=True)
link, _ = listener.accept()
hello, fds, _, _ = socket.recv_fds(link, 512, 3)
want = bytearray(b"".join(told("hello")))
struct.pack_into("<I", want, 52, host.pid)
assert hello == want, (hello.hex(), want.hex())
assert struct.unpack_from("<I", b"".join(told("hello")), 52) == (1234,)
welcome = b"".join(told("welcome"))
assert len(welcome) == 48
link.send(welcome + bytes(208))
memory = mmap.mmap(fds[0], 12288)
request, completion = told("nop")
os.set_blocking(fds[1], True)
assert os.read(fds[1], 8) == b"\1"
assert memory[256 + 640:256 + 656] == request
assert struct.unpack_from("<I", memory, 256 + 128) == (16,)
memory[4992 + 640:4992 + 656] = completion
struct.pack_into("<I", memory, 4992 + 128, 16)
os.write(fds[2], b"\1")
assert link.recv(4) == b"\4\0\0\0"
assert host.communicate()[0] == "nop: status 0\n"
assert struct.unpack_from("<I", memory, 4992 + 256) == (16,)
END
finish
