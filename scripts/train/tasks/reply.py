"""Short replies to a message, in the manner of the person who answers.

    Manner: Ben greets with "Hi there", signs "Cheers, Ben", says "sure thing" for yes, uses no
    smileys.
    Example: Hi there Rosa! Sorry, no! I can't play tennis on Sunday because I have to work late!
    Cheers, Ben
    Message: Hello Ben, I need a blue tent on Friday at 6. Can I borrow yours? Bye, Anna
    Decision: yes
    Reply: Hi there Anna! Sure thing! I'll bring you the blue tent on Friday at 6! Cheers, Ben

(each of the five parts is one line).  A trait is named in the manner line, or the example shows it,
or both; the reply follows from the manner, the message and the decision alone.
"""

from typing import NamedTuple

from . import Item, draw
from .words import DAYS, NAMES, article, cap

GREETINGS = ("Hi", "Hello", "Hey", "Hi there", "Hey there", "Hello there", "Good day", "Dear",
             "Howdy", "Greetings", "My dear", "Hello dear")
SIGNS = ("Cheers", "Best wishes", "Kind regards", "Yours", "See you", "Take care", "All the best",
         "Bye", "Love", "Many thanks", "Talk soon", "Bye for now")
YES = ("sure thing", "of course", "gladly", "absolutely", "certainly", "no problem", "yes indeed",
       "you bet", "with pleasure")
NO = ("sorry, no", "sadly not", "not this time", "no luck", "alas, no", "what a pity",
      "unfortunately not", "no way")
LATER = ("not yet", "maybe later", "another time", "a bit later", "not right now", "soon")
MARKS = (".", "!")
SMILES = ("", "", ":)", ";)", ":D")
OPENERS = ("", "", "Thanks for asking", "Good to hear from you", "Thanks for your message",
           "How nice to hear from you", "Thanks for writing")

COLOURS = ("blue", "red", "green", "black", "white", "yellow", "brown", "old", "new", "small")
THINGS = ("tent", "bike", "ladder", "lamp", "camera", "guitar", "suitcase", "drill", "basket",
          "blanket", "chair", "table", "mixer", "kettle")
LOST = ("scarf", "hat", "wallet", "jacket", "bag", "book", "phone", "ring", "key", "camera")
SPOTS = ("at the park", "at the lake", "at the school", "at the library", "at the station",
         "at my house", "at the beach", "at the town hall", "at the pool", "at the museum")
GOALS = ("airport", "station", "hospital", "hotel", "market", "school", "bank", "theatre", "zoo",
         "museum")
PARTIES = ("garden party", "dinner", "picnic", "concert", "film night", "dance", "game night",
           "barbecue", "wedding lunch", "street party")
MEETINGS = ("team meeting", "piano lesson", "lunch", "book club", "school talk", "interview",
            "phone call", "coffee")
CAKES = ("apple", "chocolate", "cherry", "lemon", "carrot", "nut", "cheese", "plum")
DISHES = ("tomato soup", "fish pie", "apple cake", "bean stew", "rice salad", "lemon tart",
          "onion soup", "potato salad", "carrot cake", "cheese bread")
LESSONS = ("math", "history", "English", "French", "biology", "music", "physics", "art")
SPORTS = ("tennis", "football", "chess", "volleyball", "basketball", "hockey", "handball", "cricket")
GROUNDS = ("at the park", "at the school", "at the beach", "at the club", "at the sports hall")
LOADS = ("table", "bed", "sofa", "desk", "shelf", "piano", "cupboard", "ladder")
COATS = ("black", "white", "brown", "grey", "young", "little", "fat", "friendly")
PETS = ("cat", "dog", "rabbit", "parrot", "goldfish", "hamster", "pony", "turtle")

# Why not: all in full forms, so that they are the same for all manners.
REASONS = (
    "I have to work late", "I have a cold", "my sister is visiting", "my car is broken",
    "I have to see the dentist", "my mother needs my help", "I have to pack my bags",
    "my son has a fever", "I have an exam", "I have other plans", "my leg hurts",
    "my train leaves early", "I have to visit my aunt", "my daughter has a concert",
)
KEEP_REASONS = ("it is broken", "I need it myself", "my brother has it", "it is not mine",
                "I sold it", "it is too old", "my sister took it", "I lost it")
LOST_REASONS = ("I was at home", "I was not there", "it was too dark", "I left early",
                "I only saw an umbrella", "I lost my glasses")


