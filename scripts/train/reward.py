#!/usr/bin/python3
"""Train a model's reward: from a step of a solution to P(all right so far).

The verifier is the model with other weights in its last blocks.  So it costs a few blocks behind
states that decoding has computed anyway.  It gives each token the probability that it is right, if
all tokens before it are; a step's score is the product of these, from the first token on:

    P(token) = sigmoid(state . embedding(token) + bias)

where `state` is the normed final state of the token before.  These odds are not those of a softmax:
no other token's logit takes part, and two tokens can both be right.

The blocks are trained on solutions that the model itself draws, anew in every round.  A token is
right if a right solution can begin with it and all tokens before it.  Behind a right beginning the
drawn token counts as right or wrong; if it is right, and no other can be, all others count as wrong.
"""

import argparse
import csv
import json
import random
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy
import torch
from torch.nn import functional as F

import corpus
import fused
import objective
import rounding
from decode import sample
from tasks import HELD_OUT, TRAIN, arithmetic, verify
from tokenizer import END, START
from train import load_model

OWN = 4  # blocks of the verifier that are not the model's
# Where they begin: the checkpoint that the model is a part of the way to (between.py).
BEGIN = {"target": "exercise", "small": "small-sums"}
LIMIT = 100  # tokens of a solution
RATE = 6e-4
ROWS = 256  # solutions in a step
BIAS = -8.0  # at the beginning
PASSES = 3  # over the solutions of a round


def own_blocks(verifier):
    """The verifier's own parameters by name."""
    first = max(0, len(verifier.blocks) - OWN)
    return {
        name: weight
        for name, weight in verifier.named_parameters()
        if name.startswith("blocks.") and int(name.split(".")[1]) >= first
    }


# ---- solutions ----


def problems(split, count, seed):
    """(prompt's ids, plan) of so many problems; runs in a process of its own."""
    rng, tokenizer = random.Random(f"{seed} {split}"), corpus.vocabulary()
    drawn = [arithmetic.generate_with_plan(rng, split) for _ in range(count)]
    return [([START, *tokenizer.encode(item.prompt)], plan) for item, plan in drawn]


def step_ends(texts):
    """Indices of the last token of every line, of a solution whose tokens have these texts."""
    ends = [i for i, text in enumerate(texts) if "\n" in text]
    if texts and (not ends or ends[-1] != len(texts) - 1):
        ends.append(len(texts) - 1)
    return ends


def marked(prompt, plan, ids, pieces, number):
    """A solution: ids with the prompt, its first index, right tokens, whether hardly another token
    would be right (a sum may begin with either number), step ends and marks."""
    texts = [pieces[token] for token in ids]
    right = verify.right_length(plan, "".join(texts))
    marks, alone, end, line = [], [], 0, ""
    for text in texts:
        end += len(text)
        marks.append(end <= right)
        alone.append(any(mark in line for mark in "+-*/a"))
        line = "" if "\n" in text else line + text
    ends = step_ends(texts)
    steps = verify.check_steps(plan, "".join(texts))
    if not steps or len(steps) != len(ends):
        return None
    return {
        "ids": prompt + ids, "start": len(prompt), "right": marks, "alone": alone, "number": number,
        "ends": [len(prompt) + e for e in ends], "marks": steps,
    }


def solutions(model, given, count, temperature, seed, pieces):
    """`count` solutions of each of the problems, marked."""
    generator = torch.Generator(model.token_embd.weight.device).manual_seed(seed)
    order = sorted(range(len(given)), key=lambda i: len(given[i][0]))
    some = 256 if model.token_embd.weight.is_cuda else 16
    out = []
    for first in range(0, len(order), some):
        group = order[first : first + some]
        written = sample(model, [given[i][0] for i in group], count, temperature, LIMIT, generator)
        for i, texts in zip(group, written):
            for ids in texts:
                out.append(marked(*given[i], ids, pieces, i))
    return [solution for solution in out if solution]


# ---- training ----


def batch(drawn, device):
    """[B, T] each: ids, segment, and of each token whether it belongs to a solution, is right, and
    is the only right one."""
    width = max(len(s["ids"]) for s in drawn)
    ids = torch.full((len(drawn), width), END)
    segment = torch.zeros_like(ids)
    known, right, alone = (torch.zeros(ids.shape, dtype=torch.bool) for _ in range(3))
    for row, s in enumerate(drawn):
        count, start = len(s["ids"]), s["start"]
        ids[row, :count] = torch.tensor(s["ids"])
        segment[row, :count] = 1
        known[row, start:count] = True
        right[row, start:count] = torch.tensor(s["right"])
        alone[row, start:count] = torch.tensor(s["alone"])
    return [x.to(device, non_blocking=True) for x in (ids, segment, known, right, alone)]


