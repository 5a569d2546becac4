#!/usr/bin/python3
"""Train the target's exit predictor: from a middle layer's state to the final distribution.

s(u, x) = W[x] . h(u), h being the hidden state behind block `layer`, normed.  The loss (Lever,
section on the early-exit predictor) is the distilled distribution over the whole vocabulary at
temperature tau, plus the one over a candidate set: here the tokens that the draft model would
propose.  W starts as the target's output matrix.
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
from train import Batches, held_out_batch, load_model, rate, save


class ExitPredictor(nn.Module):
    def __init__(self, target, layer):
        super().__init__()
        self.layer, self.epsilon = layer, target.shape.rms_epsilon
        self.norm = nn.Parameter(target.output_norm.weight.detach().clone())
        self.weight = nn.Parameter(target.token_embd.weight.detach().clone())

    def forward(self, hidden):
        normed = fused.rms_norm(hidden, self.norm, self.epsilon)
        return F.linear(normed, self.weight.to(hidden.dtype)).float()


def losses(predictor, target, draft, batch, tau, candidates):
    """(L_KD, L_cand, share of positions where both rank the same token first)."""
    ids, segment, role = batch
    mask = objective.visibility(segment, True)
    used = (role == corpus.ANSWER) & (segment > 0)
    with torch.no_grad():
        middle = target(ids, mask, upto=predictor.layer)[used]
        final = target.logits(target(ids, mask)[used]).float()
        proposed = draft.logits(draft(ids, mask)[used]).topk(candidates, -1).indices
    own = predictor(middle)
    whole = tau**2 * F.kl_div(
        F.log_softmax(own / tau, -1),
        F.log_softmax(final / tau, -1),
        reduction="batchmean",
        log_target=True,
    )
    among = F.kl_div(
        F.log_softmax(own.gather(1, proposed), -1),
        F.log_softmax(final.gather(1, proposed), -1),
        reduction="batchmean",
        log_target=True,
    )
    same = (own.gather(1, proposed).argmax(-1) == final.gather(1, proposed).argmax(-1)).float()
    return whole, among, same.mean().item()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("build/train"))
    parser.add_argument("--layer", type=int, help="blocks below the exit (half of them)")
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--batch", type=int, default=6144, help="tokens of one step")
    parser.add_argument("--tau", type=float, default=2.0, help="temperature of distillation")
    parser.add_argument("--weight", type=float, default=1.0, help="of the candidate loss")
    parser.add_argument("--candidates", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    if args.device == "cpu":
        fused.load(args.out)
    target = load_model(args.out / "target.pt", args.device)
    draft = load_model(args.out / "draft.pt", args.device)
    predictor = ExitPredictor(target, args.layer or target.shape.block_count // 2).to(args.device)
    optimizer = torch.optim.AdamW(predictor.parameters(), lr=1e-3, weight_decay=0.0)
    tokenizer = corpus.vocabulary()
    batches = Batches(args.out / "corpus-1.npz", args.batch, args.seed + 1)
    held = [x.to(args.device) for x in held_out_batch("target", tokenizer, 7, 24)]
    checkpoint, first = args.out / "exit.pt", 0
    if checkpoint.exists():
        state = torch.load(checkpoint, map_location=args.device)
        predictor.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        first = state["step"]
    with open(args.out / "exit.csv", "a", newline="") as log:
        writer = csv.writer(log)
        if first == 0:
            writer.writerow(["step", "seconds", "kd", "candidate", "same_first_candidate"])
        started = time.time()
        for step in range(first, args.steps):
            optimizer.param_groups[0]["lr"] = 1e-3 * rate(step, args.steps, 20, 0.5)
            batch = [x.to(args.device) for x in batches.at(step)]
            with torch.autocast(args.device, torch.bfloat16):
                whole, among, _ = losses(
                    predictor, target, draft, batch, args.tau, args.candidates
                )
            (whole + args.weight * among).backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            if (step + 1) % 50 == 0 or step + 1 == args.steps:
                with torch.no_grad(), torch.autocast(args.device, torch.bfloat16):
                    shown = losses(predictor, target, draft, held, args.tau, args.candidates)
                row = [step + 1, round(time.time() - started)]
                writer.writerow(row + [f"{float(value):.4f}" for value in shown])
                log.flush()
                print(
                    f"step {step + 1}/{args.steps}  held-out: kd {shown[0].item():.3f}, "
                    f"candidates {shown[1].item():.3f}, same first candidate "
                    f"{100 * shown[2]:.1f}%",
                    file=sys.stderr,
                )
                save(
                    checkpoint,
                    model=predictor.state_dict(),
                    optimizer=optimizer.state_dict(),
                    layer=predictor.layer,
                    step=step + 1,
                )


if __name__ == "__main__":
    main()
