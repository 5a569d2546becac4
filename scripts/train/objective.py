"""What is minimized: next-token prediction, or the masked-diffusion bound."""

import torch
from torch.nn import functional as F

from corpus import ANSWER, PROMPT, RESPONSE
from tokenizer import MASK

PROMPT_WEIGHT = 0.03  # a prompt's own tokens teach reading, but are mostly drawn at random
HIDDEN = -1e4
ABSENT = 255  # the segment of positions that no other sees


def loss(model, ids, segment, role, generator, teacher=None):
    """(mean loss, share of the predicted answer tokens that are right)."""
    if model.shape.causal:
        return next_token(model, ids, segment, role, teacher)
    return masked_diffusion(model, ids, segment, role, generator)


def visibility(segment, causal):
    """What is added to the scores, [B, 1, T, T]: a position sees its own document only."""
    seen = segment[:, :, None] == segment[:, None, :]
    if causal:
        seen = seen & torch.ones_like(seen[0]).tril()
    hidden = torch.zeros(seen.shape, dtype=torch.bfloat16, device=segment.device)
    return hidden.masked_fill_(~seen, HIDDEN)[:, None]


def next_token(model, ids, segment, role, teacher=None):
    mask = visibility(segment, True)
    hidden = model(ids, mask)[:, :-1]
    follows = segment[:, 1:] == segment[:, :-1]
    answer = (role[:, 1:] == ANSWER) & follows
    prompt = (role[:, 1:] == PROMPT) & follows
    used = answer | prompt
    logits = model.logits(hidden[used]).float()
    want = ids[:, 1:][used]
    weight = torch.where(answer, 1.0, PROMPT_WEIGHT)[used]
    each = F.cross_entropy(logits, want, reduction="none")
    if teacher is not None:
        with torch.no_grad():
            taught = teacher.logits(teacher(ids, mask)[:, :-1][used]).float()
        own = F.log_softmax(logits, -1)
        each = 0.3 * each + F.kl_div(own, taught.log_softmax(-1), reduction="none",
                                     log_target=True).sum(-1)
    right = (logits.argmax(-1) == want)[answer[used]].float().mean().item()
    return (each * weight).sum() / weight.sum(), right


def noise(segment, role, generator):
    """(masked, weight in the loss, absent), each [B, T].

    Nie et al., "Large Language Diffusion Models" (2025), section 2: one ratio t a document, each
    answer position masked with probability t, each masked position weighted 1 / t.  Half of the
    documents are noised as semi-autoregressive decoding meets them: the blocks before one are
    clean, that one is masked with ratio t, and those behind it are not there yet.
    """
    documents = int(segment.max()) + 1
    rows = segment.shape[0]
    ratio = torch.rand((rows, documents), generator=generator).mul(0.95).add(0.05)
    blockwise = torch.rand((rows, documents), generator=generator) < 0.5
    chosen = torch.rand((rows, documents), generator=generator)
    draw = torch.rand(segment.shape, generator=generator)
    ratio, blockwise, chosen, draw = (x.to(segment.device) for x in (ratio, blockwise, chosen, draw))

    answer = role == ANSWER
    one_hot = F.one_hot(segment, documents) * answer[..., None]
    index = (one_hot.cumsum(1) * one_hot).sum(-1) - 1  # position within its document's answer
    block = index.div(RESPONSE, rounding_mode="floor")
    count = one_hot.sum(1).div(RESPONSE, rounding_mode="floor")
    current = (chosen * count).long().gather(1, segment)
    share = ratio.gather(1, segment)
    by_block = blockwise.gather(1, segment) & answer
    earlier, later = by_block & (block < current), by_block & (block > current)
    masked = answer & ~earlier & ~later & (draw < share)
    return masked, masked / share, later


def masked_diffusion(model, ids, segment, role, generator):
    masked, weight, absent = noise(segment, role, generator)
    present = segment.masked_fill(absent, ABSENT)
    hidden = model(ids.masked_fill(masked, MASK), visibility(present, False))
    logits = model.logits(hidden[masked]).float()
    want = ids[masked]
    each = F.cross_entropy(logits, want, reduction="none") * weight[masked]
    right = (logits.argmax(-1) == want).float().mean().item()
    return each.sum() / weight[masked].sum(), right
