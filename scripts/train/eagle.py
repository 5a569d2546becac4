"""A drafter of one block that reads the target's final states.

Li et al., "EAGLE: Speculative Sampling Requires Rethinking Feature Uncertainty" (2024) and
"EAGLE-3" (2025): the input at a position is its token and the normed final state of the position
before, which is the target's where the target has been, else the drafter's own.
"""

from dataclasses import replace

import torch
from torch import nn

import fused
from model import Block, RMSNorm


class Eagle(nn.Module):
    """Shapes: B rows, T positions, D the target's width."""

    def __init__(self, target):
        super().__init__()
        shape = replace(target.shape, block_count=1)
        width = shape.embedding_length
        self.shape = shape
        self.target = (target,)  # not a part of this module: it does not learn
        self.embd_norm = RMSNorm(width, shape.rms_epsilon)
        self.fc = nn.Linear(2 * width, width, bias=False)
        self.blocks = nn.ModuleList([Block(shape)])
        self.output_norm = RMSNorm(width, shape.rms_epsilon)
        with torch.no_grad():
            self.fc.weight[:, :width].normal_(std=0.02)
            self.fc.weight[:, width:].copy_(torch.eye(width))
        self.blocks[0].load_state_dict(target.blocks[-1].state_dict())
        self.output_norm.load_state_dict(target.output_norm.state_dict())

    def logits(self, states):
        return self.target[0].logits(states)

    def forward(self, ids, states, masks):
        """The own states [B, T, D] of as many steps as there are masks.

        states  the target's; each step but the first reads those of the step before instead
        masks   of each step, [B, 1, T, steps so far * T], added to the scores: the keys of the
                steps before, which stand for positions that are drafted, come first
        """
        target, block = self.target[0], self.blocks[0]
        rows, length, width = states.shape
        cos, sin = target.cos[:length], target.sin[:length]
        tokens = self.embd_norm(target.token_embd(ids).to(states.dtype))
        attn, keys, values, out = block.attn, [], [], []
        for mask in masks:
            before = torch.cat((torch.zeros_like(states[:, :1]), states[:, :-1]), 1)
            x = self.fc(torch.cat((tokens, before), -1))
            h = block.attn_norm(x)
            q = fused.rotate(attn.q(h).view(rows, length, attn.heads, -1), cos, sin)
            k = fused.rotate(attn.k(h).view(rows, length, attn.kv_heads, -1), cos, sin)
            keys.append(k)
            values.append(attn.v(h).view(k.shape))
            mixed = fused.attend(q, torch.cat(keys, 1), torch.cat(values, 1), mask)
            x = x + attn.output(mixed.reshape(rows, length, width))
            states = self.output_norm(x + block.ffn(block.ffn_norm(x)))
            out.append(states)
        return out
