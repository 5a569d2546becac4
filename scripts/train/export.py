#!/usr/bin/python3
"""Write the trained models as GGUF files, and their logs and curves of loss beside them."""

import argparse
import shutil
import sys
from pathlib import Path

import torch

import corpus
import curves
import gguf
from model import Shape
from train import load_model, read_weights

# name: (title, type of the matrices inside the blocks); the rest is Q8_0
MODELS = {
    "target": ("Tandem target", "Q8_0"),
    "small": ("Tandem small target", "Q8_0"),
    "draft": ("Tandem draft", "Q8_0"),
    "diffusion": ("Tandem diffusion", "Q4_0"),
    "block": ("Tandem block diffusion", "Q4_0"),
}
# name: thresholds of staged decoding (docs/diffusion.md), found with its
# held-out tasks
THRESHOLDS = {"block": (0.9, 0.999), "diffusion": (0.98, 0.995)}
# name: the stages that it is made of, which are not shipped
BEFORE = {
    "target": ["base", "continued", "exercise"],
    "small": ["small-base", "small-exercise", "small-sums"],
    "block": ["block-base", "block-exercise", "block-parallel", "block-answers"],
    "diffusion": ["diffusion-base", "diffusion-revise", "diffusion-parallel"],
}
# name: the model that it belongs to
EXITS = {"exit": "target", "exit-third": "target"}
REWARDS = {"reward": "target", "reward-small": "small"}


def write_exit(path, trained, shape, kind):
    """The exit predictor: scores of all tokens from the state behind `exit.layer` blocks."""
    state = torch.load(trained, map_location="cpu")
    keys = {
        "general.architecture": "tandem-exit",
        "general.type": "adapter",
        "general.name": "Tandem exit predictor",
        "general.license": "MIT",
        "general.quantization_version": 2,
        "tandem-exit.layer": state["layer"],
        "tandem-exit.embedding_length": shape["embedding_length"],
        "tandem-exit.vocab_size": shape["vocab_size"],
        "tandem-exit.layer_norm_rms_epsilon": shape["rms_epsilon"],
    }
    model = state["model"]
    tensors = [
        ("exit_norm.weight", model["norm"].numpy(), "F32"),
        ("exit.weight", model["weight"].numpy(), kind),
    ]
    gguf.write(path, keys, tensors)


def write_eagle(path, trained, kind):
    """The drafter that reads the target's states (eagle.py)."""
    state = torch.load(trained, map_location="cpu")
    shape = Shape(**state["shape"])
    ours = gguf.model_keys(shape, "Tandem eagle", kind)
    arch = ours["general.architecture"]
    keys = {name.replace(f"{arch}.", "tandem-eagle."): value for name, value in ours.items()}
    keys |= {"general.architecture": "tandem-eagle", "general.type": "adapter"}
    weights = {name: values.float().numpy() for name, values in state["model"].items()}
    tensors = [
        ("eagle_embd_norm.weight", weights["embd_norm.weight"], "F32"),
        ("eagle_fc.weight", weights["fc.weight"], kind),
        *gguf.block_tensors(weights, [0], kind),
        ("output_norm.weight", weights["output_norm.weight"], "F32"),
    ]
    gguf.write(path, keys, tensors)


def write_reward(path, trained, shape, kind):
    """The reward: the verifier's own blocks, behind `reward.layer` of the model's, and the bias of
    P(token is right) = sigmoid(state . embedding + bias), as reward.py says."""
    state = torch.load(trained, map_location="cpu")
    own = sorted({int(name.split(".")[1]) for name in state if name.startswith("blocks.")})
    keys = {
        "general.architecture": "tandem-reward",
        "general.type": "adapter",
        "general.name": "Tandem reward",
        "general.license": "MIT",
        "general.quantization_version": 2,
        "tandem-reward.embedding_length": shape["embedding_length"],
        "tandem-reward.layer": own[0],
        "tandem-reward.block_count": len(own),
    }
    weights = {name: values.float().numpy() for name, values in state.items()}
    bias = ("reward.bias", weights["bias"], "F32")
    gguf.write(path, keys, [*gguf.block_tensors(weights, own, kind), bias])


def write(name, out, path, kind):
    """Write what was trained as `name` to `path`; `kind` replaces the types it is shipped in."""
    trained = out / f"{name}.pt"
    if name in MODELS:
        title, inside = MODELS[name]
        types = (kind or inside, kind or "Q8_0")
        more = dict(zip(("diffusion.visible", "diffusion.stable"), THRESHOLDS.get(name, ())))
        gguf.write_model(path, load_model(trained), corpus.vocabulary(), title, *types, keys=more)
        return
    if name == "eagle":
        write_eagle(path, trained, kind or "Q8_0")
        return
    shape, _ = read_weights(out / f"{(EXITS | REWARDS)[name]}.pt")
    if name in EXITS:
        write_exit(path, trained, shape, kind or "Q8_0")
    else:
        write_reward(path, trained, shape, kind or "Q4_0")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    everything = [*MODELS, "eagle", *EXITS, *REWARDS]
    parser.add_argument("names", nargs="*", help=f"of {', '.join(everything)} (all)")
    parser.add_argument("--out", type=Path, default=Path("build/train"), help="of the training")
    parser.add_argument("--models", type=Path, default=Path("flash/models"), help="to write to")
    parser.add_argument("--type", choices=gguf.TYPES, help="of all matrices, not as shipped")
    args = parser.parse_args()
    logs = args.models / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    for name in args.names or everything:
        path = args.models / f"{name}.gguf"
        write(name, args.out, path, args.type)
        for log in [args.out / f"{of}.csv" for of in (name, *BEFORE.get(name, ()))]:
            if log.exists():
                curves.draw(Path(shutil.copy(log, logs / log.name)))
        print(f"{path}: {path.stat().st_size / 1e6:.2f} MB", file=sys.stderr)


if __name__ == "__main__":
    main()
