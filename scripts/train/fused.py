"""Element-wise steps in one pass each (fused.c) where that helps, else in plain PyTorch.

`load(folder)` builds the library once; from then on bfloat16 tensors on the CPU go through it.
"""

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import torch
from torch.nn import functional as F

library = None
PARTS = 16  # runs of rows whose share of a norm's gradient is summed apart
MOST_LENGTH = 2048  # positions in a row of scores that fused.c has room for
SOURCE = Path(__file__).with_name("fused.c")


def load(folder):
    """Build and open fused.c for this processor; without a compiler all goes on without it."""
    global library
    built = Path(folder) / "fused.so"
    flags = ["-O3", "-march=native", "-ffast-math", "-fopenmp", "-shared", "-fPIC"]
    try:
        if not built.exists() or built.stat().st_mtime < SOURCE.stat().st_mtime:
            subprocess.run(
                [os.environ.get("CC", "cc"), *flags, str(SOURCE), "-o", str(built), "-lm"],
                check=True,
                capture_output=True,
            )
        library = ctypes.CDLL(str(built.resolve()))
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"training without fused.c: {error}", file=sys.stderr)


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


class Softmax(torch.autograd.Function):
    """Overwrites the scores, which nothing else needs."""

    @staticmethod
    def forward(ctx, score, mask):
        rows, heads, length, _ = score.shape
        library.softmax(at(score), at(mask), size(rows), size(heads), size(length))
        ctx.mark_dirty(score)
        ctx.save_for_backward(score)
        return score

    @staticmethod
    def backward(ctx, d):
        (p,) = ctx.saved_tensors
        d = d.clone(memory_format=torch.contiguous_format)
        library.softmax_back(at(p), at(d), size(p.numel() // p.shape[-1]), size(p.shape[-1]))
        return d, None


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


def softmax(score, mask):
    """Of score [B, heads, T, T] over what mask [B, 1, T, T] leaves visible."""
    if usable(score) and score.shape[-1] <= MOST_LENGTH:
        return Softmax.apply(score, mask.expand(score.shape[0], -1, -1, -1).contiguous())
    return torch.softmax(score + mask, -1)


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
