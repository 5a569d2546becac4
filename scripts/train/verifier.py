"""Who judges a model's solutions: the model, but for its last blocks.

These are the verifier's own and learn to write right solutions, while those before stay what they
are, so that it costs a few blocks behind states that decoding has computed anyway.  What the model
was sure of and wrong about its own states say is right.
"""

import random
import sys
import time

import torch
from torch.nn import functional as F

import fused
import objective
import rounding
from tasks import TRAIN, arithmetic
from tokenizer import END, START
from train import load_model

OWN = 4  # blocks of the verifier that are not the model's
# Where they begin: the checkpoint that the model is a part of the way to (between.py).
BEGIN = {"target": "exercise", "small": "small-sums"}
RATE = 6e-4
PROBLEMS = 64  # in a step of theirs


def own_blocks(verifier):
    """The verifier's own parameters by name."""
    first = max(0, len(verifier.blocks) - OWN)
    return {
        name: weight
        for name, weight in verifier.named_parameters()
        if name.startswith("blocks.") and int(name.split(".")[1]) >= first
    }


def own_state(verifier):
    return {name: weight.detach().cpu() for name, weight in own_blocks(verifier).items()}


def right_solutions(tokenizer, rng):
    """(ids, segment, labels) of PROBLEMS problems with their solutions, padded to one length."""
    rows = []
    for _ in range(PROBLEMS):
        item, _ = arithmetic.generate_with_plan(rng, TRAIN)
        prompt = [START, *tokenizer.encode(item.prompt)]
        rows.append((prompt, [*tokenizer.encode(item.answer), END]))
    ids = torch.full((PROBLEMS, max(len(p) + len(a) for p, a in rows)), END)
    segment, labels = torch.zeros_like(ids), torch.full_like(ids, -100)
    for row, (prompt, answer) in enumerate(rows):
        count = len(prompt) + len(answer)
        ids[row, :count] = torch.tensor(prompt + answer)
        segment[row, :count] = 1
        labels[row, len(prompt) - 1 : count - 1] = torch.tensor(answer)
    return ids, segment, labels


def learn_solutions(verifier, tokenizer, steps, seed, device):
    """Train the verifier's own blocks, which are rounded as they are stored in the end."""
    own = own_blocks(verifier)
    verifier.requires_grad_(False)
    for weight in own.values():
        weight.requires_grad_(True)
    optimizer = torch.optim.AdamW(own.values(), lr=RATE, betas=(0.9, 0.98), weight_decay=0.01)
    rng = random.Random(f"{seed} verifier")
    started = time.time()
    for step in range(1, steps + 1):
        for group in optimizer.param_groups:
            group["lr"] = RATE * min(1, step / 20) * (1.02 - step / steps)
        ids, segment, labels = (x.to(device) for x in right_solutions(tokenizer, rng))
        with fused.computing(device):
            hidden = verifier(ids, objective.visibility(segment, True))
        counts = labels >= 0
        loss = F.cross_entropy(verifier.logits(hidden[counts].float()), labels[counts])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 25 == 0:
            print(
                f"verifier: {step} of {steps} steps, loss {loss:.4f}, "
                f"{time.time() - started:.0f} s",
                file=sys.stderr,
            )
    for weight in own.values():
        weight.requires_grad_(False)
        if weight.ndim == 2:
            weight.copy_(rounding.rounded(weight))


def make(out, model, tokenizer, steps, seed, device):
    """The model with blocks of its own at the end; kept beside the checkpoints."""
    verifier = load_model(out / f"{model}.pt", device)
    path = out / f"verifier-{model}.pt"
    if path.exists():
        verifier.load_state_dict(torch.load(path, map_location=device), strict=False)
        return verifier
    begin = load_model(out / f"{BEGIN[model]}.pt", device)
    verifier.load_state_dict(own_state(begin), strict=False)
    learn_solutions(verifier, tokenizer, steps, seed, device)
    torch.save(own_state(verifier), path)
    return verifier
