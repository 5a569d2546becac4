"""Continues a prompt: libtandem from Python, by ctypes alone.

Usage: complete.py [PROMPT [MODEL [NAME=VALUE]...]], with options as those of
`tandem run`, such as method=chain draft=sam.

The structs are those of tandem.h, of which only the first members are declared: a
struct begins with its size, and members beyond it have their defaults."""
import ctypes as c
import sys

SINK = c.CFUNCTYPE(c.c_int, c.c_void_p, c.c_int32, c.c_void_p, c.c_size_t)


class Options(c.Structure):
    _fields_ = [
        ("size", c.c_size_t), ("model", c.c_char_p),
        ("device_program", c.c_char_p), ("device_talks", c.c_int),
        ("set", c.POINTER(c.c_char_p))]


class Request(c.Structure):
    _fields_ = [
        ("size", c.c_size_t), ("prompt", c.c_char_p),
        ("prompt_bytes", c.c_size_t), ("tokens", c.c_void_p),
        ("n_tokens", c.c_size_t), ("system", c.c_char_p),
        ("flags", c.c_uint), ("max_tokens", c.c_int64),
        ("stop", c.POINTER(c.c_char_p)), ("temperature", c.c_double),
        ("top_k", c.c_uint32), ("top_p", c.c_double), ("min_p", c.c_double),
        ("repeat_penalty", c.c_double), ("repeat_last", c.c_uint32),
        ("seed", c.c_uint64), ("stream", c.c_uint64), ("sink", SINK),
        ("sink_arg", c.c_void_p)]


tandem = c.CDLL("libtandem.so.0")
tandem.tandem_error.restype = c.c_char_p


def check(status, handle):
    if status:
        sys.exit(tandem.tandem_error(handle).decode())


@SINK
def show(arg, token, text, length):
    sys.stdout.buffer.write(c.string_at(text, length))
    sys.stdout.buffer.flush()
    return 0


prompt, path, *words = [x.encode() for x in sys.argv[1:]] + [
    b"Once upon a time", None][len(sys.argv) - 1:]
options = Options()
tandem.tandem_options_init(c.byref(options), c.sizeof(options))
options.model = path  # None: the bundled model
options.set = (c.c_char_p * (len(words) + 1))(*words)
model = c.c_void_p()
check(tandem.tandem_open(c.byref(model), c.byref(options)), None)
request = Request()
tandem.tandem_request_init(c.byref(request), c.sizeof(request))
request.prompt = prompt
request.max_tokens = 32
request.sink = show
check(tandem.tandem_generate(model, c.byref(request), None), model)
print()
check(tandem.tandem_close(model), None)
