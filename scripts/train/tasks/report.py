"""Reports that sum up several numbered documents, each in the words of `summary`.

    Notes: [1] Every night someone took onions from the cellar. ...
    [2] The book fair in Foxley was held near the mill on Monday. ...
    Report: [1] Someone took onions from the cellar. Ivan hid next to a small bridge, ...
    [2] ...
"""

from . import Item, draw
from .summary import REPORTS, REPORT_REMARKS, STORIES, STORY_REMARKS, chain, fill, pick, told

DOCUMENTS = (4, 5)
LETTERS = (520, 900)  # of a report: 128 to 256 tokens, mostly


def document(rng):
    """(text, summary, facts)."""
    story = rng.random() < 0.5
    plot = pick(rng, STORIES if story else REPORTS)
    slots = fill(rng)
    text = chain(told(rng, plot, STORY_REMARKS if story else REPORT_REMARKS), slots)
    return text, plot.summary.format_map(slots), [f.format_map(slots) for f in plot.facts]


def make(rng):
    while True:
        documents = [document(rng) for _ in range(rng.randint(*DOCUMENTS))]
        report = "\n".join(f"[{n}] {summary}" for n, (_, summary, _) in enumerate(documents, 1))
        if LETTERS[0] <= len(report) <= LETTERS[1]:
            break
    notes = "\n".join(f"[{n}] {text}" for n, (text, _, _) in enumerate(documents, 1))
    facts = tuple(dict.fromkeys(fact for _, _, each in documents for fact in each))
    return facts, Item(f"Notes: {notes}\nReport:", " " + report, "facts", facts)


def generate(rng, split):
    return draw(rng, split, make)
