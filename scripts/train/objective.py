"""What is minimized: next-token prediction, or the masked-diffusion bound in two kinds of sight.

A model predicts the next token, or it denoises: all positions seeing one another (LLaDA), or each
block of an answer seeing what stands before it and itself (block diffusion).  What stands at a
masked position it says there, or, as a model that begins with the weights of one that predicts,
at the position before (Ye et al., "Dream 7B", 2025).
"""

from typing import NamedTuple

import torch
from torch.nn import functional as F

import fused
from corpus import ANSWER, PROMPT, RESPONSE
from eagle import Eagle
from tokenizer import END, MASK

PROMPT_WEIGHT = 0.03  # a prompt's own tokens teach reading, but are mostly drawn at random
LEAST_RATIO = 0.05  # of masked positions: smaller ones would weigh too much
WRONG = 0.3  # share of an answer's visible tokens that are wrong, at most, while revision is learnt
RIGHT = 0.1  # weight in the loss of a visible token that is right
IN_ORDER = 0.7  # share of blocks whose masks are their last positions, not any
NEAR = 8  # of these the first mask's weight in the loss; that of the nth behind it is NEAR / n
HIDDEN = -1e4
STEPS = 3  # that an Eagle drafts in training
PARALLEL = 0.6  # share of steps that teach parallel decoding, where it is taught
LATER = 0.8  # weight of a step in the loss, that of the step before being 1
SHARPNESS = 2.0  # weight of a sure answer in the loss of `certainty`
SHARP = 0.5  # its temperature
PASSES = 6  # of confident decoding that are followed
VIEWS = 2  # states of each block that one step learns from
LEAST_SURE, MOST_SURE = 0.9, 0.99  # thresholds of that decoding
DUE = 4  # weight in the loss of a token that the next pass would fix
FORCED = 0.2  # weight of a sure answer, as SHARPNESS
ABSENT = 255  # the segment of positions that no other sees


class Outcome(NamedTuple):
    """The mean loss, the share of predicted answer tokens that are right, and of the documents
    how many are right in all their answers, of how many (next-token prediction alone says)."""

    loss: torch.Tensor
    right: float
    whole: int = 0
    documents: int = 0


def loss(
    model, ids, segment, role, generator, teacher=None, revise=False, parallel=False, follow=False
):
    """The Outcome of `model` on packed rows; `generator` draws the noise of diffusion.

    revise: tokens that stand already are asked for as well, and some are wrong.
    parallel: many tokens of a block are to be right and sure in one pass; so it is in PARALLEL of
    the steps, lest one token a pass be forgotten.
    follow: block diffusion learns this from the states that its decoding comes through.
    """
    if follow:
        return along_trajectories(model, ids, segment, role, generator)
    parallel = parallel and torch.rand((), generator=generator) < PARALLEL
    if isinstance(model, Eagle):
        return drafted(model, ids, segment, role)
    if model.shape.block_length:
        return block_diffusion(model, ids, segment, role, generator, parallel)
    if model.shape.causal:
        return next_token(model, ids, segment, role, teacher)
    return masked_diffusion(model, ids, segment, role, generator, revise, parallel)


def added(seen):
    """What is added to the scores, [B, 1, queries, keys], where `seen` says who sees whom."""
    hidden = torch.zeros(seen.shape, dtype=fused.precision(seen.device), device=seen.device)
    return hidden.masked_fill_(~seen, HIDDEN)[:, None]


def visibility(segment, causal):
    """A position sees its own document only."""
    seen = segment[:, :, None] == segment[:, None, :]
    if causal:
        seen = seen & torch.ones_like(seen[0]).tril()
    return added(seen)


