"""A host for tandem-npu that uses only Python's standard library. It connects,
maps three buffers, loads a graph of one layer, runs the graph on one row, and
compares the result with the same layer computed in Python.

  tandem-npu --listen /tmp/npu &
  python3 docs/examples/npu_host.py /tmp/npu

docs/wire.md describes the messages. Python's stores reach memory in the order
of the processor; the system call that rings the doorbell follows all of them."""
import array
import fcntl
import math
import mmap
import os
import random
import select
import socket
import struct
import sys

HELLO, WELCOME, SHARE, BYE = 1, 2, 3, 4
NOP, MAP, UNMAP, GRAPH_LOAD, GRAPH_DROP, GRAPH_RUN = range(1, 7)
SYNC, WEIGHTS, KV, HIDDEN_IN, HIDDEN_OUT, ROWS = range(6)
RING, LINE, DATA = 4096, 128, 640  # bytes of a ring, of a line, to its data
REQUESTS = 256
COMPLETIONS = REQUESTS + DATA + RING


def memory(name, size):
    """A named memfd that cannot shrink, and its bytes."""
    fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, size)
    fcntl.fcntl(fd, 1033, 2)  # F_ADD_SEALS, F_SEAL_SHRINK
    return fd, mmap.mmap(fd, size)


def bell():
    """The end that rings or hears here, and the device's."""
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    return ours, theirs


