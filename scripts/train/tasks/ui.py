"""Phone screens: a numbered list of elements and a request; the answer is the command for it.

    Screen: Settings
    1 button "Back"
    2 switch "Wi-Fi" on
    3 slider "Volume" 40
    4 field "Search"
    Request: Turn off the Wi-Fi, then set the volume to 70.
    Command: tap(2); set(3, 70)

Commands are tap(n), type(n, "text"), set(n, value) and scroll(up or down); several are joined with
"; ".  What is already as wanted needs no command ("none" when nothing else is to be done), and an
entry that is not in the list is looked for with scroll(down).
"""

import random
from typing import NamedTuple

from . import Item, draw, several, words
from .words import DAYS, NAMES, cap

SURNAMES = ("Hill", "Brook", "Stone", "Wood", "Field", "Lake", "Baker", "Miller", "Cook", "Young")
SONG_FIRST = ("Blue", "Silent", "Golden", "Green", "Lonely", "Happy", "Red", "Summer", "Winter")
SONG_SECOND = ("River", "Night", "Road", "Garden", "Moon", "Train", "Heart", "Rain", "Morning")
PRODUCT_FIRST = ("Green", "Black", "White", "Red", "Small", "Large", "Fresh", "Sweet", "Blue")
PRODUCT_SECOND = (
    "tea", "coffee", "apples", "bread", "cheese", "soap", "lamp", "towel", "cup", "chair", "grapes",
)
PLACES = tuple(map(cap, words.PLACES))
CITIES = (
    "London", "Paris", "Rome", "Berlin", "Madrid", "Oslo", "Vienna", "Lisbon", "Athens", "Cairo",
    "Tokyo", "Boston",
)
EVENTS = (
    "Lunch", "Dinner", "Team meeting", "Dentist", "Piano lesson", "Book club", "Haircut",
    "School play", "Football game", "Phone call", "Yoga class", "Birthday party",
)
SUBJECTS = (
    "Lunch plans", "Summer trip", "School report", "New job", "Birthday party", "Train tickets",
    "Old photos", "Team meeting", "Garden work", "Book club", "House keys", "Weekend plans",
)
TITLES = (
    "Shopping list", "Packing list", "Book list", "Soup recipe", "Cake recipe", "Gift ideas",
    "Trip ideas", "Garden plan", "Work plan", "House rules", "Dream diary", "Bike repair",
)
PAGES = (
    "Display", "Sound", "Storage", "Battery", "Apps", "Privacy", "Accounts", "Language", "Security",
    "Network", "Keyboard", "Updates",
)
TEXTS = (
    "I am at the {place}", "See you at {time}", "Please call {name}", "I will be home at {time}",
    "Meet me at the {place}", "Bring some {food}", "Are you free on {day}?", "{name} is late",
    "The train leaves at {time}", "Happy birthday {name}", "We need {food}",
    "Thanks for the {food}",
)
FOODS = ("milk", "bread", "eggs", "apples", "cheese", "rice", "sugar", "tea", "butter", "flowers")


def make_time(rng):
    return f"{rng.randint(6, 21)}:{rng.choice(('00', '15', '30', '45'))}"


def make_text(rng):
    text = rng.choice(TEXTS)
    if "{time}" in text:
        return text.format(time=make_time(rng))
    return text.format(place=rng.choice(PLACES).lower(), name=rng.choice(NAMES),
                       food=rng.choice(FOODS), day=rng.choice(DAYS))


VALUES = {
    "name": lambda rng: rng.choice(NAMES),
    "full name": lambda rng: f"{rng.choice(NAMES)} {rng.choice(SURNAMES)}",
    "song": lambda rng: f"{rng.choice(SONG_FIRST)} {rng.choice(SONG_SECOND)}",
    "product": lambda rng: f"{rng.choice(PRODUCT_FIRST)} {rng.choice(PRODUCT_SECOND)}",
    "place": lambda rng: rng.choice(PLACES),
    "city": lambda rng: rng.choice(CITIES),
    "event": lambda rng: rng.choice(EVENTS),
    "subject": lambda rng: rng.choice(SUBJECTS),
    "title": lambda rng: rng.choice(TITLES),
    "day": lambda rng: rng.choice(DAYS),
    "page": lambda rng: rng.choice(PAGES),
    "line": lambda rng: rng.choice(("mobile", "home", "work")),
    "time": make_time,
    "text": make_text,
    "phone": lambda rng: f"555 {rng.randint(1000, 9999)}",
    "price": lambda rng: f"{rng.randint(1, 29)}.{rng.choice(('00', '20', '50', '80', '90'))}",
    "distance": lambda rng: f"{rng.randint(1, 40)} km",
    "degrees": lambda rng: f"{rng.randint(1, 38)} degrees",
}