def documents_right(hit, answer, segment):
    """(how many documents have no answer token wrong, how many there are)."""
    row = torch.arange(len(segment), device=segment.device)[:, None]
    number = row * (ABSENT + 1) + segment
    total = number[answer].unique().numel()
    return total - number[answer & ~hit].unique().numel(), total


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
    hit = torch.zeros_like(used)
    hit[used] = logits.argmax(-1) == want
    right = hit[answer].float().mean().item()
    whole = documents_right(hit, answer, segment[:, 1:]) if not model.training else (0, 0)
    return Outcome((each * weight).sum() / weight.sum(), right, *whole)


def drafted(model, ids, segment, role):
    """Several steps, of which each but the first reads the states of the one before, as drafting
    does (EAGLE-3, section 3.1: training-time test).  The loss is the divergence from the target;
    right is a token that the target, too, holds for the likeliest."""
    target = model.target[0]
    mask = visibility(segment, True)
    with torch.no_grad():
        states = target(ids, mask)
    at = torch.arange(ids.shape[1], device=ids.device)
    same = segment[:, :, None] == segment[:, None, :]
    behind = at[:, None] - at[None, :]
    index = (same & (behind > 0)).sum(2)  # of a position in its document
    known = same & (index > 0)[:, None, :]
    masks = [
        torch.cat([added(known & (behind >= step)), *(
            added((behind == back).expand_as(same)) for back in range(step - 1, -1, -1)
        )], 3)
        for step in range(STEPS)
    ]
    answer = (role[:, 1:] == ANSWER) & (segment[:, 1:] == segment[:, :-1])
    total, weights, right = 0.0, 0.0, 0.0
    for step, own in enumerate(model(ids, states, masks)):
        used = answer & (index[:, :-1] > step)
        taught = target.logits(states[:, :-1][used]).float()
        logits = model.logits(own[:, :-1][used]).float()
        each = F.kl_div(logits.log_softmax(-1), taught.log_softmax(-1), reduction="batchmean",
                        log_target=True)
        total, weights = total + LATER**step * each, weights + LATER**step
        right += (logits.argmax(-1) == taught.argmax(-1)).float().mean().item() / STEPS
    return Outcome(total / weights, right)


def noise(ids, segment, role, generator):
    """(masked, weight in the loss, absent), each [B, T].

    Nie et al., "Large Language Diffusion Models" (2025), section 2: one ratio t a document, each
    answer position masked with probability t, each masked position weighted 1 / t.  Half of the
    documents are noised as semi-autoregressive decoding meets them: the blocks before one are
    clean, that one is masked with ratio t, and those behind it are not there yet.  Most of these are
    masked in order (`in_order`).
    """
    documents = int(segment.max()) + 1
    rows = segment.shape[0]
    ratio = torch.rand((rows, documents), generator=generator)
    ratio = ratio.mul(1 - LEAST_RATIO).add(LEAST_RATIO)
    blockwise = torch.rand((rows, documents), generator=generator) < 0.5
    chosen = torch.rand((rows, documents), generator=generator)
    in_order = torch.rand((rows, documents), generator=generator) < IN_ORDER
    ends = torch.rand((rows, documents), generator=generator)
    draw = torch.rand(segment.shape, generator=generator)
    ratio, blockwise, chosen, in_order, ends, draw = (
        x.to(segment.device) for x in (ratio, blockwise, chosen, in_order, ends, draw)
    )

    answer = role == ANSWER
    one_hot = F.one_hot(segment, documents) * answer[..., None]
    index = (one_hot.cumsum(1) * one_hot).sum(-1) - 1  # position within its document's answer
    block = index.div(RESPONSE, rounding_mode="floor")
    count = one_hot.sum(1).div(RESPONSE, rounding_mode="floor")
    current = (chosen * count).long().gather(1, segment)
    share = ratio.gather(1, segment)
    by_block = blockwise.gather(1, segment) & answer
    earlier, later = by_block & (block < current), by_block & (block > current)
    masked, weight = chosen_masks(
        ids,
        index % RESPONSE,
        share,
        by_block & in_order.gather(1, segment),
        ends.gather(1, segment),
        draw,
    )
    masked = masked & answer & ~earlier & ~later
    return masked, weight, later


