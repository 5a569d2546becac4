"""Drills: not a task of its own, but the circuits that the others need, densely.

    Recall: Anna: red kite; Tom: the barn; Nora: 17
    Tom: the barn
    Anna: red kite
    ...

Looking up what a list says of a key (or the key of what it says), copying a list of words, and
single sums and products.  An item of a family asks for one or two such steps in a hundred tokens;
a drill asks for one in every five.
"""

from .words import COLOURS, DAYS, NAMES, PLACES, THINGS, TOWNS


def value(rng):
    kind = rng.randrange(6)
    if kind == 0:
        return f"{rng.choice(COLOURS)} {rng.choice(THINGS)}"
    if kind == 1:
        return rng.choice(PLACES)
    if kind == 2:
        return str(rng.randrange(1000))
    if kind == 3:
        return f"{rng.randrange(6, 23)}:{rng.choice(('00', '15', '30', '45'))}"
    if kind == 4:
        return f"{rng.choice(DAYS)} in {rng.choice(TOWNS)}"
    return rng.choice(THINGS)


def recall(rng):
    """A list of keys with values, then questions in either direction."""
    count = rng.randint(3, 12)
    keys = rng.sample(NAMES if rng.random() < 0.5 else THINGS, count)
    values = []
    while len(values) < count:
        new = value(rng)
        if new not in values and new not in keys:
            values.append(new)
    pairs = list(zip(keys, values))
    glue = rng.choice((": {}; ", " has {}. ", " - {}\n"))
    text = "Recall: " + "".join(key + glue.format(v) for key, v in pairs).strip()
    turns = []
    for _ in range(rng.randint(8, 16)):
        key, v = rng.choice(pairs)
        ask, answer = (key, v) if rng.random() < 0.7 else (v, key)
        turns.append((f"\n{ask}:", f" {answer}"))
    turns[0] = (text + turns[0][0], turns[0][1])
    return turns


def copy(rng):
    """Words in a random order, said again."""
    source = NAMES + THINGS + PLACES + COLOURS
    words = [rng.choice(source) for _ in range(rng.randint(4, 30))]
    if rng.random() < 0.4:
        words = [str(rng.randrange(10 ** rng.randint(1, 4))) for _ in words]
    text = rng.choice((" ", ", ")).join(words)
    return [(f"Copy: {text}\nCopy:", f" {text}")]


def sums(rng):
    """Single sums, differences, products and quotients."""
    turns = []
    for _ in range(rng.randint(10, 24)):
        kind, top = rng.randrange(4), rng.choice((20, 100, 500))
        a, b = rng.randrange(top), rng.randrange(top)
        if kind == 0:
            text, result = f"{a} + {b}", a + b
        elif kind == 1:
            a, b = max(a, b), min(a, b)
            text, result = f"{a} - {b}", a - b
        else:
            a, b = rng.randint(2, 9), rng.randrange(2, rng.choice((10, 10, 100)))
            text, result = f"{a} * {b}", a * b
            if kind == 3:
                text, result = f"{a * b} / {a}", b
        turns.append((f"\n{text} =", f" {result}."))
    return turns


def turns(rng):
    """One drill, as [(prompt, answer)]."""
    return rng.choice((recall, recall, recall, copy, sums, sums))(rng)
