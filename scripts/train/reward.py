#!/usr/bin/python3
"""Train a model's reward head: from a step of a solution to P(all right so far).

Solutions are drawn from the model itself at a temperature and marked step by step by
tasks.verify.  The score of a step is sigmoid(w . f + b).  f is the mean of the model's normed
final states that predict the step's tokens, and four log-probabilities: the mean and the least of
the step's tokens, the mean and the least of the solution's so far.  The states alone tell hard
problems from easy ones; how sure the target was tells solutions of one problem apart.
"""

import argparse
import csv
import random
import sys
import time
from pathlib import Path

import numpy
import torch
from torch.nn import functional as F

import corpus
import objective
from decode import sample
from tasks import HELD_OUT, TRAIN, arithmetic, verify
from tokenizer import END, START
from train import load_model


def step_ends(tokenizer, ids):
    """Indices of the last token of every line of the solution `ids`."""
    ends = [i for i, token in enumerate(ids) if "\n" in tokenizer.decode([token])]
    if ids and (not ends or ends[-1] != len(ids) - 1):
        ends.append(len(ids) - 1)
    return ends


def by_length(problems, most):
    """Groups of up to `most` problems whose prompts are of one length."""
    groups = {}
    for problem in problems:
        groups.setdefault(len(problem[0]), []).append(problem)
    for same in groups.values():
        for first in range(0, len(same), most):
            yield same[first : first + most]


def solutions(target, tokenizer, split, problems, count, temperature, seed):
    """(ids, positions of step ends, their marks, problem, where it starts) of `count` solutions
    of each problem."""
    rng = random.Random(f"{seed} {split}")
    generator = torch.Generator().manual_seed(seed)
    started, out, done = time.time(), [], 0
    drawn = [arithmetic.generate_with_plan(rng, split) for _ in range(problems)]
    drawn = [
        ([START, *tokenizer.encode(item.prompt)], plan, number)
        for number, (item, plan) in enumerate(drawn)
    ]
    for group in by_length(drawn, 16):
        written = sample(target, [p for p, _, _ in group], count, temperature, 100, generator)
        for (prompt, plan, number), texts in zip(group, written):
            for ids in texts:
                marks = verify.check_steps(plan, tokenizer.decode(ids))
                ends = step_ends(tokenizer, ids)
                if marks and len(marks) == len(ends):
                    steps = [len(prompt) + e for e in ends]
                    out.append((prompt + ids, steps, marks, number, len(prompt)))
        done += len(group)
        if done % 256 < len(group):
            print(
                f"{split}: {done} of {problems} problems, {len(out)} solutions, "
                f"{time.time() - started:.0f} s",
                file=sys.stderr,
            )
    return out


@torch.no_grad()
def features(target, drawn, device):
    """(f [steps, D + 4], marks [steps], problem, solution of each step)."""
    rows, marks, problems, owner = [], [], [], []
    order = sorted(range(len(drawn)), key=lambda i: len(drawn[i][0]))
    for first in range(0, len(order), 64):
        group = order[first : first + 64]
        width = max(len(drawn[i][0]) for i in group)
        ids = torch.full((len(group), width), END)
        segment = torch.zeros_like(ids)
        for row, i in enumerate(group):
            ids[row, : len(drawn[i][0])] = torch.tensor(drawn[i][0])
            segment[row, : len(drawn[i][0])] = 1
        ids, segment = ids.to(device), segment.to(device)
        with torch.autocast(device, torch.bfloat16):
            hidden = target(ids, objective.visibility(segment, True)).float()
        logits = target.logits(hidden).float()[:, :-1]
        sure = logits.log_softmax(-1).gather(-1, ids[:, 1:, None])[..., 0].cpu()
        hidden = hidden.cpu()
        for row, i in enumerate(group):
            _, ends, right, problem, start = drawn[i]
            begin = start - 1  # the position that predicts the solution's first token
            at = begin
            for end in ends:
                step, so_far = sure[row, at:end], sure[row, begin:end]
                sums = [step.mean(), step.min(), so_far.mean(), so_far.min()]
                rows.append(torch.cat([hidden[row, at:end].mean(0), torch.stack(sums)]))
                at = end
            marks += right
            owner += [i] * len(ends)
            problems += [problem] * len(ends)
    return torch.stack(rows), torch.tensor(marks).float(), torch.tensor(problems), owner