def chosen_masks(ids, place, share, in_order, ends, draw):
    """(masked, weight in the loss) of positions at `place` of their block, `share` of it masked.

    In order: from a position on, as a block is that decoding fills from its beginning, which it
    mostly does since what is next is surest.  What is next counts most there.  A share `ends` of
    the ends of text stands already; often it is none of them, or all.
    """
    first = (RESPONSE * (1 - share) + 0.5).floor()
    behind = place - first
    stands = (ids == END) & (draw < 2 * ends - 0.5)
    masked = torch.where(in_order, (behind >= 0) & ~stands, draw < share)
    return masked, torch.where(in_order, NEAR / (behind.clamp_min(0) + 1), 1 / share)


def denoising(model, hidden, want, weight):
    """The Outcome at masked positions alone, given as lists."""
    logits = model.logits(hidden).float()
    each = F.cross_entropy(logits, want, reduction="none") * weight
    # a small batch may have no mask at all
    loss = each.sum() / weight.sum().clamp_min(1)
    return Outcome(loss, (logits.argmax(-1) == want).float().mean().item())


def certainty(model, hidden, want):
    """The Outcome at masked positions, of which all count alike, and those that are predicted right
    shall be predicted surely too: their entropy is a part of the loss.

    Chen et al., "dParallel: Learnable Parallel Decoding for dLLMs" (2025), certainty-forcing
    distillation.
    """
    logits = model.logits(hidden).float()
    right = logits.argmax(-1) == want
    sharp = F.log_softmax(logits / SHARP, -1)
    entropy = -(sharp.exp() * sharp).sum(-1)
    unsure = (entropy * right).sum() / right.sum().clamp_min(1)
    return Outcome(F.cross_entropy(logits, want) + SHARPNESS * unsure, right.float().mean().item())


@torch.no_grad()
def least_sure(model, hidden, block, there, ratio):
    """Masks of the share `ratio` of each block that the model is least sure of when it sees none of
    the block, [B, N], as `hidden`, `block` (whose numbers are from 1) and `there`.

    So the other tokens are those that confident decoding writes first, as in d3LLM's trajectories.
    """
    sure = hidden.new_full(there.shape, 2.0, dtype=torch.float32)
    sure[there] = model.logits(hidden[there]).float().softmax(-1).amax(-1)
    order = (block.masked_fill(~there, int(block.max()) + 1) * 4.0 + sure).argsort(1)
    ranked = block.gather(1, order).masked_fill(~there.gather(1, order), 0)
    rank = torch.empty_like(block).scatter_(1, order, index_in_block(ranked))
    return there & (rank < (ratio * RESPONSE).ceil())


def with_wrong_ones(ids, segment, visible, generator):
    """(ids in which some of the visible answer positions have the token of another position of
    their row, weight in the loss of each visible position).

    In half of the documents up to WRONG of them.  A wrong one counts as much as a mask that is next,
    a right one little: what stands is right, mostly.
    """
    rows, length = ids.shape
    documents = int(segment.max()) + 1
    share = torch.rand((rows, documents), generator=generator)
    share = (2 * share - 1).clamp_min(0).mul(WRONG).to(ids.device).gather(1, segment)
    draw = torch.rand((rows, length), generator=generator).to(ids.device)
    other = torch.rand((rows, length), generator=generator).to(ids.device)
    last = visible.cumsum(1)[:, -1:].clamp_min(1)
    there = torch.argsort(visible.float(), dim=1, descending=True, stable=True)  # visible positions first
    other = ids.gather(1, there.gather(1, (other * last).long()))
    wrong = visible & (draw < share) & (other != ids)
    weight = torch.where(wrong, float(NEAR), RIGHT) * visible
    return torch.where(wrong, other, ids), weight


