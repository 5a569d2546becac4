"""A llama-architecture transformer, causal or bidirectional, as small as the task allows.

Shapes: B rows, T positions, D embedding width, H heads, G key/value heads, N = D / H head width.
The rotation pairs neighbouring elements, as GGUF's `llama` architecture has it, so that exported
weights need no permutation.
"""

import math
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F

import fused


@dataclass(frozen=True)
class Shape:
    """What a model is made of; the fields carry GGUF's names where it has them."""

    embedding_length: int
    block_count: int
    feed_forward_length: int
    head_count: int
    head_count_kv: int
    vocab_size: int
    context_length: int
    causal: bool = True  # no position sees those behind it
    block_length: int = 0  # of a model that denoises, and sees, block by block; else 0
    shift_logits: bool = False  # one that denoises says at a position what stands behind it
    rope_freq_base: float = 10000.0
    rms_epsilon: float = 1e-5

    @property
    def head_length(self):
        return self.embedding_length // self.head_count


class RMSNorm(nn.Module):
    def __init__(self, width, epsilon):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.epsilon = epsilon

    def forward(self, x):
        return fused.rms_norm(x, self.weight, self.epsilon)


def rotations(length, width, base):
    """cos and sin of position times frequency: each [length, width / 2]."""
    frequency = base ** (-torch.arange(0, width, 2, dtype=torch.float32) / width)
    angle = torch.outer(torch.arange(length, dtype=torch.float32), frequency)
    return angle.cos(), angle.sin()


class Attention(nn.Module):
    def __init__(self, shape):
        super().__init__()
        kv_width = shape.head_count_kv * shape.head_length
        self.heads, self.kv_heads = shape.head_count, shape.head_count_kv
        self.head_length = shape.head_length
        self.q = nn.Linear(shape.embedding_length, shape.embedding_length, bias=False)
        self.k = nn.Linear(shape.embedding_length, kv_width, bias=False)
        self.v = nn.Linear(shape.embedding_length, kv_width, bias=False)
        self.output = nn.Linear(shape.embedding_length, shape.embedding_length, bias=False)

    def forward(self, x, cos, sin, mask, past=None, keep=False):
        """past: keys and values of what stands before x; keep: give those of x as well."""
        rows, length, width = x.shape
        q = fused.rotate(self.q(x).view(rows, length, self.heads, self.head_length), cos, sin)
        k = fused.rotate(self.k(x).view(rows, length, self.kv_heads, self.head_length), cos, sin)
        v = self.v(x).view(rows, length, self.kv_heads, self.head_length)
        own = k, v
        if past is not None:
            k, v = torch.cat((past[0], k), 1), torch.cat((past[1], v), 1)
        mixed = fused.attend(q, k, v, mask)
        out = self.output(mixed.reshape(rows, length, width))
        return (out, own) if keep else out


class FeedForward(nn.Module):
    def __init__(self, shape):
        super().__init__()
        width, hidden = shape.embedding_length, shape.feed_forward_length
        self.gate = nn.Linear(width, hidden, bias=False)
        self.up = nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x):
        return self.down(fused.swiglu(self.gate(x), self.up(x)))


class Block(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.attn_norm = RMSNorm(shape.embedding_length, shape.rms_epsilon)
        self.attn = Attention(shape)
        self.ffn_norm = RMSNorm(shape.embedding_length, shape.rms_epsilon)
        self.ffn = FeedForward(shape)

    def forward(self, x, cos, sin, mask, past=None, keep=False):
        mixed = self.attn(self.attn_norm(x), cos, sin, mask, past, keep)
        if keep:
            mixed, own = mixed
        x = x + mixed
        x = x + self.ffn(self.ffn_norm(x))
        return (x, own) if keep else x


class Model(nn.Module):
    """Token ids [B, T] to final hidden states [B, T, D]; `logits` maps those to [.., vocab]."""

    def __init__(self, shape):
        super().__init__()
        self.shape = shape
        self.token_embd = nn.Embedding(shape.vocab_size, shape.embedding_length)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.block_count))
        self.output_norm = RMSNorm(shape.embedding_length, shape.rms_epsilon)
        cos, sin = rotations(shape.context_length, shape.head_length, shape.rope_freq_base)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)
        for name, weight in self.named_parameters():
            if weight.ndim == 2:
                deep = name.endswith(("output.weight", "down.weight"))
                sharp = name.endswith(("q.weight", "k.weight"))  # attention that is not flat
                std = 0.02 / math.sqrt(2 * shape.block_count) if deep else 0.1 if sharp else 0.02
                nn.init.normal_(weight, std=std)
        self.look_back()

    @torch.no_grad()
    def look_back(self, gap=120.0, pairs=8):
        """Start the first heads as ones that look 1, 2, 3 ... positions back.

        Reading a context begins with "what stood before this?", which takes a small model most of
        its training to find out.  All embeddings get a part in common (their first element), from
        which these heads make the same query and key everywhere; the rotation does the rest.
        `gap` is the score's scale, `pairs` how many of the fastest rotations take part.
        """
        shape, attn = self.shape, self.blocks[0].attn
        self.token_embd.weight[:, 0] = 0.1
        embedding = self.token_embd.weight
        common = (embedding[:, 0] / embedding.square().mean(1).sqrt()).mean()
        size, width = math.sqrt(gap) / common, shape.head_length
        angle = shape.rope_freq_base ** (-torch.arange(0, width, 2)[:pairs] / width)
        attn.k.weight[:width] *= 0.1
        attn.k.weight[: 2 * pairs : 2, 0] = size
        for head in range(shape.head_count // shape.head_count_kv):
            query = attn.q.weight[head * width : (head + 1) * width]
            query *= 0.1
            query[: 2 * pairs : 2, 0] = size * torch.cos((head + 1) * angle)
            query[1 : 2 * pairs : 2, 0] = -size * torch.sin((head + 1) * angle)

    def forward(self, ids, mask, places=None, taps=None, past=None, kept=None):
        """mask: added to the scores, [B or 1, 1, T, T]; places: the positions [B, T] of the
        tokens, where they are not 0, 1, 2 ...; taps: a dictionary that receives the state behind
        so many blocks under each of its keys; kept: a list that receives each block's keys and
        values; past: such a list, of tokens that are seen before these (mask: [.., T, all])."""
        length = ids.shape[1]
        x = self.token_embd(ids).to(mask.dtype)
        at = slice(length) if places is None else places
        cos, sin = self.cos[at], self.sin[at]
        for number, block in enumerate(self.blocks, 1):
            before = past[number - 1] if past else None
            x = block(x, cos, sin, mask, before, kept is not None)
            if kept is not None:
                x, own = x
                kept.append(own)
            if taps is not None and number in taps:
                taps[number] = x
        return self.output_norm(x)

    def logits(self, hidden):
        return F.linear(hidden, self.token_embd.weight.to(hidden.dtype))
