"""Short Python functions from a plain description, and functions to be repaired.

    Task: Write a function get_daily_score with the argument scores. It adds up the scores that are
    greater than 12, in a variable named total, and returns total.
    Code: def get_daily_score(scores):
        total = 0
        for score in scores:
            if score > 12:
                total += score
        return total

(The task is one line.)  A repair has the lines "Broken:" and the code with one wrong operator or
word between the task and "Code:".  The description determines the code: names, constants and the
kind of operation have to be read from it, and the rest follows fixed rules (the variable of a
loop over `scores` is `score`, and so on).
"""

from typing import NamedTuple

from . import Item, draw

BROKEN_SHARE = 0.25
EXAMPLE_SHARE = 0.3

SINGLE = (
    "price", "score", "weight", "height", "width", "speed", "age", "size", "length", "level",
    "cost", "depth", "number", "point", "rate", "step", "limit", "bonus", "tax", "distance",
)
LISTS = (
    "prices", "scores", "weights", "heights", "ages", "sizes", "levels", "costs", "numbers",
    "points", "values", "days", "rates", "steps",
)
TEXT = ("name", "word", "text", "title", "line", "label", "city", "key")
TEXT_LISTS = ("names", "words", "titles", "lines", "labels", "keys", "colors", "tags")
PARTS = ("apples", "books", "cards", "coins", "seats", "rooms", "cups", "stars")
UNITS = (
    ("hours", "minutes", 60), ("minutes", "seconds", 60), ("days", "hours", 24),
    ("weeks", "days", 7), ("years", "months", 12), ("feet", "inches", 12),
    ("meters", "centimeters", 100), ("yards", "feet", 3), ("dollars", "cents", 100),
)
STRINGS = (
    "low", "high", "good", "bad", "small", "big", "cold", "warm", "red", "green", "blue", "new",
    "old", "open", "closed", "slow", "fast", "yes", "no", "done",
)
KEYS = ("tea", "milk", "bread", "rice", "salt", "soup", "cake", "fish", "corn", "eggs")
ACCUMULATORS = ("total", "result", "found", "output", "answer")
SEPARATORS = (("a comma", ","), ("a dash", "-"), ("a space", " "), ("a colon", ":"),
              ("a slash", "/"), ("a dot", "."))

MODIFIERS = (
    "new", "old", "daily", "first", "last", "best", "full", "main", "fast", "final", "next",
    "team", "shop", "game", "train", "user", "city", "farm",
)
NOUNS = (
    "total", "price", "score", "value", "list", "table", "order", "plan", "report", "ticket",
    "bill", "route", "level", "label", "menu", "group", "record", "budget", "note", "page",
    "sign", "mark", "count", "rate", "sum", "stock", "loan", "bonus",
)
VERBS = {
    "number": ("get", "find", "make", "compute", "read", "give", "work_out"),
    "list": ("get", "make", "pick", "select", "build", "read", "take"),
    "text": ("make", "build", "format", "write", "get", "create"),
    "bool": ("check", "test", "is", "has", "allow"),
    "print": ("print", "show", "list", "report"),
}

HEADERS = (
    "Write a function {f} with {args}. It {does}.",
    "Define a function named {f} with {args}. It {does}.",
    "The function {f} has {args}. It {does}.",
    "Make a function {f} that has {args}. It {does}.",
)
REPAIRS = (
    "Fix the function {f} with {args}. It {does}.",
    "The function {f} with {args} has a mistake. The right one {does}.",
)
SWAPS = (
    (" + ", " - "), (" - ", " + "), (" * ", " + "), (" > ", " < "), (" < ", " > "),
    (" >= ", " <= "), (" <= ", " >= "), (" == ", " != "), (" += ", " -= "), (" *= ", " += "),
    ("max(", "min("), ("min(", "max("), (" % ", " * "), (" // ", " * "), (" and ", " or "),
    (" or ", " and "), ("upper", "lower"), ("lower", "upper"), ("startswith", "endswith"),
    ("endswith", "startswith"), (" not in ", " in "), ("len(", "sum("), ("[::-1]", "[::2]"),
    ("append", "remove"), ("sum(", "len("), ("True", "False"), (" / ", " * "),
)


class Shape(NamedTuple):
    """A function without its name.

    kind   a key of VERBS
    args   the names of the arguments
    does   what it does, beginning with a verb such as "returns"
    body   the lines of the body, indented from column 0
    call   arguments of an example call, or None
    """

    kind: str
    args: tuple
    does: str
    body: tuple
    call: tuple = None


def small(rng):
    """A constant."""
    return rng.randint(2, 99) if rng.random() < 0.7 else 10 * rng.randint(2, 90)