def masked_diffusion(model, ids, segment, role, generator, revise=False, parallel=False):
    if parallel:
        return masked_in_parallel(model, ids, segment, role, generator)
    masked, weight, absent = noise(ids, segment, role, generator)
    present = segment.masked_fill(absent, ABSENT)
    given, asked = ids, masked
    if revise:
        visible = (role == ANSWER) & ~masked & ~absent
        given, more = with_wrong_ones(ids, segment, visible, generator)
        weight, asked = torch.where(masked, weight, more), masked | visible
    hidden = model(given.masked_fill(masked, MASK), visibility(present, False))
    if model.shape.shift_logits:
        hidden = hidden.roll(1, 1)
    return denoising(model, hidden[asked], ids[asked], weight[asked])


def masked_in_parallel(model, ids, segment, role, generator):
    """One block of each document, with the blocks before it clean and those after it absent."""
    rows, length = ids.shape
    block = answer_blocks(role, RESPONSE)
    documents = int(segment.max()) + 1
    one_hot = F.one_hot(segment, documents) * (block > 0)[..., None]
    last = (one_hot * block[..., None]).amax(1)  # of each document, its last block's number
    count = one_hot.sum(1).div(RESPONSE, rounding_mode="floor")
    chosen = (torch.rand((rows, documents), generator=generator).to(ids.device) * count).long()
    current = (last - chosen).gather(1, segment)
    there = (block > 0) & (block == current)
    absent = (block > 0) & (block > current)
    mask = visibility(segment.masked_fill(absent, ABSENT), False)

    def states(masked):
        hidden = model(ids.masked_fill(masked, MASK), mask)
        return hidden.roll(1, 1) if model.shape.shift_logits else hidden

    ratio = shares((rows, int(block.max()) + 1), generator).to(ids.device).gather(1, block)
    blank = states_only(states, there)
    masked = least_sure(model, blank, block * there, there, ratio)
    return certainty(model, states(masked)[masked], ids[masked])


@torch.no_grad()
def states_only(states, masked):
    """states(masked) without gradients.  Autocast would keep the weights that it casts here, and
    the pass that learns would find them without gradients."""
    with fused.computing(masked.device, cache=False):
        return states(masked)


def shares(size, generator):
    """Shares of blocks that are masked: half of the blocks are blank."""
    return (2 * torch.rand(size, generator=generator)).clamp(LEAST_RATIO, 1)


def answer_blocks(role, length):
    """The number, from 1, of the block of an answer that a position belongs to; 0 is none.

    Answers are multiples of `length` long, and between two of them stands a prompt.
    """
    answer = role == ANSWER
    place = torch.arange(role.shape[1], device=role.device).expand_as(role)
    before = place.masked_fill(answer, -1).cummax(1).values  # the last position of no answer
    first = answer & ((place - before - 1) % length == 0)
    return first.cumsum(1).masked_fill(~answer, 0)


def gathered(answer):
    """The answers' positions of each row moved to its front: (positions, which are there)."""
    most = max(1, int(answer.sum(1).max()))
    order = (~answer).to(torch.uint8).sort(dim=1, stable=True).indices[:, :most]
    return order, answer.gather(1, order)


def block_sight(segment, block, at, there, copy=None):
    """Who sees whom among the clean positions and, behind them, the noisy copies of those `at`.

    A clean position sees its document up to itself, and the whole of its own block.  A noisy one
    sees the clean ones before its block, and the noisy ones of its block: each block is denoised
    with exactly the keys and values that finished blocks have.  copy: the numbers of the noisy
    copies, where there are several of each position; they do not see one another.
    Arriola et al., "Block Diffusion" (2025), section 3; the prompt's sight is that of the target.
    """
    own, document = block.gather(1, at), segment.gather(1, at)
    own = own.masked_fill(~there, -1)
    same = segment[:, :, None] == segment[:, None, :]
    together = (block[:, :, None] == block[:, None, :]) & (block > 0)[:, :, None]
    clean = same & (torch.ones_like(same[0]).tril() | together)
    place = torch.arange(segment.shape[1], device=segment.device)
    earlier = (place[None, None, :] < at[:, :, None]) & (block[:, None, :] != own[:, :, None])
    back = (document[:, :, None] == segment[:, None, :]) & earlier & there[:, :, None]
    beside = own[:, :, None] == own[:, None, :]
    if copy is not None:
        beside = beside & (copy[:, None] == copy[None, :])
    none = torch.zeros_like(back).transpose(1, 2)
    return torch.cat((torch.cat((clean, none), 2), torch.cat((back, beside), 2)), 1)