# What people say for a button, besides "tap" or "press" and its label.
BUTTONS = {
    "Back": ("go back", "return to the last page", "take me back"),
    "Help": ("open the help", "show me the help"),
    "Menu": ("open the menu", "show me the menu"),
    "Send": ("send it",),
    "Save": ("save it",),
    "Delete": ("delete it", "remove this"),
    "Share": ("share this", "share it"),
    "Go": ("start the search",),
    "Start": ("start the trip", "begin the trip"),
    "Cart": ("open my cart", "show me my cart"),
    "Pay": ("pay now", "pay for everything"),
    "Sort": ("sort the list", "put the list in order"),
    "Write": ("write a new mail", "begin a new mail"),
    "Reply": ("answer this", "reply to this"),
    "Archive": ("archive this", "move this to the archive"),
    "Play": ("play the music", "start the music"),
    "Pause": ("stop the music", "pause the music"),
    "Next": ("skip this song", "play the next song"),
    "Previous": ("play the last song again", "go to the song before"),
    "Today": ("go to today", "show me today"),
    "New event": ("create an event", "add an event"),
    "Zoom in": ("make the map bigger", "zoom in"),
    "Zoom out": ("make the map smaller", "zoom out"),
    "My location": ("show where I am", "find my location"),
    "Call": ("start a call", "make a call"),
    "Attach": ("attach a file", "add a file"),
    "Take photo": ("take a picture", "take a photo"),
    "Flip": ("use the other camera", "turn the camera around"),
    "Gallery": ("show me my photos", "open my photos"),
    "New contact": ("create a contact", "add a contact"),
    "Edit": ("edit this", "change this"),
    "New note": ("create a note", "start a new note"),
    "Refresh": ("load it again", "refresh the page"),
    "Add city": ("add another city", "add a city"),
}
# The words for a switch or slider where they are not "the" and the label in small letters.
PHRASES = {
    "Wi-Fi": "the Wi-Fi", "Bluetooth": "Bluetooth", "Airplane mode": "airplane mode",
    "Dark mode": "dark mode", "Shuffle": "shuffle", "Repeat": "repeat",
    "Notifications": "notifications", "Voice guide": "the voice guide", "GPS": "GPS",
}
SEARCH = ("search for {0}", "look for {0}", "find {0}")


class App(NamedTuple):
    """The elements of one app's screen.

    entry     the kinds of value in the label and in the detail of a list entry
    wordings  requests for an entry by label, by detail and by both
    twins     whether two entries may have the same label
    forms     (fields with their kinds of value, last button, wordings)
    extremes  wordings for the entry with the smallest and with the largest detail
    """

    buttons: tuple
    switches: tuple = ()
    sliders: tuple = ()
    fields: tuple = ()
    tabs: tuple = ()
    entry: tuple = ()
    wordings: tuple = ()
    twins: bool = False
    forms: tuple = ()
    extremes: tuple = ()


