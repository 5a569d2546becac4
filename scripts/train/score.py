#!/usr/bin/python3
"""Score the steps of solutions by a reward file, in float32: what `tandem score` is measured by.

Reads JSON lines with "prompt", "solution" and maybe "marks" (whether each step is right so far),
and prints the same lines with "scores"; or, with --drawn, makes such lines of the solutions that
reward.py has drawn and marked.
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
    """The model of that name as its reward judges it, and the reward's head."""
    shape, state = gguf.read_model(models / f"{name}.gguf")
    file = gguf.Reader(models / ("reward.gguf" if name == "target" else f"reward-{name}.gguf"))
    ours = {standard: name for name, standard in gguf.NAMES.items()}
    for tensor, values in file.tensors.items():
        part = tensor.split(".")
        if part[0] == "blk":
            state[f"blocks.{part[1]}.{ours[part[2]]}.weight"] = values
    judge = Model(Shape(**shape))
    judge.load_state_dict({key: torch.tensor(values) for key, values in state.items()})
    head = {key: torch.tensor(v) for key, v in file.tensors.items() if key.startswith("reward")}
    return judge.eval(), head


@torch.no_grad()
def scores(judge, head, ids, start, ends):
    """One of each step of ids[start:]; ends: the index of each step's last token."""
    row = torch.tensor([ids])
    hidden = judge(row, objective.visibility(torch.ones_like(row), True).float())
    chance = judge.logits(hidden)[0, :-1].log_softmax(-1)
    hidden, follows = hidden[0], row[0, 1:]
    sure = chance.gather(-1, follows[:, None])[:, 0]
    other = (chance.argmax(-1) != follows).float()
    entropy = -(chance.exp() * chance).sum(-1)
    out, at = [], start - 1
    for end in ends:
        parts = [hidden[at:end].mean(0), hidden[end]]
        for since in (at, start - 1):
            run = slice(since, end)
            parts.append(reward.how_sure(sure[run], other[run], entropy[run]))
        units = head["reward_hidden.weight"] @ torch.cat(parts) + head["reward_hidden.bias"]
        units = torch.nn.functional.silu(units)
        out.append(torch.sigmoid(head["reward.weight"] @ units + head["reward.bias"][0]).item())
        at = end
    return out


def drawn_lines(path, tokenizer):
    for ids, _, marks, problem, start in torch.load(path):
        yield {
            "id": f"p{problem}",
            "prompt": tokenizer.decode(ids[1:start]),
            "solution": tokenizer.decode(ids[start:]),
            "marks": [bool(m) for m in marks],
        }


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("file", type=Path, help="JSON lines, or with --drawn a checkpoint")
    parser.add_argument("--drawn", action="store_true")
    parser.add_argument("--model", default="target", help="target or small")
    parser.add_argument("--models", type=Path, default=Path("flash/models"))
    args = parser.parse_args()
    tokenizer = corpus.vocabulary()
    if args.drawn:
        for line in drawn_lines(args.file, tokenizer):
            print(json.dumps(line))
        return
    judge, head = read(args.models, args.model)
    for text in args.file.read_text().splitlines():
        line = json.loads(text)
        prompt = [START, *tokenizer.encode(line["prompt"])]
        solution = tokenizer.encode(line["solution"])
        ends = [len(prompt) + end for end in reward.step_ends(tokenizer, solution)]
        line["scores"] = scores(judge, head, prompt + solution, len(prompt), ends)
        print(json.dumps(line))
        sys.stdout.flush()


if __name__ == "__main__":
    main()
