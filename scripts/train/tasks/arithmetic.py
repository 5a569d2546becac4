"""Arithmetic with its steps written out: word problems, and some bare expressions.

    Problem: Anna has 14 pens. Then she buys 3 boxes with 6 pens in each. She gives 9 pens to Ben.
    How many pens does she have now?
    Solution: 3 * 6 = 18.
    14 + 18 = 32.
    32 - 9 = 23.
    The answer is 23.

(The problem is one line.)  A problem is a chain of events that change one quantity; which
operations, how many, and in which order has to be read from the text.  The level, 1 to 5, sets
both the number of steps and the size of the numbers.  About one item in five holds a number that
plays no part.
"""

from typing import NamedTuple

from . import Item, draw
from .words import HE, SHE

BARE_SHARE = 0.15
DISTRACTOR_SHARE = 0.22
TRIES = 12


class Level(NamedTuple):
    """Bounds of one level: every value is at most `cap`, every plain operand at most `operand`."""

    steps: tuple
    cap: int
    operand: int
    factor: int
    product_item: int


LEVELS = {
    1: Level((1, 1, 2), 19, 15, 4, 6),
    2: Level((2,), 60, 30, 6, 9),
    3: Level((2, 3, 3), 150, 60, 9, 12),
    4: Level((3, 3, 4), 400, 150, 9, 30),
    5: Level((4, 4, 5), 999, 400, 9, 90),
}

PRONOUNS = {
    "she": {"he": "she", "his": "her", "him": "her"},
    "he": {"he": "he", "his": "his", "him": "him"},
}
THINGS = (
    "pens", "stickers", "marbles", "cards", "stamps", "shells", "coins", "buttons", "beads",
    "balls", "toys", "books", "pencils", "candles", "stones", "badges",
)
FRUITS = ("apples", "pears", "plums", "lemons", "oranges", "cherries", "nuts", "peaches")
BAKED = ("buns", "rolls", "cakes", "pies", "cookies", "tarts")
BOXES = ("boxes", "bags", "packs", "tins")
ANIMALS = ("sheep", "cows", "hens", "ducks", "goats", "pigs", "horses")
PLANTS = ("roses", "tulips", "beans", "carrots", "herbs", "bushes")
GOODS = ("lamps", "cups", "plates", "chairs", "shirts", "hats", "bottles", "clocks")

CONTINUATIONS = ("{He}", "{He}", "{who}", "Then {he}", "Later {he}", "After that {he}")

# Steps that an event of each kind takes.  The endings carry the question of the problem.
EVENT_STEPS = {"add": 1, "sub": 1, "times": 1, "half": 1, "add_product": 2, "sub_product": 2}
ENDING_STEPS = {
    "ask": 0, "share": 1, "more": 1, "fewer": 1, "as_many": 1, "together": 2, "rest_of": 1,
}
EVENT_WEIGHT = {"add": 3, "sub": 3, "times": 2, "half": 1, "add_product": 3, "sub_product": 2}
ENDING_WEIGHT = {
    "ask": 6, "share": 3, "more": 1, "fewer": 1, "as_many": 1, "together": 2, "rest_of": 2,
}