APPS = {
    "Settings": App(
        buttons=("Back", "Help", "Menu", "Go"),
        switches=("Wi-Fi", "Bluetooth", "Airplane mode", "Dark mode", "Location", "Hotspot",
                  "Night light", "Battery saver"),
        sliders=("Volume", "Brightness", "Text size"),
        fields=(("Search", "page"),),
        entry=("page", ""),
        wordings=(("open {label}", "go to the {label} page", "show me {label}"), (), ()),
        forms=(((("Search", "page"),), "Go", SEARCH),)),
    "Mail": App(
        buttons=("Back", "Write", "Reply", "Archive", "Delete", "Send", "Attach"),
        switches=("Notifications", "Dark mode"),
        fields=(("To", "name"), ("Subject", "subject")),
        tabs=("Inbox", "Sent", "Drafts"),
        entry=("name", "subject"),
        wordings=(("open the mail from {label}", "read the mail from {label}",
                   "show me what {label} wrote"),
                  ('open the mail about "{detail}"', 'read the mail called "{detail}"'),
                  ('open the mail from {label} about "{detail}"',)),
        twins=True,
        forms=(((("To", "name"), ("Subject", "subject")), "Send",
                ('send {0} a mail with the subject "{1}"', 'send a mail about "{1}" to {0}')),)),
    "Shop": App(
        buttons=("Back", "Cart", "Pay", "Sort", "Help", "Go"),
        switches=("Gift wrap", "Fast delivery"),
        sliders=("Top price",),
        fields=(("Search", "product"), ("Name", "full name")),
        tabs=("Offers", "Orders"),
        entry=("product", "price"),
        wordings=(('open "{label}"', 'buy "{label}"', 'show me "{label}"'),
                  ("open the one for {detail}", "buy the product for {detail}"),
                  ('buy "{label}" for {detail}', 'open "{label}" for {detail}')),
        twins=True,
        forms=(((("Search", "product"),), "Go", SEARCH),),
        extremes=(("buy the cheapest product", "open the cheapest product"),
                  ("buy the most expensive product", "open the most expensive product"))),
    "Music": App(
        buttons=("Back", "Play", "Pause", "Next", "Previous", "Share", "Go"),
        switches=("Shuffle", "Repeat"),
        sliders=("Volume", "Bass"),
        fields=(("Search", "song"),),
        tabs=("Songs", "Albums", "Artists"),
        entry=("song", "full name"),
        wordings=(('play "{label}"', 'start the song "{label}"', 'put on "{label}"'),
                  ("play the song by {detail}", "put on something by {detail}"),
                  ('play "{label}" by {detail}',)),
        twins=True,
        forms=(((("Search", "song"),), "Go", SEARCH),)),
    "Calendar": App(
        buttons=("Back", "Today", "New event", "Share", "Save", "Delete"),
        switches=("Reminder", "All day"),
        fields=(("Title", "event"), ("Time", "time")),
        tabs=("Day", "Week", "Month"),
        entry=("event", "time"),
        wordings=(('open the event "{label}"', 'show me "{label}"', 'open "{label}"'),
                  ("open the event at {detail}", "show me what I have at {detail}"),
                  ('open "{label}" at {detail}',)),
        twins=True,
        forms=(((("Title", "event"), ("Time", "time")), "Save",
                ('add "{0}" at {1}', 'plan "{0}" for {1}', 'put "{0}" in for {1}')),),
        extremes=(("open the first event of the day", "show me my first event"),
                  ("open the last event of the day", "show me my last event"))),
    "Map": App(
        buttons=("Back", "Zoom in", "Zoom out", "My location", "Start", "Share"),
        switches=("Traffic", "Voice guide", "GPS"),
        fields=(("From", "place"), ("To", "place")),
        tabs=("Car", "Bus", "Walk"),
        entry=("place", "distance"),
        wordings=(("open the {label}", "choose the {label}", "show me the {label}"),
                  ("open the place that is {detail} away", "choose the one at {detail}"),
                  ("choose the {label} that is {detail} away",)),
        twins=True,
        forms=(((("From", "place"), ("To", "place")), "Start",
                ("take me from the {0} to the {1}", "plan a trip from the {0} to the {1}",
                 "show the way to the {1} from the {0}")),),
        extremes=(("choose the nearest place", "open the place that is closest"),
                  ("choose the place that is farthest away", "open the farthest place"))),
    "Messages": App(
        buttons=("Back", "Call", "Attach", "Send", "Delete", "Menu"),
        switches=("Notifications", "Vibration"),
        sliders=("Text size",),
        fields=(("Message", "text"), ("Search", "name")),
        tabs=("Chats", "Groups"),
        entry=("name", "text"),
        wordings=(("open the message from {label}", "read what {label} wrote",
                   "open the chat with {label}"),
                  ('open the message "{detail}"', 'show me who wrote "{detail}"'), ()),
        forms=(((("Message", "text"),), "Send",
                ('send the message "{0}"', 'write "{0}" and send it', 'answer with "{0}"')),)),
    "Camera": App(
        buttons=("Back", "Take photo", "Flip", "Gallery", "Share", "Delete"),
        switches=("Flash", "Timer", "Grid", "Shutter sound", "Location"),
        sliders=("Zoom", "Brightness", "Contrast"),
        tabs=("Photo", "Video", "Portrait", "Night")),
    "Clock": App(
        buttons=("Back", "Save", "Delete", "Help", "Edit"),
        switches=("Vibration", "Snooze"),
        sliders=("Volume", "Snooze minutes"),
        fields=(("Time", "time"), ("Name", "event")),
        tabs=("Alarm", "Timer", "Stopwatch"),
        forms=(((("Time", "time"),), "Save",
                ("set an alarm for {0}", "wake me at {0}", "add an alarm at {0}")),
               ((("Time", "time"), ("Name", "event")), "Save",
                ('set an alarm for {0} with the name "{1}"', 'add an alarm "{1}" at {0}')))),
    "Contacts": App(
        buttons=("Back", "New contact", "Edit", "Delete", "Share", "Save"),
        switches=("Show photos", "Short names"),
        fields=(("Name", "full name"), ("Phone", "phone"), ("Search", "name")),
        tabs=("All", "Favourites", "Family"),
        entry=("full name", "line"),
        wordings=(("call {label}", "open the number of {label}", "show me {label}"), (),
                  ("call {label} on the {detail} number", "use the {detail} number of {label}")),
        twins=True,
        forms=(((("Name", "full name"), ("Phone", "phone")), "Save",
                ("add {0} with the number {1}", "save the number {1} for {0}")),)),
    "Notes": App(
        buttons=("Back", "New note", "Share", "Delete", "Sort", "Save"),
        switches=("Dark mode", "Lock"),
        sliders=("Text size",),
        fields=(("Title", "title"), ("Text", "text")),
        tabs=("All notes", "Lists"),
        entry=("title", "day"),
        wordings=(('open the note "{label}"', 'show me "{label}"', 'read "{label}"'),
                  ("open the note from {detail}", "show me what I wrote on {detail}"),
                  ('open "{label}" from {detail}', 'show me the note "{label}" from {detail}')),
        twins=True,
        forms=(((("Title", "title"), ("Text", "text")), "Save",
                ('save a note "{0}" that says "{1}"', 'write "{1}" in a note called "{0}"')),)),
    "Weather": App(
        buttons=("Back", "Refresh", "Add city", "Share", "Menu", "Go"),
        switches=("Rain alarm", "Storm alarm", "Location"),
        fields=(("Search", "city"),),
        tabs=("Today", "Week", "Rain map"),
        entry=("city", "degrees"),
        wordings=(("open {label}", "show me the weather in {label}", "tell me about {label}"),
                  ("open the city with {detail}", "show me where it is {detail}"), ()),
        forms=(((("Search", "city"),), "Go", SEARCH),),
        extremes=(("open the coldest city", "show me where it is coldest"),
                  ("open the warmest city", "show me where it is warmest"))),
}
APP_NAMES = tuple(APPS)
PLANS = ("one",) * 48 + ("two",) * 19 + ("form",) * 15 + ("missing",) * 8 + ("extreme",) * 6 \
    + ("scroll",) * 4