class Device:
    def __init__(self, path):
        self.link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.link.connect(path)
        user = struct.unpack("3i", self.link.getsockopt(
            socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[1]
        if user != os.geteuid():
            sys.exit(f"{path} is user {user}'s: no buffers for that one")
        fd, self.control = memory("tandem:ctrl", 12288)
        struct.pack_into("<4s5I", self.control, 0, b"TNDM", 1,
                         REQUESTS, DATA + RING, COMPLETIONS, DATA + RING)
        for ring in REQUESTS, COMPLETIONS:
            self.put(ring, RING)
            self.put(ring + LINE + 4, 1)  # quick_at: nothing lies there
        self.ring, device_wait = bell()
        self.heard, device_ring = bell()
        hello = struct.pack("<I4s6I2Q4I", HELLO, b"TNDM", 1, 0, 2, 1, 1, 16,
                            64 << 20, 0, 0, os.getpid(), 1, 0)
        self.send(hello, fd, device_wait.fileno(), device_ring.fileno())
        device_wait.close()
        device_ring.close()
        answer = self.link.recv(512)
        op, magic, version, status = struct.unpack_from("<I4sIi", answer)
        if (op, magic, version, status) != (WELCOME, b"TNDM", 1, 0):
            sys.exit(f"refused: {answer[48:].rstrip(bytes(1)).decode()}")
        self.seq = self.tail = self.head = self.buffers = 0

    def send(self, message, *fds):
        self.link.sendmsg([message], [(socket.SOL_SOCKET, socket.SCM_RIGHTS,
                                       array.array("i", fds))] if fds else [])

    def put(self, at, value):
        struct.pack_into("<I", self.control, at, value & 0xffffffff)

    def get(self, at):
        return struct.unpack_from("<I", self.control, at)[0]

    def call(self, message, refs=()):
        """One request: its completion's status, arguments and text."""
        packed = b"".join(struct.pack("<2I2BHI", *r) for r in refs) + message
        packed += bytes(-len(packed) % 8)
        self.seq += 1
        packet = struct.pack("<HBBI", 1 + len(packed) // 8, 0, len(refs),
                             self.seq) + packed
        if RING - self.tail % RING < len(packet):  # it must not wrap: skip
            self.put(REQUESTS + DATA + self.tail % RING, 0)
            self.tail += RING - self.tail % RING
        at = REQUESTS + DATA + self.tail % RING
        self.control[at:at + len(packet)] = packet
        self.tail += len(packet)
        self.put(REQUESTS + LINE, self.tail)
        self.ring.send(b"\1")
        return self.completion()

    def completion(self):
        while self.get(COMPLETIONS + LINE) == self.head & 0xffffffff:
            ready, _, _ = select.select([self.heard, self.link], [], [])
            if self.link in ready or not self.heard.recv(64):
                sys.exit("the device is gone")
        at = COMPLETIONS + DATA + self.head % RING
        if not self.get(at) & 0xffff:
            self.head += RING - self.head % RING
            at = COMPLETIONS + DATA
        length = 8 * (self.get(at) & 0xffff)
        done = self.control[at + 8:at + length].ljust(416, b"\0")
        if self.get(at + 4) != self.seq:
            sys.exit("an answer to what was not asked")
        self.head += length
        self.put(COMPLETIONS + 2 * LINE, self.head)
        op, status, *arg = struct.unpack_from("<Ii6I", done)
        return status, arg, done[240:].split(b"\0")[0].decode()

    def ask(self, what, message, refs=()):
        status, arg, text = self.call(message, refs)
        print(f"{what}: {'ok' if not status else text}")
        return arg if not status else sys.exit(1)

    def buffer(self, name, size):
        """Shared and mapped: its bytes here and its address there."""
        fd, data = memory(name, size)
        self.send(struct.pack("<4IQ32s", SHARE, self.buffers, 1, 0, size,
                              name.encode()), fd)
        os.close(fd)
        arg = self.ask(f"map {name}", struct.pack("<4I", MAP, self.buffers,
                                                  1, 0))
        self.buffers += 1
        return data, arg[0]


def norm(x):
    scale = 1 / math.sqrt(sum(v * v for v in x) / len(x) + 1e-5)
    return [v * scale for v in x]


def times(matrix, x):
    return [sum(a * b for a, b in zip(row, x)) for row in matrix]


def main():
    n, ff, slots, stride = 32, 64, 4, 128
    draw = random.Random(1).uniform
    npu = Device(sys.argv[1])
    npu.ask("nop", struct.pack("<2I", NOP, 0))
    weights, weights_at = npu.buffer("tandem:weights", 65536)
    kv, kv_at = npu.buffer("tandem:kv", 2 * slots * stride)
    io, io_at = npu.buffer("tandem:io", 4096)

    # The tensors in the order of enum wire_layer_tensor; None is absent.
    tables, value, at = [], [], 0
    for shape in [(1, n), (n, n), (n, n), (n, n), (n, n)] + 6 * [None] + [
            (1, n)] + 5 * [None] + [(ff, n), (ff, n), (n, ff), (1, n // 2)]:
        if not shape:
            tables.append(struct.pack("<4I", 0, 0, 0, 0))
            continue
        rows, cols = shape
        value.append([[1.0 if rows == 1 else draw(-.3, .3)
                       for _ in range(cols)] for _ in range(rows)])
        tables.append(struct.pack("<4I", 0, rows, cols, at))
        for row in value[-1]:
            struct.pack_into(f"<{cols}f", weights, at, *row)
            at += 4 * cols
        at += -at % 64
    model = struct.pack("<8I2f6I", n, 1, 1, n, n, ff, 0, 0, 1e-5,
                        1 / math.sqrt(n), slots, stride, 0, 0, 0, 0)
    npu.ask("load", struct.pack("<6I", GRAPH_LOAD, 7, 1, 0, 1, at) + model +
            tables.pop() + b"".join(tables))

    # One row at position 0, in slot 0, which sees itself and nothing else.
    x = [draw(-1, 1) for _ in range(n)]
    struct.pack_into("<4I", io, 0, 0, 0, 0, 0)
    struct.pack_into("<Q", io, 16, 1)
    struct.pack_into(f"<{n}f", io, 1024, *x)
    refs = [(weights_at, at, WEIGHTS, 1, 0, 1),
            (kv_at, len(kv), KV, 0, 0, 0),
            (io_at, 24, ROWS, 1, 0, 1),
            (io_at + 1024, 4 * n, HIDDEN_IN, 1, 0, 2),
            (io_at + 2048, 4 * n, HIDDEN_OUT, 0, 0, 0)]
    npu.ask("run", struct.pack("<6I", GRAPH_RUN, 7, 1, 0, 1, 0), refs)
    got = struct.unpack_from(f"<{n}f", io, 2048)

    # Position 0 is not rotated, and attending to itself gives the row's V.
    _, _, _, v, o, _, gate, up, down, _ = value
    x = [a + b for a, b in zip(x, times(o, times(v, norm(x))))]
    h = norm(x)
    h = [g / (1 + math.exp(-g)) * u
         for g, u in zip(times(gate, h), times(up, h))]
    want = [a + b for a, b in zip(x, times(down, h))]
    off = max(abs(a - b) for a, b in zip(got, want))
    print("the layer: as computed here" if off < 1e-4 else f"off by {off}")
    npu.send(struct.pack("<I", BYE))
    return off >= 1e-4


sys.exit(main())