# A topic: for each kind of event its wordings.  {n} is a plain operand, {a} and {b} the factors
# of a product, {k} a divisor, {kt} "twice" or "3 times", {d} a number that plays no part, {W} how
# the sentence goes on ("He", "Then he", ...).
TOPICS = (
    {  # things that somebody owns
        "slots": {"thing": THINGS, "box": BOXES},
        "start": ("{who} has {n} {thing}.", "{who} starts the week with {n} {thing}."),
        "start_product": ("{who} has {a} {box} with {b} {thing} in each.",),
        "add": ("{W} finds {n} more {thing}.", "{friend} gives {him} {n} {thing}.",
                "{W} buys {n} {thing}."),
        "sub": ("{W} gives {n} {thing} to {friend}.", "{W} loses {n} {thing}.",
                "{W} gives away {n} {thing}."),
        "times": ("A month later {he} has {kt} as many {thing} as before.",),
        "half": ("{W} gives away half of the {thing}.",),
        "add_product": ("{W} buys {a} {box} with {b} {thing} in each.",
                        "{a} friends give {him} {b} {thing} each."),
        "sub_product": ("{W} gives {b} {thing} to each of {a} children.",),
        "ask": ("How many {thing} does {he} have now?", "How many {thing} does {who} have?"),
        "share": ("{W} shares the {thing} equally between {k} friends. "
                  "How many {thing} does each friend get?",),
        "more": ("Now {friend} has {n} more {thing} than {who}. "
                 "How many {thing} does {friend} have?",),
        "fewer": ("Now {friend} has {n} fewer {thing} than {who}. "
                  "How many {thing} does {friend} have?",),
        "as_many": ("Now {friend} has {kt} as many {thing} as {who}. "
                    "How many {thing} does {friend} have?",),
        "together": ("Now {friend} has {n} more {thing} than {who}. "
                     "How many {thing} do they have together?",),
        "distract": ("{who} is {d} years old.", "{friend} has {d} hats at home."),
    },
    {  # fruit
        "slots": {"thing": FRUITS, "box": ("baskets", "boxes", "bags")},
        "start": ("{who} picks {n} {thing}.", "There are {n} {thing} in the kitchen of {who}."),
        "start_product": ("{who} fills {a} {box} with {b} {thing} each.",),
        "add": ("{W} picks {n} more {thing}.", "{friend} brings {n} {thing}."),
        "sub": ("{W} eats {n} {thing}.", "{W} sells {n} {thing} to {friend}.",
                "{n} {thing} are bad and {he} throws them away."),
        "half": ("{W} gives half of the {thing} to {friend}.",),
        "add_product": ("{W} gets {a} {box} with {b} {thing} in each.",),
        "sub_product": ("{W} sells {a} {box} with {b} {thing} in each.",
                        "{W} eats {b} {thing} a day for {a} days."),
        "ask": ("How many {thing} are left?", "How many {thing} are there now?"),
        "share": ("{W} puts the {thing} into {k} bowls, the same number in each. "
                  "How many {thing} are in each bowl?",),
        "as_many": ("{friend} has {kt} as many {thing} as are there now. "
                    "How many {thing} does {friend} have?",),
        "together": ("{friend} has {n} more {thing} than {who} has now. "
                     "How many {thing} do they have together?",),
        "rest_of": ("{who} needs {n} {thing}. How many more {thing} does {he} need?",),
        "distract": ("The garden has {d} trees.", "{friend} eats {d} eggs."),
    },
    {  # passengers
        "slots": {"bus": ("bus", "train", "boat", "tram")},
        "start": ("There are {n} people on a {bus}.", "A {bus} leaves with {n} people."),
        "start_product": ("A {bus} has {a} rows with {b} people in each.",),
        "add": ("At the next stop {n} people get on.", "In the town {n} more people get on."),
        "sub": ("At the next stop {n} people get off.", "At the school {n} people get off."),
        "times": ("At the market so many people get on that there are {kt} as many as before.",),
        "half": ("At the station half of the people get off.",),
        "add_product": ("Then {a} groups of {b} people get on.",),
        "sub_product": ("Then {a} groups of {b} people get off.",),
        "ask": ("How many people are on the {bus} now?", "How many people are on the {bus}?"),
        "rest_of": ("The {bus} has {n} seats. How many seats are free?",),
        "distract": ("It is the {bus} with the number {d}.", "The trip takes {d} minutes."),
    },
    {  # saving money
        "slots": {"goal": ("bike", "guitar", "camera", "tent", "phone")},
        "start": ("{who} has {n} dollars.", "{who} has saved {n} dollars for a {goal}."),
        "start_product": ("{who} saves {b} dollars a week for {a} weeks.",),
        "add": ("{W} gets {n} dollars from {friend}.", "{W} earns {n} dollars."),
        "sub": ("{W} spends {n} dollars on food.", "{W} pays {n} dollars for a shirt."),
        "times": ("A year later {he} has {kt} as many dollars as before.",),
        "half": ("{W} spends half of the money.",),
        "add_product": ("{W} saves {b} dollars a week for {a} weeks.",
                        "{W} works {a} hours for {b} dollars an hour."),
        "sub_product": ("{W} buys {a} tickets for {b} dollars each.",),
        "ask": ("How many dollars does {he} have now?", "How much money does {who} have?"),
        "rest_of": ("A {goal} costs {n} dollars. How many dollars does {he} still need?",),
        "more": ("{friend} has {n} dollars more than {who} has now. "
                 "How many dollars does {friend} have?",),
        "together": ("{friend} has {n} dollars more than {who} has now. "
                     "How many dollars do they have together?",),
        "distract": ("{who} is {d} years old.", "The shop is {d} miles away."),
    },
    {  # a way
        "slots": {"walk": ("walks", "runs", "rides")},
        "start": ("On Monday {who} {walk} {n} miles.",),
        "start_product": ("{who} {walk} {b} miles a day for {a} days.",),
        "add": ("On Tuesday {he} {walk} {n} miles more.", "Then {he} {walk} {n} miles to a lake."),
        "add_product": ("In the next {a} days {he} {walk} {b} miles a day.",),
        "ask": ("How many miles is that in all?", "How many miles does {he} go in all?"),
        "fewer": ("{friend} goes {n} miles less than {who}. "
                  "How many miles does {friend} go?",),
        "as_many": ("{friend} goes {kt} as many miles as {who}. "
                    "How many miles does {friend} go?",),
        "together": ("{friend} goes {n} miles more than {who}. "
                     "How many miles do they go together?",),
        "rest_of": ("The whole way is {n} miles. How many miles are left?",),
        "distract": ("{who} has {d} friends.", "{His} shoes cost {d} dollars."),
    },
    {  # pages
        "slots": {"book": ("book", "story", "novel")},
        "start": ("{who} reads {n} pages of a {book}.", "On Monday {who} reads {n} pages."),
        "start_product": ("{who} reads {b} pages a day for {a} days.",),
        "add": ("{W} reads {n} more pages.", "In the evening {he} reads {n} pages."),
        "add_product": ("{W} reads {b} pages a day for {a} days.",
                        "{W} reads {a} parts of {b} pages each."),
        "times": ("A month later {he} has read {kt} as many pages.",),
        "ask": ("How many pages has {he} read?", "How many pages is that in all?"),
        "rest_of": ("The {book} has {n} pages. How many pages are left?",),
        "more": ("{friend} has read {n} pages more than {who}. "
                 "How many pages has {friend} read?",),
        "as_many": ("{friend} has read {kt} as many pages as {who}. "
                    "How many pages has {friend} read?",),
        "distract": ("The {book} cost {d} dollars.", "{friend} has {d} books."),
    },
    {  # a bakery
        "slots": {"thing": BAKED, "box": ("trays", "boxes", "bags")},
        "start": ("{who} bakes {n} {thing}.", "A baker has {n} {thing}."),
        "start_product": ("{who} bakes {a} {box} of {b} {thing}.",),
        "add": ("In the morning {who} bakes {n} more {thing}.", "{friend} adds {n} {thing}."),
        "sub": ("A man buys {n} {thing}.",
                "The dog eats {n} {thing}.", "A school takes {n} {thing}."),
        "times": ("The next day there are {kt} as many {thing}.",),
        "half": ("Half of the {thing} are sold.",),
        "add_product": ("Then {a} {box} of {b} {thing} come out of the oven.",),
        "sub_product": ("Then {a} people buy {b} {thing} each.",
                        "{a} {box} with {b} {thing} in each are sold."),
        "ask": ("How many {thing} are left?", "How many {thing} are there now?"),
        "share": ("The {thing} are put on {k} plates, the same number on each. "
                  "How many {thing} are on each plate?",),
        "distract": ("The oven is {d} years old.", "The shop sells {d} cups of tea."),
    },
    {  # chairs in rooms
        "slots": {"thing": ("chairs", "tables", "desks", "lamps"),
                  "place": ("school", "hotel", "hall", "museum")},
        "start": ("There are {n} {thing} in a {place}.",),
        "start_product": ("A {place} has {a} rooms with {b} {thing} in each.",
                          "In a {place} there are {a} rows of {b} {thing}."),
        "add": ("A truck brings {n} {thing}.", "The {place} buys {n} more {thing}."),
        "sub": ("{n} {thing} break.", "{n} of the {thing} are sold.",
                "{who} takes {n} {thing} away."),
        "half": ("Half of the {thing} go to another {place}.",),
        "add_product": ("Then {a} new rooms with {b} {thing} each are built.",),
        "sub_product": ("Then {a} rooms with {b} {thing} each are closed.",),
        "ask": ("How many {thing} are there now?", "How many {thing} does the {place} have?"),
        "share": ("The {thing} are shared equally between {k} floors. "
                  "How many {thing} does each floor get?",),
        "rest_of": ("The {place} needs {n} {thing}. How many {thing} are missing?",),
        "distract": ("The {place} has {d} windows.", "The {place} is {d} years old."),
    },
    {  # ages
        "slots": {"kin": ("aunt", "uncle", "father", "mother")},
        "highest_level": 2,
        "start": ("{who} is {n} years old.",),
        "add": ("{n} years later {he} moves to a new town.", "Then {he} works for {n} years.",
                "After {n} more years {he} buys a house."),
        "add_product": ("Then {he} lives in {a} towns for {b} years each.",),
        "ask": ("How old is {he} then?", "How old is {who} then?"),
        "more": ("{friend} is {n} years older than {who}. How old is {friend} then?",),
        "fewer": ("{friend} is {n} years younger than {who}. How old is {friend} then?",),
        "as_many": ("{His} {kin} is then {kt} as old as {who}. How old is {his} {kin} then?",),
        "together": ("{friend} is {n} years older than {who}. What is the sum of their ages?",),
        "distract": ("{His} house has {d} rooms.", "They live {d} miles from the sea."),
    },
    {  # cars
        "slots": {"thing": ("cars", "bikes", "trucks", "vans")},
        "start": ("There are {n} {thing} on a parking lot.",),
        "start_product": ("On a parking lot there are {a} rows of {b} {thing}.",),
        "add": ("In the morning {n} {thing} come in.", "Then {n} more {thing} arrive."),
        "sub": ("At noon {n} {thing} leave.", "Then {n} {thing} drive away."),
        "times": ("In the evening there are {kt} as many {thing} as before.",),
        "half": ("Half of the {thing} leave.",),
        "add_product": ("In the next {a} hours {b} {thing} arrive each hour.",),
        "sub_product": ("In the next {a} hours {b} {thing} leave each hour.",),
        "ask": ("How many {thing} are there now?", "How many {thing} are on the lot?"),
        "rest_of": ("There is room for {n} {thing}. How many places are free?",),
        "distract": ("One hour costs {d} dollars.", "There are {d} trees near the lot."),
    },
    {  # a library
        "slots": {"thing": ("books", "maps", "films", "games")},
        "start": ("A library has {n} {thing}.", "There are {n} {thing} in a small library."),
        "start_product": ("A library has {a} shelves with {b} {thing} on each.",),
        "add": ("It buys {n} new {thing}.", "{who} brings back {n} {thing}."),
        "sub": ("{who} takes {n} {thing} home.", "{n} old {thing} are thrown away.",
                "A school borrows {n} {thing}."),
        "half": ("Half of the {thing} are lent out.",),
        "add_product": ("It gets {a} boxes with {b} {thing} in each.",),
        "sub_product": ("Then {a} readers borrow {b} {thing} each.",),
        "ask": ("How many {thing} are in the library now?", "How many {thing} are left?"),
        "share": ("The {thing} are put on {k} shelves, the same number on each. "
                  "How many {thing} are on each shelf?",),
        "distract": ("The library has {d} doors.", "{friend} works there {d} hours a week."),
    },
    {  # a farm
        "slots": {"thing": ANIMALS},
        "start": ("{who} has {n} {thing} on a farm.", "There are {n} {thing} on a farm."),
        "start_product": ("On a farm there are {a} barns with {b} {thing} in each.",),
        "add": ("The farm buys {n} {thing}.", "In spring {n} young {thing} are born."),
        "sub": ("The farm sells {n} {thing}.", "{n} of the {thing} run away."),
        "times": ("Two years later there are {kt} as many {thing}.",),
        "half": ("Half of the {thing} are sold.",),
        "add_product": ("Then {a} trucks bring {b} {thing} each.",),
        "sub_product": ("Then {a} trucks take away {b} {thing} each.",),
        "ask": ("How many {thing} are on the farm now?", "How many {thing} are there?"),
        "share": ("The {thing} are kept in {k} fields, the same number in each. "
                  "How many {thing} are in each field?",),
        "as_many": ("The next farm has {kt} as many {thing}. "
                    "How many {thing} does the next farm have?",),
        "together": ("The next farm has {n} {thing} more than this one. "
                     "How many {thing} do the two farms have together?",),
        "distract": ("The farm has {d} fields of corn.", "The farm is {d} miles from the town."),
    },
    {  # water
        "slots": {"tank": ("tank", "pool", "well", "barrel")},
        "start": ("There are {n} liters of water in a {tank}.", "A {tank} holds {n} liters now."),
        "start_product": ("For {a} minutes {b} liters a minute run into an empty {tank}.",),
        "add": ("Rain adds {n} liters.", "{who} pours in {n} liters."),
        "sub": ("{who} takes out {n} liters.", "{n} liters leak out."),
        "half": ("Half of the water is used.",),
        "add_product": ("{who} pours in {a} buckets of {b} liters.",
                        "For {a} hours {b} liters an hour flow in."),
        "sub_product": ("For {a} hours {b} liters an hour flow out.",),
        "ask": ("How many liters are in the {tank} now?", "How many liters are there?"),
        "share": ("The water is shared equally between {k} houses. "
                  "How many liters does each house get?",),
        "rest_of": ("The {tank} can hold {n} liters. How many liters are missing?",),
        "distract": ("The {tank} is {d} feet wide.", "It took {d} days to build the {tank}."),
    },
    {  # points
        "slots": {"game": ("game", "match", "contest", "quiz")},
        "start": ("{who} has {n} points in a {game}.", "In a {game} {who} starts with {n} points."),
        "start_product": ("In a {game} {who} wins {a} rounds of {b} points each.",),
        "add": ("{W} wins {n} points.", "A good move brings {n} points."),
        "sub": ("{W} loses {n} points.", "A mistake costs {n} points."),
        "times": ("A lucky card gives {him} {kt} as many points as before.",),
        "half": ("A bad card takes half of the points.",),
        "add_product": ("{W} wins {a} rounds of {b} points each.",),
        "sub_product": ("{W} makes {a} mistakes and loses {b} points each time.",),
        "ask": ("How many points does {he} have now?", "How many points does {who} have?"),
        "more": ("{friend} has {n} points more than {who}. "
                 "How many points does {friend} have?",),
        "fewer": ("{friend} has {n} points fewer than {who}. "
                  "How many points does {friend} have?",),
        "together": ("{friend} has {n} points more than {who}. "
                     "How many points do they have together?",),
        "rest_of": ("To win, {who} needs {n} points. How many points are missing?",),
        "distract": ("The {game} has {d} players.", "The {game} takes {d} minutes."),
    },
    {  # a garden
        "slots": {"thing": PLANTS},
        "start": ("{who} has {n} {thing} in the garden.", "{who} plants {n} {thing}."),
        "start_product": ("{who} plants {a} rows of {b} {thing}.",),
        "add": ("{W} plants {n} more {thing}.", "{W} gets {n} {thing} from {friend}."),
        "sub": ("{W} cuts {n} {thing}.", "The rabbits eat {n} {thing}.", "{n} {thing} dry out."),
        "times": ("The next year there are {kt} as many {thing}.",),
        "half": ("A storm breaks half of the {thing}.",),
        "add_product": ("{W} adds {a} rows of {b} {thing}.",),
        "sub_product": ("{W} sells {b} {thing} to each of {a} people.",),
        "ask": ("How many {thing} are in the garden now?", "How many {thing} are left?"),
        "share": ("{W} cuts all the {thing} and puts them into {k} pots, "
                  "the same number in each. How many {thing} are in each pot?",),
        "distract": ("The garden is {d} feet long.", "{friend} sees {d} birds."),
    },
    {  # seats that are sold
        "slots": {"show": ("show", "concert", "film", "play")},
        "start": ("{n} tickets for a {show} are sold on Monday.",),
        "start_product": ("For a {show} {a} classes buy {b} tickets each.",),
        "add": ("On Tuesday {n} more are sold.", "A club buys {n} tickets."),
        "sub": ("{n} people give their tickets back.", "{n} of these tickets are lost."),
        "times": ("After a week {kt} as many are sold as before.",),
        "add_product": ("Then {a} families buy {b} tickets each.",),
        "sub_product": ("Then {a} families give back {b} tickets each.",),
        "ask": ("How many tickets are sold in all?", "How many people have a ticket?"),
        "rest_of": ("There are {n} seats. How many seats are still free?",),
        "distract": ("A ticket costs {d} dollars.", "The {show} takes {d} minutes."),
    },
    {  # letters
        "slots": {"thing": ("letters", "cards", "parcels", "papers")},
        "start": ("{who} has to carry {n} {thing}.", "There are {n} {thing} at a post office."),
        "start_product": ("{who} gets {a} bags with {b} {thing} in each.",),
        "add": ("A truck brings {n} more {thing}.", "At noon {n} {thing} come in."),
        "sub": ("{W} brings {n} {thing} to a school.", "{n} {thing} go to the next town."),
        "half": ("Half of the {thing} are sent off.",),
        "add_product": ("Then {a} bags with {b} {thing} each come in.",),
        "sub_product": ("{W} brings {b} {thing} to each of {a} houses.",),
        "ask": ("How many {thing} are left?", "How many {thing} are there now?"),
        "share": ("The {thing} are shared equally between {k} workers. "
                  "How many {thing} does each worker carry?",),
        "distract": ("A stamp costs {d} cents.", "{who} walks {d} miles."),
    },
    {  # building
        "slots": {"thing": ("bricks", "boards", "stones", "tiles", "nails"),
                  "job": ("wall", "shed", "house", "bridge")},
        "start": ("{who} has {n} {thing} to build a {job}.",),
        "start_product": ("{who} gets {a} loads of {b} {thing} to build a {job}.",),
        "add": ("{W} buys {n} more {thing}.", "{friend} brings {n} {thing}."),
        "sub": ("{W} uses {n} {thing}.", "{n} {thing} are broken."),
        "half": ("{W} uses half of the {thing}.",),
        "add_product": ("{W} orders {a} loads of {b} {thing}.",),
        "sub_product": ("{W} uses {b} {thing} a day for {a} days.",),
        "ask": ("How many {thing} are left?", "How many {thing} does {he} have now?"),
        "share": ("The {thing} have to last {k} days, the same number each day. "
                  "How many {thing} can {he} use a day?",),
        "rest_of": ("The {job} needs {n} {thing}. How many {thing} are missing?",),
        "distract": ("The {job} is {d} feet high.", "The work starts at {d} past nine."),
    },
    {  # fishing
        "slots": {"thing": ("fish", "crabs", "trout")},
        "start": ("{who} catches {n} {thing}.", "In the morning {who} catches {n} {thing}."),
        "start_product": ("{who} catches {b} {thing} a day for {a} days.",),
        "add": ("{W} catches {n} more {thing}.", "{friend} gives {him} {n} {thing}."),
        "sub": ("{W} lets {n} {thing} go.", "A cat takes {n} {thing}.", "{W} sells {n} {thing}."),
        "half": ("{W} cooks half of the {thing}.",),
        "add_product": ("{W} pulls in {a} nets with {b} {thing} in each.",),
        "sub_product": ("{W} sells {b} {thing} to each of {a} people.",),
        "ask": ("How many {thing} does {he} have now?", "How many {thing} are left?"),
        "share": ("{W} shares the {thing} equally between {k} families. "
                  "How many {thing} does each family get?",),
        "as_many": ("{friend} has {kt} as many {thing} as {who}. "
                    "How many {thing} does {friend} have?",),
        "together": ("{friend} has {n} {thing} more than {who}. "
                     "How many {thing} do they have together?",),
        "distract": ("The lake is {d} miles away.", "{His} boat is {d} feet long."),
    },
    {  # a shop
        "slots": {"thing": GOODS, "box": ("boxes", "shelves", "crates")},
        "start": ("A shop has {n} {thing}.", "There are {n} {thing} in a shop."),
        "start_product": ("A shop has {a} {box} of {b} {thing}.",),
        "add": ("It gets {n} new {thing}.", "{who} brings {n} {thing} to the shop."),
        "sub": ("{who} buys {n} {thing}.", "The shop sells {n} {thing}.",
                "{n} {thing} fall down and break."),
        "times": ("After a big order it has {kt} as many {thing} as before.",),
        "half": ("It sells half of the {thing}.",),
        "add_product": ("It orders {a} {box} of {b} {thing}.",),
        "sub_product": ("Then {a} people buy {b} {thing} each.",),
        "ask": ("How many {thing} does the shop have now?", "How many {thing} are left?"),
        "share": ("The rest is packed into {k} bags, the same number in each. "
                  "How many {thing} are in each bag?",),
        "distract": ("One of them costs {d} dollars.", "The shop opens at {d} past eight."),
    },
    {  # minutes
        "slots": {"work": ("paints", "works", "swims", "practices", "sings", "cleans")},
        "start": ("{who} {work} for {n} minutes.",),
        "start_product": ("{who} {work} {b} minutes a day for {a} days.",),
        "add": ("After a break {he} {work} for {n} more minutes.",
                "In the evening {he} adds {n} minutes."),
        "add_product": ("In the next {a} days {he} {work} {b} minutes a day.",),
        "sub": ("{W} finds that {n} of these minutes do not count.",),
        "ask": ("How many minutes is that in all?", "How many minutes does that make?"),
        "fewer": ("{friend} {work} {n} minutes less than {who}. "
                  "How many minutes is that?",),
        "as_many": ("{friend} {work} {kt} as long as {who}. How many minutes is that?",),
        "together": ("{friend} {work} {n} minutes longer than {who}. "
                     "How many minutes is that for both together?",),
        "rest_of": ("The plan is {n} minutes. How many minutes are missing?",),
        "distract": ("{who} is {d} years old.", "{friend} drinks {d} cups of water."),
    },
    {  # children
        "slots": {"place": ("school", "camp", "club", "choir")},
        "start": ("There are {n} children in a {place}.",),
        "start_product": ("A {place} has {a} groups of {b} children.",),
        "add": ("Then {n} new children come.", "In May {n} children join."),
        "sub": ("In June {n} children leave.", "{n} children are ill and stay at home."),
        "times": ("The next year there are {kt} as many children.",),
        "half": ("Half of the children go home.",),
        "add_product": ("Then {a} buses with {b} children each arrive.",),
        "sub_product": ("Then {a} buses with {b} children each drive off.",),
        "ask": ("How many children are there now?", "How many children are in the {place}?"),
        "share": ("They make {k} teams of the same size. How many children are in each team?",),
        "rest_of": ("There are {n} beds. How many beds are free?",),
        "distract": ("The {place} has {d} teachers.", "The {place} is {d} years old."),
    },
    {  # wages
        "slots": {"job": ("waiter", "driver", "cook", "painter", "gardener")},
        "start": ("{who} works as a {job} and earns {n} dollars.",),
        "start_product": ("{who} works as a {job} for {a} hours and earns {b} dollars an hour.",
                          "{who} works as a {job} for {a} days and earns {b} dollars a day."),
        "add": ("{W} also gets {n} dollars in tips.", "{W} finds {n} dollars."),
        "sub": ("{W} pays {n} dollars for the bus.", "{W} has to pay {n} dollars of tax."),
        "half": ("Half of the money goes to {friend}.",),
        "add_product": ("{W} works {a} more hours for {b} dollars an hour.",),
        "sub_product": ("{W} buys {a} meals for {b} dollars each.",),
        "ask": ("How many dollars does {he} have now?", "How many dollars are left?"),
        "share": ("{W} spends the money in {k} days, the same sum each day. "
                  "How many dollars does {he} spend a day?",),
        "more": ("{friend} has {n} dollars more. How many dollars does {friend} have?",),
        "as_many": ("{friend} has {kt} as much money. How many dollars does {friend} have?",),
        "distract": ("{His} way to work is {d} miles long.", "{who} is {d} years old."),
    },
    {  # rope
        "slots": {"thing": ("rope", "wire", "string", "cloth")},
        "start": ("{who} has {n} feet of {thing}.",),
        "start_product": ("{who} ties together {a} pieces of {thing} of {b} feet each.",),
        "add": ("{W} buys {n} more feet.", "{friend} gives {him} {n} feet of {thing}."),
        "sub": ("{W} cuts off {n} feet.", "{W} uses {n} feet for a box."),
        "half": ("{W} uses half of the {thing}.",),
        "add_product": ("{W} adds {a} pieces of {b} feet each.",),
        "sub_product": ("{W} cuts off {a} pieces of {b} feet each.",),
        "ask": ("How many feet does {he} have now?", "How many feet of {thing} are left?"),
        "share": ("{W} cuts the {thing} into {k} pieces of the same length. "
                  "How many feet long is each piece?",),
        "distract": ("It costs {d} cents.", "The table is {d} inches high."),
    },
    {  # eggs
        "slots": {"box": ("boxes", "baskets", "nests")},
        "start": ("{who} has {n} eggs.", "The hens of {who} lay {n} eggs."),
        "start_product": ("{who} has {a} {box} with {b} eggs in each.",),
        "add": ("{W} finds {n} more eggs.", "{W} gets {n} eggs from {friend}."),
        "sub": ("{W} uses {n} eggs for a cake.", "{W} breaks {n} eggs.", "{W} sells {n} eggs."),
        "half": ("{W} sells half of the eggs.",),
        "add_product": ("The hens lay {b} eggs a day for {a} days.",),
        "sub_product": ("{W} sells {a} packs of {b} eggs.", "{W} bakes {a} cakes with {b} eggs."),
        "ask": ("How many eggs does {he} have now?", "How many eggs are left?"),
        "share": ("{W} puts the eggs into {k} bowls, the same number in each. "
                  "How many eggs are in each bowl?",),
        "together": ("{friend} has {n} eggs more than {who}. "
                     "How many eggs do they have together?",),
        "distract": ("{who} has {d} hens.", "The oven is {d} years old."),
    },
    {  # a hotel
        "slots": {"place": ("hotel", "camp", "castle")},
        "start": ("There are {n} guests in a {place}.",),
        "start_product": ("A {place} has {a} floors with {b} guests on each.",),
        "add": ("On Friday {n} guests arrive.", "Then {n} more guests come."),
        "sub": ("On Sunday {n} guests leave.", "In the morning {n} guests go home."),
        "times": ("In summer there are {kt} as many guests.",),
        "half": ("In autumn half of the guests leave.",),
        "add_product": ("Then {a} groups of {b} guests arrive.",),
        "sub_product": ("Then {a} groups of {b} guests leave.",),
        "ask": ("How many guests are there now?", "How many guests are in the {place}?"),
        "share": ("They sit at {k} tables, the same number at each. "
                  "How many guests are at each table?",),
        "rest_of": ("The {place} has {n} beds. How many beds are free?",),
        "distract": ("A night costs {d} dollars.", "The {place} has {d} cooks."),
    },
    {  # days
        "slots": {"trip": ("trip", "course", "visit", "job")},
        "highest_level": 4,
        "start": ("A {trip} takes {n} days.",),
        "start_product": ("A {trip} has {a} parts of {b} days each.",),
        "add": ("Because of the rain it takes {n} days more.", "{who} stays {n} more days."),
        "sub": ("{who} saves {n} days on the way.", "The end comes {n} days early."),
        "times": ("For {friend} it takes {kt} as many days.",),
        "add_product": ("Then there are {a} breaks of {b} days each.",),
        "ask": ("How many days does it take in all?", "How many days is that?"),
        "share": ("It is done in {k} parts of the same length. How many days is each part?",),
        "rest_of": ("There are {n} days of time. How many days are left?",),
        "distract": ("It costs {d} dollars a day.", "{who} has {d} bags."),
    },
    {  # stairs
        "slots": {"place": ("tower", "castle", "temple")},
        "start": ("{who} goes up {n} steps of a {place}.",),
        "start_product": ("In a {place} {who} goes up {a} stairs of {b} steps each.",),
        "add": ("{W} goes up {n} more steps.", "After a rest {he} goes up {n} steps."),
        "sub": ("{W} goes down {n} steps.", "To get a bag {he} goes back {n} steps."),
        "add_product": ("{W} goes up {a} more stairs of {b} steps each.",),
        "sub_product": ("{W} goes down {a} stairs of {b} steps each.",),
        "ask": ("How many steps above the ground is {he}?", "How many steps up is {who} now?"),
        "fewer": ("{friend} is {n} steps below {who}. How many steps up is {friend}?",),
        "more": ("{friend} is {n} steps above {who}. How many steps up is {friend}?",),
        "rest_of": ("The {place} has {n} steps. How many steps are left?",),
        "distract": ("The {place} is {d} years old.", "{who} has {d} photos."),
    },
)

