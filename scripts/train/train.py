#!/usr/bin/python3
"""Train a model of one kind (see --help).

Everything is written under --out: packed corpus, checkpoint, log of loss.  Started again, it goes
on from its checkpoint.
"""

import argparse
import csv
import random
import signal
import sys
import time
from pathlib import Path

import numpy
import torch

import corpus
import fused
import gguf
import grow
import objective
import rounding
from eagle import Eagle
from held_out import HeldOut, heading, line
from model import Model, Shape
from optimizer import optimizers

CONTEXT = 1024
KEEP_SECONDS = 240  # between checkpoints
KINDS = (
    "base", "continued", "exercise", "small-base", "small-exercise", "small-sums", "draft", "eagle",
    "diffusion-base", "diffusion-revise", "diffusion-parallel", "block-base", "block-exercise",
    "block-parallel", "block-answers",
)


def shape_of(kind, miniature=False):
    """The shapes that are shipped, or one small enough to try the pipeline.

    The small target has a third of the target's parameters, the draft a tenth.
    """
    by_block = kind.startswith("block-")
    denoises = by_block or kind.startswith("diffusion-")
    sight = {
        "causal": not denoises,
        "block_length": corpus.RESPONSE if by_block else 0,
        "shift_logits": denoises,
    }
    rest = (corpus.VOCABULARY, CONTEXT)
    if miniature:
        return Shape(64, 2 if kind == "draft" else 4, 128, 2, 1, *rest, **sight)
    if kind == "draft":
        return Shape(128, 4, 384, 4, 2, *rest)
    if kind in ("small-base", "small-exercise", "small-sums"):
        return Shape(256, 6, 512, 4, 2, *rest)
    return Shape(384, 12, 512, 6, 2, *rest, **sight)


def corpus_of(kind):
    """(file name, what corpus.build is told) of a kind's training rows.

    What exercises goes on from the base on other rows, which its imitators begin with.  A model
    whose positions all see one another has one question a document; the long ones would
    cost it eight times as much for an answer.
    """
    if kind.startswith("diffusion-"):
        share = corpus.SHARE | corpus.ANSWERS_SHARE
        form = {"response": corpus.RESPONSE, "several": 1, "share": share}
        return "corpus-single.npz", form
    if kind == "block-base":
        return "corpus-block.npz", {"response": corpus.RESPONSE}
    if kind in ("block-exercise", "block-parallel"):
        form = {"response": corpus.RESPONSE, "share": corpus.EXERCISE}
        return "corpus-block-exercise.npz", form
    if kind == "block-answers":
        form = {"response": corpus.RESPONSE, "share": corpus.ANSWERS}
        return "corpus-answers.npz", form
    if kind == "base":
        return "corpus.npz", {}
    if kind == "continued":
        return "corpus-continued.npz", {"share": corpus.CONTINUED}
    if kind == "small-exercise":
        return "corpus-small.npz", {"share": corpus.SMALL_EXERCISE}
    if kind == "small-sums":
        return "corpus-small-sums.npz", {"share": corpus.SMALL_SUMS, "several": 2}
    return "corpus-exercise.npz", {"share": corpus.EXERCISE}


