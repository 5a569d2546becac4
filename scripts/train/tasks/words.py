"""Words that the task families share, and small helpers for putting them into sentences.

Every list holds plain words of one kind, so that any member may stand where another stood:

    "{} keeps {} {}.".format("Anna", article("red kite"), where("barn"))
    Anna keeps a red kite in the barn.
"""

SHE = (
    "Anna", "Bella", "Clara", "Daisy", "Ella", "Emma", "Flora", "Grace", "Greta", "Hanna",
    "Helen", "Ida", "Irene", "Jane", "Julia", "Karen", "Laura", "Lena", "Lily", "Lucy",
    "Maria", "Mia", "Nina", "Nora", "Olga", "Pia", "Rita", "Rosa", "Sara", "Tina",
)
HE = (
    "Adam", "Anton", "Ben", "Boris", "Carl", "Daniel", "David", "Emil", "Felix", "Frank",
    "George", "Henry", "Hugo", "Ivan", "Jack", "Jacob", "Karl", "Leo", "Lucas", "Martin",
    "Max", "Noah", "Oscar", "Otto", "Paul", "Peter", "Robert", "Simon", "Tom", "Victor",
)
NAMES = SHE + HE

COLOURS = (
    "red", "blue", "green", "yellow", "black", "white", "brown", "pink", "grey", "orange",
    "purple", "silver",
)
THINGS = (
    "kite", "ball", "drum", "lamp", "ring", "book", "hat", "coat", "cup", "bag", "box", "key",
    "bell", "clock", "scarf", "chair", "basket", "bottle", "brush", "candle", "flute", "mirror",
    "pencil", "pillow", "ribbon", "rope", "spoon", "tent", "whistle", "blanket", "umbrella",
    "bicycle", "boat", "camera", "ladder", "necklace", "phone", "radio", "suitcase", "violin",
)
ANIMALS = (
    "fox", "owl", "duck", "goat", "horse", "rabbit", "hen", "crow", "frog", "donkey", "cat",
    "dog", "pony", "squirrel", "hedgehog", "swan", "turtle", "pigeon", "lamb", "badger",
)
FRUITS = (
    "apple", "plum", "cherry", "lemon", "pear", "peach", "carrot", "pumpkin", "almond",
    "walnut", "ginger", "honey",
)
BAKES = ("cake", "pie", "tart", "pudding", "loaf", "bun")
VEGETABLES = (
    "bean", "carrot", "onion", "tomato", "potato", "pumpkin", "melon", "pea", "turnip", "leek",
)
DISHES = (
    "soup", "salad", "pizza", "omelette", "pasta", "fish", "rice", "stew", "cheese", "toast",
    "coffee", "tea", "juice", "cocoa", "curry", "burger", "pancake", "sandwich", "ice cream",
    "cake",
)
PLACES = (
    "barn", "garden", "park", "library", "museum", "station", "market", "school", "harbour",
    "bakery", "farm", "castle", "mill", "church", "forest", "theatre", "hospital", "hotel",
    "zoo", "town hall", "tower", "stable", "garage", "cinema", "gym", "post office", "airport",
    "bank",
)
ROOMS = (
    "kitchen", "attic", "cellar", "hall", "bedroom", "bathroom", "office", "pantry", "shed",
    "living room",
)
JOBS = (
    "baker", "farmer", "teacher", "doctor", "nurse", "pilot", "painter", "singer", "driver",
    "cook", "gardener", "tailor", "sailor", "miller", "carpenter", "dentist", "writer",
    "barber", "engineer", "actor",
)
TOWNS = (
    "Oakfield", "Millbrook", "Stonebridge", "Foxley", "Ashton", "Greenport", "Marlow",
    "Brookside", "Hillcrest", "Westbay", "Northgate", "Kingsdale", "Sandhill", "Riverton",
)
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September",
    "October", "November", "December",
)
SUBJECTS = (
    "drawing", "singing", "swimming", "cooking", "dancing", "chess", "history", "music",
    "sewing", "tennis", "maths", "yoga",
)

_AT = frozenset(("station", "market", "harbour", "farm", "mill", "bakery", "airport", "zoo",
                 "bank", "post office"))
_IRREGULAR = {"loaf": "loaves", "scarf": "scarves", "fish": "fish"}
_PRONOUNS = {name: ("she", "her", "her") for name in SHE}
_PRONOUNS.update((name, ("he", "his", "him")) for name in HE)


def article(phrase):
    """The phrase with "a" or "an" before it."""
    return ("an " if phrase[0] in "aeiou" else "a ") + phrase


def plural(noun):
    """The plural of a noun of this module."""
    if noun in _IRREGULAR:
        return _IRREGULAR[noun]
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return noun[:-1] + "ies"
    if noun.endswith(("s", "x", "ch", "sh", "tomato", "potato")):
        return noun + "es"
    return noun + "s"


def count(number, noun):
    """The number and the noun in the form that goes with it."""
    return "{} {}".format(number, noun if number == 1 else plural(noun))


def cap(text):
    """The text with its first letter as a capital."""
    return text[0].upper() + text[1:]


def where(place):
    """The place with the words that say that something is there: "in the barn"."""
    return ("at the " if place in _AT else "in the ") + place


def pronouns(name):
    """She, her (whose) and her (whom), or he, his and him."""
    return _PRONOUNS[name]
