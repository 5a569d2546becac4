#!/usr/bin/python3
"""Measure a checkpoint on held-out items: greedily, or by diffusion, with one token a pass or more.

`tandem eval` measures what is exported; this tells of a model before that.
"""

import argparse
import json
from pathlib import Path

import torch

import corpus
import fused
from decode import write_blocks, write_greedily, write_surely
from tasks import verify
from tokenizer import START
from train import load_model


def is_right(item, text):
    """Whether `text` answers the item, by its own kind of mark (tasks.Item)."""
    if item["check"] == "facts":
        return all(fact in text for fact in item["facts"])
    if item["check"] == "number":
        found = verify.final_answer(text)
        return found is not None and found == verify.final_answer(item["answer"])
    if item["check"] == "text":
        return text.split() == item["answer"].split()
    return text.strip().split("\n")[0].strip() == item["answer"].strip()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", type=Path, help="checkpoint or GGUF file")
    parser.add_argument("tasks", nargs="*", help="of the files in --items-in (all)")
    parser.add_argument("--items-in", type=Path, default=Path("flash/models/tasks"))
    parser.add_argument("--items", type=int, default=40, help="of each task")
    parser.add_argument("--limit", type=int, default=128, help="tokens of an answer")
    parser.add_argument(
        "--threshold", type=float, help="block diffusion: a pass keeps each token this probable"
    )
    parser.add_argument("--show", type=int, default=0, help="answers to print")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()
    tokenizer = corpus.vocabulary()
    model = load_model(args.model, args.device)
    write = write_greedily if model.shape.causal else write_blocks
    shares = []
    for task in args.tasks or [*corpus.FAMILIES]:
        lines = (args.items_in / f"{task}.jsonl").read_text().splitlines()[: args.items]
        items = [json.loads(line) for line in lines]
        prompts = [[START, *tokenizer.encode(item["prompt"])] for item in items]
        speed = ""
        if args.threshold is None:
            written = (write(model, prompt, args.limit) for prompt in prompts)
        else:
            with fused.computing(args.device):
                written, passes = write_surely(model, prompts, args.limit, args.threshold)
            speed = f", {sum(map(len, written)) / sum(passes):.2f} tokens a pass"
        right = 0
        for number, (item, ids) in enumerate(zip(items, written)):
            text = tokenizer.decode(ids)
            right += is_right(item, text)
            if number < args.show:
                print(f"{item['answer'].strip()!r}\n  -> {text.strip()!r}")
        shares.append(right / len(lines))
        share = f"{100 * shares[-1]:.1f}%"
        print(f"{task}: {right} of {len(lines)} right, {share}{speed}", flush=True)
    print(f"mean: {100 * sum(shares) / len(shares):.1f}%")


if __name__ == "__main__":
    main()
