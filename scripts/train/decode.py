"""Sampling many continuations of prompts of one length, with cached keys and values."""

import math

import torch

import fused
from tokenizer import END


class Cache:
    """Keys and values of every block, [rows, kv heads, positions, N], and how many positions."""

    def __init__(self):
        self.blocks, self.length = {}, 0

    def add(self, number, k, v):
        if number in self.blocks:
            old_k, old_v = self.blocks[number]
            k, v = torch.cat((old_k, k), 2), torch.cat((old_v, v), 2)
        self.blocks[number] = k, v
        return k, v

    def select(self, rows):
        """Keep the rows of these numbers, in this order; a number may stand several times."""
        for number, (k, v) in self.blocks.items():
            self.blocks[number] = k[rows], v[rows]


def forward(model, ids, cache):
    """Final hidden states [rows, t, D] of t new positions behind the cache."""
    rows, count = ids.shape
    first = cache.length
    cos, sin = model.cos[first : first + count], model.sin[first : first + count]
    x = model.token_embd(ids)
    for number, block in enumerate(model.blocks):
        attn, h = block.attn, block.attn_norm(x)
        q = fused.rotate(attn.q(h).view(rows, count, attn.heads, -1), cos, sin).transpose(1, 2)
        k = fused.rotate(attn.k(h).view(rows, count, attn.kv_heads, -1), cos, sin).transpose(1, 2)
        v = attn.v(h).view(rows, count, attn.kv_heads, -1).transpose(1, 2)
        k, v = cache.add(number, k, v)
        group = attn.heads // attn.kv_heads
        k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
        score = q @ k.transpose(2, 3) / math.sqrt(attn.head_length)
        if count > 1:
            score = score + torch.full((count, count), -1e9, device=x.device).triu(1)
        mixed = (torch.softmax(score, -1) @ v).transpose(1, 2).reshape(rows, count, -1)
        x = x + attn.output(mixed)
        x = x + block.ffn(block.ffn_norm(x))
    cache.length += count
    return model.output_norm(x)


@torch.no_grad()
def sample(model, prompts, count, temperature, limit, generator):
    """`count` continuations of each of the `prompts`, lists of ids of one length.

    Returns for each prompt a list of lists of ids, which end before END.
    """
    device = model.token_embd.weight.device
    cache = Cache()
    hidden = forward(model, torch.tensor(prompts, device=device), cache)[:, -1]
    out = [[] for _ in range(len(prompts) * count)]
    rows = torch.arange(len(out))  # the continuations that are not at their end
    cache.select((rows // count).to(device))
    hidden = hidden.repeat_interleave(count, 0)
    for _ in range(min(limit, model.shape.context_length - len(prompts[0]))):
        chance = torch.softmax(model.logits(hidden).float() / temperature, -1).cpu()
        drawn = torch.multinomial(chance, 1, generator=generator)
        going = (drawn[:, 0] != END).nonzero()[:, 0]
        if len(going) < len(rows):
            rows, drawn = rows[going], drawn[going]
            cache.select(going.to(device))
        if not len(rows):
            break
        for row, token in zip(rows.tolist(), drawn[:, 0].tolist()):
            out[row].append(token)
        hidden = forward(model, drawn.to(device), cache)[:, -1]
    return [out[i : i + count] for i in range(0, len(out), count)]
