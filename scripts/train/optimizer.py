"""Muon for the matrices inside the blocks, AdamW for everything else."""

import torch

import fused


def orthogonalized(stack, steps=5):
    """The matrices of `stack` [n, rows, cols] with their singular values pushed towards 1.

    Newton-Schulz iteration with the quintic of Jordan et al., "Muon" (2024).
    """
    a, b, c = 3.4445, -4.7750, 2.0315
    x = stack.to(fused.precision(stack.device))
    x = x / (x.flatten(1).norm(dim=1)[:, None, None] + 1e-7)
    tall = x.shape[1] > x.shape[2]
    if tall:
        x = x.transpose(1, 2)
    for _ in range(steps):
        gram = torch.bmm(x, x.transpose(1, 2))
        x = a * x + torch.bmm(b * gram + c * torch.bmm(gram, gram), x)
    return x.transpose(1, 2) if tall else x


class Muon(torch.optim.Optimizer):
    """Momentum, orthogonalized; matrices of one shape are worked on together.

    Without a norm on queries and keys a larger rate lets the weights grow until attention
    saturates and nothing is learnt from the context any more.
    """

    def __init__(self, parameters, lr=0.01, momentum=0.95, weight_decay=0.1):
        super().__init__(parameters, {"lr": lr, "momentum": momentum, "decay": weight_decay})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            by_shape = {}
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["momentum"] = torch.zeros_like(p)
                state["momentum"].lerp_(p.grad, 1 - group["momentum"])
                update = p.grad.lerp(state["momentum"], group["momentum"])
                by_shape.setdefault(p.shape, []).append((p, update))
            for shape, pairs in by_shape.items():
                updates = orthogonalized(torch.stack([u for _, u in pairs]))
                rate = group["lr"] * max(1.0, shape[0] / shape[1]) ** 0.5
                for (p, _), update in zip(pairs, updates):
                    p.mul_(1 - group["lr"] * group["decay"]).add_(update.to(p.dtype), alpha=-rate)


def optimizers(model):
    """[Muon, AdamW] over all parameters of `model`."""
    matrices = [p for n, p in model.named_parameters() if p.ndim == 2 and n.startswith("blocks")]
    inside = {id(p) for p in matrices}
    rest = [p for p in model.parameters() if id(p) not in inside]
    return [
        Muon(matrices),
        torch.optim.AdamW(rest, lr=2e-3, betas=(0.9, 0.98), weight_decay=0.0),
    ]