def few(rng):
    """A small constant."""
    return rng.randint(2, 9)


def pair(rng, words):
    """Two different words of a list."""
    return rng.sample(words, 2)


def numbers(rng):
    """A list of numbers for an example."""
    return [rng.randint(1, 30) for _ in range(4)]


def one_of(name):
    """The name of the loop variable for a list, and the name of the list: (value, values)."""
    return name[:-1], name


def two_arguments(rng):
    a, b = pair(rng, SINGLE)
    does, sign = rng.choice((
        ("returns the sum of {a} and {b}", "{a} + {b}"),
        ("adds {b} to {a} and returns the result", "{a} + {b}"),
        ("returns {a} minus {b}", "{a} - {b}"),
        ("takes {b} away from {a} and returns the result", "{a} - {b}"),
        ("returns {a} times {b}", "{a} * {b}"),
        ("returns the product of {a} and {b}", "{a} * {b}"),
        ("returns {a} divided by {b}", "{a} / {b}"),
        ("returns the larger one of {a} and {b}", "max({a}, {b})"),
        ("returns the smaller one of {a} and {b}", "min({a}, {b})"),
    ))
    body = ("return " + sign.format(a=a, b=b),)
    y = few(rng)
    return Shape("number", (a, b), does.format(a=a, b=b), body, (y * few(rng), y))


def three_arguments(rng):
    a, b, c = rng.sample(SINGLE, 3)
    does, code = rng.choice((
        ("returns {a} times {b} plus {c}", "{a} * {b} + {c}"),
        ("returns {a} times {b} minus {c}", "{a} * {b} - {c}"),
        ("adds {a} and {b} and returns the sum times {c}", "({a} + {b}) * {c}"),
        ("returns the sum of {a}, {b} and {c}", "{a} + {b} + {c}"),
        ("returns the largest one of {a}, {b} and {c}", "max({a}, {b}, {c})"),
        ("returns the smallest one of {a}, {b} and {c}", "min({a}, {b}, {c})"),
    ))
    body = ("return " + code.format(a=a, b=b, c=c),)
    call = (few(rng), few(rng), few(rng))
    return Shape("number", (a, b, c), does.format(a=a, b=b, c=c), body, call)


def constant_step(rng):
    a, n = rng.choice(SINGLE), small(rng)
    does, code = rng.choice((
        ("returns {a} plus {n}", "{a} + {n}"), ("adds {n} to {a} and returns it", "{a} + {n}"),
        ("returns {a} minus {n}", "{a} - {n}"), ("returns {a} times {n}", "{a} * {n}"),
    ))
    return Shape("number", (a,), does.format(a=a, n=n), ("return " + code.format(a=a, n=n),),
                 (rng.randint(100, 200),))


def two_constants(rng):
    a, n, k = rng.choice(SINGLE), small(rng), few(rng)
    does, code = rng.choice((
        ("returns {a} times {k} plus {n}", "{a} * {k} + {n}"),
        ("returns {a} times {k} minus {n}", "{a} * {k} - {n}"),
        ("adds {n} to {a} and returns the sum times {k}", "({a} + {n}) * {k}"),
    ))
    body = ("return " + code.format(a=a, n=n, k=k),)
    return Shape("number", (a,), does.format(a=a, n=n, k=k), body, (rng.randint(20, 90),))


def named_step(rng):
    a, b = pair(rng, SINGLE)
    name, n = rng.choice(ACCUMULATORS), small(rng)
    does = rng.choice((
        "stores {a} times {b} in {t}, adds {n} to {t} and returns {t}",
        "sets {t} to {a} times {b}, then adds {n} to {t} and returns it",
    ))
    body = ("%s = %s * %s" % (name, a, b), "%s += %d" % (name, n), "return " + name)
    return Shape("number", (a, b), does.format(a=a, b=b, t=name, n=n), body,
                 (few(rng), few(rng)))


def discount(rng):
    a, n = rng.choice(SINGLE), 5 * rng.randint(1, 18)
    does = rng.choice(("lowers {a} by {n} percent and returns it",
                       "returns {a} less {n} percent"))
    body = ("return %s - %s * %d // 100" % (a, a, n),)
    return Shape("number", (a,), does.format(a=a, n=n), body, (100 * few(rng),))


def clamp(rng):
    a, low = rng.choice(SINGLE), few(rng)
    high = low + small(rng)
    does = rng.choice(("returns {a}, but at least {l} and at most {h}",
                       "keeps {a} between {l} and {h} and returns it"))
    body = ("return max(%d, min(%s, %d))" % (low, a, high),)
    return Shape("number", (a,), does.format(a=a, l=low, h=high), body, (rng.randint(1, 120),))