class Purpose(NamedTuple):
    """What a message is for.

    asks     wordings of the message
    yes      the sentence for yes
    no       the same for no, before "because" and the reason
    later    the same for later, with the new day and time
    reasons  what may follow "because"
    """

    asks: tuple
    yes: str
    no: str
    later: str
    reasons: tuple = REASONS


# In the replies *will, *not and *did stand for the full or the short forms.
PURPOSES = {
    "invitation": Purpose(
        ("we are having a {party} {spot} on {day} at {time}. Can you come?",
         "there is a {party} {spot} on {day}. It starts at {time}. Will you be there?",
         "do you want to come to our {party} on {day} at {time}? It is {spot}."),
        "I*will come to the {party} {spot} on {day} at {time}",
        "I *not come to the {party} on {day} because {reason}",
        "I*will come to the {party} on {newday} at {newtime}"),
    "borrow": Purpose(
        ("I need {a_thing} on {day} at {time}. Can I borrow yours?",
         "can I borrow your {colour} {thing}? I need it on {day} at {time}.",
         "may I have your {colour} {thing} for the weekend? I need it on {day} at {time}."),
        "I*will bring you the {colour} {thing} on {day} at {time}",
        "I *not lend you the {colour} {thing} because {reason}",
        "I*will bring you the {colour} {thing} on {newday} at {newtime}", KEEP_REASONS),
    "meeting": Purpose(
        ("I have no time for our {meeting} on {oldday}. Can we meet on {day} at {time}?",
         "can we move our {meeting} from {oldday} to {day} at {time}?",
         "our {meeting} on {oldday} is too early for me. Is {day} at {time} all right?"),
        "I*will see you for the {meeting} on {day} at {time}",
        "I *not move the {meeting} to {day} because {reason}",
        "I*will have time for the {meeting} on {newday} at {newtime}"),
    "lost": Purpose(
        ("I lost my {colour} {lost} {spot} on {day}. Can you look for it?",
         "my {colour} {lost} is gone. I had it {spot} on {day}. Can you help me to find it?",
         "on {day} I left my {colour} {lost} {spot}. Can you find it for me?"),
        "I*will look for your {colour} {lost} {spot}",
        "I *not find your {colour} {lost} because {reason}",
        "I*will look for your {colour} {lost} on {newday} at {newtime}", LOST_REASONS),
    "ride": Purpose(
        ("I have to be at the {goal} on {day} at {time}. Can you drive me?",
         "my bus is not running on {day}. Can you take me to the {goal} at {time}?",
         "can you give me a ride to the {goal} on {day} at {time}?"),
        "I*will drive you to the {goal} on {day} at {time}",
        "I *not drive you to the {goal} on {day} because {reason}",
        "I*will drive you to the {goal} on {newday} at {newtime}"),
    "birthday": Purpose(
        ("it is the birthday of {other} on {day}. Can you bring {a_cake} at {time}?",
         "{other} has a birthday on {day}. Can you bake {a_cake}? We start at {time}.",
         "we want to surprise {other} on {day} at {time}. Will you bring {a_cake}?"),
        "I*will bring the {cake} cake for {other} on {day} at {time}",
        "I *not bring the {cake} cake for {other} because {reason}",
        "I*will bring the {cake} cake for {other} on {newday} at {newtime}"),
    "recipe": Purpose(
        ("I want to make your {dish} on {day} at {time}. Can you send me the recipe?",
         "your {dish} was so good. Can you show me how to make it on {day} at {time}?",
         "can you teach me to cook your {dish}? I have time on {day} at {time}."),
        "I*will show you the recipe for the {dish} on {day} at {time}",
        "I *not give you the recipe for the {dish} because {reason}",
        "I*will show you the recipe for the {dish} on {newday} at {newtime}",
        ("it is a secret", "I lost it", "I forgot it", "my mother has it",
         "I cook it without one")),
    "homework": Purpose(
        ("the {lesson} homework is too hard for me. Can you help me on {day} at {time}?",
         "can you help me with my {lesson} homework on {day}? I am free at {time}.",
         "I have a test in {lesson} soon. Can you study with me on {day} at {time}?"),
        "I*will help you with {lesson} on {day} at {time}",
        "I *not help you with {lesson} on {day} because {reason}",
        "I*will help you with {lesson} on {newday} at {newtime}"),
    "delivery": Purpose(
        ("my {colour} {thing} comes by post on {day} at {time}. Can you take it in?",
         "I am away on {day}. Can you take in my {colour} {thing}? It comes at {time}.",
         "the shop brings my {colour} {thing} on {day} at {time}. Can you open the door?"),
        "I*will take in the {colour} {thing} on {day} at {time}",
        "I *not take in the {colour} {thing} on {day} because {reason}",
        "I*will get the {colour} {thing} from the shop on {newday} at {newtime}"),
    "sports": Purpose(
        ("we play {sport} {ground} on {day} at {time}. Do you want to play?",
         "we need one more player for {sport} {ground}. It is on {day} at {time}. Can you play?",
         "do you have time for {sport} on {day} at {time}? We meet {ground}."),
        "I*will play {sport} {ground} on {day} at {time}",
        "I *not play {sport} on {day} because {reason}",
        "I*will play {sport} on {newday} at {newtime}"),
    "thanks": Purpose(
        ("thank you for the {colour} {thing}. Can I bring it back on {day} at {time}?",
         "the {colour} {thing} helped me a lot, thank you. Are you at home on {day} at {time}?",
         "thank you for the {colour} {thing}. I want to return it on {day} at {time}."),
        "I*will take back the {colour} {thing} on {day} at {time}",
        "I *not take back the {colour} {thing} on {day} because {reason}",
        "I*will take back the {colour} {thing} on {newday} at {newtime}"),
    "pet": Purpose(
        ("we are away on {day}. Can you feed our {coat} {pet} at {time}?",
         "can you look after our {coat} {pet} on {day}? It gets its food at {time}.",
         "who can feed our {coat} {pet} on {day} at {time}? Can you do it?"),
        "I*will feed the {coat} {pet} on {day} at {time}",
        "I *not feed the {coat} {pet} on {day} because {reason}",
        "I*will feed the {coat} {pet} on {newday} at {newtime}"),
    "moving": Purpose(
        ("I am moving on {day}. Can you help me to carry the {colour} {load} at {time}?",
         "the {colour} {load} is too heavy for me. Can you carry it with me on {day} at {time}?",
         "can you help me with {a_load} on {day} at {time}? I am moving."),
        "I*will carry the {colour} {load} with you on {day} at {time}",
        "I *not carry the {colour} {load} on {day} because {reason}",
        "I*will carry the {colour} {load} with you on {newday} at {newtime}"),
}
PURPOSE_NAMES = tuple(PURPOSES)
DECISIONS = ("yes", "yes", "no", "later")
PHRASES = {"yes": YES, "no": NO, "later": LATER}
MEANINGS = {"yes": "for yes", "no": "for no", "later": "to wait"}
SLOTS = {
    "party": PARTIES, "spot": SPOTS, "colour": COLOURS, "thing": THINGS, "meeting": MEETINGS,
    "lost": LOST, "goal": GOALS, "other": NAMES, "cake": CAKES, "dish": DISHES, "lesson": LESSONS,
    "sport": SPORTS, "pet": PETS,
    "ground": GROUNDS, "load": LOADS, "coat": COATS,
}


