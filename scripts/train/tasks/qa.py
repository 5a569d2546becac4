"""Questions about a passage: who has what, where, when, how many, how much.

A passage is a small table told in sentences, each row (a person, a shop, a train) like the others,
so that the answer is found only by reading.  A world returns the row that is asked for, the
passage in parts, and the question with its answer; `number` says how many rows there are to be.
The sentences are those of a story (belongings, moves,
gifts, people, animals) or of a notice (opening hours, menu, trains, lessons).  One item:

    Read: Anna keeps a red kite in the barn. It was a windy day. Tom has a blue drum. It is at the
    station. The green lamp in the attic belongs to Mia.
    Question: Where is Tom's drum?
    Answer: Tom's drum is at the station.
"""

import random

from . import Item, draw, several
from .words import (
    ANIMALS, COLOURS, DAYS, DISHES, FRUITS, JOBS, NAMES, PLACES, ROOMS, SUBJECTS, THINGS, TOWNS,
    article, cap, plural, pronouns, where,
)

REMARKS = (
    "It was a windy day.", "The sun was out.", "It had rained all night.", "Nobody was in a hurry.",
    "It was a quiet morning.", "Later there was soup for everyone.", "The birds were singing.",
    "Everyone was in a good mood.",
)
NOTICES = (
    "Please tell your friends.", "Thank you for your visit.", "Children are welcome.",
    "Please be on time.", "Dogs must stay outside.", "This list is for this month.",
    "Please keep this note.", "Call us if you have questions.",
)
SHOPS = (
    "library", "museum", "bakery", "theatre", "zoo", "cinema", "gym", "post office", "bank",
    "market", "town hall", "castle", "toy shop", "book shop", "flower shop", "swimming pool",
)
INNS = ("Green Fox", "Red Lion", "White Swan", "Old Mill", "Black Cat", "Golden Bell",
        "Blue Door", "Happy Cook")
INDOORS = PLACES + ROOMS
OUTDOORS = (
    "garden", "park", "farm", "forest", "zoo", "barn", "castle", "mill", "stable", "harbour",
    "market", "tower", "church", "school",
)


def pick(rng, words):
    """One of the words (quicker than rng.choice)."""
    return words[int(rng.random() * len(words))]


def passage(rng, groups, remarks, first=None):
    """The groups of sentences in order, with a remark at a random place in half of the cases."""
    parts = list(groups)
    if rng.random() < 0.5:
        parts.insert(int(rng.random() * (len(parts) + 1)), pick(rng, remarks))
    if first:
        parts.insert(0, first)
    return parts


def clock(rng, low, high):
    """A time of day from low o'clock on and before high o'clock."""
    return "{}:{}".format(rng.randrange(low, high), pick(rng, ("00", "15", "30", "45")))


def times(rng, number, low, high):
    """Different times of day."""
    found = []
    while len(found) < number:
        time = clock(rng, low, high)
        if time not in found:
            found.append(time)
    return found


def belongings(rng, ask, number=None):
    """People who keep things with colours in places; two things may be of one kind."""
    number = number or rng.randint(3, 4)
    names = rng.sample(NAMES, number)
    colours = rng.sample(COLOURS, number)
    things = rng.sample(THINGS, number)
    places = [where(place) for place in rng.sample(INDOORS, number)]
    if rng.random() < 0.3:
        things[1] = things[0]
    rows = list(zip(names, colours, things, places))
    groups = []
    for name, colour, thing, place in rows:
        full = colour + " " + thing
        groups.append(pick(rng, (
            "{} has {}. It is {}.".format(name, article(full), place),
            "{} keeps {} {}.".format(name, article(full), place),
            "The {} {} belongs to {}.".format(full, place, name),
        )))
    order = rng.sample(range(number), number)
    parts = passage(rng, [groups[index] for index in order], REMARKS)
    target = pick(ask, rows)
    return target, parts, ask_belongings(ask, rows, target)