class Batches:
    """Packed rows in an order that the seed and the step number fix."""

    def __init__(self, paths, tokens, seed):
        parts = {}
        for path in paths:
            with numpy.load(path) as arrays:
                for name in arrays.files:
                    parts.setdefault(name, []).append(arrays[name])
        tables = {name: numpy.concatenate(each) for name, each in parts.items()}
        self.tables = {name: table for name, table in tables.items() if len(table)}
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


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--out", type=Path, default=Path("build/train"), help="where all files go")
    parser.add_argument("--text", type=Path, help="folder of plain text to mix in")
    parser.add_argument("--tokens", type=float, default=16e6, help="tokens to train on")
    parser.add_argument("--items", type=int, default=120000, help="task items in the corpus")
    parser.add_argument("--batch", type=int, default=6144, help="tokens of one step")
    parser.add_argument(
        "--init", type=Path, help="checkpoint or GGUF file to start from; fewer blocks are grown"
    )
    parser.add_argument("--teacher", type=Path, help="checkpoint or GGUF file of the model to imitate")
    parser.add_argument(
        "--rows", type=Path, nargs="*", default=[], help="more rows, those of rewrite.py"
    )
    parser.add_argument("--drill-steps", type=int, default=600, help="steps of drills, first")
    parser.add_argument("--warmup", type=int, default=100, help="steps of rising learning rate")
    parser.add_argument("--decay", type=float, default=0.3, help="share of falling learning rate")
    parser.add_argument("--rate", type=float, default=1.0, help="factor of the learning rates")
    parser.add_argument(
        "--rounded", type=float, default=0.0, help="share, the last, of steps with Q4_0 weights"
    )
    parser.add_argument(
        "--last", type=int, help="train so many blocks only; heads on the states before stay good"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, help="stop after this time, to be resumed")
    parser.add_argument(
        "--within", type=float, help="minutes after which a slow run has finished all the same"
    )
    parser.add_argument("--workers", type=int, default=1, help="processes that draw the corpus")
    parser.add_argument("--corpus-only", action="store_true", help="draw the corpus and stop")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--log-every", type=int, default=200, help="steps between lines of the log")
    parser.add_argument(
        "--held-out", type=int, default=24, help="items of each family that the log is made from"
    )
    parser.add_argument("--compile", action="store_true", help="the blocks; faster on a GPU")
    parser.add_argument("--miniature", action="store_true", help="a tiny model, to try it all")
    return parser.parse_args()


def read_weights(path, device="cpu"):
    """(shape fields, state) of a checkpoint or of an exported model."""
    if path.suffix == ".gguf":
        shape, state = gguf.read_model(path)
        return shape, {name: torch.from_numpy(values) for name, values in state.items()}
    state = torch.load(path, map_location=device)
    return state["shape"], state["model"]


def initial(path, wanted):
    """The state to start a model of shape `wanted` from: that of `path`, grown where it is of
    fewer blocks."""
    shape, state = read_weights(path)
    shape = Shape(**shape)
    if shape.block_count != wanted.block_count:
        state = grow.grown(shape, state, wanted)
    return state


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


def compiler_settings():
    """A part is compiled for several kinds of passes; attention, of many sizes, stays as it is."""
    torch._dynamo.config.cache_size_limit = 64
    fused.attend = torch.compiler.disable(fused.attend)


