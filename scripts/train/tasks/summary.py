"""Summaries: a short story or a short report, and two or three sentences that sum it up.

The summary is a function of what the document tells, in words taken from it: long runs of it
stand in the document already.  Side remarks, which name other people, things, places and numbers,
lie at random positions between the sentences that matter.  One item:

    Read: Every night someone took onions from the cellar. Some said that it was Karl. Ivan was
    sure that it was not so. He hid next to a small bridge with a white pillow and waited. At
    8 o'clock a hedgehog came with 7 hungry little ones. Grace was a nurse in Northgate. Ivan was
    not angry and gave them a ginger loaf.
    Summary: Someone took onions from the cellar. Ivan hid next to a small bridge, and a hedgehog
    came with 7 hungry little ones. Ivan gave them a ginger loaf.
"""

from typing import NamedTuple

from . import Item, draw
from .words import (
    ANIMALS, BAKES, COLOURS, DAYS, FRUITS, HE, JOBS, MONTHS, NAMES, PLACES, SHE, THINGS, TOWNS,
    VEGETABLES, article, cap, plural, pronouns, where,
)


class Plot(NamedTuple):
    """What one kind of document says.

    sentences  for each sentence that matters, its wordings; "@" is the hero, who is named or,
               right after a sentence that begins with "@" too, called she or he
    summary    the one wording of the summary
    facts      what a right summary contains
    fixed      how many of the first sentences keep their place; the others may be shuffled
    """

    name: str
    sentences: tuple
    summary: str
    facts: tuple
    fixed: int = 99


