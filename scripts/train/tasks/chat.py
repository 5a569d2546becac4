"""Conversations in the chat template of phi-3, whose last answer is asked for.

    <|system|>
    Your name is Nora. End each answer with "over".<|end|>
    <|user|>
    My name is Anna and I live in Foxley.<|end|>
    <|assistant|>
    Nice to meet you, Anna. over<|end|>
    <|user|>
    What is 17 + 25?<|end|>
    <|assistant|>
    17 + 25 = 42. over<|end|>
    <|user|>
    Where do I live?<|end|>
    <|assistant|>
    You live in Foxley. over

An answer depends on the system's turn and on facts that the user gave one to three turns before.
Only here an answer begins without a space, since a line of the template stands before it.
"""

from typing import NamedTuple

from . import Item, draw, split_of
from .summary import REPORTS, REPORT_REMARKS, STORIES, STORY_REMARKS, chain, fill, pick, told
from .words import (
    BAKES, COLOURS, DISHES, FRUITS, JOBS, MONTHS, NAMES, ROOMS, SUBJECTS, THINGS, TOWNS, article,
    where,
)

NAMED = "Tandem"  # what the assistant is called unless the system's turn gives a name
CLOSERS = ("over", "cheers", "at your service", "have a nice day", "stay curious", "so it is")
OPENERS = ("Sure", "Of course", "Well", "Certainly", "Hello", "Gladly")
TITLES = ("Captain", "Doctor", "Professor", "Chief", "Boss", "friend")
GREETINGS = ("Hello", "Hello!", "Hi", "Hi!", "Hi there.", "Good morning.", "Hey")
THANKS = ("Thanks", "Thank you.", "Thank you!", "Thanks a lot.")
ABILITIES = "I can talk, remember what you say, do sums and sum up a text."


class Fact(NamedTuple):
    """A fact about the user: `said` in one of several wordings, acknowledged by
    `noted`, asked for later with `asks` and answered with `answer`."""

    kind: str
    said: tuple
    noted: str
    asks: tuple
    answer: str


def facts(rng):
    """All kinds of facts with one draw of values."""
    name, friend = rng.sample(NAMES, 2)
    thing = f"{rng.choice(COLOURS)} {rng.choice(THINGS)}"
    noun, room = thing.split(" ", 1)[1], where(rng.choice(ROOMS))
    town, job, month = rng.choice(TOWNS), rng.choice(JOBS), rng.choice(MONTHS)
    colour, dish = rng.choice(COLOURS), rng.choice(DISHES)
    cake = f"{rng.choice(FRUITS)} {rng.choice(BAKES)}"
    subject, age, hour = rng.choice(SUBJECTS), rng.randint(8, 90), rng.randint(1, 12)
    return [
        Fact("name", (f"My name is {name}.", f"I am {name}.", f"Hello, I am {name}."),
             f"Nice to meet you, {name}.", ("What is my name?", "Who am I?"),
             f"Your name is {name}."),
        Fact("town", (f"I live in {town}.", f"My home is in {town}."), f"{town} is a nice place.",
             ("Where do I live?", "In which town do I live?"), f"You live in {town}."),
        Fact("job", (f"I am {article(job)}.", f"I work as {article(job)}."),
             f"{article(job).capitalize()} has much to do.",
             ("What is my job?", "What do I work as?"), f"You are {article(job)}."),
        Fact("thing", (f"I put my {thing} {room}.", f"My {thing} is {room}."),
             f"I will remember that your {noun} is {room}.",
             (f"Where is my {noun}?", f"Where did I put my {noun}?"),
             f"Your {thing} is {room}."),
        Fact("colour", (f"My favourite colour is {colour}.", f"I like {colour} most."),
             f"{colour.capitalize()} is a fine colour.",
             ("What is my favourite colour?", "Which colour do I like most?"),
             f"Your favourite colour is {colour}."),
        Fact("dish", (f"I would like to eat {dish} today.", f"Today I will cook {dish}."),
             f"Enjoy the {dish}.", ("What will I eat today?", "What is my meal today?"),
             f"You will eat {dish} today."),
        Fact("gift", (f"My friend {friend} gave me {article(cake)}.",
                      f"I got {article(cake)} from my friend {friend}."),
             f"That was kind of {friend}.",
             ("What did my friend give me?", "What did I get from my friend?"),
             f"{friend} gave you {article(cake)}."),
        Fact("birthday", (f"My birthday is in {month}.", f"I was born in {month}."),
             f"{month} is a good month.", ("When is my birthday?", "In which month was I born?"),
             f"Your birthday is in {month}."),
        Fact("age", (f"I am {age} years old.", f"My age is {age}."), f"{age} is a good age.",
             ("How old am I?", "What is my age?"), f"You are {age} years old."),
        Fact("lesson", (f"I have a {subject} lesson at {hour} o'clock.",
                        f"At {hour} o'clock I have a {subject} lesson."),
             f"Have fun with {subject}.",
             ("When is my lesson?", "At what time is my lesson?"),
             f"Your {subject} lesson is at {hour} o'clock."),
    ]


class Rules(NamedTuple):
    """What the system's turn asks for."""

    text: str = ""
    name: str = NAMED
    opener: str = ""
    closer: str = ""
    title: str = ""
    brief: bool = False


