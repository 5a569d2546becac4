"""Stories of two chapters about what a plan lists.

    Plan: lost: Anna; red kite; under the bridge; Paul; plum cake
    Then: errand: ...
    Story: Anna lived near the mill with her cousin Tom. ...

What the plan leaves open is free.  A story is right if all that the plan lists occurs in it.
"""

from . import Item, draw
from .summary import STORIES, STORY_REMARKS, chain, fill, pick, told

LETTERS = (520, 1000)  # of a story: 128 to 256 tokens, mostly
LINKS = (" Not long after that, something else happened. ", " That was not all. ",
         " Soon there was more to tell. ")


def listed(plot, facts):
    return f"{plot.name}: {'; '.join(facts)}"


def make(rng):
    while True:
        first, second = rng.sample(STORIES, 2)
        slots = fill(rng)
        facts = [tuple(f.format_map(slots) for f in plot.facts) for plot in (first, second)]
        chapters = [chain(told(rng, plot, STORY_REMARKS), slots) for plot in (first, second)]
        story = pick(rng, LINKS).join(chapters)
        both = tuple(dict.fromkeys(facts[0] + facts[1]))
        if LETTERS[0] <= len(story) <= LETTERS[1] and all(fact in story for fact in both):
            break
    prompt = f"Plan: {listed(first, facts[0])}\nThen: {listed(second, facts[1])}\nStory:"
    return (first.name, second.name) + both, Item(prompt, " " + story, "facts", both)


def generate(rng, split):
    return draw(rng, split, make)