STORIES = (
    Plot(
        "lost",
        (
            ("@ lived near the {place1} with {her} cousin {other1}.",
             "@ and {her} cousin {other1} lived near the {place1}."),
            ("On {day1} {name} lost {her} {thing1} on the way to the {place2}.",
             "@ lost {her} {thing1} on the way to the {place2} last {day1}."),
            ("@ looked {in3} and {in4}, but the {noun1} was not there.",
             "@ asked {other2} and looked {in3}, but nobody had seen the {noun1}."),
            ("Then {helper}, the {job1}, offered to help.",
             "{helper}, the {job1}, was kind and helped to look for it."),
            ("At last {helper} found the {noun1} {spot1} near the {place5}.",
             "In the evening {helper} found the {noun1} {spot1}."),
            ("@ baked {bake1} for {helper} to say thank you.",
             "To say thank you, {name} baked {bake1} for {helper}."),
        ),
        "{name} lost {her} {thing1} on the way to the {place2}. {helper} found the {noun1} "
        "{spot1}, and {name} baked {bake1} for {helper}.",
        ("{name}", "{thing1}", "{spot1}", "{helper}", "{bake1}"),
    ),
    Plot(
        "saving",
        (
            ("@ wanted to buy {a_thing1} for {her} {family}.",
             "More than anything, {name} wanted to buy {a_thing1} for {her} {family}."),
            ("The {noun1} cost {big1} coins, but {name} had only {small1}.",
             "The {noun1} cost {big1} coins near the {place1}, and {name} had only {small1}."),
            ("@ asked {other1} for money, but {other1} had none.",
             "{other1} had saved {small3} coins, but for {a_thing2}."),
            ("So @ {chore} for {helper}, the {job1}.",
             "@ {chore} for {helper}, the {job1} from {town1}."),
            ("After {small2} days {name} had enough coins to buy it.",
             "It was hard work, but after {small2} days {name} had enough coins."),
        ),
        "{name} wanted to buy {a_thing1} for {her} {family}. {She} {chore} for {helper}, and after "
        "{small2} days {name} had enough coins.",
        ("{name}", "{thing1}", "{chore}", "{helper}", "{small2} days"),
    ),
    Plot(
        "contest",
        (
            ("@ wanted to win the {contest} near the {place1}.",
             "All year long {name} had wanted to win the {contest} near the {place1}."),
            ("There were {small1} others, and {other1} was the best of them.",
             "{other1}, who had won {a_thing2} last time, was there too."),
            ("But on {day1} {name} was ill and could not practise.",
             "But the week before, {name} fell and hurt {her} foot."),
            ("{helper}, the {job1}, helped {name} to practise again.",
             "Then {helper}, the {job1}, helped {name} to practise again."),
            ("@ came {rank} and won {a_thing1}.",
             "In the end {name} came {rank} and won {a_thing1}."),
            ("@ shared {bake1} with {helper} and went home happy.",
             "{other1} clapped, and everyone went home happy."),
        ),
        "{name} wanted to win the {contest} near the {place1}. {helper}, the {job1}, helped {name} "
        "to practise again, and {name} came {rank} and won {a_thing1}.",
        ("{name}", "{contest} near the {place1}", "{helper}", "{rank}", "{thing1}"),
    ),
    Plot(
        "errand",
        (
            ("{other1} asked {name} to bring {a_thing1} to {other2} {in1}.",
             "On {day1} {other1} asked {name} to bring {a_thing1} to {other2} {in1}."),
            ("@ packed some {fruit1} bread and left at {hour} o'clock.",
             "@ left the {place3} early with {a_animal2}."),
            ("Soon the road was blocked by {block}.",
             "Near the {place4} the road was blocked by {block}."),
            ("@ sat down and did not know what to do.",
             "@ tried to go on, but it was not possible."),
            ("Then {a_animal1} showed {name} a path behind the {place2}.",
             "Luckily {a_animal1} showed {name} a path behind the {place2}."),
            ("@ arrived before dark, and {other2} was very glad.",
             "{other2} was very glad and gave {name} {bake1}."),
        ),
        "{other1} asked {name} to bring {a_thing1} to {other2} {in1}. The road was blocked by "
        "{block}, but {a_animal1} showed {name} a path behind the {place2}.",
        ("{name}", "{thing1}", "{other2}", "{block}", "{a_animal1}"),
    ),
    Plot(
        "building",
        (
            ("@ wanted to build {building} for the {animals1} near the {place1}.",
             "One {day1} {name} decided to build {building} for the {animals1} near the {place1}."),
            ("But there were not enough {unit}.",
             "The work soon stopped, because there were not enough {unit}."),
            ("@ asked {other1}, who only had some old rope.",
             "{other1} looked {in3} but found only {a_thing2}."),
            ("Then {helper} came with {big1} {unit} from the {place2}.",
             "The next day {helper}, the {job1}, came with {big1} {unit} from the {place2}."),
            ("They worked for {small1} days.", "They worked until {day2}."),
            ("In the end {small2} {animals1} moved in.",
             "At last it was ready, and {small2} {animals1} moved in."),
        ),
        "{name} wanted to build {building} for the {animals1} near the {place1}. {helper} came "
        "with {big1} {unit} from the {place2}, and {small2} {animals1} moved in.",
        ("{name}", "{building}", "{helper}", "{big1} {unit}", "{small2} {animals1}"),
    ),
    Plot(
        "rescue",
        (
            ("@ found a hurt {animal1} {spot1} near the {place1}.",
             "On the way home from the {place2}, {name} found a hurt {animal1} {spot1} near the "
             "{place1}."),
            ("@ wrapped the {animal1} in {cloth} to keep it warm.",
             "It was cold, and {name} gave the {animal1} some water."),
            ("{other1} wanted to leave the {animal1} there.",
             "{other1} said that {animals2} were nicer."),
            ("@ took the {animal1} to {helper}, the {job1}.",
             "At once {name} took the {animal1} to {helper}, the {job1}."),
            ("The {animal1} stayed there for {small1} days and ate only {vegetables1}.",
             "Warm and safe, the {animal1} stayed there for {small1} days."),
            ("On {day1} the {animal1} was well again and ran back to the {wild}.",
             "Soon the {animal1} was well again and ran back to the {wild}."),
        ),
        "{name} found a hurt {animal1} {spot1} and took the {animal1} to {helper}, the {job1}. "
        "It stayed there for {small1} days and ran back to the {wild}.",
        ("{name}", "hurt {animal1}", "{spot1}", "{helper}", "back to the {wild}"),
    ),
    Plot(
        "growing",
        (
            ("In {month1} {name} planted {big1} {vegetable1} seeds behind the {place1}.",
             "@ planted {big1} {vegetable1} seeds behind the {place1} in {month1}."),
            ("@ went to look every {day1}.", "@ gave them water every morning."),
            ("But nothing grew, because {cause}.",
             "For {small1} weeks nothing grew, because {cause}."),
            ("{other1} laughed and said to plant {vegetables2}.",
             "{other1} had the same trouble with {vegetables2}."),
            ("{helper}, the {job1}, told {name} to {advice}.",
             "One evening {helper} told {name} to {advice}."),
            ("In {month2} {name} sold {big2} {vegetables1} near the {place2}.",
             "It worked, and {name} sold {big2} {vegetables1} near the {place2}."),
        ),
        "{name} planted {big1} {vegetable1} seeds behind the {place1}, but nothing grew, because "
        "{cause}. {helper} told {name} to {advice}, and {name} sold {big2} {vegetables1} near "
        "the {place2}.",
        ("{name}", "{vegetable1} seeds", "{cause}", "{helper}", "{advice}"),
    ),
    Plot(
        "thief",
        (
            ("Every night someone took {vegetables1} from the {store}.",
             "For {small1} weeks someone took {vegetables1} from the {store}."),
            ("Some said that it was {other1}.",
             "{other1} said that it must be {a_animal2}."),
            ("@ wanted to know who it was.", "@ was sure that it was not so."),
            ("On {day1} {name} hid {spot1} with {a_thing1}.",
             "@ hid {spot1} with {a_thing1} and waited."),
            ("At {hour} o'clock {a_animal1} came with {small2} hungry little ones.",
             "Late at night {a_animal1} came with {small2} hungry little ones."),
            ("@ felt sorry for them and gave them {bake1}.",
             "@ was not angry and gave them {bake1}."),
        ),
        "Someone took {vegetables1} from the {store}. {name} hid {spot1}, and {a_animal1} came "
        "with {small2} hungry little ones. {name} gave them {bake1}.",
        ("{vegetables1}", "{name}", "{spot1}", "{a_animal1}", "{bake1}"),
    ),
)