def ranking(score, marks):
    """Area under the ROC curve."""
    order = numpy.argsort(score.numpy(), kind="stable")
    rank = numpy.empty(len(order))
    rank[order] = numpy.arange(1, len(order) + 1)
    good = marks.numpy() > 0.5
    pairs = good.sum() * (~good).sum()
    return (rank[good].sum() - good.sum() * (good.sum() + 1) / 2) / max(1, pairs)


def chosen_right(score, marks, problems, owner):
    """Share of problems solved by: one solution, the best by its last score, any of them."""
    last = {}
    for s, m, p, o in zip(score.tolist(), marks.tolist(), problems.tolist(), owner):
        last[p, o] = (s, m)  # steps of a solution are in order
    groups = {}
    for (problem, _), value in last.items():
        groups.setdefault(problem, []).append(value)
    one = numpy.mean([numpy.mean([m for _, m in g]) for g in groups.values()])
    best = numpy.mean([max(g)[1] for g in groups.values()])
    any_right = numpy.mean([max(m for _, m in g) for g in groups.values()])
    return one, best, any_right


def fit(rows, marks, decay=0.1, steps=50):
    """(w, b) of the logistic regression of marks on rows, each brought to one scale first."""
    middle, spread = rows.mean(0), rows.std(0) + 1e-3
    scaled = (rows - middle) / spread
    weight = torch.zeros(rows.shape[1], requires_grad=True)
    bias = torch.zeros(1, requires_grad=True)
    optimizer = torch.optim.LBFGS([weight, bias], max_iter=steps, line_search_fn="strong_wolfe")

    def closure():
        optimizer.zero_grad()
        score = scaled @ weight + bias
        loss = F.binary_cross_entropy_with_logits(score, marks) + decay * (weight**2).sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    with torch.no_grad():
        weight = weight / spread
        return weight, bias - weight @ middle


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("build/train"))
    parser.add_argument("--model", default="target", help="whose head it is: target or small")
    parser.add_argument("--problems", type=int, default=1500)
    parser.add_argument("--samples", type=int, default=8, help="solutions of each problem")
    parser.add_argument("--temperature", type=float, default=0.8)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()
    name = "reward" if args.model == "target" else f"reward-{args.model}"
    if (args.out / f"{name}.pt").exists():
        print(f"{name}: is there already", file=sys.stderr)
        return
    torch.manual_seed(args.seed)
    target = load_model(args.out / f"{args.model}.pt", args.device)
    tokenizer = corpus.vocabulary()
    table = {}
    for split, problems in ((TRAIN, args.problems), (HELD_OUT, max(1, args.problems // 8))):
        drawn_path = args.out / f"solutions-{args.model}-{split}.pt"
        if not drawn_path.exists():
            drawn = solutions(
                target, tokenizer, split, problems, args.samples, args.temperature, args.seed
            )
            torch.save(drawn, drawn_path)
        table[split] = features(target, torch.load(drawn_path), args.device)
    rows, marks, _, _ = table[TRAIN]
    held_rows, held_marks, held_problems, held_owner = table[HELD_OUT]
    weight, bias = fit(rows, marks)
    score = held_rows @ weight + bias
    loss = F.binary_cross_entropy_with_logits(rows @ weight + bias, marks).item()
    held = F.binary_cross_entropy_with_logits(score, held_marks).item()
    area = ranking(score, held_marks)
    with open(args.out / f"{name}.csv", "w", newline="") as log:
        writer = csv.writer(log)
        writer.writerow(["steps", "loss", "held_out_steps", "held_out_loss", "held_out_auc"])
        figures = [f"{x:.4f}" for x in (loss, held, area)]
        writer.writerow([len(marks), figures[0], len(held_marks), *figures[1:]])
    one, best, any_right = chosen_right(score, held_marks, held_problems, held_owner)
    print(
        f"{name}: {len(marks)} steps, {100 * marks.mean():.0f}% right; held-out loss {held:.3f}, "
        f"area under the curve {area:.3f}; of {args.samples} solutions: one {100 * one:.1f}%, "
        f"best by reward {100 * best:.1f}%, any {100 * any_right:.1f}%",
        file=sys.stderr,
    )
    torch.save({"weight": weight, "bias": bias}, args.out / f"{name}.pt")


if __name__ == "__main__":
    main()
