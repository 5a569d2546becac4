"""Decoding with cached keys and values: samples of several prompts, and what a diffusion
model writes with one token a pass."""

import math

import torch

import fused
from corpus import RESPONSE
from tokenizer import END, MASK


class Cache:
    """Keys and values of every block, [rows, kv heads, positions, N], how many positions, and how
    many of each row, at its beginning, are to be passed over."""

    def __init__(self, pads=None):
        self.blocks, self.length, self.pads = {}, 0, pads

    def add(self, number, k, v, keep):
        """What is cached and the new k and v; whether to cache these too."""
        if number in self.blocks:
            old_k, old_v = self.blocks[number]
            k, v = torch.cat((old_k, k), 2), torch.cat((old_v, v), 2)
        if keep:
            self.blocks[number] = k, v
        return k, v

    def select(self, rows):
        """Keep the rows of these numbers, in this order; a number may stand several times."""
        for number, (k, v) in self.blocks.items():
            self.blocks[number] = k[rows], v[rows]
        if self.pads is not None:
            self.pads = self.pads[rows]


def forward(model, ids, cache, both_ways=False, keep=True):
    """Final hidden states [rows, t, D] of t new positions behind the cache.

    both_ways  the new positions see one another, not only those before
    keep       cache their keys and values
    """
    rows, count = ids.shape
    first = cache.length
    cos, sin = model.cos[first : first + count], model.sin[first : first + count]
    x = model.token_embd(ids)
    for number, block in enumerate(model.blocks):
        attn, h = block.attn, block.attn_norm(x)
        q = fused.rotate(attn.q(h).view(rows, count, attn.heads, -1), cos, sin).transpose(1, 2)
        k = fused.rotate(attn.k(h).view(rows, count, attn.kv_heads, -1), cos, sin).transpose(1, 2)
        v = attn.v(h).view(rows, count, attn.kv_heads, -1).transpose(1, 2)
        k, v = cache.add(number, k, v, keep)
        group = attn.heads // attn.kv_heads
        k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
        score = q @ k.transpose(2, 3) / math.sqrt(attn.head_length)
        if count > 1 and not both_ways:
            hidden = torch.full((count, count), -1e9, device=x.device).triu(1)
            score[..., first:] += hidden
        if cache.pads is not None:
            place = torch.arange(score.shape[-1], device=x.device)
            score = score.masked_fill((place < cache.pads[:, None])[:, None, None], -1e9)
        mixed = (torch.softmax(score, -1) @ v).transpose(1, 2).reshape(rows, count, -1)
        x = x + attn.output(mixed)
        x = x + block.ffn(block.ffn_norm(x))
    if keep:
        cache.length += count
    return model.output_norm(x)