def rules(rng):
    if rng.random() < 0.35:
        return Rules()
    name, opener, closer, title, brief = NAMED, "", "", "", False
    parts = []
    for kind in rng.sample(("name", "opener", "closer", "title", "brief"), rng.randint(1, 2)):
        if kind == "name":
            name = rng.choice(NAMES)
            parts.append(rng.choice((f"Your name is {name}.", f"You are {name}.")))
        elif kind == "opener" and not title:
            opener = rng.choice(OPENERS)
            parts.append(rng.choice((f'Begin each answer with "{opener}".',
                                     f'Start every answer with "{opener}".')))
        elif kind == "closer":
            closer = rng.choice(CLOSERS)
            parts.append(rng.choice((f'End each answer with "{closer}".',
                                     f'Always end with "{closer}".')))
        elif kind == "title" and not opener:
            title = rng.choice(TITLES)
            parts.append(rng.choice((f"Call the user {title}.", f"Address the user as {title}.")))
        elif kind == "brief":
            brief = True
            parts.append(rng.choice(("Be brief.", "Answer in few words.", "Keep it short.")))
    if rng.random() < 0.3 or not parts:
        parts.insert(0, rng.choice(("You are a helpful assistant.", "Help the user.")))
    return Rules(" ".join(parts), name, opener, closer, title, brief)


def styled(rule, text):
    """The answer `text` as the system's turn wants it."""
    if rule.opener:
        text = f"{rule.opener}, {text}"
    if rule.title:
        text = f"{rule.title}, {text}"
    if rule.closer:
        text = f"{text} {rule.closer}"
    return text


def arithmetic(rng):
    a, b = rng.randint(2, 60), rng.randint(2, 60)
    kind = rng.choice("+-*") if rng.random() < 0.8 else "+"
    if kind == "*":
        a, b = rng.randint(2, 9), rng.randint(2, 12)
    if kind == "-":
        a, b = max(a, b), min(a, b)
    result = {"+": a + b, "-": a - b, "*": a * b}[kind]
    ask = rng.choice(("What is {}?", "How much is {}?", "Calculate {}.")).format(f"{a} {kind} {b}")
    return ask, f"{a} {kind} {b} = {result}.", f"{result}."


def text_to_sum_up(rng):
    """(request, summary) of a story or report."""
    story = rng.random() < 0.5
    plot, slots = pick(rng, STORIES if story else REPORTS), fill(rng)
    text = chain(told(rng, plot, STORY_REMARKS if story else REPORT_REMARKS), slots)
    ask = rng.choice(("Sum this up:", "Summarize this:"))
    return f"{ask} {text}", plot.summary.format_map(slots)


def small_talk(rng, rule):
    """(what the user says, the answer, the brief answer)."""
    kind = rng.randrange(6)
    if kind == 0:
        return rng.choice(GREETINGS), "Hello! How can I help you?", "Hello!"
    if kind == 1:
        return rng.choice(THANKS), "You are welcome.", "You are welcome."
    if kind == 2:
        ask = rng.choice(("What is your name?", "Who are you?", "What are you called?"))
        return ask, f"My name is {rule.name}.", f"{rule.name}."
    if kind == 3:
        ask = rng.choice(("What can you do?", "How can you help me?", "What do you know?"))
        return ask, ABILITIES, "Talk and do sums."
    if kind == 4:
        return rng.choice(("How are you?", "Are you well?")), "I am well, thank you.", "Well."
    return arithmetic(rng)




def conversation(rng):
    """(rules, [(what the user says, the answer)]): facts, other talk, and questions about facts.

    The last turn asks for a fact that was given two turns before, where there is room for one.
    """
    rule = rules(rng)
    known = rng.sample(facts(rng), rng.randint(1, 3))
    unknown = [f for f in facts(rng) if f.kind not in {k.kind for k in known}]
    turns, asked = [], []

    def say(user, long, short):
        turns.append((user, styled(rule, short if rule.brief else long)))

    def ask(fact):
        say(rng.choice(fact.asks), fact.answer, fact.answer)

    waiting = list(known)
    while waiting:
        if rng.random() < 0.35:
            say(*small_talk(rng, rule))
        fact = waiting.pop(0)
        asked.append(fact)
        say(rng.choice(fact.said), fact.noted, "I see.")
    extra = rng.random()
    if extra < 0.12:
        request, summary = text_to_sum_up(rng)
        say(request, summary, summary)
    elif extra < 0.24:
        fact = rng.choice(unknown)
        say(rng.choice(fact.asks), "You did not tell me that.", "I do not know.")
    elif extra < 0.75:
        say(*small_talk(rng, rule))
    rng.shuffle(asked)
    for fact in asked[: rng.randint(1, 2)]:
        ask(fact)
    return rule, turns


def opened(rule):
    return f"<|system|>\n{rule.text}<|end|>\n" if rule.text else ""


def asked_for(user):
    return f"<|user|>\n{user}<|end|>\n<|assistant|>\n"


def prompts(rule, turns):
    """[(prompt, answer)]: each prompt continues after the answer before it and its end."""
    out = []
    for number, (user, answer) in enumerate(turns):
        before = "\n" if number else opened(rule)
        out.append((before + asked_for(user), answer))
    return out


def key_of(rule, turns):
    return (rule.text, *(user for user, _ in turns))


def make(rng):
    rule, turns = conversation(rng)
    parts = prompts(rule, turns)
    prompt = "".join(p + a + "<|end|>" for p, a in parts[:-1]) + parts[-1][0]
    return key_of(rule, turns), Item(prompt, turns[-1][1], "exact")


def generate(rng, split):
    return draw(rng, split, make)


def generate_several(rng, split, count):
    """All turns of a conversation of the side `split`; `count` at most."""
    while True:
        rule, turns = conversation(rng)
        if split_of(key_of(rule, turns)) == split:
            return prompts(rule, turns)[:count]
