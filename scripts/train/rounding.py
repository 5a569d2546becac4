"""Training weights so that they may be rounded to four bits.

The passes see each matrix inside the blocks as gguf.q4_0 will store it; the gradient that this
gives is applied to the exact weights (straight through).
"""

import contextlib

import torch

from gguf import GROUP


@torch.no_grad()
def rounded(weight):
    """The matrix as Q4_0 gives it back: in groups of 32, the largest stands for code -8."""
    groups = weight.reshape(-1, GROUP)
    most = groups.gather(1, groups.abs().argmax(1, keepdim=True))
    scale = most / -8
    inverse = torch.where(scale == 0, scale, 1 / scale)
    codes = (groups * inverse + 8.5).floor().clamp(0, 15) - 8
    return (codes * scale.half().float()).view_as(weight)


@contextlib.contextmanager
def as_stored(parameters):
    """Within it those of the parameters (name, parameter) that are matrices of blocks are rounded;
    their gradients stay."""
    exact = [
        (p, p.data) for name, p in parameters
        if p.ndim == 2 and name.startswith("blocks")
    ]
    if exact:
        flat = rounded(torch.cat([data.reshape(-1) for _, data in exact]))
        parts = flat.split([data.numel() for _, data in exact])
        for (parameter, data), part in zip(exact, parts):
            parameter.data = part.clone().view_as(data)
    try:
        yield
    finally:
        for parameter, data in exact:
            parameter.data = data
