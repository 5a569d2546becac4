#!/usr/bin/python3
"""Train a model: target, draft or diffusion (see --help).

Everything is written under --out: packed corpus, checkpoint, log of loss.  Started again, it goes
on from its checkpoint.
"""

import argparse
import csv
import random
import sys
import time
from pathlib import Path

import numpy
import torch

import corpus
import fused
import gguf
import objective
from model import Model, Shape
from optimizer import optimizers
from tasks import HELD_OUT

CONTEXT = 512


def shape_of(kind, miniature=False):
    """The shapes that are shipped, or one small enough to try the pipeline."""
    if miniature:
        return Shape(64, 2, 128, 2, 1, corpus.VOCABULARY, CONTEXT, causal=kind != "diffusion")
    if kind == "draft":
        return Shape(128, 2, 384, 4, 2, corpus.VOCABULARY, CONTEXT)
    return Shape(384, 5, 1024, 6, 2, corpus.VOCABULARY, CONTEXT, causal=kind != "diffusion")


class Batches:
    """Packed rows in an order that the seed and the step number fix."""

    def __init__(self, path, tokens, seed):
        with numpy.load(path) as arrays:
            self.tables = {name: arrays[name] for name in arrays.files if len(arrays[name])}
        self.tokens, self.seed = tokens, seed

    def at(self, step, drills=None):
        """(ids, segment, role) of batch `step`, each an int64 tensor [rows, T].

        drills: the share of batches that are drills and nothing else (as many as there are).
        """
        rng = random.Random(f"{self.seed} {step}")
        size = {name: table.shape[0] * table.shape[2] for name, table in self.tables.items()}
        if drills is not None and "drills" in size:
            rest = sum(size.values()) - size["drills"]
            size["drills"] = rest * drills / (1 - drills)
        table = self.tables[rng.choices(list(size), list(size.values()))[0]]
        rows = max(1, self.tokens // table.shape[2])
        picked = numpy.array([rng.randrange(len(table)) for _ in range(rows)])
        batch = torch.from_numpy(table[picked].astype(numpy.int64))
        return batch[:, 0], batch[:, 1], batch[:, 2]


def rate(step, steps, warmup, decay):
    """Warm up, stay, and fall to zero over the last `decay` of all steps."""
    return min(1.0, (step + 1) / warmup, max(0.0, (steps - step) / (decay * steps)))


def held_out_batch(kind, tokenizer, seed, count):
    """One packed batch of held-out items, the same each time."""
    rng = random.Random(seed)
    response = corpus.RESPONSE if kind == "diffusion" else 1
    docs = []
    for name, family in corpus.FAMILIES.items():
        for _ in range(count):
            item = family.generate(rng, HELD_OUT)
            docs.append(corpus.document(tokenizer, [(item.prompt, item.answer)], response))
    docs = [d for d in docs if len(d[0]) <= corpus.LONG]
    rows = torch.tensor(corpus.pack(docs, corpus.LONG))
    return rows[:, 0], rows[:, 1], rows[:, 2]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("kind", choices=["target", "draft", "diffusion"])
    parser.add_argument("--out", type=Path, default=Path("build/train"), help="where all files go")
    parser.add_argument("--text", type=Path, help="folder of plain text to mix in")
    parser.add_argument("--tokens", type=float, default=16e6, help="tokens to train on")
    parser.add_argument("--items", type=int, default=120000, help="task items in the corpus")
    parser.add_argument("--batch", type=int, default=6144, help="tokens of one step")
    parser.add_argument("--init", type=Path, help="checkpoint or GGUF file to start from")
    parser.add_argument("--teacher", type=Path, help="checkpoint or GGUF file of the model to imitate")
    parser.add_argument("--drill-steps", type=int, default=600, help="steps of drills, first")
    parser.add_argument("--warmup", type=int, default=100, help="steps of rising learning rate")
    parser.add_argument("--decay", type=float, default=0.3, help="share of falling learning rate")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, help="stop after this time, to be resumed")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--log-every", type=int, default=100, help="steps between lines of the log")
    parser.add_argument("--miniature", action="store_true", help="a tiny model, to try it all")
    return parser.parse_args()


def read_weights(path, device="cpu"):
    """(shape fields, state) of a checkpoint or of an exported model."""
    if path.suffix == ".gguf":
        shape, state = gguf.read_model(path)
        return shape, {name: torch.from_numpy(values) for name, values in state.items()}
    state = torch.load(path, map_location=device)
    return state["shape"], state["model"]