def ask_belongings(rng, rows, target):
    """A question about one person's thing."""
    name, colour, thing, place = target
    full = colour + " " + thing
    kind = pick(rng, ("where", "whose place", "who", "colour", "what is there", "what", "yes"))
    if kind == "where":
        return (pick(rng, ("Where is the {}?", "Where can you find the {}?")).format(full),
                "The {} is {}.".format(full, place))
    if kind == "whose place":
        return (pick(rng, ("Where is {}'s {}?", "Where does {} keep the {}?")).format(name, thing),
                "{}'s {} is {}.".format(name, thing, place))
    if kind == "who":
        return (pick(rng, ("Who has the {}?", "Who is the owner of the {}?",
                           "To whom does the {} belong?")).format(full),
                "{} has the {}.".format(name, full))
    if kind == "colour":
        return (pick(rng, ("What colour is {}'s {}?",
                           "Which colour does {}'s {} have?")).format(name, thing),
                "{}'s {} is {}.".format(name, thing, colour))
    if kind == "what is there":
        return (pick(rng, ("What is {}?", "Which thing is {}?")).format(place),
                "The {} is {}.".format(full, place))
    if kind == "what":
        return (pick(rng, ("What does {} have?", "What belongs to {}?")).format(name),
                "{} has {}.".format(name, article(full)))
    asked = target if rng.random() < 0.5 else pick(rng, [row for row in rows if row != target])
    right = asked == target
    return ("Is {}'s {} {}?".format(name, thing, asked[3]),
            "{}, {}'s {} is {}.".format("Yes" if right else "No", name, thing, place))


def moves(rng, ask, number=None):
    """People who go from place to place, told in order."""
    number = number or rng.randint(2, 4)
    names = rng.sample(NAMES, number)
    places = [where(place) for place in rng.sample(PLACES, number + 3)]
    now = dict(zip(names, places))
    before = {}
    groups = [pick(rng, ("{} was {}.", "In the morning {} was {}.")).format(*pair)
              for pair in now.items()]
    free = places[number:]
    for name in rng.sample(names, min(number, rng.randint(2, 3))):
        taken = [place for place in now.values() if place != now[name]]
        target = pick(rng, taken) if taken and rng.random() < 0.4 else free.pop()
        before[name], now[name] = now[name], target
        groups.append("{} {} the {}.".format(
            name, pick(rng, ("went to", "walked to", "then went to")), target.split(" the ")[1]))
    remark = pick(rng, REMARKS)
    if rng.random() < 0.5:
        groups.insert(int(rng.random() * (len(groups) + 1)), remark)
    return ask_moves(ask, now, before, groups)


def ask_moves(rng, now, before, parts):
    """A question about where somebody is or was, or who is there too."""
    name = pick(rng, tuple(now))
    company = [other for other in now if other != name and now[other] == now[name]]
    draw_kind = rng.random()
    key = ("moves", name, before.get(name, ""), now[name])
    if len(company) == 1 and draw_kind < 0.5:
        question = pick(rng, ("Who is in the same place as {}?",
                              "Who is now where {} is?")).format(name)
        return key + (company[0],), parts, (
            question, "{} is {}, like {}.".format(company[0], now[name], name))
    if name in before and draw_kind < 0.65:
        place = now[name].split(" the ")[1]
        return key, parts, (
            pick(rng, ("Where was {} before going to the {}?",
                       "From where did {} go to the {}?")).format(name, place),
            "{} was {} before.".format(name, before[name]))
    if not company and draw_kind < 0.75:
        return key, parts, (
            pick(rng, ("Who is {} now?", "Who is {} at the end?")).format(now[name]),
            "{} is {} now.".format(name, now[name]))
    return key, parts, (
        pick(rng, ("Where is {} now?", "Where is {} at the end?")).format(name),
        "{} is {} now.".format(name, now[name]))


