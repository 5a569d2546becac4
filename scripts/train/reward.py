#!/usr/bin/python3
"""Train a model's reward head: from a step of a solution to P(all right so far).

Solutions are drawn from the model itself at a temperature and marked step by step by
tasks.verify.  Who judges them is the verifier (verifier.py).  The score of a step is
sigmoid(w . silu(V f + a) + b).  f is made of what the verifier says of the solution: the mean of
its normed final states that predict the step's tokens, the state behind the last of them, and how
sure it is of what was drawn (SURE), in the step and in the solution so far.  The states alone tell
hard problems from easy ones; how sure it is tells solutions of one problem apart, and so does the
loss, half of which compares solutions of one.
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
import fused
import objective
import verifier
from decode import sample
from tasks import HELD_OUT, TRAIN, arithmetic, verify
from tokenizer import END, START
from train import load_model

# Of a run of tokens: mean, least and sum of their log-probabilities, how many were not the
# likeliest, mean and largest entropy of what they were drawn from.
SURE = 6
HIDDEN = 64  # units of the head


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
    device = target.token_embd.weight.device
    generator = torch.Generator(device).manual_seed(seed)
    started, out, done = time.time(), [], 0
    drawn = [arithmetic.generate_with_plan(rng, split) for _ in range(problems)]
    drawn = [
        ([START, *tokenizer.encode(item.prompt)], plan, number)
        for number, (item, plan) in enumerate(drawn)
    ]
    for group in by_length(drawn, 64):
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


def how_sure(sure, other, entropy):
    return torch.stack(
        [sure.mean(), sure.min(), sure.sum(), other.sum(), entropy.mean(), entropy.max()]
    )


@torch.no_grad()
def features(judge, drawn, device):
    """(f [steps, 2 D + 2 SURE], marks [steps], problem, solution of each step)."""
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
        with fused.computing(device):
            hidden = judge(ids, objective.visibility(segment, True)).float()
        chance = judge.logits(hidden).float()[:, :-1].log_softmax(-1)
        follows = ids[:, 1:]
        sure = chance.gather(-1, follows[..., None])[..., 0].cpu()
        other = (chance.argmax(-1) != follows).float().cpu()
        entropy = -(chance.exp() * chance).sum(-1).cpu()
        hidden = hidden.cpu()
        for row, i in enumerate(group):
            _, ends, right, problem, start = drawn[i]
            begin = start - 1  # the position that predicts the solution's first token
            at = begin
            for end in ends:
                parts = [hidden[row, at:end].mean(0), hidden[row, end]]
                for since in (at, begin):
                    run = (row, slice(since, end))
                    parts.append(how_sure(sure[run], other[run], entropy[run]))
                rows.append(torch.cat(parts))
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


class Head(torch.nn.Module):
    """Scores of rows that are brought to one scale first."""

    def __init__(self, rows):
        super().__init__()
        self.middle, self.spread = rows.mean(0), rows.std(0) + 1e-3
        self.hidden = torch.nn.Linear(rows.shape[1], HIDDEN)
        self.out = torch.nn.Linear(HIDDEN, 1)

    def forward(self, rows, dropped=0.0):
        x = F.dropout((rows - self.middle) / self.spread, dropped)
        return self.out(F.dropout(F.silu(self.hidden(x)), dropped))[:, 0]

    def weights(self):
        """For rows as they are."""
        weight = self.hidden.weight / self.spread
        return {
            "hidden_weight": weight.detach(),
            "hidden_bias": (self.hidden.bias - weight @ self.middle).detach(),
            "weight": self.out.weight[0].detach(),
            "bias": self.out.bias.detach(),
        }


def last_steps(problems, owner):
    """Of each problem the rows of its solutions' last steps."""
    last = {}
    for row, (problem, solution) in enumerate(zip(problems.tolist(), owner)):
        last[problem, solution] = row
    groups = {}
    for (problem, _), row in last.items():
        groups.setdefault(problem, []).append(row)
    return groups


def comparison(score, marks, group):
    """How badly a problem's right solutions are told from its wrong ones; None: all are alike."""
    own, right = score[group], marks[group] > 0.5
    if right.all() or not right.any():
        return None
    return F.softplus(own[~right][None, :] - own[right][:, None]).mean()


def fit(rows, marks, problems, owner, passes=40, dropped=0.3):
    """The Head that did best on a tenth of the problems, which it is not fitted to."""
    names = sorted(set(problems.tolist()))
    kept_out = set(names[::10])
    ours = torch.tensor([p not in kept_out for p in problems.tolist()])
    groups = last_steps(problems, owner)
    learn_from = [p for p in groups if p not in kept_out]
    steps = {p: [] for p in learn_from}
    for row, problem in enumerate(problems.tolist()):
        if problem in steps:
            steps[problem].append(row)
    head = Head(rows[ours])
    optimizer = torch.optim.AdamW(head.parameters(), lr=1e-3, weight_decay=0.05)
    best, state = None, None
    rng = random.Random(1)
    for _ in range(passes):
        rng.shuffle(learn_from)
        for first in range(0, len(learn_from), 32):
            some = learn_from[first : first + 32]
            at = [row for p in some for row in steps[p]]
            where = {row: i for i, row in enumerate(at)}
            score, right = head(rows[at], dropped), marks[at]
            loss = F.binary_cross_entropy_with_logits(score, right)
            told = [comparison(score, right, [where[r] for r in groups[p]]) for p in some]
            told = [t for t in told if t is not None]
            if told:
                loss = loss + 0.5 * torch.stack(told).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            score = head(rows[~ours])
            held = F.binary_cross_entropy_with_logits(score, marks[~ours]).item()
        if best is None or held < best:
            best, state = held, {k: v.clone() for k, v in head.state_dict().items()}
    head.load_state_dict(state)
    return head


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("build/train"))
    parser.add_argument("--model", default="target", help="whose head it is: target or small")
    parser.add_argument("--steps", type=int, default=120, help="that the verifier learns")
    parser.add_argument("--problems", type=int, default=1500, help="that are solved by the model")
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
    judge = verifier.make(
        args.out, args.model, tokenizer, args.steps, args.seed, args.device
    )
    table = {}
    for split, problems in ((TRAIN, args.problems), (HELD_OUT, max(1, args.problems // 8))):
        drawn_path = args.out / f"solutions-{args.model}-{split}.pt"
        if not drawn_path.exists():
            drawn = solutions(
                target, tokenizer, split, problems, args.samples, args.temperature, args.seed
            )
            torch.save(drawn, drawn_path)
        table[split] = features(judge, torch.load(drawn_path), args.device)
    rows, marks, problems, owner = table[TRAIN]
    held_rows, held_marks, held_problems, held_owner = table[HELD_OUT]
    head = fit(rows, marks, problems, owner)
    with torch.no_grad():
        score = head(held_rows)
        loss = F.binary_cross_entropy_with_logits(head(rows), marks).item()
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
    torch.save(head.weights() | verifier.own_state(judge), args.out / f"{name}.pt")


if __name__ == "__main__":
    main()