def convert(rng):
    big, little, factor = rng.choice(UNITS)
    if rng.random() < 0.5:
        does = rng.choice(("returns the {b} in {a}", "turns {a} into {b} and returns them"))
        does = does.format(a=big, b=little)
        return Shape("number", (big,), does, ("return %s * %d" % (big, factor),), (few(rng),))
    does = rng.choice(("returns the full {a} in {b}", "turns {b} into full {a} and returns them"))
    does = does.format(a=big, b=little)
    return Shape("number", (little,), does, ("return %s // %d" % (little, factor),),
                 (factor * few(rng),))


def sum_loop(rng):
    one, many = one_of(rng.choice(LISTS))
    name = rng.choice(ACCUMULATORS)
    does = rng.choice(("adds up all {m} in a variable named {t} and returns {t}",
                       "goes through {m}, adds each one to {t} and returns {t}"))
    body = ("%s = 0" % name, "for %s in %s:" % (one, many), "    %s += %s" % (name, one),
            "return " + name)
    return Shape("number", (many,), does.format(m=many, t=name), body, (numbers(rng),))


def comparison(rng):
    """(words, sign) of a comparison with a constant."""
    return rng.choice((("greater than", ">"), ("less than", "<"), ("at least", ">="),
                       ("at most", "<="), ("equal to", "=="), ("not equal to", "!=")))


def sum_if(rng):
    one, many = one_of(rng.choice(LISTS))
    words, sign = comparison(rng)
    name, n = rng.choice(ACCUMULATORS), small(rng)
    does = rng.choice((
        "adds up the {m} that are {c} {n}, in a variable named {t}, and returns {t}",
        "goes through {m}, adds each one that is {c} {n} to {t} and returns {t}",
    ))
    body = ("%s = 0" % name, "for %s in %s:" % (one, many), "    if %s %s %d:" % (one, sign, n),
            "        %s += %s" % (name, one), "return " + name)
    return Shape("number", (many,), does.format(m=many, c=words, n=n, t=name), body,
                 (numbers(rng),))


def count_if(rng):
    one, many = one_of(rng.choice(LISTS))
    words, sign = comparison(rng)
    name, n = rng.choice(ACCUMULATORS), small(rng)
    does = rng.choice((
        "counts in {t} the {m} that are {c} {n} and returns {t}",
        "goes through {m}, adds 1 to {t} for each one that is {c} {n} and returns {t}",
    ))
    body = ("%s = 0" % name, "for %s in %s:" % (one, many), "    if %s %s %d:" % (one, sign, n),
            "        %s += 1" % name, "return " + name)
    return Shape("number", (many,), does.format(m=many, c=words, n=n, t=name), body,
                 (numbers(rng),))


def product_loop(rng):
    one, many = one_of(rng.choice(LISTS))
    name = rng.choice(ACCUMULATORS)
    does = rng.choice(("multiplies all {m} in a variable named {t} and returns {t}",
                       "sets {t} to 1, multiplies it by each one of {m} and returns {t}"))
    body = ("%s = 1" % name, "for %s in %s:" % (one, many), "    %s *= %s" % (name, one),
            "return " + name)
    return Shape("number", (many,), does.format(m=many, t=name), body, (numbers(rng)[:2],))


def list_value(rng):
    many = rng.choice(LISTS)
    does, code = rng.choice((
        ("returns the largest of the {m}", "max({m})"),
        ("returns the smallest of the {m}", "min({m})"),
        ("returns the sum of the {m}", "sum({m})"),
        ("returns how many {m} there are", "len({m})"),
        ("returns the mean of the {m}", "sum({m}) / len({m})"),
        ("returns the largest of the {m} minus the smallest", "max({m}) - min({m})"),
        ("returns the first of the {m}", "{m}[0]"),
        ("returns the last of the {m}", "{m}[-1]"),
    ))
    return Shape("number", (many,), does.format(m=many), ("return " + code.format(m=many),),
                 (numbers(rng),))


def list_value_step(rng):
    many, n = rng.choice(LISTS), small(rng)
    does, code = rng.choice((
        ("returns the largest of the {m} plus {n}", "max({m}) + {n}"),
        ("returns the smallest of the {m} plus {n}", "min({m}) + {n}"),
        ("returns the sum of the {m} minus {n}", "sum({m}) - {n}"),
        ("returns the sum of the {m} times {n}", "sum({m}) * {n}"),
        ("returns the number of {m} times {n}", "len({m}) * {n}"),
    ))
    body = ("return " + code.format(m=many, n=n),)
    return Shape("number", (many,), does.format(m=many, n=n), body, (numbers(rng),))