def load_model(path, device="cpu"):
    """The model of a checkpoint or GGUF file, for use and not for training."""
    shape, state = read_weights(path, device)
    model = Model(Shape(**shape)).to(device)
    model.load_state_dict(state)
    return model.eval()


def save(path, **state):
    """Whole or not at all: a checkpoint replaces the one before in one step."""
    partial = path.with_suffix(".partial")
    torch.save(state, partial)
    partial.replace(path)


def main():
    args = arguments()
    torch.manual_seed(args.seed)
    torch.set_num_threads(args.threads)
    args.out.mkdir(parents=True, exist_ok=True)
    if args.device == "cpu":
        fused.load(args.out)
    tokenizer = corpus.vocabulary()
    response = corpus.RESPONSE if args.kind == "diffusion" else 1
    packed = args.out / f"corpus-{response}.npz"
    if not packed.exists():
        corpus.build(packed, tokenizer, args.seed, args.items, args.text, response)

    shape = shape_of(args.kind, args.miniature)
    model = Model(shape).to(args.device)
    if args.init:
        model.load_state_dict(read_weights(args.init, args.device)[1])
    teacher = load_model(args.teacher, args.device) if args.teacher else None
    optimizer = optimizers(model)
    base = [group["lr"] for o in optimizer for group in o.param_groups]
    checkpoint, log_path = args.out / f"{args.kind}.pt", args.out / f"{args.kind}.csv"
    first, seconds = 0, 0.0
    if checkpoint.exists():
        state = torch.load(checkpoint, map_location=args.device)
        model.load_state_dict(state["model"])
        for o, s in zip(optimizer, state["optimizers"]):
            o.load_state_dict(s)
        first, seconds = state["step"], state["seconds"]

    batches = Batches(packed, args.batch, args.seed)
    held = [x.to(args.device) for x in held_out_batch(args.kind, tokenizer, 7, 24)]
    steps = int(args.tokens / args.batch)
    log = open(log_path, "a", newline="")
    writer = csv.writer(log)
    if first == 0:
        writer.writerow(["step", "tokens", "seconds", "loss", "held_out_loss", "held_out_accuracy"])
    print(
        f"{args.kind}: {sum(p.numel() for p in model.parameters())} parameters, "
        f"steps {first} to {steps} of {args.batch} tokens",
        file=sys.stderr,
    )

    def keep(step):
        save(
            checkpoint,
            model=model.state_dict(),
            optimizers=[o.state_dict() for o in optimizer],
            shape=shape.__dict__,
            step=step,
            seconds=seconds,
        )

    started = last = time.time()
    running = None
    for step in range(first, steps):
        scale = rate(step, steps, args.warmup, args.decay)
        groups = [group for o in optimizer for group in o.param_groups]
        for group, lr in zip(groups, base):
            group["lr"] = lr * scale
        # a model that begins from nothing learns to look things up first
        drills = 0.9 if step < args.drill_steps and not args.init else None
        ids, segment, role = (x.to(args.device) for x in batches.at(step, drills))
        generator = torch.Generator().manual_seed(args.seed * 1000003 + step)
        with torch.autocast(args.device, torch.bfloat16):
            loss, _ = objective.loss(model, ids, segment, role, generator, teacher)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for o in optimizer:
            o.step()
            o.zero_grad(set_to_none=True)
        running = loss.item() if running is None else 0.98 * running + 0.02 * loss.item()
        now = time.time()
        seconds, last = seconds + now - last, now
        done = step + 1
        out_of_time = args.minutes and now - started > args.minutes * 60
        if done % args.log_every == 0 or done == steps or out_of_time:
            generator = torch.Generator().manual_seed(7)
            with torch.no_grad(), torch.autocast(args.device, torch.bfloat16):
                held_loss, right = objective.loss(model, *held, generator)
            row = [done, done * args.batch, round(seconds), f"{running:.4f}"]
            writer.writerow(row + [f"{held_loss.item():.4f}", f"{right:.4f}"])
            log.flush()
            print(
                f"step {done}/{steps}  loss {running:.3f}  held-out {held_loss.item():.3f}, "
                f"{100 * right:.1f}% of answer tokens  {seconds / 60:.1f} min",
                file=sys.stderr,
            )
            last = time.time()
        if done % 200 == 0 or done == steps or out_of_time:
            keep(done)
        if out_of_time:
            break


if __name__ == "__main__":
    main()
