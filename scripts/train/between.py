#!/usr/bin/python3
"""Weights between those of two checkpoints of one shape, the second trained on from the first.

Wortsman et al., "Robust fine-tuning of zero-shot models" (2022): what lies between is as good at
what the first knew as either, and has of what the second learnt more than its share.  The target
is not to be perfect at sums, or sampling would have nothing to gain.
"""

import argparse
from pathlib import Path

import torch

from train import save


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("first", type=Path)
    parser.add_argument("second", type=Path)
    parser.add_argument("--share", type=float, default=0.5, help="of the second")
    parser.add_argument("--to", type=Path, required=True, help="checkpoint to write")
    args = parser.parse_args()
    one, two = (torch.load(path, map_location="cpu") for path in (args.first, args.second))
    model = {name: w.lerp(two["model"][name], args.share) for name, w in one["model"].items()}
    save(args.to, model=model, shape=one["shape"])


if __name__ == "__main__":
    main()
