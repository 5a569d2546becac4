#!/usr/bin/python3
"""Write rows of training items whose answers a model has written, for `train.py --rows`.

Many stories fit a plan, and tokens that are filled in one pass may belong to different ones.  A
model that writes the likeliest leaves less of that open.  Only right answers are kept.
Zhou et al., "Understanding Knowledge Distillation in Non-autoregressive Machine Translation"
(2020).
"""

import argparse
import multiprocessing
import random
import sys
from pathlib import Path

import numpy
import torch

import corpus
import fused
from check import is_right
from decode import sample
from tasks import TRAIN
from tokenizer import START
from train import load_model

SURE = 1e-3  # a temperature at which the likeliest token is drawn
ROWS = 2048  # answers written at once
LIMIT = 287  # tokens of an answer


def draw(task, count, seed):
    """(item, prompt's ids) of so many training items; runs in a process of its own."""
    rng, tokenizer = random.Random(seed), corpus.vocabulary()
    items = [corpus.FAMILIES[task].generate(rng, TRAIN) for _ in range(count)]
    return [(item, [START, *tokenizer.encode(item.prompt)]) for item in items]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("task", choices=corpus.FAMILIES)
    parser.add_argument("--model", type=Path, default=Path("flash/models/target.gguf"))
    parser.add_argument("--to", type=Path, required=True, help="file of rows (.npz)")
    parser.add_argument("--items", type=int, default=24000)
    parser.add_argument("--seed", type=int, default=41)
    parser.add_argument("--workers", type=int, default=2, help="processes that draw items")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()
    jobs = [(args.task, args.items // args.workers, args.seed * 1000 + n)
            for n in range(args.workers)]
    with multiprocessing.get_context("fork").Pool(args.workers) as pool:
        drawn = [each for part in pool.starmap(draw, jobs, 1) for each in part]
    drawn.sort(key=lambda each: len(each[1]))
    tokenizer, model = corpus.vocabulary(), load_model(args.model, args.device)
    documents = []
    for first in range(0, len(drawn), ROWS):
        part = drawn[first : first + ROWS]
        with fused.computing(args.device):
            written = sample(model, [prompt for _, prompt in part], 1, SURE, LIMIT, None)
        for (item, _), (ids,) in zip(part, written):
            text = tokenizer.decode(ids)
            if len(ids) < LIMIT and is_right(item._asdict(), text):
                turns = [(item.prompt, text)]
                documents.append(corpus.document(tokenizer, turns, corpus.RESPONSE))
    random.Random(args.seed).shuffle(documents)
    partial = args.to.with_name("partial-" + args.to.name)
    numpy.savez_compressed(partial, **corpus.tables(documents, args.seed))
    partial.replace(args.to)
    print(f"{args.to}: {len(documents)} of {len(drawn)} answers are right", file=sys.stderr)


if __name__ == "__main__":
    main()