def filter_list(rng):
    one, many = one_of(rng.choice(LISTS))
    words, sign = comparison(rng)
    n = small(rng)
    does = rng.choice(("returns a list of the {m} that are {c} {n}",
                       "keeps only the {m} that are {c} {n} and returns them as a list"))
    body = ("return [%s for %s in %s if %s %s %d]" % (one, one, many, one, sign, n),)
    return Shape("list", (many,), does.format(m=many, c=words, n=n), body, (numbers(rng),))


def map_list(rng):
    one, many = one_of(rng.choice(LISTS))
    n = small(rng)
    words, sign = rng.choice((("plus", "+"), ("minus", "-"), ("times", "*")))
    does = rng.choice(("returns a list with each one of the {m} {w} {n}",
                       "returns the {m} as a list, each one {w} {n}"))
    body = ("return [%s %s %d for %s in %s]" % (one, sign, n, one, many),)
    return Shape("list", (many,), does.format(m=many, w=words, n=n), body, (numbers(rng)[:3],))


def filter_loop(rng):
    one, many = one_of(rng.choice(LISTS))
    words, sign = comparison(rng)
    name, n, k = rng.choice(ACCUMULATORS), small(rng), few(rng)
    does = rng.choice((
        "goes through {m}, appends each one that is {c} {n}, times {k}, to a list {t} "
        "and returns {t}",
        "fills a list {t} with {k} times each one of the {m} that is {c} {n} and returns {t}",
    ))
    body = ("%s = []" % name, "for %s in %s:" % (one, many), "    if %s %s %d:" % (one, sign, n),
            "        %s.append(%s * %d)" % (name, one, k), "return " + name)
    return Shape("list", (many,), does.format(m=many, c=words, n=n, k=k, t=name), body,
                 (numbers(rng),))


def slices(rng):
    many, n = rng.choice(LISTS + TEXT_LISTS), few(rng)
    does, code = rng.choice((
        ("returns the first {n} {m}", "{m}[:{n}]"),
        ("returns the last {n} {m}", "{m}[-{n}:]"),
        ("returns all {m} but the first {n}", "{m}[{n}:]"),
        ("returns all {m} but the last {n}", "{m}[:-{n}]"),
        ("returns one out of every {n} {m}", "{m}[::{n}]"),
    ))
    return Shape("list", (many,), does.format(m=many, n=n),
                 ("return " + code.format(m=many, n=n),), (list(range(1, 10)),))


def order(rng):
    many = rng.choice(LISTS + TEXT_LISTS)
    does, code = rng.choice((
        ("returns the {m} in reverse order", "{m}[::-1]"),
        ("returns the {m} from small to large", "sorted({m})"),
        ("returns the {m} from large to small", "sorted({m}, reverse=True)"),
        ("returns the {m} without doubles, sorted", "sorted(set({m}))"),
    ))
    call = (numbers(rng),) if many in LISTS else (rng.sample(KEYS, 3),)
    return Shape("list", (many,), does.format(m=many), ("return " + code.format(m=many),), call)


def sorted_first(rng):
    many, n = rng.choice(LISTS), few(rng)
    does, code = rng.choice((
        ("returns the {n} smallest {m}", "sorted({m})[:{n}]"),
        ("returns the {n} largest {m}", "sorted({m}, reverse=True)[:{n}]"),
    ))
    return Shape("list", (many,), does.format(m=many, n=n),
                 ("return " + code.format(m=many, n=n),), (numbers(rng),))


def append_item(rng):
    many, word = rng.choice(TEXT_LISTS), rng.choice(KEYS + STRINGS)
    does = rng.choice(('appends "{w}" to {m} and returns {m}',
                       'adds the text "{w}" at the end of {m} and returns {m}'))
    body = ('%s.append("%s")' % (many, word), "return " + many)
    return Shape("list", (many,), does.format(m=many, w=word), body, (rng.sample(KEYS, 2),))


def text_list_map(rng):
    one, many = one_of(rng.choice(TEXT_LISTS))
    does, code = rng.choice((
        ("returns a list of the {m} in upper case", "{o}.upper()"),
        ("returns a list of the {m} in lower case", "{o}.lower()"),
        ("returns a list of the lengths of the {m}", "len({o})"),
        ("returns a list of the first letters of the {m}", "{o}[0]"),
        ("returns a list of the {m} without spaces around them", "{o}.strip()"),
    ))
    body = ("return [%s for %s in %s]" % (code.format(o=one), one, many),)
    return Shape("list", (many,), does.format(m=many), body, (rng.sample(KEYS, 3),))


