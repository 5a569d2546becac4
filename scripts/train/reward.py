#!/usr/bin/python3
"""Train the reward head: from the target's state behind a step to P(all right so far).

Solutions are drawn from the target itself at a temperature and marked step by step by
tasks.verify.  The score of a step is sigmoid(w . norm(h) + b), h being the target's final hidden
state at the step's last token.
"""

import argparse
import copy
import csv
import random
import sys
import time
from pathlib import Path

import numpy
import torch
from torch import nn
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


def solutions(target, tokenizer, split, problems, count, temperature, seed):
    """(ids, positions of step ends, their marks) of `count` solutions of each problem."""
    rng = random.Random(f"{seed} {split}")
    generator = torch.Generator().manual_seed(seed)
    started, out = time.time(), []
    for number in range(problems):
        item, plan = arithmetic.generate_with_plan(rng, split)
        prompt = [START, *tokenizer.encode(item.prompt)]
        for ids in sample(target, prompt, count, temperature, 100, generator):
            marks = verify.check_steps(plan, tokenizer.decode(ids))
            ends = step_ends(tokenizer, ids)
            if marks and len(marks) == len(ends):
                out.append((prompt + ids, [len(prompt) + e for e in ends], marks))
        if (number + 1) % 50 == 0:
            print(
                f"{split}: {number + 1} of {problems} problems, {len(out)} solutions, "
                f"{time.time() - started:.0f} s",
                file=sys.stderr,
            )
    return out


@torch.no_grad()
def features(target, drawn, device):
    """(normed states [steps, D], marks [steps], solution number of each step)."""
    states, marks, owner = [], [], []
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
            hidden = target(ids, objective.visibility(segment, True)).float().cpu()
        for row, i in enumerate(group):
            _, ends, right = drawn[i]
            states.append(hidden[row, ends])
            marks += right
            owner += [i] * len(ends)
    return torch.cat(states), torch.tensor(marks).float(), torch.tensor(owner)


def ranking(score, marks):
    """Area under the ROC curve."""
    order = numpy.argsort(score.numpy(), kind="stable")
    rank = numpy.empty(len(order))
    rank[order] = numpy.arange(1, len(order) + 1)
    good = marks.numpy() > 0.5
    pairs = good.sum() * (~good).sum()
    return (rank[good].sum() - good.sum() * (good.sum() + 1) / 2) / max(1, pairs)


def chosen_right(score, marks, owner, count):
    """Share of problems solved by: one solution, the best of `count` by last score, any of them."""
    last = {}
    for s, m, o in zip(score.tolist(), marks.tolist(), owner.tolist()):
        last[o] = (s, m)  # steps of a solution are in order
    groups = {}
    for number, value in last.items():
        groups.setdefault(number // count, []).append(value)
    one = numpy.mean([numpy.mean([m for _, m in g]) for g in groups.values()])
    best = numpy.mean([max(g)[1] for g in groups.values()])
    any_right = numpy.mean([max(m for _, m in g) for g in groups.values()])
    return one, best, any_right


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("build/train"))
    parser.add_argument("--problems", type=int, default=1500)
    parser.add_argument("--samples", type=int, default=8, help="solutions of each problem")
    parser.add_argument("--temperature", type=float, default=0.8)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    target = load_model(args.out / "target.pt", args.device)
    tokenizer = corpus.vocabulary()
    table = {}
    for split, problems in ((TRAIN, args.problems), (HELD_OUT, max(1, args.problems // 8))):
        drawn_path = args.out / f"solutions-{split}.pt"
        if not drawn_path.exists():
            drawn = solutions(
                target, tokenizer, split, problems, args.samples, args.temperature, args.seed
            )
            torch.save(drawn, drawn_path)
        table[split] = features(target, torch.load(drawn_path), args.device)
    states, marks, owner = table[TRAIN]
    held_states, held_marks, held_owner = table[HELD_OUT]
    # the step of training is chosen on problems that are not trained on
    kept = owner < owner.max() * 4 // 5
    chosen_states, chosen_marks = states[~kept], marks[~kept]
    states, marks = states[kept], marks[kept]
    head = nn.Linear(states.shape[1], 1)
    nn.init.zeros_(head.weight)
    nn.init.zeros_(head.bias)
    optimizer = torch.optim.AdamW(head.parameters(), lr=3e-4, weight_decay=1.0)
    least, kept_state = float("inf"), None
    with open(args.out / "reward.csv", "w", newline="") as log:
        writer = csv.writer(log)
        writer.writerow(["step", "loss", "chosen_by_loss", "held_out_loss", "held_out_auc"])
        for step in range(args.steps):
            picked = torch.randint(len(marks), (4096,))
            loss = F.binary_cross_entropy_with_logits(
                head(states[picked])[:, 0], marks[picked]
            )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if (step + 1) % 20 and step + 1 < args.steps:
                continue
            with torch.no_grad():
                other = F.binary_cross_entropy_with_logits(
                    head(chosen_states)[:, 0], chosen_marks
                ).item()
                score = head(held_states)[:, 0]
                held = F.binary_cross_entropy_with_logits(score, held_marks).item()
            area = ranking(score, held_marks)
            writer.writerow([step + 1] + [f"{x:.4f}" for x in (loss.item(), other, held, area)])
            if other < least:
                least, kept_state = other, copy.deepcopy(head.state_dict())
    head.load_state_dict(kept_state)
    with torch.no_grad():
        score = head(held_states)[:, 0]
    held = F.binary_cross_entropy_with_logits(score, held_marks).item()
    area = ranking(score, held_marks)
    one, best, any_right = chosen_right(score, held_marks, held_owner, args.samples)
    print(
        f"reward: {len(marks)} steps, {100 * marks.mean():.0f}% right; held-out loss {held:.3f}, "
        f"area under the curve {area:.3f}; of {args.samples} solutions: one {100 * one:.1f}%, "
        f"best by reward {100 * best:.1f}%, any {100 * any_right:.1f}%",
        file=sys.stderr,
    )
    torch.save({"weight": head.weight.data, "bias": head.bias.data}, args.out / "reward.pt")


if __name__ == "__main__":
    main()
