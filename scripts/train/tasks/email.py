"""E-mails that answer several questions, each quoted and then answered as in `reply`.

    Manner: Martin greets with "Hey", says "a bit later" to wait, ...
    Questions of Frank:
    - Can you take in my old camera on Friday? It comes at 1:30.
    - ...
    Decisions: 1 later, on Sunday at 10:15; 2 yes; ...
    Email: Hey Frank.
    > Can you take in my old camera on Friday? It comes at 1:30.
    A bit later. I will get the old camera from the shop on Sunday at 10:15.
    ...
    Best wishes, Martin
"""

from . import Item, draw
from .reply import (
    DECISIONS, MEANINGS, NAMES, PURPOSES, PURPOSE_NAMES, make_manner, make_request,
    write_decision, write_sentence,
)
from .words import cap

QUESTIONS = (3, 5)
LETTERS = (440, 860)  # of an e-mail: 128 to 256 tokens, mostly


def write_manner(rng, manner, decisions):
    traits = [f'greets with "{manner.greeting}"', f'signs "{manner.sign}, {manner.name}"',
              "uses exclamation marks" if manner.mark == "!" else "uses no exclamation marks",
              "uses short forms" if manner.short else "uses no short forms"]
    traits += [f'says "{manner.phrases[d]}" {MEANINGS[d]}' for d in sorted(set(decisions))]
    rng.shuffle(traits)
    return f"{manner.name} {', '.join(traits)}."


def make(rng):
    while True:
        name, sender, other = rng.sample(NAMES, 3)
        manner = make_manner(rng, name)
        requests = [make_request(rng, purpose, sender, other, rng.choice(DECISIONS))
                    for purpose in rng.sample(PURPOSE_NAMES, rng.randint(*QUESTIONS))]
        asks = [cap(rng.choice(PURPOSES[r.purpose].asks).format_map(r.slots)) for r in requests]
        answers = [f"{cap(manner.phrases[r.decision])}{manner.mark} "
                   f"{write_sentence(manner, r)}{manner.mark}" for r in requests]
        greeting, end = f"{manner.greeting} {sender}{manner.mark}", f"{manner.sign}, {name}"
        quoted = [f"> {ask}\n{answer}" for ask, answer in zip(asks, answers)]
        email = "\n".join([greeting, *quoted, end])
        if LETTERS[0] <= len(email) <= LETTERS[1]:
            break
    decisions = "; ".join(f"{n} {write_decision(r)}" for n, r in enumerate(requests, 1))
    prompt = "Manner: {}\nQuestions of {}:\n{}\nDecisions: {}\nEmail:".format(
        write_manner(rng, manner, [r.decision for r in requests]), sender,
        "\n".join(f"- {ask}" for ask in asks), decisions)
    facts = (greeting, *asks, *answers, end)
    return facts, Item(prompt, " " + email, "facts", facts)


def generate(rng, split):
    return draw(rng, split, make)
