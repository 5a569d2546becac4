"""Make a trained model deeper: its blocks split in two and new ones between, saying what it said.

A block's feed-forward is halved: the first half stays with the block's attention, the second gets
an attention of its own, which at first adds nothing (its output matrix is zero) but has queries,
keys and values to learn from.  A new block adds nothing at all at first.  What is left of the
difference is that the second half now reads what the first half wrote; the first half is the one
that writes less.
"""

import torch

from model import Model

NORMS = ("attn_norm.weight", "ffn_norm.weight")


def halves(state, block):
    """Indices of the hidden units of `block` in two halves, the ones that write less first."""
    name = f"blocks.{block}.ffn."
    size = (
        state[name + "gate.weight"].norm(dim=1)
        * state[name + "up.weight"].norm(dim=1)
        * state[name + "down.weight"].norm(dim=0)
    )
    order = size.argsort()
    return order[: len(order) // 2], order[len(order) // 2 :]


def silence(fresh, block, parts):
    """Make the named parts of a block add nothing."""
    for part in parts:
        fresh[f"blocks.{block}.{part}.weight"].zero_()


def copy_norms(fresh, block, state, source):
    for norm in NORMS:
        fresh[f"blocks.{block}.{norm}"].copy_(state[f"blocks.{source}.{norm}"])


def plan(old, new):
    """For each new block (old block, which half of it), or (old block, None) for one that is all
    new and lies behind it.  The new ones are spread evenly, the last behind the last."""
    extra = new - 2 * old
    if extra < 0:
        raise ValueError(f"{old} blocks do not grow to {new}")
    rows = []
    for block in range(old):
        rows += [(block, 0), (block, 1)]
        behind = (block + 1) * extra // old - block * extra // old
        rows += [(block, None)] * behind
    return rows


@torch.no_grad()
def grown(shape, state, wanted):
    """The state of a model of shape `wanted` that does what the smaller one does."""
    if (
        wanted.embedding_length != shape.embedding_length
        or wanted.head_count != shape.head_count
        or wanted.head_count_kv != shape.head_count_kv
        or wanted.feed_forward_length * 2 != shape.feed_forward_length
    ):
        raise ValueError("the new shape must have the same width and heads, and half the hidden")
    fresh = Model(wanted).state_dict()
    for name in ("token_embd.weight", "output_norm.weight"):
        fresh[name].copy_(state[name])
    for block, (source, half) in enumerate(plan(shape.block_count, wanted.block_count)):
        to, of = f"blocks.{block}.", f"blocks.{source}."
        copy_norms(fresh, block, state, source)
        if half is None:
            silence(fresh, block, ("attn.output", "ffn.down"))
            continue
        units = halves(state, source)[half]
        for part in ("gate", "up"):
            fresh[f"{to}ffn.{part}.weight"].copy_(state[f"{of}ffn.{part}.weight"][units])
        fresh[to + "ffn.down.weight"].copy_(state[of + "ffn.down.weight"][:, units])
        if half == 1:
            silence(fresh, block, ("attn.output",))
            continue
        for part in ("q", "k", "v", "output"):
            fresh[f"{to}attn.{part}.weight"].copy_(state[f"{of}attn.{part}.weight"])
    return fresh