SWITCH_WORDINGS = ("turn {state} {what}", "turn {what} {state}", "switch {state} {what}",
                   "switch {what} {state}", "{verb} {what}")
SET_WORDINGS = ("set {what} to {value}", "change {what} to {value}", "put {what} at {value}",
                "move {what} to {value}")
FIELD_WORDINGS = ('type "{text}" in the {label} field', 'enter "{text}" as {label}',
                  'write "{text}" in {label}', 'fill in "{text}" for {label}')
TAB_WORDINGS = ("go to the {label} tab", "open the {label} tab", "switch to {label}")
SCROLL_WORDINGS = {"down": ("scroll down", "show me more", "go further down", "move the list down"),
                   "up": ("scroll up", "go to the top", "go further up", "move the list up")}
JOINTS = ("{0}, then {1}", "{0} and then {1}", "first {0}, then {1}", "{0} and {1}")
MANNERS = ("{0}.", "{0}.", "{0}.", "please {0}.", "I want you to {0}.", "now {0}.", "can you {0}?",
           "could you {0}?")
STATEMENTS = MANNERS[:6]
MOST_DRAWS = 200  # of a label that a list does not show


class Element(NamedTuple):
    kind: str
    label: str
    state: str = ""


class Goal(NamedTuple):
    """What is asked for: its wording, and the steps as (form, element, value)."""

    wording: str
    steps: tuple


def phrase(label):
    if label[0].isdigit():
        return f"the {label} alarm"
    return PHRASES.get(label) or "the " + label.lower()


def make_control(rng, kind, label):
    if kind == "switch":
        return Element(kind, label, rng.choice(("on", "off")))
    if kind == "slider":
        return Element(kind, label, str(5 * rng.randint(0, 20)))
    return Element(kind, label)


def list_controls(app):
    named = (("button", app.buttons), ("switch", app.switches), ("slider", app.sliders),
             ("field", tuple(label for label, _ in app.fields)), ("tab", app.tabs))
    return [(kind, label) for kind, labels in named for label in labels]