STORY_REMARKS = (
    "It was a {weather} day.",
    "The wind was {weather2}.",
    "{other3} came by with {a_thing3}.",
    "{other3} had {a_thing3} but did not need it.",
    "{a_animal3_cap} was asleep near the {place6}.",
    "{other3} was {a_job2} in {town2}.",
    "The {place6} smelled of {fruit3} {bakes}.",
    "{other3} once saw {small4} {animals3} there.",
    "On {day3} {other3} had gone to {town2}.",
    "Far away a bell rang {small4} times.",
    "There was {a_thing3} {spot2}.",
    "{other3} liked {vegetables3}.",
)

REPORTS = (
    Plot(
        "fair",
        (
            ("The {fair} in {town1} was held near the {place1} on {day1}.",
             "On {day1} the {fair} in {town1} was held near the {place1}."),
            ("The day was organised by {name} and {small1} helpers.",
             "The day was organised by {name}, {a_job1}."),
            ("About {huge1} people came.", "In all, {huge1} people came."),
            ("The helpers raised {huge2} euros for {cause_of}.",
             "By the evening they had raised {huge2} euros for {cause_of}."),
            ("The prize for the best {bakes} went to {other1}.",
             "{other1} won {a_thing1}."),
        ),
        "The {fair} in {town1} was held near the {place1} and was organised by {name}. In all, "
        "{huge1} people came and raised {huge2} euros for {cause_of}.",
        ("{fair}", "{town1}", "{name}", "{huge1} people", "{huge2} euros"),
        1,
    ),
    Plot(
        "product",
        (
            ("{firm} has a new {product} that can {feature}.",
             "This week {firm} showed a new {product} that can {feature}."),
            ("The {product} costs {huge1} euros.", "The new {product} costs {huge1} euros."),
            ("The {product} will be in the shops in {month1}.",
             "The new {product} will be in the shops in {month1}."),
            ("{name}, who leads the work, said that it took {small1} years.",
             "The idea came from {name}, who once was {a_job1}."),
            ("The battery lasts {small2} days.", "One charge of the battery lasts {small2} days."),
        ),
        "{firm} has a new {product} that can {feature}. It costs {huge1} euros and will be in the "
        "shops in {month1}.",
        ("{firm}", "{product}", "{feature}", "{huge1} euros", "{month1}"),
        1,
    ),
    Plot(
        "lab",
        (
            ("A team in {town1} has tested {study}.",
             "In {town1} a team led by {other1} has tested {study}."),
            ("The test was done by {name} with {big1} {animals1}.",
             "In the test, {name} worked with {big1} {animals1}."),
            ("The test took {small1} weeks.",
             "The test took {small1} weeks and cost {huge1} euros."),
            ("The result was that the {animals1} {finding}.",
             "In the end the result was that the {animals1} {finding}."),
            ("A second test will start in {month1}.", "In {month1} a second test will start."),
        ),
        "A team in {town1} has tested {study} with {big1} {animals1}. It took {small1} weeks, and "
        "the result was that the {animals1} {finding}.",
        ("{town1}", "{study}", "{big1} {animals1}", "{small1} weeks", "{finding}"),
        1,
    ),
    Plot(
        "club",
        (
            ("The {club} club will meet {indoor1} on {day1} at {hour} o'clock.",
             "Please note that the {club} club will meet {indoor1} on {day1} at {hour} o'clock."),
            ("The old room {indoor2} is closed because {reason}.",
             "We cannot meet {indoor2} any more because {reason}."),
            ("Please bring {a_thing1} and {small1} euros.",
             "Everyone should bring {a_thing1} and {small1} euros."),
            ("If you have questions, call {name}.", "For all questions, call {name}."),
            ("Last {day2} {big1} people came.", "In {month1} {other1} was our guest."),
        ),
        "The {club} club will meet {indoor1} on {day1} at {hour} o'clock because {reason}. Bring "
        "{a_thing1} and call {name} if you have questions.",
        ("{club} club", "{indoor1} on {day1}", "{reason}", "{thing1}", "{name}"),
        1,
    ),
    Plot(
        "road",
        (
            ("The road from {town1} to {town3} is closed until {day1}.",
             "From today the road from {town1} to {town3} is closed until {day1}."),
            ("The reason is {block} near the {place1}.",
             "Drivers saw {block} near the {place1}."),
            ("Cars must take the way past the {place2}.",
             "Please take the way past the {place2}."),
            ("The work costs {huge1} euros.", "{name}, {a_job1}, saw the trouble first."),
            ("Bus {small1} stops at the {place3} for now.",
             "Bus {small1} does not stop near the {place3} for now."),
        ),
        "The road from {town1} to {town3} is closed until {day1}. The reason is {block} near the "
        "{place1}, so take the way past the {place2}.",
        ("{town1} to {town3}", "{day1}", "{block}", "near the {place1}", "past the {place2}"),
        1,
    ),
    Plot(
        "match",
        (
            ("{town1} beat {town3} by {score} in the {sport} match on {day1}.",
             "In the {sport} match on {day1}, {town1} beat {town3} by {score}."),
            ("The best player was {name}, who is {big1} years old.",
             "People said that the best player was {name}, {a_job1}."),
            ("{other1} had to leave after {small1} minutes.",
             "{other1} was ill and watched the game from a chair."),
            ("About {huge1} people came to watch.", "There were {huge1} people on the stands."),
            ("The next match is in {town4} in {month1}.",
             "In {month1} the next match is in {town4}."),
        ),
        "{town1} beat {town3} by {score} in the {sport} match. The best player was {name}, and the "
        "next match is in {town4}.",
        ("{town1} beat {town3}", "{score}", "{sport}", "{name}", "{town4}"),
        1,
    ),
    Plot(
        "exhibition",
        (
            ("The museum in {town1} shows {big1} old {things1} until {month1}.",
             "Until {month1} the museum in {town1} shows {big1} old {things1}."),
            ("The {things1} belong to {name}, {a_job1} from {town3}.",
             "All the {things1} belong to {name}, {a_job1} from {town3}."),
            ("The oldest one was found {spot1} near the {place1}.",
             "The oldest one was found {spot1} by {other1}."),
            ("A ticket costs {small1} euros.", "You can buy a ticket for {small1} euros."),
            ("The museum is closed on {day1}.",
             "On {day1} the museum is open until {hour} o'clock."),
        ),
        "The museum in {town1} shows {big1} old {things1}, which belong to {name}, {a_job1} from "
        "{town3}. The oldest one was found {spot1}, and a ticket costs {small1} euros.",
        ("{town1}", "{big1} old {things1}", "{name}", "{spot1}", "{small1} euros"),
        1,
    ),
    Plot(
        "storm",
        (
            ("A storm hit {town1} on {day1} and broke the roof of the {place1}.",
             "On {day1} a storm hit {town1} and broke the roof of the {place1}."),
            ("There was no power in {huge1} homes.", "For a day {huge1} homes had no power."),
            ("{name}, {a_job1}, saved {small1} {animals1} from the water.",
             "At night {name} saved {small1} {animals1} from the water."),
            ("The roof will be repaired by {month1}.",
             "People hope that the roof will be repaired by {month1}."),
            ("{other1} lost {a_thing1}.", "A tree fell near the {place2}."),
        ),
        "A storm hit {town1} and broke the roof of the {place1}. {name} saved {small1} {animals1} "
        "from the water, and the roof will be repaired by {month1}.",
        ("{town1}", "roof of the {place1}", "{name}", "{small1} {animals1}", "{month1}"),
        1,
    ),
)

