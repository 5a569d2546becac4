"""Questions about a long passage: six to nine tables of `qa`, each larger than there, in one text.

The tables follow one another, a paragraph each, or their sentences are dealt out over the whole
text, each table's in its order.  Only one sentence answers; the others of its table are like it,
and the other tables speak of the same people, things, places and days.
"""

import random

from . import Item, draw, several
from . import qa

WORLDS = tuple(dict.fromkeys(qa.WORLDS))


def deal(rng, runs):
    """The members of all `runs` in one list, those of each run in their order."""
    left = [list(reversed(run)) for run in runs]
    out = []
    while any(left):
        run = rng.choices(left, [len(run) for run in left])[0]
        out.append(run.pop())
    return out


def make(rng, ask):
    """A passage drawn by `rng`, and a question drawn by `ask`."""
    worlds = rng.sample(WORLDS, rng.randint(6, 9))
    asked = ask.choice(worlds)
    passages = []
    for world in worlds:
        told = world(rng, ask if world is asked else random.Random(0), rng.randint(5, 7))
        passages.append(told[1])
        if world is asked:
            row, _, (question, answer) = told
    if rng.random() < 0.5:
        text = " ".join(deal(rng, passages))
    else:
        text = "\n".join(" ".join(parts) for parts in passages)
    prompt = f"Read: {text}\nQuestion: {question}\nAnswer:"
    return (asked.__name__, *row), Item(prompt, " " + answer, "exact")


def generate(rng, split):
    return draw(rng, split, lambda rng: make(rng, rng))


def generate_several(rng, split, count):
    """Up to `count` items with one passage and different questions, and where they part."""
    seed = rng.getrandbits(64)
    return several(split, [make(random.Random(seed), rng) for _ in range(count)], "\nQuestion:")