def text_list_filter(rng):
    one, many = one_of(rng.choice(TEXT_LISTS))
    words, sign = rng.choice((("longer than", ">"), ("shorter than", "<")))
    n = few(rng)
    does = rng.choice(("returns a list of the {m} that are {c} {n} letters",
                       "keeps the {m} that are {c} {n} letters and returns them as a list"))
    body = ("return [%s for %s in %s if len(%s) %s %d]" % (one, one, many, one, sign, n),)
    return Shape("list", (many,), does.format(m=many, c=words, n=n), body,
                 (rng.sample(KEYS, 3),))


def join_texts(rng):
    many = rng.choice(TEXT_LISTS)
    words, sign = rng.choice(SEPARATORS)
    does = rng.choice(("joins the {m} with {s} and returns the text",
                       "returns the {m} as one text with {s} between them"))
    return Shape("text", (many,), does.format(m=many, s=words),
                 ('return "%s".join(%s)' % (sign, many),), (rng.sample(KEYS, 3),))


def split_text(rng):
    text = rng.choice(TEXT)
    words, sign = rng.choice(SEPARATORS)
    does = rng.choice(("splits {a} at {s} and returns the parts",
                       "returns the parts of {a} between {s} and the next"))
    return Shape("list", (text,), does.format(a=text, s=words),
                 ('return %s.split("%s")' % (text, sign),),
                 (sign.join(rng.sample(KEYS, 3)),))


def text_value(rng):
    text = rng.choice(TEXT)
    does, code = rng.choice((
        ("returns {a} in upper case", "{a}.upper()"),
        ("returns {a} in lower case", "{a}.lower()"),
        ("returns {a} without spaces around it", "{a}.strip()"),
        ("returns {a} backwards", "{a}[::-1]"),
        ("returns the first letter of {a}", "{a}[0]"),
        ("returns the last letter of {a}", "{a}[-1]"),
        ("returns {a} without spaces around it, in upper case", "{a}.strip().upper()"),
        ("returns {a} without spaces around it, in lower case", "{a}.strip().lower()"),
    ))
    return Shape("text", (text,), does.format(a=text), ("return " + code.format(a=text),),
                 (rng.choice(KEYS),))


def repeat_text(rng):
    text, n = rng.choice(TEXT), few(rng)
    word = rng.choice(STRINGS)
    does, code = rng.choice((
        ("returns {a} repeated {n} times", "{a} * {n}"),
        ('returns {a} repeated {n} times, then the text "{w}"', '{a} * {n} + "{w}"'),
        ('returns the text "{w}" and then {a} repeated {n} times', '"{w}" + {a} * {n}'),
    ))
    return Shape("text", (text,), does.format(a=text, n=n, w=word),
                 ("return " + code.format(a=text, n=n, w=word),), (rng.choice(KEYS),))


def replace_text(rng):
    text = rng.choice(TEXT)
    old, new = pair(rng, STRINGS)
    does = rng.choice(('replaces "{o}" by "{n}" in {a} and returns it',
                       'returns {a} with "{n}" in place of "{o}"'))
    return Shape("text", (text,), does.format(a=text, o=old, n=new),
                 ('return %s.replace("%s", "%s")' % (text, old, new),),
                 ("%s %s" % (old, rng.choice(KEYS)),))


def text_around(rng):
    text, word = rng.choice(TEXT), rng.choice(STRINGS)
    does, code = rng.choice((
        ('puts "{w}-" before {a} and returns the text', '"{w}-" + {a}'),
        ('puts "-{w}" after {a} and returns the text', '{a} + "-{w}"'),
        ('returns the text "{w}: " and then {a}', '"{w}: " + {a}'),
    ))
    return Shape("text", (text,), does.format(a=text, w=word),
                 ("return " + code.format(a=text, w=word),), (rng.choice(KEYS),))


def format_text(rng):
    text, value = rng.choice(TEXT), rng.choice(SINGLE)
    thing, word = rng.choice(PARTS), rng.choice(STRINGS)
    does, code = rng.choice((
        ('returns a text like "Tom has 5 {p}" with {a} and {b}', 'f"{{{a}}} has {{{b}}} {p}"'),
        ('returns a text like "Tom needs 5 {p}" with {a} and {b}',
         'f"{{{a}}} needs {{{b}}} {p}"'),
        ('returns a text like "{w} Tom: 5" with {a} and {b}', 'f"{w} {{{a}}}: {{{b}}}"'),
    ))
    return Shape("text", (text, value), does.format(a=text, b=value, p=thing, w=word),
                 ("return " + code.format(a=text, b=value, p=thing, w=word),))