REPORT_REMARKS = (
    "The weather was {weather} that day.",
    "A photo of it hangs {in6}.",
    "{other3}, {a_job2}, took some photos.",
    "In {town2} it rained all day.",
    "There were also {small4} {animals3} near the {place6}.",
    "{other3} has written about it before.",
    "There was also some news from {town2}.",
    "Another meeting will be held {in6} in {month3}.",
    "{other3} will not forget that {day3}.",
    "{other3} sold {vegetables3} nearby.",
    "{other3} from {town2} spoke on {day3}.",
)

INDOOR = tuple(where(place) for place in (
    "library", "museum", "school", "bakery", "castle", "theatre", "hotel", "town hall", "tower",
    "cinema", "gym", "church", "station",
))

CHOICES = {
    "spot1": ("under an old bench", "behind a big stone", "under a broken cart",
              "next to a tall tree", "behind a wooden door", "under a pile of leaves",
              "next to a small bridge", "behind an empty barrel", "between two bushes",
              "beside a stone wall"),
    "spot2": ("on a shelf", "on a table", "near the gate", "by the road", "on the stairs"),
    "cloth": ("an old coat", "a soft blanket", "a warm scarf", "a clean towel"),
    "wild": ("forest", "hills", "river", "meadow", "fields", "lake", "woods", "bushes"),
    "weather": ("rainy", "sunny", "cloudy", "windy", "cold", "warm", "foggy"),
    "weather2": ("strong", "soft", "cold", "warm"),
    "family": ("mother", "father", "sister", "brother", "aunt", "uncle", "grandmother",
               "grandfather"),
    "chore": ("washed the windows", "fed the hens", "carried heavy boxes", "swept the yard",
              "cleaned the stable", "painted the fence", "cut the grass", "stacked the wood"),
    "contest": ("boat race", "baking contest", "running race", "drawing contest",
                "singing contest", "dance show", "chess game", "jumping contest"),
    "rank": ("first", "second", "third"),
    "block": ("a fallen tree", "deep snow", "a broken cart", "a flock of sheep", "high water",
              "a big rock", "thick mud", "a fallen wall"),
    "building": ("a small house", "a wooden hut", "a warm shed", "a round tower",
                 "a dry shelter", "a long stable"),
    "store": ("kitchen", "pantry", "cellar", "shed", "barn", "garden", "stable", "attic"),
    "unit": ("boards", "bricks", "nails", "stones", "planks"),
    "cause": ("the soil was too dry", "the birds ate the seeds", "there was too much shade",
              "the nights were too cold", "the ground was full of stones"),
    "advice": ("dig a deeper bed", "start again in a better place", "cover the bed with straw",
               "sing to the plants", "wait for one more month", "add some ash to the soil"),
    "bakes": ("cakes", "pies", "tarts", "buns"),
    "hour": ("6", "7", "8", "9", "10", "11"),
    "fair": ("spring fair", "book fair", "music night", "flower show", "street party",
             "winter market", "food fair", "toy sale"),
    "cause_of": ("a new roof", "the fire brigade", "a school bus", "the old bridge",
                 "a playground", "the animal home"),
    "firm": ("Blue Stone", "North Star", "Green Leaf", "Red Wheel", "Silver Lake", "White Oak",
             "Bright Sun", "Iron Gate"),
    "product": ("robot", "watch", "lamp", "phone", "camera", "oven", "scooter", "speaker",
                "heater", "printer"),
    "feature": ("tell the time aloud", "clean itself at night", "work under water",
                "fold into a small box", "run on sunlight", "answer simple questions",
                "find lost keys", "switch itself off"),
    "study": ("a new kind of food", "a light that never goes out", "the sound of soft music",
              "a very small sensor", "a soft bed of wool", "a cheap water filter"),
    "finding": ("slept much better", "did not change at all", "ate twice as much",
                "moved less than before", "were calm all day", "came home earlier"),
    "club": ("chess", "garden", "book", "film", "running", "music", "photo", "cooking",
             "history", "puzzle"),
    "reason": ("the roof is broken", "the heating does not work", "the floor is wet",
               "painters are at work", "there is a concert", "the key is lost"),
    "score": ("2 to 1", "3 to 0", "3 to 1", "4 to 2", "5 to 3", "6 to 5", "1 to 0", "4 to 3",
              "7 to 2", "5 to 1"),
    "sport": ("football", "tennis", "hockey", "handball", "chess", "rugby"),
}