def states(verifier, ids, segment, device):
    with fused.computing(device):
        return verifier(ids, objective.visibility(segment, True))[:, :-1].float()


def loss(verifier, bias, drawn, device):
    ids, segment, known, right, alone = batch(drawn, device)
    state = states(verifier, ids, segment, device)
    before = right[:, :-1] | ~known[:, :-1]  # the beginning is right
    at = (known[:, 1:] & before).nonzero(as_tuple=True)
    odds = verifier.logits(state[at]) + bias
    follows, right, alone = (x[:, 1:][at] for x in (ids, right, alone))
    own = odds.gather(1, follows[:, None])[:, 0]
    others = F.softplus(odds).sum(1) - F.softplus(own)
    others = (others * (right & alone)).mean()
    return F.binary_cross_entropy_with_logits(own, right.float()) + others


class Data:
    """Rounds of solutions, whose problems other processes make beforehand."""

    def __init__(self, args, model, pieces):
        self.args, self.model, self.pieces = args, model, pieces
        self.pool = ProcessPoolExecutor(args.workers)
        self.round, self.asked = 0, []
        self.ask()

    def ask(self):
        share = -(-self.args.problems // self.args.workers)
        seed = f"{self.args.seed} round {self.round} part "
        self.asked = [
            self.pool.submit(problems, TRAIN, share, f"{seed}{i}") for i in range(self.args.workers)
        ]

    def next(self):
        given = [problem for part in self.asked for problem in part.result()]
        self.round += 1
        self.ask()
        seed = self.args.seed + self.round
        # one in three rounds is drawn hotter, with more kinds of mistakes
        temperature = self.args.temperature * (1.4 if self.round % 3 == 0 else 1)
        return solutions(
            self.model, given, self.args.samples, temperature, seed, self.pieces
        )


def train(verifier, bias, data, held, args):
    """Train blocks and bias until --steps or --minutes are over; every round writes a
    checkpoint."""
    own = own_blocks(verifier)
    verifier.requires_grad_(False)
    for weight in own.values():
        weight.requires_grad_(True)
    weights = [*own.values(), bias]
    optimizer = torch.optim.AdamW(weights, lr=RATE, betas=(0.9, 0.98), weight_decay=0.01)
    path = args.out / f"training-{args.name}.pt"
    step, spent = 0, 0.0
    if path.exists():
        state = torch.load(path, map_location=args.device)
        verifier.load_state_dict(state["own"], strict=False)
        optimizer.load_state_dict(state["optimizer"])
        bias.data.copy_(state["bias"])
        data.round, step, spent = state["round"], state["step"], state["spent"]
    log, rng = [], random.Random(args.seed + step)
    done, now = 0.0, torch.tensor(float("nan"))
    while done < 1:
        began = time.time()
        drawn = data.next() * PASSES
        rng.shuffle(drawn)
        if not drawn:
            sys.exit(f"{args.name}: the model has written no solution")
        for first in range(0, len(drawn), ROWS):
            seconds = spent + time.time() - began
            done = max(step / args.steps, seconds / (60 * args.minutes))
            if done >= 1:
                break
            for group in optimizer.param_groups:
                group["lr"] = args.rate * min(1, (step + 1) / 50) * (1.02 - done)
            late = own.items() if done > 0.3 else ()
            with rounding.as_stored(late):
                now = loss(verifier, bias, drawn[first : first + ROWS], args.device)
                optimizer.zero_grad()
                now.backward()
            torch.nn.utils.clip_grad_norm_(weights, 1.0)
            optimizer.step()
            step += 1
        spent += time.time() - began
        if data.round % args.measure == 0 or done >= 1:
            with rounding.as_stored(own.items()):
                area = evaluate(verifier, bias, held, args.device)[0]
            log.append((step, now.item(), area))
            print(
                f"{args.name}: step {step}, {spent:.0f} s, loss {now.item():.4f}, held-out area "
                f"{area:.4f}",
                file=sys.stderr, flush=True,
            )
        state = {
            "own": {k: v.detach() for k, v in own.items()}, "bias": bias.detach(),
            "optimizer": optimizer.state_dict(), "round": data.round, "step": step, "spent": spent,
        }
        torch.save(state, path)
    data.pool.shutdown(wait=False, cancel_futures=True)
    for weight in own.values():
        weight.requires_grad_(False)
        if weight.ndim == 2:
            weight.copy_(rounding.rounded(weight))
    return log


# ---- what it is worth ----


def ranking(score, marks):
    """Area under the ROC curve."""
    order = numpy.argsort(score, kind="stable")
    rank = numpy.empty(len(order))
    rank[order] = numpy.arange(1, len(order) + 1)
    good = marks > 0.5
    pairs = good.sum() * (~good).sum()
    return (rank[good].sum() - good.sum() * (good.sum() + 1) / 2) / max(1, pairs)


@torch.no_grad()
def evaluate(verifier, bias, drawn, device):
    """Area under the curve of all steps, loss, and the share of problems that are solved by one
    solution, the best by its last score, and any of them."""
    score, marks, groups = [], [], {}
    drawn = sorted(drawn, key=lambda s: len(s["ids"]))
    for first in range(0, len(drawn), ROWS):
        some = drawn[first : first + ROWS]
        ids, segment, known, *_ = batch(some, device)
        odds = verifier.logits(states(verifier, ids, segment, device)) + bias
        own = F.logsigmoid(odds.gather(2, ids[:, 1:, None])[..., 0])
        sums = (own * known[:, 1:]).cumsum(1).cpu().numpy()
        for row, s in enumerate(some):
            own = sums[row, [end - 1 for end in s["ends"]]].tolist()
            score += own
            marks += s["marks"]
            groups.setdefault(s["number"], []).append((own[-1], s["marks"][-1]))
    score, marks = numpy.array(score), numpy.array(marks, dtype=float)
    score = numpy.minimum(score, -1e-6)
    loss = -numpy.where(marks > 0.5, score, numpy.log(-numpy.expm1(score))).mean()
    groups = groups.values()
    one = numpy.mean([numpy.mean([m for _, m in g]) for g in groups])
    best = numpy.mean([max(g)[1] for g in groups])
    any_right = numpy.mean([max(m for _, m in g) for g in groups])
    return ranking(score, marks), loss, one, best, any_right


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("build/train"))
    parser.add_argument("--model", default="target", help="whose reward it is: target or small")
    parser.add_argument("--begin", type=Path, help="checkpoint of the blocks that training begins with")
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument("--minutes", type=float, default=1e6, help="that training takes at most")
    parser.add_argument("--problems", type=int, default=2048, help="in a round")
    parser.add_argument("--samples", type=int, default=8, help="solutions of each problem")
    parser.add_argument("--temperature", type=float, default=0.8)
    parser.add_argument("--rate", type=float, default=RATE)
    parser.add_argument("--measure", type=int, default=4, help="rounds between measurements")
    parser.add_argument("--workers", type=int, default=2, help="processes that make problems")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()
    args.name = "reward" if args.model == "target" else f"reward-{args.model}"
    if (args.out / f"{args.name}.pt").exists():
        print(f"{args.name}: is there already", file=sys.stderr)
        return
    torch.manual_seed(args.seed)
    tokenizer = corpus.vocabulary()
    model = load_model(args.out / f"{args.model}.pt", args.device)
    pieces = [tokenizer.decode([token]) for token in range(model.shape.vocab_size)]
    verifier = load_model(args.out / f"{args.model}.pt", args.device)
    begin = torch.load(args.begin or args.out / f"{BEGIN[args.model]}.pt", map_location="cpu")
    begin = begin.get("model", begin)
    own = own_blocks(verifier)
    verifier.load_state_dict({k: v.float() for k, v in begin.items() if k in own}, strict=False)
    bias = torch.nn.Parameter(torch.tensor([BIAS], device=args.device))
    given = problems(HELD_OUT, 200, args.seed)
    held = solutions(model, given, args.samples, args.temperature, args.seed, pieces)
    with open(args.out / f"solutions-{args.model}.jsonl", "w") as file:
        for s in held:
            prompt, solution = s["ids"][1 : s["start"]], s["ids"][s["start"] :]
            line = {
                "id": f"p{s['number']}", "prompt": tokenizer.decode(prompt),
                "solution": tokenizer.decode(solution), "marks": s["marks"],
            }
            print(json.dumps(line), file=file)
    log = train(verifier, bias, Data(args, model, pieces), held, args)
    area, held_loss, one, best, any_right = evaluate(verifier, bias, held, args.device)
    with open(args.out / f"{args.name}.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["step", "loss", "held_out_auc"])
        writer.writerows([step, *(f"{x:.4f}" for x in rest)] for step, *rest in log)
    print(
        f"{args.name}: held-out loss {held_loss:.3f}, area under the curve {area:.4f}; of "
        f"{args.samples} solutions: one {100 * one:.1f}%, best by reward {100 * best:.1f}%, any "
        f"{100 * any_right:.1f}%",
        file=sys.stderr,
    )
    own = {name: weight.detach().cpu() for name, weight in own.items()}
    torch.save({"bias": bias.detach().cpu(), **own}, args.out / f"{args.name}.pt")


if __name__ == "__main__":
    main()
