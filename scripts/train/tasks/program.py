"""Programs that are changed and continued: functions that stay, one that is renamed, new ones.

    Program:
    def is_new_budget(score):
        return score % 8 == 0
    ...
    Rename: is_new_budget to even_part
    Add: 1. Write a function ... 2. ...
    Code: def even_part(score):
        return score % 8 == 0
    ...

A program is right if it is the very text.
"""

from . import Item, draw
from .code import HEADERS, SHAPES, describe_arguments, function_name, source

FUNCTIONS = (4, 8)
LETTERS = (380, 740)  # of a program: 128 to 256 tokens, mostly


def make(rng):
    while True:
        shapes = [shape(rng) for shape in rng.sample(SHAPES, rng.randint(*FUNCTIONS))]
        names = [function_name(rng, shape.kind) for shape in shapes]
        given = (len(shapes) + 1) // 2
        old = rng.randrange(given)
        fresh = function_name(rng, shapes[old].kind)
        codes = [source(name, shape) for name, shape in zip(names, shapes)]
        before = "\n".join(codes[:given])
        codes[old] = source(fresh, shapes[old])
        after = "\n".join(codes)
        if len({*names, fresh}) == len(names) + 1 and LETTERS[0] <= len(after) <= LETTERS[1]:
            break
    added = [
        HEADERS[0].format(f=name, args=describe_arguments(shape.args), does=shape.does)
        for name, shape in zip(names[given:], shapes[given:])
    ]
    tasks = "\n".join(f"{n}. {text}" for n, text in enumerate(added, 1))
    prompt = f"Program:\n{before}\nRename: {names[old]} to {fresh}\nAdd:\n{tasks}\nCode:"
    return (after,), Item(prompt, " " + after, "text")


def generate(rng, split):
    return draw(rng, split, make)