def if_else(rng):
    a, n = rng.choice(SINGLE), small(rng)
    words, sign = comparison(rng)
    first, second = pair(rng, STRINGS)
    does = rng.choice(('returns "{x}" if {a} is {c} {n}, and "{y}" otherwise',
                       'returns "{x}" when {a} is {c} {n}, else "{y}"'))
    body = ("if %s %s %d:" % (a, sign, n), '    return "%s"' % first, 'return "%s"' % second)
    return Shape("text", (a,), does.format(a=a, c=words, n=n, x=first, y=second), body,
                 (rng.randint(1, 120),))


def if_chain(rng):
    a, low = rng.choice(SINGLE), small(rng)
    high = low + small(rng)
    x, y, z = rng.sample(STRINGS, 3)
    does = rng.choice((
        'returns "{x}" if {a} is less than {l}, "{y}" if it is less than {h}, '
        'and "{z}" otherwise',
        'returns "{x}" for {a} below {l}, "{y}" for {a} below {h}, and else "{z}"',
    ))
    body = ("if %s < %d:" % (a, low), '    return "%s"' % x, "if %s < %d:" % (a, high),
            '    return "%s"' % y, 'return "%s"' % z)
    return Shape("text", (a,), does.format(a=a, l=low, h=high, x=x, y=y, z=z), body,
                 (rng.randint(1, 150),))


def if_number(rng):
    a, n = rng.choice(SINGLE), small(rng)
    words, sign = comparison(rng)
    k = few(rng)
    does, code = rng.choice((
        ("returns {a} times {k} if {a} is {c} {n}, and {a} otherwise", "{a} * {k}"),
        ("returns {a} plus {k} if {a} is {c} {n}, and {a} otherwise", "{a} + {k}"),
        ("returns {a} minus {k} if {a} is {c} {n}, and {a} otherwise", "{a} - {k}"),
    ))
    body = ("if %s %s %d:" % (a, sign, n), "    return " + code.format(a=a, k=k), "return " + a)
    return Shape("number", (a,), does.format(a=a, c=words, n=n, k=k), body,
                 (rng.randint(1, 120),))


def empty_check(rng):
    many, n = rng.choice(LISTS), small(rng)
    does, code = rng.choice((
        ("returns {n} if there are no {m}, and else the largest one", "max({m})"),
        ("returns {n} if there are no {m}, and else the smallest one", "min({m})"),
        ("returns {n} if there are no {m}, and else their sum", "sum({m})"),
        ("returns {n} if there are no {m}, and else the first one", "{m}[0]"),
    ))
    body = ("if not %s:" % many, "    return %d" % n, "return " + code.format(m=many))
    return Shape("number", (many,), does.format(m=many, n=n), body, (numbers(rng),))


def lookup(rng):
    text, table = rng.choice(TEXT), rng.choice(LISTS)
    keys = rng.sample(KEYS, rng.randint(2, 3))
    amounts = [rng.randint(1, 90) for _ in keys]
    spoken = ", ".join("%s %d" % entry for entry in zip(keys, amounts))
    inside = ", ".join('"%s": %d' % entry for entry in zip(keys, amounts))
    does, code = rng.choice((
        ("looks up {a} in a table {m} ({s}) and returns the number", "{m}[{a}]"),
        ("has a table {m} ({s}) and returns the entry of {a}", "{m}[{a}]"),
        ("looks up {a} in a table {m} ({s}) and returns the number, or 0 if it is missing",
         "{m}.get({a}, 0)"),
    ))
    body = ("%s = {%s}" % (table, inside), "return " + code.format(m=table, a=text))
    return Shape("number", (text,), does.format(a=text, m=table, s=spoken), body,
                 (rng.choice(keys),))


def remainder(rng):
    a, n = rng.choice(SINGLE), few(rng)
    does, code = rng.choice((
        ("returns the remainder of {a} divided by {n}", "{a} % {n}"),
        ("returns how often {n} goes into {a}", "{a} // {n}"),
    ))
    return Shape("number", (a,), does.format(a=a, n=n), ("return " + code.format(a=a, n=n),),
                 (rng.randint(10, 90),))


def number_test(rng):
    a, b = pair(rng, SINGLE)
    k = few(rng)
    n = k + small(rng)
    words, sign = comparison(rng)
    does, code, args = rng.choice((
        ("returns whether {a} is {c} {n}", "{a} {s} {n}", (a,)),
        ("returns whether {a} is {c} {b}", "{a} {s} {b}", (a, b)),
        ("returns whether {a} plus {b} is {c} {n}", "{a} + {b} {s} {n}", (a, b)),
        ("returns whether {a} times {b} is {c} {n}", "{a} * {b} {s} {n}", (a, b)),
        ("returns whether {a} can be divided by {k}", "{a} % {k} == 0", (a,)),
        ("returns whether {a} is at least {k} and at most {n}", "{a} >= {k} and {a} <= {n}", (a,)),
        ("returns whether {a} is less than {k} or greater than {n}",
         "{a} < {k} or {a} > {n}", (a,)),
    ))
    slots = {"a": a, "b": b, "n": n, "k": k, "c": words, "s": sign}
    return Shape("bool", args, does.format(**slots), ("return " + code.format(**slots),),
                 tuple(rng.randint(1, 99) for _ in args))