def gifts(rng, ask, number=None):
    """People who gave things to each other on days of the week."""
    number = number or rng.randint(3, 4)
    names = rng.sample(NAMES, number + 1)
    pairs = [(giver, taker) for giver in names for taker in names if giver != taker]
    days = rng.sample(DAYS, number)
    rows = []
    for (giver, taker), noun, day in zip(rng.sample(pairs, number), rng.sample(THINGS, number),
                                         days):
        rows.append((giver, taker, pick(rng, COLOURS) + " " + noun, day))
    groups = []
    for giver, taker, thing, day in rows:
        groups.append(pick(rng, (
            "On {3} {0} gave {1} {2}.", "{0} gave {2} to {1} on {3}.",
            "{1} got {2} from {0} on {3}.",
        )).format(giver, taker, article(thing), day))
    target = pick(ask, rows)
    giver, taker, thing, day = target
    kind = pick(ask, ("what", "giver", "taker", "when", "day"))
    if kind == "what":
        question = pick(ask, ("What did {0} give {1}?", "What did {1} get from {0}?"))
        answer = "{0} gave {1} {3}."
    elif kind == "giver":
        question = pick(ask, ("Who gave {1} the {2}?", "From whom did {1} get the {2}?"))
        answer = "{0} gave {1} the {2}."
    elif kind == "taker":
        question = pick(ask, ("Who got the {2}?", "To whom did {0} give the {2}?"))
        answer = "{1} got the {2} from {0}."
    elif kind == "when":
        question = pick(ask, ("When did {0} give {1} the {2}?",
                              "On which day did {1} get the {2}?"))
        answer = "{1} got the {2} on {4}."
    else:
        question = pick(ask, ("What was given on {4}?", "Which thing was a gift on {4}?"))
        answer = "{0} gave {1} the {2} on {4}."
    values = (giver, taker, thing, article(thing), day)
    return target, passage(rng, groups, REMARKS), (question.format(*values),
                                                   answer.format(*values))


def people(rng, ask, number=None):
    """People with a job, a town, an age and something that they like."""
    number = number or rng.randint(2, 3)
    rows = list(zip(rng.sample(NAMES, number), rng.sample(JOBS, number),
                    rng.sample(TOWNS, number), rng.sample(range(18, 80), number),
                    [plural(animal) for animal in rng.sample(ANIMALS, number)]))
    groups = []
    for name, job, town, age, animals in rows:
        pronoun = cap(pronouns(name)[0])
        groups.append(pick(rng, (
            "{0} is {1} from {2}. {5} is {3} years old and likes {4}.",
            "{0} lives in {2} and is {3} years old. {5} is {1} and likes {4}.",
            "{0}, who is {3} years old, is {1}. {5} lives in {2}. {5} likes {4}.",
        )).format(name, article(job), town, age, animals, pronoun))
    target = pick(ask, rows)
    values = (target[0], target[1], article(target[1]), target[2], target[3], target[4])
    question, answer = pick(ask, (
        ("What is {0}'s job?", "{0} is {2}."),
        ("What does {0} do for a living?", "{0} is {2}."),
        ("Who is the {1}?", "{0} is the {1}."),
        ("Which of them is {2}?", "{0} is the {1}."),
        ("Where does {0} live?", "{0} lives in {3}."),
        ("In which town does {0} live?", "{0} lives in {3}."),
        ("Who lives in {3}?", "{0} lives in {3}."),
        ("Where does the {1} live?", "{0}, the {1}, lives in {3}."),
        ("How old is {0}?", "{0} is {4} years old."),
        ("What is {0}'s age?", "{0} is {4} years old."),
        ("Which animals does {0} like?", "{0} likes {5}."),
        ("Who likes {5}?", "{0} likes {5}."),
    ))
    return target[:4], passage(rng, groups, REMARKS), (question.format(*values),
                                                       answer.format(*values))


