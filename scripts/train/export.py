#!/usr/bin/python3
"""Write the trained models as GGUF files, and their logs of loss beside them."""

import argparse
import shutil
import sys
from pathlib import Path

import torch

import corpus
import gguf
from train import load_model

NAMES = {
    "target": "Tandem target",
    "draft": "Tandem draft",
    "diffusion": "Tandem diffusion",
}


def write_exit(path, out, target, kind):
    """The exit predictor: scores of all tokens from the state behind `exit.layer` blocks."""
    state = torch.load(out / "exit.pt", map_location="cpu")
    keys = {
        "general.architecture": "tandem-exit",
        "general.type": "adapter",
        "general.name": "Tandem exit predictor",
        "general.license": "MIT",
        "general.quantization_version": 2,
        "tandem-exit.layer": state["layer"],
        "tandem-exit.embedding_length": target.shape.embedding_length,
        "tandem-exit.vocab_size": target.shape.vocab_size,
        "tandem-exit.layer_norm_rms_epsilon": target.shape.rms_epsilon,
    }
    model = state["model"]
    tensors = [
        ("exit_norm.weight", model["norm"].numpy(), "F32"),
        ("exit.weight", model["weight"].numpy(), kind),
    ]
    gguf.write(path, keys, tensors)


def write_reward(path, out, target, _kind):
    """The reward head: P(right so far) = sigmoid(weight . f + bias), f as reward.py says."""
    state = torch.load(out / "reward.pt", map_location="cpu")
    keys = {
        "general.architecture": "tandem-reward",
        "general.type": "adapter",
        "general.name": "Tandem reward head",
        "general.license": "MIT",
        "tandem-reward.embedding_length": target.shape.embedding_length,
    }
    tensors = [
        ("reward.weight", state["weight"].numpy().reshape(-1), "F32"),
        ("reward.bias", state["bias"].numpy().reshape(-1), "F32"),
    ]
    gguf.write(path, keys, tensors)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="target, draft, diffusion, exit, reward (all)")
    parser.add_argument("--out", type=Path, default=Path("build/train"), help="of the training")
    parser.add_argument("--models", type=Path, default=Path("flash/models"), help="to write to")
    parser.add_argument("--type", default="Q8_0", choices=gguf.TYPES, help="of the matrices")
    args = parser.parse_args()
    names = args.names or [*NAMES, "exit", "reward"]
    (args.models / "logs").mkdir(parents=True, exist_ok=True)
    tokenizer = corpus.vocabulary()
    for name in names:
        path = args.models / f"{name}.gguf"
        if name in NAMES:
            gguf.write_model(
                path, load_model(args.out / f"{name}.pt"), tokenizer, NAMES[name], args.type
            )
        else:
            target = load_model(args.out / "target.pt")
            {"exit": write_exit, "reward": write_reward}[name](path, args.out, target, args.type)
        log = args.out / f"{name}.csv"
        if log.exists():
            shutil.copy(log, args.models / "logs" / log.name)
        print(f"{path}: {path.stat().st_size / 1e6:.2f} MB", file=sys.stderr)


if __name__ == "__main__":
    main()