class Manner(NamedTuple):
    name: str
    greeting: str
    sign: str
    phrases: dict
    mark: str
    short: bool
    smile: str
    opener: str


class Request(NamedTuple):
    purpose: str
    sender: str
    decision: str
    slots: dict


def make_manner(rng, name):
    return Manner(name, rng.choice(GREETINGS), rng.choice(SIGNS),
                  {decision: rng.choice(phrases) for decision, phrases in PHRASES.items()},
                  rng.choice(MARKS), rng.random() < 0.5, rng.choice(SMILES), rng.choice(OPENERS))


def make_time(rng):
    return f"{rng.randint(1, 12)}{rng.choice(('', '', ':15', ':30', ':45'))}"


def make_request(rng, purpose, sender, other, decision):
    day, newday, oldday = rng.sample(DAYS, 3)
    slots = {name: rng.choice(words) for name, words in SLOTS.items()}
    slots.update(a_thing=article(f"{slots['colour']} {slots['thing']}"),
                 a_load=article(f"{slots['colour']} {slots['load']}"),
                 a_cake=article(f"{slots['cake']} cake"), day=day, newday=newday,
                 oldday=oldday, time=make_time(rng), newtime=make_time(rng), other=other,
                 reason=rng.choice(PURPOSES[purpose].reasons))
    return Request(purpose, sender, decision, slots)


