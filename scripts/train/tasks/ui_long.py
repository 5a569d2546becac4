"""Phone screens as in `ui`, but long: forty to fifty-six elements, most of them of one list."""

import random

from . import draw, several, ui

# the apps whose lists can be that long
NAMES = ("Mail", "Shop", "Music", "Calendar", "Map", "Messages", "Contacts", "Notes")


def make_screen(rng, name, needed):
    """The `needed` (kind, label) pairs, some other controls, and the entries of the list."""
    elements = [ui.Element(kind, label) for kind, label in needed]
    others = [control for control in ui.CONTROLS[name] if control not in needed]
    count = min(len(others), rng.randint(3, 8))
    elements += [ui.make_control(rng, *control) for control in rng.sample(others, count)]
    elements += ui.make_entries(rng, ui.APPS[name], rng.randint(40, 56) - len(elements))
    rng.shuffle(elements)
    return elements


def make(rng, ask):
    return ui.make(rng, ask, NAMES, make_screen)


def generate(rng, split):
    return draw(rng, split, lambda rng: make(rng, rng))


def generate_several(rng, split, count):
    """Up to `count` items with one screen and different requests, and where they part."""
    seed = rng.getrandbits(64)
    return several(split, [make(random.Random(seed), rng) for _ in range(count)], "\nRequest:")