CONTROLS = {name: list_controls(app) for name, app in APPS.items()}


def quote(text):
    """Texts are shown in quotes, numbers without."""
    return text if text[:1].isdigit() else f'"{text}"'


def make_entries(rng, app, count):
    """Distinct list entries, some of which share a label or a detail."""
    label_kind, detail_kind = app.entry
    entries = []
    while len(entries) < count:
        again = rng.choice(entries) if entries else None
        twin = again and app.twins and rng.random() < 0.2
        label = again.label if twin else VALUES[label_kind](rng)
        if not twin and any(entry.label == label for entry in entries):
            continue
        detail = quote(VALUES[detail_kind](rng)) if detail_kind else ""
        entry = Element("item", label, detail)
        if entry not in entries:
            entries.append(entry)
    return entries


def make_screen(rng, name, needed):
    """Between 4 and 10 elements in random order, among them the `needed` (kind, label) pairs."""
    app = APPS[name]
    total = rng.randint(4, 10)
    elements = [Element(kind, label) for kind, label in needed]
    if app.entry:
        elements += make_entries(rng, app, rng.randint(2, min(5, total - 1)))
    elif name == "Clock":
        times = {make_time(rng) for _ in range(rng.randint(1, 4))}
        elements += [make_control(rng, "switch", time) for time in sorted(times)]
    others = [control for control in CONTROLS[name] if control not in needed]
    count = max(min(total - len(elements), len(others)), 0)
    elements += [make_control(rng, *control) for control in rng.sample(others, count)]
    rng.shuffle(elements)
    return elements[:10] if not needed else elements


def ask_switch(rng, element):
    state = rng.choice(("on", "off"))
    wording = rng.choice(SWITCH_WORDINGS).format(
        state=state, what=phrase(element.label), verb="enable" if state == "on" else "disable")
    return Goal(wording, () if element.state == state else (("tap({n})", element, ""),))


def ask_slider(rng, element):
    now = int(element.state)
    what = phrase(element.label)
    form = rng.random()
    change = 10 * rng.randint(1, 3)
    if form < 0.15 and now + change <= 100:
        value, wording = now + change, f"raise {what} by {change}"
    elif form < 0.3 and now >= change:
        value, wording = now - change, f"lower {what} by {change}"
    elif form < 0.4:
        value = rng.choice((0, 100))
        wording = f"set {what} to the {'highest' if value else 'lowest'} value"
    else:
        value = now if rng.random() < 0.1 else 5 * rng.randint(0, 20)
        wording = rng.choice(SET_WORDINGS).format(what=what, value=value)
    return Goal(wording, () if value == now else (("set({n}, {v})", element, str(value)),))


def ask_field(rng, app, element):
    text = VALUES[dict(app.fields)[element.label]](rng)
    wording = rng.choice(FIELD_WORDINGS).format(text=text, label=element.label)
    return Goal(wording, (('type({n}, "{v}")', element, text),))


def word_entry(rng, app, element, elements):
    """A wording that fits this entry and no other."""
    entries = [other for other in elements if other.kind == "item"]
    by_label, by_detail, by_both = app.wordings
    choices = []
    if sum(other.label == element.label for other in entries) == 1:
        choices += by_label
    if sum(other.state == element.state for other in entries) == 1:
        choices += by_detail
    wording = rng.choice(choices + list(by_both))
    return wording.format(label=element.label, detail=element.state.strip('"'))


def ask_element(rng, app, element, elements):
    if element.kind == "switch":
        return ask_switch(rng, element)
    if element.kind == "slider":
        return ask_slider(rng, element)
    if element.kind == "field":
        return ask_field(rng, app, element)
    if element.kind == "item":
        wording = word_entry(rng, app, element, elements)
    elif element.kind == "tab":
        wording = rng.choice(TAB_WORDINGS).format(label=element.label)
    else:
        known = BUTTONS[element.label]
        label = element.label
        wording = rng.choice(known + known + (f"tap {label}", f"press {label}"))
    return Goal(wording, (("tap({n})", element, ""),))


def ask_one(rng, app, elements):
    kinds = {element.kind for element in elements}
    kind = rng.choice(sorted(kinds) + sorted(kinds & {"slider", "switch"}))
    element = rng.choice([element for element in elements if element.kind == kind])
    return ask_element(rng, app, element, elements)