def counts(rng, ask, number=None):
    """Animals in places; the same animals may be in two places."""
    number = number or rng.randint(4, 5)
    animals = rng.sample(ANIMALS, number)
    if rng.random() < 0.5:
        animals[1] = animals[0]
    rows = list(zip([plural(animal) for animal in animals],
                    [where(place) for place in rng.sample(OUTDOORS, number)],
                    rng.sample(range(2, 30), number)))
    groups = [pick(rng, ("There are {2} {0} {1}.", "{3} there are {2} {0}.",
                         "We saw {2} {0} {1}.")).format(*row, cap(row[1])) for row in rows]
    rng.shuffle(groups)
    target = pick(ask, rows)
    question, answer = pick(ask, (
        ("How many {0} are {1}?", "There are {2} {0} {1}."),
        ("How many {0} are there {1}?", "There are {2} {0} {1}."),
        ("What is the number of {0} {1}?", "There are {2} {0} {1}."),
        ("Which animals are {1}?", "The {0} are {1}."),
        ("What kind of animals are {1}?", "The {0} are {1}."),
        ("Where are the {2} {0}?", "The {2} {0} are {1}."),
        ("In which place are {2} {0}?", "The {2} {0} are {1}."),
    ))
    return target, passage(rng, groups, REMARKS), (question.format(*target),
                                                   answer.format(*target))


def hours(rng, ask, number=None):
    """When places open and close, and the day on which they are closed."""
    number = number or rng.randint(3, 4)
    shops = rng.sample(SHOPS, number)
    rows = list(zip(shops, times(rng, number, 7, 12), times(rng, number, 14, 22),
                    rng.sample(DAYS, number)))
    groups = [pick(rng, (
        "The {0} opens at {1} and closes at {2}. It is closed on {3}.",
        "The {0} is open from {1} to {2}, but not on {3}.",
        "On {3} the {0} is closed. On other days it is open from {1} to {2}.",
    )).format(*row) for row in rows]
    target = pick(ask, rows)
    if ask.random() < 0.15:
        day = target[3] if ask.random() < 0.5 else pick(ask, [row[3] for row in rows
                                                             if row != target])
        answer = "No, the {} is closed on {}." if day == target[3] else "Yes, the {} is open on {}."
        asked = "Is the {} open on {}?".format(target[0], day), answer.format(target[0], day)
        return target, passage(rng, groups, NOTICES), asked
    question, answer = pick(ask, (
        ("When does the {0} open?", "The {0} opens at {1}."),
        ("At what time does the {0} open?", "The {0} opens at {1}."),
        ("When does the {0} close?", "The {0} closes at {2}."),
        ("Until when is the {0} open?", "The {0} closes at {2}."),
        ("On which day is the {0} closed?", "The {0} is closed on {3}."),
        ("Which place is closed on {3}?", "The {0} is closed on {3}."),
        ("Which place opens at {1}?", "The {0} opens at {1}."),
        ("Which place closes at {2}?", "The {0} closes at {2}."),
    ))
    return target, passage(rng, groups, NOTICES), (question.format(*target),
                                                   answer.format(*target))


def menu(rng, ask, number=None):
    """Dishes of an inn with prices, some of them only on one day."""
    number = number or rng.randint(4, 5)
    rows = list(zip([pick(rng, FRUITS) + " " + dish if dish in ("cake", "juice", "tea", "ice cream")
                     else dish for dish in rng.sample(DISHES, number)],
                    rng.sample(range(2, 20), number), rng.sample(DAYS, number)))
    daily = set(rng.sample(rows, 2))
    groups = []
    for row in rows:
        text = pick(rng, ("The {0} costs {1} euros.", "The price of the {0} is {1} euros.",
                          "You can have the {0} for {1} euros.")).format(*row)
        if row in daily:
            text += pick(rng, (" It is served only on {2}.",
                               " You can get it only on {2}.")).format(*row)
        groups.append(text)
    inn = pick(rng, INNS)
    first = pick(rng, ("Welcome to the {}!", "This is the menu of the {}.")).format(inn)
    target = pick(ask, rows)
    if target in daily and ask.random() < 0.5:
        question, answer = pick(ask, (
            ("On which day is the {0} served?", "The {0} is served on {2}."),
            ("When can you get the {0}?", "The {0} is served on {2}."),
            ("What is served only on {2}?", "The {0} is served on {2}."),
        ))
    else:
        question, answer = pick(ask, (
            ("How much is the {0}?", "The {0} costs {1} euros."),
            ("What does the {0} cost?", "The {0} costs {1} euros."),
            ("What is the price of the {0}?", "The {0} costs {1} euros."),
            ("What costs {1} euros?", "The {0} costs {1} euros."),
            ("What can you have for {1} euros?", "The {0} costs {1} euros."),
        ))
    return (inn,) + target, passage(rng, groups, NOTICES, first), (question.format(*target),
                                                                   answer.format(*target))