def index_in_block(own):
    """Of positions in order, by the numbers of their blocks, their place in these."""
    place = torch.arange(own.shape[1], device=own.device).expand_as(own)
    begins = torch.ones_like(own, dtype=torch.bool)
    begins[:, 1:] = own[:, 1:] != own[:, :-1]
    return place - place.masked_fill(~begins, 0).cummax(1).values


def before(own, at, length):
    """Of each noisy copy the index of what stands before it: the noisy copy of its block, or the
    clean position before the block."""
    noisy = torch.arange(at.shape[1], device=at.device).expand_as(at) + length - 1
    return torch.where(index_in_block(own) == 0, (at - 1).clamp_min(0), noisy)


@torch.no_grad()
def trajectory(model, ids, own, at, there, mask, source, threshold):
    """The pass, from 0, in which confident decoding fixes each position `at`; PASSES if none does.

    A pass fixes what the model is sure of to `threshold` [rows, 1], and in each block the surest.
    The right token is what is fixed.  own: numbers of blocks.  mask, source: those of one noisy
    copy behind the clean positions, whose keys and values all passes share.
    """
    length, want = ids.shape[1], ids.gather(1, at)
    when = torch.full_like(at, PASSES)
    best = torch.zeros(len(ids), int(own.max()) + 1, device=ids.device)
    kept = []
    with fused.computing(ids.device, cache=False):
        clean = model(ids, mask[:, :, :length, :length], kept=kept)
        for number in range(PASSES):
            masked = there & (when == PASSES)
            noisy = want.masked_fill(masked, MASK)
            noisy = model(noisy, mask[:, :, length:], places=at, past=kept)
            hidden = at_sources(torch.cat((clean, noisy), 1), source)
            sure = torch.zeros(at.shape, device=ids.device)
            sure[masked] = model.logits(hidden[masked]).float().softmax(-1).amax(-1)
            most = best.scatter_reduce(1, own, sure, "amax").gather(1, own)
            when[masked & ((sure >= threshold) | (sure == most))] = number
    return when


def at_sources(hidden, source):
    return hidden.gather(1, source[..., None].expand(-1, -1, hidden.shape[-1]))


