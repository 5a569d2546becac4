"""Sampling many continuations of one prompt, with cached keys and values."""

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

    def repeat(self, rows):
        """One row becomes `rows` equal ones."""
        for number, (k, v) in self.blocks.items():
            self.blocks[number] = k.repeat(rows, 1, 1, 1), v.repeat(rows, 1, 1, 1)


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
def sample(model, prompt, count, temperature, limit, generator):
    """`count` continuations of the ids `prompt`, each a list of ids that ends before END."""
    device = model.token_embd.weight.device
    cache = Cache()
    hidden = forward(model, torch.tensor([prompt], device=device), cache)[:, -1]
    cache.repeat(count)
    hidden = hidden.repeat(count, 1)
    out = [[] for _ in range(count)]
    open_rows = set(range(count))
    for _ in range(min(limit, model.shape.context_length - len(prompt))):
        chance = torch.softmax(model.logits(hidden).float() / temperature, -1).cpu()
        drawn = torch.multinomial(chance, 1, generator=generator)
        for row in list(open_rows):
            token = int(drawn[row])
            if token == END:
                open_rows.remove(row)
            else:
                out[row].append(token)
        if not open_rows:
            break
        hidden = forward(model, drawn.to(device), cache)[:, -1]
    return out