def distinct(rng, slots, prefix, words, number):
    """Fills the slots prefix1, prefix2, ... with different words."""
    for index, word in enumerate(rng.sample(words, number), 1):
        slots[prefix + str(index)] = word


def pick(rng, words):
    """One of the words (quicker than rng.choice)."""
    return words[int(rng.random() * len(words))]


def fill_people(rng, slots):
    """The hero, the helper and others, all with different names."""
    names = rng.sample(NAMES, 5)
    slots["name"], slots["helper"] = names[:2]
    slots["other1"], slots["other2"], slots["other3"] = names[2:]
    slots["she"], slots["her"], slots["him"] = pronouns(names[0])
    slots["She"] = cap(slots["she"])


def fill_numbers(rng, slots):
    """Small, middling and large numbers; no two of a size are the same."""
    distinct(rng, slots, "small", range(2, 10), 4)
    distinct(rng, slots, "big", range(12, 60), 2)
    for index, number in enumerate(rng.sample(range(7, 96), 3), 1):
        slots["huge" + str(index)] = number * 10


def fill_things(rng, slots):
    """Things with colours, animals, food; the articles and plurals that the plots need."""
    for index, noun in enumerate(rng.sample(THINGS, 3), 1):
        number = str(index)
        thing = pick(rng, COLOURS) + " " + noun
        slots["noun" + number] = noun
        slots["thing" + number] = thing
        slots["a_thing" + number] = article(thing)
        slots["things" + number] = plural(noun)
    for index, animal in enumerate(rng.sample(ANIMALS, 3), 1):
        number = str(index)
        slots["animal" + number] = animal
        slots["a_animal" + number] = article(animal)
        slots["animals" + number] = plural(animal)
    slots["a_animal3_cap"] = cap(slots["a_animal3"])
    for index, vegetable in enumerate(rng.sample(VEGETABLES, 3), 1):
        slots["vegetable" + str(index)] = vegetable
        slots["vegetables" + str(index)] = plural(vegetable)
    distinct(rng, slots, "fruit", FRUITS, 3)
    slots["bake1"] = article(slots["fruit1"] + " " + pick(rng, BAKES))


