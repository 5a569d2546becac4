"""Element-wise steps in one pass each (fused.c) and attention over what is seen alone
(attention.c) where that helps, else in plain PyTorch.

`load(folder)` builds the library once; from then on bfloat16 tensors on the CPU go through it.
"""

import ctypes
import functools
import math
import os
import subprocess
import sys
from pathlib import Path

import torch
from torch.nn import functional as F

library = None
tiles = False  # whether the library attends by the matrix unit
MOST_WIDTH = 128  # of a head that attention.c has room for
PARTS = 16  # runs of rows whose share of a norm's gradient is summed apart
SOURCES = [Path(__file__).with_name(name) for name in ("fused.c", "attention.c")]


def load(folder):
    """Build and open the library for this processor; without a compiler all goes on without it."""
    global library, tiles
    built = Path(folder) / "fused.so"
    flags = ["-O3", "-march=native", "-ffast-math", "-fopenmp", "-shared", "-fPIC"]
    try:
        newest = max(source.stat().st_mtime for source in SOURCES)
        if not built.exists() or built.stat().st_mtime < newest:
            subprocess.run(
                [os.environ.get("CC", "cc"), *flags, *map(str, SOURCES), "-o", str(built), "-lm"],
                check=True,
                capture_output=True,
            )
        library = ctypes.CDLL(str(built.resolve()))
        tiles = library.attention_open() == 0
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"training without fused.c: {error}", file=sys.stderr)


@functools.cache
def precision(device):
    """What a pass computes in: bfloat16 where the device multiplies in it."""
    if torch.device(device).type != "cpu" or "bf16" in Path("/proc/cpuinfo").read_text():
        return torch.bfloat16
    return torch.float32


def computing(device, cache=True):
    """The context of a pass; cache: weights are cast once."""
    half = precision(device) == torch.bfloat16
    kind = torch.device(device).type
    return torch.autocast(kind, torch.bfloat16, enabled=half, cache_enabled=cache)


def usable(x):
    return library is not None and x.dtype == torch.bfloat16 and x.device.type == "cpu"


def at(x):
    return ctypes.c_void_p(x.data_ptr())


def size(n):
    return ctypes.c_int64(n)


class SwiGLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx, gate, up):
        y = torch.empty_like(gate)
        library.swiglu(at(gate), at(up), at(y), size(y.numel()))
        ctx.save_for_backward(gate, up)
        return y

    @staticmethod
    def backward(ctx, dy):
        gate, up = ctx.saved_tensors
        dy = dy.contiguous()
        dgate, dup = torch.empty_like(gate), torch.empty_like(up)
        library.swiglu_back(at(gate), at(up), at(dy), at(dgate), at(dup), size(dy.numel()))
        return dgate, dup


class Norm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, epsilon):
        width = x.shape[-1]
        rows = x.numel() // width
        y, scale = torch.empty_like(x), torch.empty(rows)
        library.rms_norm(
            at(x), at(weight), ctypes.c_float(epsilon), at(y), at(scale), size(rows), size(width)
        )
        ctx.save_for_backward(x, weight, scale)
        return y

    @staticmethod
    def backward(ctx, dy):
        x, weight, scale = ctx.saved_tensors
        dy = dy.contiguous()
        rows, width = scale.numel(), x.shape[-1]
        dx, dweight = torch.empty_like(x), torch.zeros(PARTS, width)
        library.rms_norm_back(
            at(x), at(weight), at(scale), at(dy), at(dx), at(dweight),
            size(rows), size(width), size(PARTS),
        )
        return dx, dweight.sum(0), None


class Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, mask):
        o, lse = torch.empty_like(q), torch.empty(q.shape[0], q.shape[2], q.shape[1])
        rows, length, heads, width = q.shape
        ctx.sizes = [size(n) for n in (rows, length, heads, k.shape[2], width)]
        library.attend(at(q), at(k), at(v), at(mask), at(o), at(lse), *ctx.sizes)
        ctx.save_for_backward(q, k, v, mask, o, lse)
        return o

    @staticmethod
    def backward(ctx, d):
        kept = ctx.saved_tensors
        gradients = [torch.empty_like(x) for x in kept[:3]]
        d = d.contiguous()
        library.attend_back(*map(at, kept), at(d), *map(at, gradients), *ctx.sizes)
        return *gradients, None


def turned(x, cos, sin, sign):
    rows, length, heads, width = x.shape
    y = torch.empty_like(x)
    library.rotate(
        at(x), at(cos), at(sin), ctypes.c_float(sign), at(y),
        size(rows), size(length), size(heads), size(width),
    )
    return y


class Rotate(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, cos, sin):
        ctx.save_for_backward(cos, sin)
        return turned(x, cos, sin, 1)

    @staticmethod
    def backward(ctx, dy):
        return turned(dy.contiguous(), *ctx.saved_tensors, -1), None, None


def swiglu(gate, up):
    if usable(gate):
        return SwiGLU.apply(gate, up)
    return F.silu(gate) * up


def rms_norm(x, weight, epsilon):
    if usable(x):
        return Norm.apply(x.contiguous(), weight, epsilon)
    scale = torch.rsqrt(x.float().square().mean(-1, keepdim=True) + epsilon)
    return x * (scale * weight).to(x.dtype)


def attend(q, k, v, mask):
    """Of q [B, T, heads, N] to k and v [B, S, kv_heads, N] under mask [B or 1, 1, T, S], which is
    added to the scores: as q."""
    rows, length, heads, width = q.shape
    seen = k.shape[1]
    if tiles and usable(q) and seen == length and width % 32 == 0 and width <= MOST_WIDTH:
        mask = mask.expand(rows, -1, -1, -1).contiguous()
        return Attention.apply(q, k.contiguous(), v.contiguous(), mask)
    if q.is_cuda:
        group = heads // k.shape[2]
        q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
        k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
        mask = mask.to(q.dtype).expand(rows, heads, -1, -1)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2)
    # the heads that share keys are stacked along the positions: no copy of keys and values
    kv_heads = k.shape[2]
    group = heads // kv_heads
    q = q.view(rows, length, kv_heads, group, width)
    q = q.permute(0, 2, 3, 1, 4).reshape(rows * kv_heads, group * length, width)
    k = k.permute(0, 2, 3, 1).reshape(rows * kv_heads, width, seen)
    v = v.permute(0, 2, 1, 3).reshape(rows * kv_heads, seen, width)
    score = torch.bmm(q * (1.0 / math.sqrt(width)), k).view(rows, heads, length, seen)
    score = torch.softmax(score + mask, -1).view(rows * kv_heads, group * length, seen)
    return torch.bmm(score, v).view(rows, heads, length, width).transpose(1, 2)


def rotate(x, cos, sin):
    """Turn each pair (x[2i], x[2i + 1]) of x [B, T, heads, N] by angle [T or B, T, N / 2]."""
    if cos.ndim == 3:
        flat = x.reshape(1, -1, *x.shape[2:])
        return rotate(flat, cos.flatten(0, 1), sin.flatten(0, 1)).view(x.shape)
    if usable(x):
        return Rotate.apply(x.contiguous(), cos.contiguous(), sin.contiguous())
    even, odd = x[..., 0::2], x[..., 1::2]
    cos, sin = cos[:, None].to(x.dtype), sin[:, None].to(x.dtype)
    return torch.stack((even * cos - odd * sin, even * sin + odd * cos), -1).flatten(-2)