TOPICS_OF_LEVEL = {
    number: [topic for topic in TOPICS if number <= topic.get("highest_level", 5)]
    for number in LEVELS
}

BARE_WORDINGS = ("Work out {e}.", "Calculate {e}.", "What is {e}?", "Find the value of {e}.")
BARE_TOPIC = {
    "start": True, "start_product": True, "add": True, "sub": True, "times": True,
    "add_product": True, "sub_product": True, "ask": True, "share": True,
}


def weighted(rng, names, weights):
    """One of `names`, drawn by its weight."""
    return rng.choices(names, [weights[name] for name in names])[0]


def draw_shape(rng, topic, steps):
    """The kinds of the start, the events and the ending of a chain with that many steps."""
    endings = [name for name in ENDING_STEPS if name in topic and ENDING_STEPS[name] <= steps]
    ending = weighted(rng, endings, ENDING_WEIGHT)
    left = steps - ENDING_STEPS[ending]
    start = "start"
    if left and "start_product" in topic and rng.random() < 0.35:
        start = "start_product"
        left -= 1
    events = []
    while left:
        names = [name for name in EVENT_STEPS if name in topic and EVENT_STEPS[name] <= left]
        event = weighted(rng, names, EVENT_WEIGHT)
        events.append(event)
        left -= EVENT_STEPS[event]
    return start, events, ending