def fill_places(rng, slots):
    """Places, towns, days, months and jobs."""
    for index, place in enumerate(rng.sample(PLACES, 6), 1):
        slots["place" + str(index)] = place
        slots["in" + str(index)] = where(place)
    distinct(rng, slots, "town", TOWNS, 4)
    distinct(rng, slots, "day", DAYS, 3)
    distinct(rng, slots, "month", MONTHS, 3)
    distinct(rng, slots, "indoor", INDOOR, 2)
    for index, job in enumerate(rng.sample(JOBS, 2), 1):
        slots["job" + str(index)] = job
        slots["a_job" + str(index)] = article(job)


def fill(rng):
    """All slots of a document."""
    slots = {slot: pick(rng, words) for slot, words in CHOICES.items()}
    fill_people(rng, slots)
    fill_numbers(rng, slots)
    fill_things(rng, slots)
    fill_places(rng, slots)
    return slots


def chain(sentences, slots):
    """The sentences (text, whether it is a remark) as one text, with the hero named or not."""
    parts = []
    hero_before = False
    for text, remark in sentences:
        hero = text.startswith("@")
        if "@" in text:
            text = text.replace("@", "{She}" if hero and hero_before else "{name}")
        parts.append(text.format_map(slots))
        others = "{other" in text or "{helper" in text
        hero_before = hero and not remark and not others
    return " ".join(parts)