def trains(rng, ask, number=None):
    """Trains or buses to towns, with times and platforms."""
    number = number or rng.randint(3, 5)
    vehicle = pick(rng, ("train", "bus"))
    stand = "platform" if vehicle == "train" else "stop"
    rows = list(zip(rng.sample(TOWNS, number), times(rng, number, 6, 23),
                    rng.sample(range(1, 13), number)))
    groups = [pick(rng, (
        "The {3} to {0} leaves at {1} from {4} {2}.",
        "At {1} the {3} to {0} leaves from {4} {2}.",
        "From {4} {2} there is a {3} to {0} at {1}.",
    )).format(*row, vehicle, stand) for row in rows]
    target = pick(ask, rows)
    question, answer = pick(ask, (
        ("When does the {3} to {0} leave?", "The {3} to {0} leaves at {1}."),
        ("At what time is there a {3} to {0}?", "The {3} to {0} leaves at {1}."),
        ("From which {4} does the {3} to {0} leave?", "The {3} to {0} leaves from {4} {2}."),
        ("Where can you take the {3} to {0}?", "The {3} to {0} leaves from {4} {2}."),
        ("Where does the {3} at {1} go?", "The {3} at {1} goes to {0}."),
        ("To which town does the {3} at {1} go?", "The {3} at {1} goes to {0}."),
        ("Which {3} leaves from {4} {2}?", "The {3} to {0} leaves from {4} {2}."),
    ))
    values = target + (vehicle, stand)
    return values, passage(rng, groups, NOTICES), (question.format(*values),
                                                   answer.format(*values))


def lessons(rng, ask, number=None):
    """Lessons with a teacher, a day and a room."""
    number = number or rng.randint(3, 5)
    rows = list(zip(rng.sample(NAMES, number), rng.sample(SUBJECTS, number),
                    rng.sample(DAYS, number), rng.sample(range(1, 40), number)))
    groups = [pick(rng, (
        "{0} teaches {1} on {2} in room {3}.",
        "On {2} {0} teaches {1} in room {3}.",
        "The {1} lesson with {0} is on {2} in room {3}.",
    )).format(*row) for row in rows]
    target = pick(ask, rows)
    question, answer = pick(ask, (
        ("Who teaches {1}?", "{0} teaches {1}."),
        ("With whom is the {1} lesson?", "{0} teaches {1}."),
        ("What does {0} teach?", "{0} teaches {1}."),
        ("Which lesson is with {0}?", "{0} teaches {1}."),
        ("When is the {1} lesson?", "The {1} lesson is on {2}."),
        ("On which day does {0} teach?", "{0} teaches on {2}."),
        ("In which room is the {1} lesson?", "The {1} lesson is in room {3}."),
        ("In which room does {0} teach?", "{0} teaches in room {3}."),
        ("Which lesson is on {2}?", "The {1} lesson is on {2}."),
    ))
    return target, passage(rng, groups, NOTICES), (question.format(*target),
                                                   answer.format(*target))


WORLDS = (belongings, belongings, moves, moves, gifts, people, counts, hours, menu, trains, lessons)


def make(rng, ask=None):
    """One passage with a question, and the row of the table that is asked for.

    `ask` draws the question where it is not `rng`, which draws the passage.
    """
    world = pick(rng, WORLDS)
    row, parts, (question, answer) = world(rng, ask or rng)
    prompt = "Read: {}\nQuestion: {}\nAnswer:".format(" ".join(parts), question)
    return (world.__name__,) + tuple(row), Item(prompt, " " + answer, "exact")


def generate(rng, split):
    """Draws one item of the side `split`."""
    return draw(rng, split, make)


def generate_several(rng, split, count):
    """Up to `count` items with one passage and different questions, and where they part."""
    seed = rng.getrandbits(64)
    return several(split, [make(random.Random(seed), rng) for _ in range(count)], "\nQuestion:")