def text_test(rng):
    text, many = rng.choice(TEXT), rng.choice(TEXT_LISTS)
    word, n = rng.choice(KEYS + STRINGS), few(rng)
    does, code, arg = rng.choice((
        ('returns whether {a} starts with "{w}"', '{a}.startswith("{w}")', text),
        ('returns whether {a} ends with "{w}"', '{a}.endswith("{w}")', text),
        ('returns whether {a} is the text "{w}"', '{a} == "{w}"', text),
        ('returns whether "{w}" is one of the {m}', '"{w}" in {m}', many),
        ('returns whether "{w}" is not one of the {m}', '"{w}" not in {m}', many),
        ("returns whether {a} has more than {n} letters", "len({a}) > {n}", text),
        ("returns whether there are more than {n} {m}", "len({m}) > {n}", many),
        ("returns whether there are fewer than {n} {m}", "len({m}) < {n}", many),
    ))
    slots = {"a": text, "m": many, "w": word, "n": n}
    call = (rng.choice(KEYS),) if arg == text else (rng.sample(KEYS, 3),)
    return Shape("bool", (arg,), does.format(**slots), ("return " + code.format(**slots),), call)


def any_test(rng):
    one, many = one_of(rng.choice(LISTS))
    words, sign = comparison(rng)
    n = small(rng)
    how = rng.choice(("any", "all"))
    be = "is" if how == "any" else "are"
    does = "returns whether %s of the %s %s %s %d" % (how, many, be, words, n)
    body = ("return %s(%s %s %d for %s in %s)" % (how, one, sign, n, one, many),)
    return Shape("bool", (many,), does, body, (numbers(rng),))


def search_loop(rng):
    one, many = one_of(rng.choice(LISTS))
    words, sign = comparison(rng)
    n = small(rng)
    does = rng.choice((
        "goes through {m} and returns the first one that is {c} {n}, or None if there is none",
        "returns the first one of the {m} that is {c} {n}, or None",
    ))
    body = ("for %s in %s:" % (one, many), "    if %s %s %d:" % (one, sign, n),
            "        return " + one, "return None")
    return Shape("number", (many,), does.format(m=many, c=words, n=n), body, (numbers(rng),))


def print_loop(rng):
    one, many = one_of(rng.choice(TEXT_LISTS))
    word = rng.choice(STRINGS)
    does, code = rng.choice((
        ("goes through {m} and prints each one", "{o}"),
        ('goes through {m} and prints "{w}" and then each one', '"{w}", {o}'),
        ('goes through {m} and prints each one and then "{w}"', '{o}, "{w}"'),
        ("goes through {m} and prints each one in upper case", "{o}.upper()"),
        ("goes through {m} and prints the length of each one", "len({o})"),
    ))
    body = ("for %s in %s:" % (one, many), "    print(%s)" % code.format(o=one, w=word))
    return Shape("print", (many,), does.format(m=many, w=word), body)


def print_range(rng):
    a, word = rng.choice(SINGLE), rng.choice(KEYS + STRINGS)
    n = few(rng)
    does, args, head, code = rng.choice((
        ('prints "{w}" {n} times', (), "range({n})", '"{w}"'),
        ('prints "{w}" as many times as {a} says', (a,), "range({a})", '"{w}"'),
        ("prints the numbers from 1 to {a}", (a,), "range(1, {a} + 1)", "i"),
        ("prints the numbers from {n} to {a}", (a,), "range({n}, {a} + 1)", "i"),
        ("prints {n} times each number from 1 to {a}", (a,), "range(1, {a} + 1)", "i * {n}"),
    ))
    slots = {"a": a, "w": word, "n": n}
    body = ("for i in %s:" % head.format(**slots), "    print(%s)" % code.format(**slots))
    return Shape("print", args, does.format(**slots), body)


def print_if(rng):
    a, n = rng.choice(SINGLE), small(rng)
    words, sign = comparison(rng)
    x, y = pair(rng, STRINGS)
    does = rng.choice(('prints "{x}" if {a} is {c} {n}, and "{y}" otherwise',
                       'prints "{x}" when {a} is {c} {n}, else "{y}"'))
    body = ("if %s %s %d:" % (a, sign, n), '    print("%s")' % x, "else:", '    print("%s")' % y)
    return Shape("print", (a,), does.format(a=a, c=words, n=n, x=x, y=y), body)


