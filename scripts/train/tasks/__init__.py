"""The task families: text that is generated, not collected.

Each family is one module with a function

    generate(rng, split) -> Item

that draws one item from `rng` (a random.Random).  Held-out items differ from training items by
construction and not by luck: a family names the combination that makes an item what it is (its
key), and `split_of` assigns that combination to one side for good.
"""

import hashlib
from typing import NamedTuple

TRAIN = "train"
HELD_OUT = "held-out"


class Item(NamedTuple):
    """One exercise.

    prompt  ends in "Word:", with no space after it
    answer  begins with a space and has no end marker
    check   how an answer is marked: "exact" (the first line of it), "number" (the last number in
            it), "text" (all of it, but for white space), "facts" (all of `facts` occur in it)
    facts   the strings that a right answer contains
    level   1 (easy) to 5 (hard); 0 where a family has no levels
    """

    prompt: str
    answer: str
    check: str
    facts: tuple = ()
    level: int = 0


def split_of(key):
    """The side, one in ten held out, on which the combination `key` (any tuple of texts) lies."""
    digest = hashlib.blake2b("\0".join(map(str, key)).encode(), digest_size=8).digest()
    return HELD_OUT if digest[0] % 10 == 0 else TRAIN


def draw(rng, split, make):
    """Call make(rng) -> (key, item) until an item falls on the side `split`; returns the item."""
    while True:
        key, item = make(rng)
        if split_of(key) == split:
            return item


def several(split, made, mark):
    """Of the (key, item) `made`, which share all text before `mark`, those on the side `split`.

    Returns [(prompt, answer)], the prompts but the first beginning at `mark`; each prompt once.
    """
    out, seen = [], set()
    for key, item in made:
        if split_of(key) == split and item.prompt not in seen:
            seen.add(item.prompt)
            start = item.prompt.index(mark) if out else 0
            out.append((item.prompt[start:], item.answer))
    return out
