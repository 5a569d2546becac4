#!/usr/bin/python3
"""Score the steps of solutions by a reward file, in float32: what `tandem score` is measured by.

Reads JSON lines with "prompt", "solution" and maybe "marks" (whether each step is right so far),
and prints the same lines with "scores".  reward.py writes such lines.
"""

import argparse
import json
import sys
from pathlib import Path

import torch

import corpus
import gguf
import objective
import reward
from model import Model, Shape
from tokenizer import START


def read(models, name):
    """The model of that name with its verifier's blocks, and the bias."""
    shape, state = gguf.read_model(models / f"{name}.gguf")
    file = gguf.Reader(models / ("reward.gguf" if name == "target" else f"reward-{name}.gguf"))
    ours = {standard: name for name, standard in gguf.NAMES.items()}
    for tensor, values in file.tensors.items():
        part = tensor.split(".")
        if part[0] == "blk":
            state[f"blocks.{part[1]}.{ours[part[2]]}.weight"] = values
    judge = Model(Shape(**shape))
    judge.load_state_dict({key: torch.tensor(values) for key, values in state.items()})
    return judge.eval(), torch.tensor(file.tensors["reward.bias"])


@torch.no_grad()
def scores(judge, bias, ids, start, ends):
    """One of each step of ids[start:]; ends: the index of each step's last token."""
    row = torch.tensor([ids])
    state = judge(row, objective.visibility(torch.ones_like(row), True).float())[0, :-1]
    odds = judge.logits(state).gather(1, row[0, 1:, None])[:, 0] + bias
    chance = torch.nn.functional.logsigmoid(odds)
    return [chance[start - 1 : end].sum().exp().item() for end in ends]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("file", type=Path, help="JSON lines")
    parser.add_argument("--model", default="target", help="target or small")
    parser.add_argument("--models", type=Path, default=Path("flash/models"))
    args = parser.parse_args()
    tokenizer = corpus.vocabulary()
    judge, bias = read(args.models, args.model)
    for text in args.file.read_text().splitlines():
        line = json.loads(text)
        prompt = [START, *tokenizer.encode(line["prompt"])]
        solution = tokenizer.encode(line["solution"])
        texts = [tokenizer.decode([token]) for token in solution]
        ends = [len(prompt) + end for end in reward.step_ends(texts)]
        line["scores"] = scores(judge, bias, prompt + solution, len(prompt), ends)
        print(json.dumps(line))
        sys.stdout.flush()


if __name__ == "__main__":
    main()