def told(rng, plot, remarks, most=None):
    """The plot's sentences in one wording each, with remarks at random places between them.

    Returns [(text, whether it is a remark)]; `most` says how many remarks there may be.
    """
    body = [(pick(rng, wordings), False) for wordings in plot.sentences]
    if plot.fixed < len(body):
        tail = body[plot.fixed:]
        rng.shuffle(tail)
        body[plot.fixed:] = tail
    limit = most or (3 if len(body) < 6 else 2)
    for remark in rng.sample(remarks, int(rng.random() * (limit + 1))):
        lowest = 0 if plot.fixed > len(body) else 1
        body.insert(lowest + int(rng.random() * (len(body) + 1 - lowest)), (remark, True))
    return body


def make(rng):
    """One document with its summary, and the combination that makes it what it is."""
    story = rng.random() < 0.5
    plot = pick(rng, STORIES if story else REPORTS)
    slots = fill(rng)
    text = chain(told(rng, plot, STORY_REMARKS if story else REPORT_REMARKS), slots)
    facts = tuple(fact.format_map(slots) for fact in plot.facts)
    answer = " " + plot.summary.format_map(slots)
    return (plot.name,) + facts, Item("Read: " + text + "\nSummary:", answer, "facts", facts)


def generate(rng, split):
    """Draws one item of the side `split`."""
    return draw(rng, split, make)