def product(rng, level, most):
    """Factors (a, b) of a product that is at most `most`, or None."""
    a = rng.randint(2, level.factor)
    highest = min(level.product_item, most // a)
    if highest < 2:
        return None
    return a, rng.randint(2, highest)


def between(rng, lowest, highest):
    """A number of the range, or None where it is empty."""
    return rng.randint(lowest, highest) if lowest <= highest else None


def divisor(rng, value):
    """A divisor of `value` from 2 to 9 that leaves at least 2, or None."""
    found = [k for k in range(2, 10) if value % k == 0 and value // k >= 2]
    return rng.choice(found) if found else None


def apply_product(rng, level, kind, value):
    """(operands, steps, new value) of an event with a product, or None."""
    adds = kind == "add_product"
    factors = product(rng, level, level.cap - value if adds else value - 1)
    if not factors:
        return None
    a, b = factors
    op, result = ("+", value + a * b) if adds else ("-", value - a * b)
    return {"a": a, "b": b}, [(a, "*", b, a * b), (value, op, a * b, result)], result


def apply_times(rng, level, value):
    """(operands, steps, new value) of a multiplication, or None."""
    k = between(rng, 2, min(level.factor, level.cap // max(value, 1)))
    if k is None or value < 2 or value > 99:
        return None
    times = "twice" if k == 2 else "%d times" % k
    return {"k": k, "kt": times}, [(value, "*", k, value * k)], value * k


def apply_division(rng, kind, value):
    """(operands, steps, new value) of a division, or None."""
    if kind == "half":
        k = 2 if value % 2 == 0 and value > 3 else None
    else:
        k = divisor(rng, value)
    if k is None:
        return None
    return {"k": k}, [(value, "/", k, value // k)], value // k


def apply_plain(rng, level, kind, value):
    """(operands, steps, new value) of an addition, a subtraction or what is made of them."""
    if kind in ("sub", "fewer"):
        n = between(rng, 2, min(value - 1, level.operand))
        return n and ({"n": n}, [(value, "-", n, value - n)], value - n)
    if kind == "rest_of":
        n = between(rng, value + 2, min(level.cap, value + level.operand))
        return n and ({"n": n}, [(n, "-", value, n - value)], n - value)
    if kind == "together":
        n = between(rng, 2, min(level.cap - 2 * value, level.operand))
        steps = n and [(value, "+", n, value + n), (value, "+", value + n, 2 * value + n)]
        return n and ({"n": n}, steps, 2 * value + n)
    n = between(rng, 2, min(level.cap - value, level.operand))
    return n and ({"n": n}, [(value, "+", n, value + n)], value + n)


def apply(rng, level, kind, value):
    """(operands, steps, new value) of an event on `value`, or None where no number fits."""
    if kind in ("add_product", "sub_product"):
        return apply_product(rng, level, kind, value)
    if kind in ("times", "as_many"):
        return apply_times(rng, level, value)
    if kind in ("half", "share"):
        return apply_division(rng, kind, value)
    if kind == "ask":
        return {}, [], value
    return apply_plain(rng, level, kind, value)


def draw_start(rng, level, kind):
    """(operands, steps, value) of the beginning of a chain."""
    if kind == "start":
        n = rng.randint(3, level.operand)
        return {"n": n}, [], n
    a, b = product(rng, level, level.cap - 1)
    return {"a": a, "b": b}, [(a, "*", b, a * b)], a * b


def draw_values(rng, level, shape):
    """(list of (kind, operands), plan) that fill a shape with numbers, or None."""
    start, events, ending = shape
    operands, plan, value = draw_start(rng, level, start)
    filled = [(start, operands)]
    for kind in events + [ending]:
        step = apply(rng, level, kind, value)
        if not step:
            return None
        operands, steps, value = step
        filled.append((kind, operands))
        plan = plan + steps
    return filled, plan


def draw_chain(rng, topic, level):
    """A shape of the topic with its numbers: (filled, plan)."""
    while True:
        shape = draw_shape(rng, topic, rng.choice(level.steps))
        for _ in range(TRIES):
            chain = draw_values(rng, level, shape)
            if chain:
                return chain


def people(rng):
    """The slots for the person of a problem and a friend."""
    girl = rng.random() < 0.5
    who = rng.choice(SHE if girl else HE)
    friend = rng.choice(HE if girl else SHE)
    slots = dict(PRONOUNS["she" if girl else "he"], who=who, friend=friend)
    slots["He"] = slots["he"].capitalize()
    slots["His"] = slots["his"].capitalize()
    return slots


def wording(rng, texts, used):
    """A text of `texts` that the problem does not hold yet, or None."""
    fresh = [text for text in texts if text not in used]
    if not fresh:
        return None
    text = rng.choice(fresh)
    used.add(text)
    return text


def suitable(texts, filled):
    """`texts` without those that ask what is left, where nothing goes away."""
    if any(kind in ("sub", "half", "sub_product") for kind, _ in filled):
        return texts
    return [text for text in texts if "left?" not in text or "{n}" in text]


def tell(rng, topic, filled):
    """The sentences of a problem, or None where the topic runs out of wordings."""
    slots = people(rng)
    for name, choices in topic["slots"].items():
        slots[name] = rng.choice(choices)
    used = set()
    sentences = []
    for kind, operands in filled:
        text = wording(rng, suitable(topic[kind], filled), used)
        if text is None:
            return None
        slots["W"] = rng.choice(CONTINUATIONS).format(**slots)
        slots.update(operands)
        sentences.append(text.format(**slots))
    if rng.random() < DISTRACTOR_SHARE:
        slots["d"] = rng.randint(2, 60)
        extra = rng.choice(topic["distract"]).format(**slots)
        sentences.insert(rng.randint(1, len(sentences) - 1), extra)
    text = " ".join(sentences)
    return text if name_comes_first(text, slots) else None


def name_comes_first(text, slots):
    """Whether no pronoun of the person stands before the name."""
    words = text.replace(".", " ").replace(",", " ").replace("?", " ").split()
    pronouns = {slots["he"], slots["He"], slots["his"], slots["His"], slots["him"]}
    for word in words:
        if word == slots["who"]:
            return True
        if word in pronouns:
            return False
    return True


def expression(filled):
    """A chain as an expression, with parentheses where they are needed."""
    text, is_sum = "", False
    for kind, operands in filled:
        if kind == "start":
            text = "{n}".format(**operands)
        elif kind == "start_product":
            text = "{a} * {b}".format(**operands)
        elif kind in ("times", "share"):
            sign = " * " if kind == "times" else " / "
            text = ("(%s)" % text if is_sum else text) + sign + str(operands["k"])
            is_sum = False
        elif kind != "ask":
            sign = " + " if kind.startswith("add") else " - "
            last = "{a} * {b}" if kind.endswith("product") else "{n}"
            text += sign + last.format(**operands)
            is_sum = True
    return text


def solution(plan):
    """The answer: one line for each step, and the result."""
    lines = ["%d %s %d = %d." % step for step in plan]
    return " " + "\n".join(lines + ["The answer is %d." % plan[-1][3]])


def key_of(plan):
    """The chain of operations with its operands; a swap of those of + and * changes nothing."""
    steps = []
    for a, op, b, _ in plan:
        if op in "+*" and a > b:
            a, b = b, a
        steps.append("%d%s%d" % (a, op, b))
    return tuple(steps)


def problem(rng, number):
    """(text, plan) of a problem of the level `number`."""
    level = LEVELS[number]
    if rng.random() < BARE_SHARE:
        filled, plan = draw_chain(rng, BARE_TOPIC, level)
        return rng.choice(BARE_WORDINGS).format(e=expression(filled)), plan
    topic = rng.choice(TOPICS_OF_LEVEL[number])
    while True:
        filled, plan = draw_chain(rng, topic, level)
        text = tell(rng, topic, filled)
        if text:
            return text, plan


def make(rng):
    """(key, (item, plan)) of any side."""
    number = rng.randint(1, 5)
    text, plan = problem(rng, number)
    prompt = "Problem: %s\nSolution:" % text
    return key_of(plan), (Item(prompt, solution(plan), "number", (), number), plan)


def generate_with_plan(rng, split):
    """(item, plan); the plan is a list of (a, op, b, result), one for each line of the answer."""
    return draw(rng, split, make)


def generate(rng, split):
    """One item."""
    return generate_with_plan(rng, split)[0]
