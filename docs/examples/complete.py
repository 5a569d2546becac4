"""Continues the prompt on its command line: libtandem from Python, by ctypes
alone. The structs are those of tandem.h, up to the last field that is used: they begin
with their size, and what a caller does not have counts as zero."""
import ctypes as c
import sys

SINK = c.CFUNCTYPE(c.c_int, c.c_void_p, c.c_int32, c.c_void_p, c.c_size_t)


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
        ("sink_arg", c.c_void_p), ("step", c.c_void_p),
        ("step_arg", c.c_void_p)]


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


model = c.c_void_p()
check(tandem.tandem_open(c.byref(model), None), None)
request = Request()
tandem.tandem_request_init(c.byref(request), c.sizeof(request))
request.prompt = (sys.argv[1:] or ["Once upon a time"])[0].encode()
request.max_tokens = 32
request.sink = show
check(tandem.tandem_generate(model, c.byref(request), None), model)
print()
check(tandem.tandem_close(model), None)