def ask_two(rng, app, elements):
    """Two things: the first stays on the screen, the second may leave it."""
    staying = [element for element in elements if element.kind in ("switch", "slider", "field")]
    if not staying:
        return ask_one(rng, app, elements)
    first = rng.choice(staying)
    second = rng.choice([element for element in elements if element is not first])
    goals = [ask_element(rng, app, element, elements) for element in (first, second)]
    wording = rng.choice(JOINTS).format(goals[0].wording, goals[1].wording)
    return Goal(wording, goals[0].steps + goals[1].steps)


def ask_form(rng, elements, form):
    fields, button, wordings = form
    values = []
    for _, kind in fields:
        value = VALUES[kind](rng)
        while value in values:
            value = VALUES[kind](rng)
        values.append(value)
    find = {(element.kind, element.label): element for element in elements}
    steps = tuple(('type({n}, "{v}")', find["field", label], value)
                  for (label, _), value in zip(fields, values))
    return Goal(rng.choice(wordings).format(*values),
                steps + (("tap({n})", find["button", button], ""),))


def ask_missing(rng, app, elements):
    """An entry that is not shown: the list must be scrolled."""
    shown = {element.label for element in elements}
    for _ in range(MOST_DRAWS):
        label = VALUES[app.entry[0]](rng)
        if label not in shown:
            break
    else:
        return ask_one(rng, app, elements)  # a long list may show all there are
    return Goal(rng.choice(app.wordings[0]).format(label=label), (("scroll(down)", None, label),))


def ask_extreme(rng, app, elements):
    entries = [element for element in elements if element.kind == "item"]
    size = {entry: float(entry.state.split()[0].replace(":", ".")) for entry in entries}
    which = rng.randrange(2)
    best = (min, max)[which](size.values())
    winners = [entry for entry in entries if size[entry] == best]
    if len(winners) > 1 or len(entries) < 2:
        return ask_one(rng, app, elements)
    return Goal(rng.choice(app.extremes[which]), (("tap({n})", winners[0], ""),))


def ask_scroll(rng):
    way = rng.choice(("down", "up"))
    return Goal(rng.choice(SCROLL_WORDINGS[way]), ((f"scroll({way})", None, way),))


def ask(rng, app, plan, elements, form):
    if plan == "form" and form:
        return ask_form(rng, elements, form)
    if plan == "two":
        return ask_two(rng, app, elements)
    if plan == "missing" and app.entry:
        return ask_missing(rng, app, elements)
    if plan == "extreme" and app.extremes:
        return ask_extreme(rng, app, elements)
    if plan == "scroll":
        return ask_scroll(rng)
    return ask_one(rng, app, elements)


def write_command(goal, elements):
    parts = [form.format(n=elements.index(element) + 1 if element else 0, v=value)
             for form, element, value in goal.steps]
    return "; ".join(parts) or "none"


def write_request(rng, wording):
    manners = STATEMENTS if wording.endswith('"') else MANNERS
    manner = rng.choice(MANNERS[:1] if wording.startswith("first") else manners)
    request = manner.format(wording)
    return cap(request)


def make(rng, ask_rng=None, names=APP_NAMES, draw_screen=make_screen):
    """A screen with a request; `ask_rng` draws the request where it is not `rng`."""
    name = rng.choice(names)
    app = APPS[name]
    plan = rng.choice(PLANS)
    form = rng.choice(app.forms) if plan == "form" and app.forms else None
    needed = []
    if form:
        needed = [("field", label) for label, _ in form[0]] + [("button", form[1])]
    elements = draw_screen(rng, name, needed)
    if ask_rng:
        rng, plan = ask_rng, ask_rng.choice(PLANS)
    goal = ask(rng, app, plan, elements, form if plan == "form" else None)
    lines = [f'{n} {element.kind} "{element.label}" {element.state}'.rstrip()
             for n, element in enumerate(elements, 1)]
    command = write_command(goal, elements)
    prompt = "Screen: {}\n{}\nRequest: {}\nCommand:".format(
        name, "\n".join(lines), write_request(rng, goal.wording))
    steps = [text for form, element, value in goal.steps
             for text in (form, element.label if element else "", value)]
    key = (name, *steps, *sorted(line.split(" ", 1)[1] for line in lines))
    return key, Item(prompt, " " + command, "exact")


def generate(rng, split):
    return draw(rng, split, make)


def generate_several(rng, split, count):
    """Up to `count` items with one screen and different requests, and where they part."""
    seed = rng.getrandbits(64)
    return several(split, [make(random.Random(seed), rng) for _ in range(count)], "\nRequest:")
