"""Summaries of one among several documents, which a word or two of it picks out.

    Read: [1] Every night someone took onions from the cellar. ...
    [2] The book fair in Foxley was held near the mill on Monday. ...
    [1] At 8 o'clock a hedgehog came with 7 hungry little ones. ...
    Which: a ginger loaf
    Summary: Someone took onions from the cellar. ...

Documents are those of `summary` with more remarks, most of them told in two or three runs with
runs of others between; a run bears its document's number.  What `Which:` says is a number, or a
fact that no other document contains.
"""

import random

from . import Item, draw, several
from .qa_long import deal
from .summary import REPORT_REMARKS, REPORTS, STORIES, STORY_REMARKS, chain, fill, pick, told

LETTERS = (1900, 2800)  # at four or a little less to a token
MOST_RUNS = 3
MOST_REMARKS = 6


def runs(rng, body):
    """`body` cut into up to MOST_RUNS runs, none of them empty."""
    cuts = sorted(rng.sample(range(1, len(body)), rng.randint(1, MOST_RUNS) - 1))
    return [body[a:b] for a, b in zip([0, *cuts], [*cuts, len(body)])]


def document(rng):
    """(plot, slots, the texts of its runs)."""
    story = rng.random() < 0.5
    plot = pick(rng, STORIES if story else REPORTS)
    slots = fill(rng)
    body = told(rng, plot, STORY_REMARKS if story else REPORT_REMARKS, MOST_REMARKS)
    return plot, slots, [chain(run, slots) for run in runs(rng, body)]


def which(rng, number, facts, texts):
    """What picks out the document `number` of `texts`."""
    others = " ".join(texts[:number] + texts[number + 1 :])
    sole = [fact for fact in facts if fact not in others and fact in texts[number]]
    return pick(rng, sole) if sole and rng.random() < 0.7 else str(number + 1)


def make(rng, ask):
    """Documents drawn by `rng`, and which of them `ask` asks for."""
    size = rng.randint(*LETTERS)
    documents = []
    while sum(len(text) for _, _, texts in documents for text in texts) < size:
        documents.append(document(rng))
    labelled = [[f"[{n}] {text}" for text in texts]
                for n, (_, _, texts) in enumerate(documents, 1)]
    number = ask.randrange(len(documents))
    plot, slots, _ = documents[number]
    facts = tuple(fact.format_map(slots) for fact in plot.facts)
    mark = which(ask, number, facts, [" ".join(texts) for _, _, texts in documents])
    prompt = "Read: {}\nWhich: {}\nSummary:".format("\n".join(deal(rng, labelled)), mark)
    answer = " " + plot.summary.format_map(slots)
    return (plot.name,) + facts, Item(prompt, answer, "facts", facts)


def generate(rng, split):
    return draw(rng, split, lambda rng: make(rng, rng))


def generate_several(rng, split, count):
    """Up to `count` items with the same documents, and where they part."""
    seed = rng.getrandbits(64)
    return several(split, [make(random.Random(seed), rng) for _ in range(count)], "\nWhich:")