def along_trajectories(model, ids, segment, role, generator):
    """Block diffusion at states that its own confident decoding comes through.

    In PARALLEL of the blocks; the others are masked as in `block_diffusion`.  The model itself, with
    the weights it has in this step, tells which tokens a pass would fix.  These count most, since
    they will be kept.  Right predictions are made surer, but less than in `certainty`, after which
    a model is surer than it is right.
    Qian et al., "d3LLM" (2026), whose trajectories are recorded once, from a teacher.
    """
    rows, length = ids.shape
    block = answer_blocks(role, model.shape.block_length)
    at, there = gathered(block > 0)
    own, want = block.gather(1, at), ids.gather(1, at)
    source = before(own, at, length)
    numbers = (rows, int(block.max()) + 1)

    def drawn(*size):
        return torch.rand(size, generator=generator).to(ids.device)

    threshold = LEAST_SURE + (MOST_SURE - LEAST_SURE) * drawn(rows, 1)
    mask = added(block_sight(segment, block, at, there))
    when = trajectory(model, ids, own, at, there, mask, source, threshold)
    count = torch.zeros(numbers, dtype=torch.long, device=ids.device)
    count = count.scatter_reduce(1, own, when.masked_fill(~there, 0), "amax") + 1
    masks, weights, follows = [], [], []
    for _ in range(VIEWS):
        now = (drawn(*numbers) * count).long().gather(1, own)
        follow = (drawn(*numbers) < PARALLEL).gather(1, own)
        share = drawn(*numbers).mul(1 - LEAST_RATIO).add(LEAST_RATIO).gather(1, own)
        in_order = (drawn(*numbers) < IN_ORDER).gather(1, own)
        ends = drawn(*numbers).gather(1, own)
        draw = drawn(*at.shape)
        plain, weight = chosen_masks(want, index_in_block(own), share, in_order, ends, draw)
        due = torch.where((when == now) & (now < PASSES), float(DUE), 1.0)
        masks.append(torch.where(follow, when >= now, plain) & there)
        weights.append(torch.where(follow, due, weight))
        follows.append(follow)
    masked, weight, follow = (torch.cat(each, 1) for each in (masks, weights, follows))

    copy = torch.arange(VIEWS, device=ids.device).repeat_interleave(at.shape[1])
    source = torch.cat(
        [torch.where(source < length, source, source + n * at.shape[1]) for n in range(VIEWS)], 1
    )
    want, at, there = (each.repeat(1, VIEWS) for each in (want, at, there))
    mask = added(block_sight(segment, block, at, there, copy))
    place = torch.arange(length, device=ids.device).expand_as(ids)
    both = torch.cat((ids, want.masked_fill(masked, MASK)), 1)
    hidden = at_sources(model(both, mask, places=torch.cat((place, at), 1)), source)
    logits = model.logits(hidden[masked]).float()
    want, weight, follow = want[masked], weight[masked], follow[masked]
    right = logits.argmax(-1) == want
    sharp = F.log_softmax(logits / SHARP, -1)
    entropy = -(sharp.exp() * sharp).sum(-1)
    each = F.cross_entropy(logits, want, reduction="none") + FORCED * entropy * (right & follow)
    loss = (each * weight).sum() / weight.sum().clamp_min(1)
    return Outcome(loss, right.float().mean().item())


def block_diffusion(model, ids, segment, role, generator, parallel=False):
    """Every block of every answer at once, each with a ratio of its own."""
    rows, length = ids.shape
    block = answer_blocks(role, model.shape.block_length)
    at, there = gathered(block > 0)
    own = block.gather(1, at)
    want = ids.gather(1, at)
    place = torch.arange(length, device=ids.device).expand_as(ids)
    mask = added(block_sight(segment, block, at, there))

    def states(masked):
        both = torch.cat((ids, want.masked_fill(masked, MASK)), 1)
        hidden = model(both, mask, places=torch.cat((place, at), 1))
        if model.shape.shift_logits:
            source = before(own, at, length)
            return hidden.gather(1, source[..., None].expand(-1, -1, hidden.shape[-1]))
        return hidden[:, length:]

    if parallel:
        ratio = shares((rows, int(block.max()) + 1), generator).to(ids.device).gather(1, own)
        blank = states_only(states, there)
        masked = least_sure(model, blank, own * there, there, ratio)
        return certainty(model, states(masked)[masked], want[masked])
    ratio = torch.rand((rows, int(block.max()) + 1), generator=generator)
    ratio = ratio.mul(1 - LEAST_RATIO).add(LEAST_RATIO).to(ids.device)
    draw = torch.rand((rows, length), generator=generator).to(ids.device)
    in_order = torch.rand(ratio.shape, generator=generator).to(ids.device) < IN_ORDER
    ends = torch.rand(ratio.shape, generator=generator).to(ids.device)
    share = ratio.gather(1, own)
    masked, weight = chosen_masks(
        want,
        index_in_block(own),
        share,
        in_order.gather(1, own),
        ends.gather(1, own),
        draw.gather(1, at),
    )
    masked = masked & there
    return denoising(model, states(masked)[masked], want[masked], weight[masked])
