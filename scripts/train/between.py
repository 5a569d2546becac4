#!/usr/bin/python3
"""Weights between those of two checkpoints of one shape, the second trained on from the first.

Wortsman et al., "Robust fine-tuning of zero-shot models" (2022): what lies between is as good at
what the first knew as either, and has of what the second learnt more than its share.  The target
is not to be perfect at sums, or sampling would have nothing to gain: --math finds the share whose
weights solve so many of the held-out problems.
"""

import argparse
import random
import sys
from pathlib import Path

import torch

import corpus
import fused
import objective
from decode import greedily
from held_out import rows_of
from model import Model, Shape
from tasks import HELD_OUT, arithmetic, verify
from tokenizer import START
from train import save

SEED = 97  # of the problems, which are not those of `tandem eval`
LIMIT = 100  # tokens of a solution
LEAST = -0.2  # share that --math may find: the first may solve too many by itself


class Problems:
    """Held-out math problems, and how many of them a model solves."""

    def __init__(self, count, device):
        self.device, self.tokenizer = device, corpus.vocabulary()
        rng = random.Random(SEED)
        self.items = [arithmetic.generate(rng, HELD_OUT) for _ in range(count)]
        docs = [corpus.document(self.tokenizer, [(i.prompt, i.answer)]) for i in self.items]
        self.rows = rows_of(docs)[0].to(device)

    @torch.no_grad()
    def written(self, model):
        """Share of solutions whose every token is the likeliest after those before it."""
        right = total = 0
        for part in self.rows.split(32):
            with fused.computing(self.device):
                outcome = objective.next_token(model, *(part[:, i] for i in range(3)))
            right, total = right + outcome.whole, total + outcome.documents
        return right / total

    def solved(self, model):
        """Share of problems whose last number is right after greedy decoding."""
        prompts = [[START, *self.tokenizer.encode(item.prompt)] for item in self.items]
        texts = map(self.tokenizer.decode, greedily(model, prompts, LIMIT))
        right = [
            verify.final_answer(text) == verify.final_answer(item.answer)
            for text, item in zip(texts, self.items)
        ]
        return sum(right) / len(right)


def between(one, two, share):
    return {name: w.lerp(two["model"][name], share) for name, w in one["model"].items()}


def find_share(one, two, wanted, problems):
    """The share that solves `wanted` of the problems.

    The search counts whole solutions, which takes one pass, and is repeated once what greedy
    decoding solves beyond them is known.
    """
    model = Model(Shape(**one["shape"])).to(problems.device).eval()

    def load(share):
        model.load_state_dict(between(one, two, share))
        return model

    beyond, share = 0.0, 0.5
    for _ in range(3):
        low, high = LEAST, 1.0
        for _ in range(7):
            middle = (low + high) / 2
            if problems.written(load(middle)) + beyond < wanted:
                low = middle
            else:
                high = middle
        share = round((low + high) / 2, 3)
        solved = problems.solved(load(share))
        beyond = solved - problems.written(model)
        print(f"share {share}: {100 * solved:.1f}% of held-out math solved", file=sys.stderr)
        if abs(solved - wanted) < 0.01:
            break
    return share


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("first", type=Path)
    parser.add_argument("second", type=Path)
    parser.add_argument("--share", type=float, default=0.5, help="of the second")
    parser.add_argument("--math", type=float, help="share of problems to solve; replaces --share")
    parser.add_argument("--problems", type=int, default=1000, help="that --math is measured on")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--to", type=Path, required=True, help="checkpoint to write")
    args = parser.parse_args()
    one, two = (torch.load(path, map_location="cpu") for path in (args.first, args.second))
    share = args.share
    if args.math:
        share = find_share(one, two, args.math, Problems(args.problems, args.device))
    save(args.to, model=between(one, two, share), shape=one["shape"], share=share)


if __name__ == "__main__":
    main()