def while_down(rng):
    a, n = rng.choice(SINGLE), few(rng)
    does, sign, change = rng.choice((
        ("prints {a} and takes {n} away from it while it is greater than 0", "> 0", "-="),
        ("prints {a} and takes {n} away from it while it is at least {n}", ">= {n}", "-="),
    ))
    body = ("while %s %s:" % (a, sign.format(n=n)), "    print(%s)" % a,
            "    %s %s %d" % (a, change, n))
    return Shape("print", (a,), does.format(a=a, n=n), body)


def while_count(rng):
    a, n, k = rng.choice(SINGLE), few(rng), small(rng)
    name = rng.choice(ACCUMULATORS)
    does = "counts in {t} how often {a} can be multiplied by {n} while it is less than {k}, " \
           "and returns {t}"
    body = ("%s = 0" % name, "while %s < %d:" % (a, k), "    %s *= %d" % (a, n),
            "    %s += 1" % name, "return " + name)
    return Shape("number", (a,), does.format(a=a, n=n, k=k, t=name), body, (few(rng),))


def swap(rng):
    a, b = pair(rng, SINGLE)
    does, code = rng.choice((
        ("returns {b} and {a}, in this order", "{b}, {a}"),
        ("returns the sum and the product of {a} and {b}", "{a} + {b}, {a} * {b}"),
        ("returns the smaller and then the larger one of {a} and {b}",
         "min({a}, {b}), max({a}, {b})"),
    ))
    return Shape("number", (a, b), does.format(a=a, b=b),
                 ("return " + code.format(a=a, b=b),), (few(rng), few(rng)))


SHAPES = (
    two_arguments, three_arguments, constant_step, two_constants, named_step, discount, clamp,
    convert, sum_loop, sum_if, count_if, product_loop, list_value, list_value_step, filter_list,
    map_list, filter_loop, slices, order, sorted_first, append_item, text_list_map,
    text_list_filter, join_texts, split_text, text_value, repeat_text, replace_text, text_around,
    format_text, if_else, if_chain, if_number, empty_check, lookup, remainder, number_test,
    text_test, any_test, search_loop, print_loop, print_range, print_if, while_down, while_count,
    swap,
)


def function_name(rng, kind):
    """A name such as get_daily_score."""
    words = [rng.choice(VERBS[kind]), rng.choice(NOUNS)]
    if rng.random() < 0.6:
        words.insert(1, rng.choice(MODIFIERS))
    return "_".join(words)


def source(name, shape):
    """The text of the function."""
    lines = ["def %s(%s):" % (name, ", ".join(shape.args))]
    return "\n".join(lines + ["    " + line for line in shape.body])


def describe_arguments(args):
    """The arguments in words."""
    if not args:
        return "no arguments"
    if len(args) == 1:
        return "the argument " + args[0]
    return "the arguments %s and %s" % (", ".join(args[:-1]), args[-1])


def written(value):
    """A value as it is written in the tasks, with double quotes."""
    return repr(value).replace("'", '"')


def example(name, shape, code):
    """A sentence with a call and its value."""
    names = {}
    exec(code, names)
    call = "%s(%s)" % (name, ", ".join(map(written, shape.call)))
    value = written(names[name](*shape.call))
    return " For example, %s gives %s." % (call, value)


def break_code(rng, code):
    """The code with one operator or word exchanged in the body, or None."""
    head, body = code.split("\n", 1)
    swaps = [(old, new) for old, new in SWAPS if old in body]
    if not swaps:
        return None
    old, new = rng.choice(swaps)
    parts = body.split(old)
    cut = rng.randint(1, len(parts) - 1)
    return head + "\n" + old.join(parts[:cut]) + new + old.join(parts[cut:])


def make(rng):
    """(key, item) of any side; the key is the code itself."""
    shape = rng.choice(SHAPES)(rng)
    name = function_name(rng, shape.kind)
    code = source(name, shape)
    broken = break_code(rng, code) if rng.random() < BROKEN_SHARE else None
    header = rng.choice(REPAIRS if broken else HEADERS)
    task = header.format(f=name, args=describe_arguments(shape.args), does=shape.does)
    if shape.call and rng.random() < EXAMPLE_SHARE:
        task += example(name, shape, code)
    lines = ["Task: " + task] + (["Broken:", broken] if broken else []) + ["Code:"]
    return (code,), Item("\n".join(lines), " " + code, "text")


def generate(rng, split):
    """One item."""
    return draw(rng, split, make)
