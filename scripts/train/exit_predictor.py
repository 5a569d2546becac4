#!/usr/bin/python3
"""Train the target's exit predictors: from a middle layer's state to the final distribution.

s(u, x) = W[x] . h(u), h being the hidden state behind block `layer`, normed.  The loss (Lever,
section on the early-exit predictor) is the distilled distribution over the whole vocabulary at
temperature tau, plus the one over a candidate set: here the tokens that the draft model would
propose.  W starts as the target's output matrix.  One behind half of the blocks, one behind a
third: they learn side by side from the same passes of the target.
"""

import argparse
import csv
import sys
import time
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

import corpus
import fused
import objective
from held_out import HeldOut
from train import Batches, load_model, rate, save

NAMES = {"exit": 2, "exit-third": 3}  # which part of the blocks lies below it: 1 of so many


class ExitPredictor(nn.Module):
    def __init__(self, target, layer):
        super().__init__()
        self.layer, self.epsilon = layer, target.shape.rms_epsilon
        self.norm = nn.Parameter(target.output_norm.weight.detach().clone())
        self.weight = nn.Parameter(target.token_embd.weight.detach().clone())

    def forward(self, hidden):
        normed = fused.rms_norm(hidden, self.norm, self.epsilon)
        return F.linear(normed, self.weight.to(hidden.dtype)).float()


@torch.no_grad()
def lesson(target, draft, layers, batch, candidates):
    """(states behind each layer, final logits, proposed tokens) at the answers' positions."""
    ids, segment, role = batch
    mask = objective.visibility(segment, True)
    used = (role == corpus.ANSWER) & (segment > 0)
    taps = dict.fromkeys(layers)
    final = target.logits(target(ids, mask, taps=taps)[used]).float()
    proposed = draft.logits(draft(ids, mask)[used]).topk(candidates, -1).indices
    return {layer: state[used] for layer, state in taps.items()}, final, proposed


def divergence(own, final):
    return F.kl_div(
        F.log_softmax(own, -1), F.log_softmax(final, -1), reduction="batchmean", log_target=True
    )


def losses(predictor, states, final, proposed, tau):
    """(L_KD, L_cand, share of positions where both rank the same token first)."""
    own = predictor(states[predictor.layer])
    whole = tau**2 * divergence(own / tau, final / tau)
    own, final = own.gather(1, proposed), final.gather(1, proposed)
    same = (own.argmax(-1) == final.argmax(-1)).float().mean()
    return whole, divergence(own, final), same


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("build/train"))
    parser.add_argument("--corpus", default="corpus.npz", help="packed rows, of those in --out")
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--batch", type=int, default=6144, help="tokens of one step")
    parser.add_argument("--tau", type=float, default=2.0, help="temperature of distillation")
    parser.add_argument("--weight", type=float, default=1.0, help="of the candidate loss")
    parser.add_argument("--candidates", type=int, default=8)
    parser.add_argument("--held-out", type=int, default=24, help="items of each family")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    return parser.parse_args()


class Record:
    """The checkpoint and the log of one predictor."""

    def __init__(self, out, name, predictor):
        self.name, self.predictor = name, predictor
        self.optimizer = torch.optim.AdamW(predictor.parameters(), lr=1e-3, weight_decay=0.0)
        self.path, self.first = out / f"{name}.pt", 0
        if self.path.exists():
            state = torch.load(self.path, map_location=predictor.weight.device)
            predictor.load_state_dict(state["model"])
            self.optimizer.load_state_dict(state["optimizer"])
            self.first = state["step"]
        self.log = open(out / f"{name}.csv", "a", newline="")
        if self.first == 0:
            heading = ["step", "seconds", "kd", "candidate", "same_first_candidate"]
            csv.writer(self.log).writerow(heading)

    def keep(self, step, seconds, shown):
        csv.writer(self.log).writerow([step, round(seconds), *(f"{x:.4f}" for x in shown)])
        self.log.flush()
        print(
            f"{self.name} behind block {self.predictor.layer}, step {step}  held-out: "
            f"kd {shown[0]:.3f}, candidates {shown[1]:.3f}, same first {100 * shown[2]:.1f}%",
            file=sys.stderr,
        )
        save(
            self.path,
            model=self.predictor.state_dict(),
            optimizer=self.optimizer.state_dict(),
            layer=self.predictor.layer,
            step=step,
        )


def main():
    args = arguments()
    torch.manual_seed(args.seed)
    if args.device == "cpu":
        fused.load(args.out)
    target = load_model(args.out / "target.pt", args.device)
    draft = load_model(args.out / "draft.pt", args.device)
    blocks = target.shape.block_count
    layers = {name: max(1, blocks // part) for name, part in NAMES.items()}
    records = [
        Record(args.out, name, ExitPredictor(target, layer).to(args.device))
        for name, layer in layers.items()
    ]
    held = HeldOut(corpus.vocabulary(), args.device, args.held_out).all()
    batches = Batches([args.out / args.corpus], args.batch, args.seed + 1)

    def measure(batch, predictor):
        """The losses on one batch."""
        with fused.computing(args.device):
            given = lesson(target, draft, layers.values(), batch, args.candidates)
            return losses(predictor, *given, args.tau)

    started = time.time()
    for step in range(min(r.first for r in records), args.steps):
        batch = [x.to(args.device) for x in batches.at(step)]
        with fused.computing(args.device):
            given = lesson(target, draft, layers.values(), batch, args.candidates)
            both = [losses(r.predictor, *given, args.tau) for r in records]
        sum(whole + args.weight * among for whole, among, _ in both).backward()
        for record in records:
            record.optimizer.param_groups[0]["lr"] = 1e-3 * rate(step, args.steps, 20, 0.5)
            record.optimizer.step()
            record.optimizer.zero_grad(set_to_none=True)
        if (step + 1) % 50 == 0 or step + 1 == args.steps:
            for record in records:
                with torch.no_grad():
                    shown = [measure(part, record.predictor) for part in held]
                mean = [sum(x[i].item() for x in shown) / len(shown) for i in range(3)]
                record.keep(step + 1, time.time() - started, mean)


if __name__ == "__main__":
    main()
