"""Held-out items while a model trains: the loss, and whole answers right of each family."""

import random

import torch

import corpus
import fused
import objective
from tasks import HELD_OUT

ROWS = 8192  # tokens of one pass


def rows_of(docs):
    """The documents packed in rows of the shortest length that takes them all."""
    longest = max(len(ids) for ids, _ in docs)
    length = next(n for n in corpus.LENGTHS if n >= longest)
    return torch.tensor(corpus.pack(docs, length)), length


class HeldOut:
    """`count` items of each family, of the long ones a quarter as many; the same each time."""

    def __init__(self, tokenizer, device, count=24, response=1, long=True, seed=7):
        rng = random.Random(seed)
        self.batches = {}
        for name, family in corpus.FAMILIES.items():
            is_long = name in corpus.LONG_SHARE
            if is_long and not long:
                continue
            docs = []
            for _ in range(max(1, count // 4) if is_long else count):
                item = family.generate(rng, HELD_OUT)
                docs.append(corpus.document(tokenizer, [(item.prompt, item.answer)], response))
            docs = [d for d in docs if len(d[0]) <= corpus.LENGTHS[-1]]
            rows, length = rows_of(docs)
            step = max(1, ROWS // length)
            self.batches[name] = [
                [part[:, i].to(device) for i in range(3)] for part in rows.split(step)
            ]

    def all(self):
        """Every batch."""
        return [batch for batches in self.batches.values() for batch in batches]

    @torch.no_grad()
    def measure(self, model, device):
        """{family: (loss, share of answer tokens right, share of whole answers right)}.

        A whole answer is right where each token is the likeliest after those before it, which is
        what greedy decoding then writes; for a diffusion model the share is None.
        """
        model.eval()
        out = {}
        for name, batches in self.batches.items():
            generator = torch.Generator().manual_seed(7)
            shown = []
            for ids, segment, role in batches:
                with fused.computing(device):
                    shown.append(objective.loss(model, ids, segment, role, generator))
            loss = sum(o.loss.item() for o in shown) / len(shown)
            right = sum(o.right for o in shown) / len(shown)
            documents = sum(o.documents for o in shown)
            whole = sum(o.whole for o in shown) / documents if documents else None
            out[name] = (loss, right, whole)
        model.train()
        return out


def heading(held):
    """The names of what `line` gives."""
    return ["held_out_loss", "held_out_accuracy", *held.batches]


def line(figures):
    """The means over the six short families, and each family's share of whole answers, or of
    answer tokens where a model says no more."""
    plain = [f for name, f in figures.items() if name in corpus.SHARE]
    means = [sum(f[i] for f in plain) / len(plain) for i in range(2)]
    shares = [right if whole is None else whole for _, right, whole in figures.values()]
    return [f"{x:.4f}" for x in means] + [f"{x:.3f}" for x in shares]