class Run:
    """A model in training: what a checkpoint keeps, and the log."""

    def __init__(self, args, shape):
        self.args = args
        self.teacher = load_model(args.teacher, args.device) if args.teacher else None
        if args.kind == "eagle":
            self.model = Eagle(self.teacher).to(args.device)
        else:
            self.model = Model(shape).to(args.device)
        self.shape = self.model.shape
        if args.init:
            self.model.load_state_dict(initial(args.init, shape))
        if args.last:
            self.freeze_before(shape.block_count - args.last)
        if args.compile:
            compiler_settings()
            for part in (self.model, self.teacher):
                for block in part.blocks if part else ():
                    block.compile()
        self.optimizers = optimizers(self.model)
        self.base = [args.rate * group["lr"] for group in self.groups()]
        self.step, self.seconds, self.loss = 0, 0.0, None
        self.steps = int(args.tokens / args.batch)
        self.checkpoint = args.out / f"{args.kind}.pt"
        if self.checkpoint.exists():
            self.resume()
        self.log = open(args.out / f"{args.kind}.csv", "a", newline="")

    def freeze_before(self, first):
        """Only blocks from `first` on are trained."""
        for name, weight in self.model.named_parameters():
            part = name.split(".")
            weight.requires_grad_(part[0] == "blocks" and int(part[1]) >= first)

    def groups(self):
        """Of all optimizers; other objects once a checkpoint was read."""
        return [group for o in self.optimizers for group in o.param_groups]

    def resume(self):
        state = torch.load(self.checkpoint, map_location=self.args.device)
        self.model.load_state_dict(state["model"])
        for o, kept in zip(self.optimizers, state["optimizers"]):
            o.load_state_dict(kept)
        self.step, self.seconds = state["step"], state["seconds"]

    def progress(self):
        """The step that the run is at, or should be at to finish within its time."""
        limit = self.args.within
        return max(self.step, self.steps * self.seconds / (60 * limit) if limit else 0)

    def keep(self):
        save(
            self.checkpoint,
            model=self.model.state_dict(),
            optimizers=[o.state_dict() for o in self.optimizers],
            shape=self.shape.__dict__,
            step=self.step,
            seconds=self.seconds,
        )

    def sight(self):
        """What the passes see of the weights: them, or near the end what is to be stored."""
        late = self.progress() >= (1 - self.args.rounded) * self.steps
        return rounding.as_stored(self.model.named_parameters() if late else ())

    def learn(self, batches):
        """One step."""
        args, step = self.args, self.step
        scale = rate(self.progress(), self.steps, args.warmup, args.decay)
        for group, lr in zip(self.groups(), self.base):
            group["lr"] = lr * scale
        # a model that begins from nothing learns to look things up first
        drills = 0.9 if step < args.drill_steps and not args.init else None
        if args.kind == "block-answers":
            drills = 0  # it has long learnt to look things up
        batch = [x.to(args.device) for x in batches.at(step, drills)]
        generator = torch.Generator().manual_seed(args.seed * 1000003 + step)
        with self.sight():
            with fused.computing(args.device):
                loss = objective.loss(
                    self.model, *batch, generator, self.teacher, args.kind == "diffusion-revise",
                    args.kind.endswith("-parallel"), args.kind == "block-answers",
                ).loss
            loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        for o in self.optimizers:
            o.step()
            o.zero_grad(set_to_none=True)
        self.loss = loss.item() if self.loss is None else 0.98 * self.loss + 0.02 * loss.item()
        self.step += 1

    def show(self, held):
        """A line of the log."""
        with self.sight():
            figures = line(held.measure(self.model, self.args.device))
        tokens = self.step * self.args.batch
        row = [self.step, tokens, round(self.seconds), f"{self.loss:.4f}", *figures]
        writer = csv.writer(self.log)
        if self.log.tell() == 0:
            writer.writerow(["step", "tokens", "seconds", "loss", *heading(held)])
        writer.writerow(row)
        self.log.flush()
        print(
            f"step {self.step}/{self.steps}  loss {self.loss:.3f}  held-out {figures[0]}, "
            f"{figures[1]} of answer tokens, of each family {' '.join(figures[2:])}  "
            f"{self.seconds / 60:.1f} min",
            file=sys.stderr,
        )


def stopped(started, minutes):
    """A function that says whether to stop early: on SIGTERM, or when the time is up."""
    signals = []
    signal.signal(signal.SIGTERM, lambda *_: signals.append(True))
    return lambda: bool(signals) or (minutes and time.time() - started > minutes * 60)


def main():
    args = arguments()
    torch.manual_seed(args.seed)
    torch.set_num_threads(args.threads)
    args.out.mkdir(parents=True, exist_ok=True)
    if args.device == "cpu":
        fused.load(args.out)
    tokenizer = corpus.vocabulary()
    name, form = corpus_of(args.kind)
    packed = args.out / name
    if not packed.exists():
        corpus.build(
            packed, tokenizer, args.seed, args.items, args.text, workers=args.workers, **form
        )
    if args.corpus_only:
        return
    run = Run(args, shape_of(args.kind, args.miniature))
    parameters = sum(p.numel() for p in run.model.parameters())
    print(
        f"{args.kind}: {parameters} parameters, steps {run.step} to {run.steps} of {args.batch} "
        f"tokens",
        file=sys.stderr,
    )
    if run.progress() >= run.steps:
        return
    batches = Batches([packed, *args.rows], args.batch, args.seed)
    held = HeldOut(
        tokenizer,
        args.device,
        args.held_out,
        form.get("response", 1),
        not args.kind.startswith("diffusion"),
    )
    last = kept = time.time()
    stop = stopped(last, args.minutes)
    early = False
    finished = False
    while not finished and not early:
        run.learn(batches)
        now = time.time()
        run.seconds, last = run.seconds + now - last, now
        early, finished = stop(), run.progress() >= run.steps
        if run.step % args.log_every == 0 or finished:
            run.show(held)
            last = time.time()
        if now - kept > KEEP_SECONDS or finished or early:
            run.keep()
            kept = now
    if not finished:
        sys.exit(f"stopped behind step {run.step} of {run.steps}; the same command goes on")


if __name__ == "__main__":
    main()