@torch.no_grad()
def sample(model, prompts, count, temperature, limit, generator):
    """`count` continuations of each of the `prompts`, lists of ids.

    Returns for each prompt a list of lists of ids, which end before END.
    """
    device = model.token_embd.weight.device
    width = max(map(len, prompts))
    pads = [width - len(prompt) for prompt in prompts]
    cache = Cache(torch.tensor(pads, device=device))
    ids = [[END] * pad + prompt for pad, prompt in zip(pads, prompts)]
    hidden = forward(model, torch.tensor(ids, device=device), cache)[:, -1]
    out = [[] for _ in range(len(prompts) * count)]
    rows = torch.arange(len(out))  # the continuations that are not at their end
    cache.select((rows // count).to(device))
    hidden = hidden.repeat_interleave(count, 0)
    for _ in range(min(limit, model.shape.context_length - width)):
        chance = torch.softmax(model.logits(hidden).float() / temperature, -1)
        drawn = torch.multinomial(chance, 1, generator=generator).cpu()
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


@torch.no_grad()
def greedily(model, prompts, limit):
    """The likeliest continuations, up to END, of prompts of any lengths; no cache, but all rows
    that are not at their end in one pass."""
    device = model.token_embd.weight.device
    out = [[] for _ in prompts]
    order = sorted(range(len(prompts)), key=lambda i: len(prompts[i]))
    for first in range(0, len(order), 256):
        rows = order[first : first + 256]
        room = -(-(len(prompts[rows[-1]]) + limit) // 8) * 8
        ids = torch.full((len(rows), min(room, model.shape.context_length)), END)
        length = torch.tensor([len(prompts[i]) for i in rows])
        for row, i in enumerate(rows):
            ids[row, : len(prompts[i])] = torch.tensor(prompts[i])
        ids, length = ids.to(device), length.to(device)
        going = rows
        while going and int(length.max()) < ids.shape[1]:
            width = -(-int(length.max()) // 8) * 8
            mask = torch.full((width, width), -1e4, device=device).triu(1)[None, None]
            with fused.computing(device):
                hidden = model(ids[:, :width], mask.to(fused.precision(device)))
            row = torch.arange(len(going), device=device)
            token = model.logits(hidden[row, length - 1].float()).argmax(-1)
            ids[row, length] = token
            token = token.tolist()
            for i, t in zip(going, token):
                if t != END:
                    out[i].append(t)
            kept = [n for n, t in enumerate(token) if t != END and len(out[going[n]]) < limit]
            going = [going[n] for n in kept]
            kept = torch.tensor(kept, dtype=torch.long, device=device)
            ids, length = ids[kept], length[kept] + 1
    return out


def denoise(model, block, states):
    """Fill the masks of the list `block`, the surest first, one a pass.

    states  a function from the block's ids to the final hidden states that say what stands there
    """
    while MASK in block:
        logits = model.logits(states(block)).float()
        logits[:, MASK] = -math.inf
        sure, token = logits.softmax(-1).max(-1)
        masked = torch.tensor([t == MASK for t in block], device=sure.device)
        at = int(sure.masked_fill(~masked, -1).argmax())
        block[at] = int(token[at])
    return block


@torch.no_grad()
def write_blocks(model, prompt, limit):
    """What a diffusion model of either kind writes behind the ids `prompt`, up to END."""
    device = model.token_embd.weight.device
    cache, out = Cache(), []
    by_block = model.shape.block_length
    shift = model.shape.shift_logits

    def run(ids, **how):
        return forward(model, torch.tensor([ids], device=device), cache, **how)[0]

    def states(block):
        if by_block:
            own = run(block, both_ways=True, keep=False)
            return torch.cat((last, own[:-1])) if shift else own
        first = len(prompt) + len(out) - shift
        return run(prompt + out + block, both_ways=True, keep=False)[first : first + len(block)]

    if by_block:
        last = run(prompt)[-1:]
    length = by_block or RESPONSE
    while len(out) < limit and len(prompt) + len(out) + length <= model.shape.context_length:
        block = denoise(model, [MASK] * length, states)
        if END in block:
            return out + block[: block.index(END)]
        out += block
        if by_block:
            last = run(block, both_ways=True)[-1:]  # the finished block's own keys and values
    return out


@torch.no_grad()
def write_surely(model, prompts, limit, threshold):
    """What a block diffusion model writes behind each of the `prompts`, lists of ids, up to END,
    if a pass keeps each token of at least this probability and the surest; and in how many passes.
    """
    device = model.token_embd.weight.device
    width = max(map(len, prompts))
    pads = [width - len(prompt) for prompt in prompts]
    cache = Cache(torch.tensor(pads, device=device))
    ids = [[END] * pad + prompt for pad, prompt in zip(pads, prompts)]
    last = forward(model, torch.tensor(ids, device=device), cache)[:, -1:]
    out, passes = [[] for _ in prompts], [0] * len(prompts)
    rows = range(len(prompts))  # those that are not at their end
    length = model.shape.block_length
    while rows and cache.length + length <= model.shape.context_length:
        block = torch.full((len(rows), length), MASK, device=device)
        taken = torch.zeros(len(rows), dtype=torch.long, device=device)
        while True:
            masked = block == MASK
            if not masked.any():
                break
            hidden = forward(model, block, cache, both_ways=True, keep=False)
            if model.shape.shift_logits:
                hidden = torch.cat((last.to(hidden.dtype), hidden[:, :-1]), 1)
            logits = model.logits(hidden).float()
            logits[..., MASK] = -math.inf
            sure, token = logits.softmax(-1).max(-1)
            sure = sure.masked_fill(~masked, -1)
            most = sure.amax(1, keepdim=True)
            block = torch.where(masked & ((sure >= threshold) | (sure == most)), token, block)
            taken += masked.any(1)
        going = []
        for n, (row, text, count) in enumerate(zip(rows, block.tolist(), taken.tolist())):
            passes[row] += count
            out[row] += text[: text.index(END)] if END in text else text
            if END not in text and len(out[row]) < limit:
                passes[row] += 1  # over the finished block, whose keys and values are kept
                going.append(n)
        rows = [rows[n] for n in going]
        if rows:
            going = torch.tensor(going, device=device)
            cache.select(going)
            last = forward(model, block[going], cache, both_ways=True)[:, -1:]
    return out, passes


@torch.no_grad()
def write_greedily(model, prompt, limit):
    """What a causal model writes behind the ids `prompt`, up to END."""
    device = model.token_embd.weight.device
    cache, out, ids = Cache(), [], prompt
    while len(out) < limit and len(prompt) + len(out) < model.shape.context_length:
        hidden = forward(model, torch.tensor([ids], device=device), cache)[0, -1]
        token = int(model.logits(hidden).argmax())
        if token == END:
            break
        out.append(token)
        ids = [token]
    return out