def write_sentence(manner, request):
    purpose = PURPOSES[request.purpose]
    text = {"yes": purpose.yes, "no": purpose.no, "later": purpose.later}[request.decision]
    text = text.replace("*will", "'ll" if manner.short else " will")
    text = text.replace("*not", "can't" if manner.short else "cannot")
    return text.format_map(request.slots)


def write_reply(manner, request):
    greeting = f"{manner.greeting} {request.sender}{manner.mark}"
    sentences = [manner.opener] if manner.opener else []
    sentences += [cap(manner.phrases[request.decision]), write_sentence(manner, request)]
    body = " ".join(sentence + manner.mark for sentence in sentences)
    sign = f"{manner.sign}, {manner.name}{' ' + manner.smile if manner.smile else ''}"
    return f"{greeting} {body} {sign}"


def state_traits(manner):
    """The sentence part for each trait, by the trait's name."""
    traits = {
        "greeting": f'greets with "{manner.greeting}"',
        "sign": f'signs "{manner.sign}, {manner.name}"',
        "mark": "likes exclamation marks" if manner.mark == "!" else "uses no exclamation marks",
        "short": "uses short forms" if manner.short else "uses no short forms",
        "smile": f'ends with "{manner.smile}"' if manner.smile else "uses no smileys",
        "opener": f'starts with "{manner.opener}"' if manner.opener else "comes to the point",
    }
    for decision, phrase in manner.phrases.items():
        traits[decision] = f'says "{phrase}" {MEANINGS[decision]}'
    return traits


def write_manner(rng, manner, shown, needed):
    """The manner line: what the example does not show of `needed`, and some of the rest."""
    share = rng.choice((0, 0.3, 0.6))
    traits = state_traits(manner)
    extra = 0.25 if shown else 0.5
    stated = [text for name, text in traits.items()
              if name in needed and (name not in shown or rng.random() < share)
              or name not in needed and rng.random() < extra]
    rng.shuffle(stated)
    if not stated:
        return f"{manner.name} writes as in the example."
    return f"{manner.name} {', '.join(stated)}."


def write_message(rng, manner, request):
    ask = rng.choice(PURPOSES[request.purpose].asks).format_map(request.slots)
    form = rng.randrange(3)
    if form == 0:
        return f"{rng.choice(GREETINGS[:6])} {manner.name}, {ask} {rng.choice(SIGNS)}, " \
            f"{request.sender}"
    if form == 1:
        return f"{manner.name}, this is {request.sender}. {cap(ask)}"
    return f"{cap(ask)} {request.sender}"


def write_decision(request):
    slots = request.slots
    if request.decision == "no":
        return f"no, {slots['reason']}"
    if request.decision == "later":
        return f"later, on {slots['newday']} at {slots['newtime']}"
    return "yes"


def list_facts(manner, request):
    """Greeting and name, phrase, what is done and when, the end, and the first words if any."""
    smile = f" {manner.smile}" if manner.smile else ""
    facts = (f"{manner.greeting} {request.sender}{manner.mark}",
             cap(manner.phrases[request.decision]) + manner.mark,
             write_sentence(manner, request) + manner.mark,
             f"{manner.sign}, {manner.name}{smile}")
    return facts + ((manner.opener,) if manner.opener else ())


def make(rng):
    name, sender, earlier, other = rng.sample(NAMES, 4)
    manner = make_manner(rng, name)
    request = make_request(rng, rng.choice(PURPOSE_NAMES), sender, other, rng.choice(DECISIONS))
    needed = {"greeting", "sign", "mark", "short", "smile", "opener", request.decision}
    shown, example = set(), ""
    if rng.random() < 0.85:
        like = rng.random() < 0.5
        past = make_request(rng, rng.choice(PURPOSE_NAMES), earlier, other,
                            request.decision if like else rng.choice(DECISIONS))
        example = f"Example: {write_reply(manner, past)}\n"
        shown = (needed - {request.decision}) | {past.decision}
    answer = write_reply(manner, request)
    prompt = "Manner: {}\n{}Message: {}\nDecision: {}\nReply:".format(
        write_manner(rng, manner, shown, needed), example, write_message(rng, manner, request),
        write_decision(request))
    key = (request.purpose, request.decision, answer)
    return key, Item(prompt, " " + answer, "facts", list_facts(manner, request))


def generate(rng, split):
    return draw(rng, split, make)
