"""Replies as in `reply`, whose manner is to be read from a dozen earlier messages.

    Manner: Ben writes as in the example.
    Example: Hi there Rosa! Sorry, no! I can't play tennis on Sunday ... Cheers, Ben
    Example: Dear Ben. Gladly. I will bring the lemon cake ... Yours, Karl :)
    ...
    Message: Hello Ben, I need a blue tent on Friday at 6. Can I borrow yours? Bye, Anna
    Decision: yes
    Reply: Hi there Anna! Sure thing! I'll bring you the blue tent on Friday at 6! Cheers, Ben

One of the examples in four is another person's, in another manner.  What one says for yes, for no
or to wait stands only in the examples that say so; the manner line tells what no example shows.
"""

import random

from . import Item, draw, several
from .reply import (
    DECISIONS, NAMES, PURPOSE_NAMES, list_facts, make_manner, make_request, write_decision,
    write_manner, write_message, write_reply,
)

LETTERS = (1700, 2600)  # of all examples, at three and a half to a token
TRAITS = {"greeting", "sign", "mark", "short", "smile", "opener", "yes", "no", "later"}


def draw_request(rng, sender, other):
    return make_request(rng, rng.choice(PURPOSE_NAMES), sender, other, rng.choice(DECISIONS))


def write_history(rng, own, foreign, people):
    """The lines of examples, and the traits of `own` that they show."""
    size, lines, shown = rng.randint(*LETTERS), [], set()
    while sum(map(len, lines)) < size:
        manner = foreign if rng.random() < 0.25 else own
        request = draw_request(rng, *rng.sample(people, 2))
        lines.append("Example: " + write_reply(manner, request))
        if manner is own:
            shown |= TRAITS - {"yes", "no", "later"} | {request.decision}
    return lines, shown


def make(rng, ask):
    """A history drawn by `rng`, and a message to answer drawn by `ask`."""
    name, stranger, *people = rng.sample(NAMES, 12)
    manner = make_manner(rng, name)
    lines, shown = write_history(rng, manner, make_manner(rng, stranger), people)
    head = write_manner(rng, manner, shown, TRAITS)
    request = draw_request(ask, *ask.sample([n for n in NAMES if n not in (name, stranger)], 2))
    answer = write_reply(manner, request)
    prompt = "Manner: {}\n{}\nMessage: {}\nDecision: {}\nReply:".format(
        head, "\n".join(lines), write_message(ask, manner, request), write_decision(request))
    key = (request.purpose, request.decision, answer)
    return key, Item(prompt, " " + answer, "facts", list_facts(manner, request))


def generate(rng, split):
    return draw(rng, split, lambda rng: make(rng, rng))


def generate_several(rng, split, count):
    """Up to `count` items with one history and different messages, and where they part."""
    seed = rng.getrandbits(64)
    return several(split, [make(random.Random(seed), rng) for _ in range(count)], "\nMessage:")
