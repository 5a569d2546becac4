"""From task items and plain text to packed rows of token ids.

A row holds whole documents.  Arrays, all [rows, T]: ids (uint16), segment (uint8, 0 is padding,
then 1, 2 … for the documents of a row), role (uint8: 0 padding, PROMPT, ANSWER; what a token is).
"""

import random
import sys
import time
from pathlib import Path

import numpy

from tasks import TRAIN, arithmetic, code, drill, qa, reply, summary, ui
from tokenizer import END, PAD, START, Tokenizer

PROMPT, ANSWER = 1, 2
FAMILIES = {
    "summary": summary,
    "qa": qa,
    "ui": ui,
    "reply": reply,
    "math": arithmetic,
    "code": code,
}
# how many items of each family are drawn for one item of plain text
SHARE = {"summary": 2, "qa": 14, "ui": 6, "reply": 2, "math": 4, "code": 3}
VOCABULARY = 2048  # entries
SHORT, LONG = 256, 512
DRILLS = 0.2  # drills for one item
SEVERAL = 6  # questions about one passage, in training
RESPONSE = 32  # a diffusion model writes its answer in blocks of this many positions


def plain_texts(folder):
    """Documents of the public-domain text under `folder`: stories, and paragraphs of books."""
    if folder is None or not folder.is_dir():
        return []
    texts = []
    for path in sorted(folder.glob("tinystories*.txt")):
        if "lowercase" not in path.name:
            raw = path.read_text(errors="replace")
            texts += [t.strip() for t in raw.replace("<|endoftext|>", "\0").split("\0")]
    for name in ("Aesop", "Beatrix_Potter", "The_Brothers_Grimm", "L_Frank_Baum"):
        path = folder / "books" / f"{name}.md"
        if path.exists():
            texts += pieces(path.read_text(errors="replace"))
    plain = str.maketrans("“”‘’—–", "\"\"''--")
    return [t.translate(plain) for t in texts if len(t) > 200]


def pieces(book, size=1200):
    """Runs of whole paragraphs of about `size` letters."""
    out, run = [], ""
    for paragraph in book.split("\n\n"):
        paragraph = " ".join(paragraph.split())
        if run and len(run) + len(paragraph) > size:
            out.append(run)
            run = ""
        run += ("\n" if run else "") + paragraph
    return out


def draw_families(seed, count):
    """`count` families in their shares, each with the generator to draw from, as (rng, family)."""
    rng = random.Random(seed)
    names, weights = list(SHARE), list(SHARE.values())
    for _ in range(count):
        yield rng, FAMILIES[rng.choices(names, weights)[0]]


def draw_turns(seed, count, several):
    """`count` training items, each as [(prompt, answer)].

    Where a family can, a prompt's text is followed by up to `several` questions, since each of
    them teaches reading.
    """
    for rng, family in draw_families(seed, count):
        if several > 1 and hasattr(family, "generate_several"):
            turns = family.generate_several(rng, TRAIN, several)
            if turns:
                yield turns
        else:
            item = family.generate(rng, TRAIN)
            yield [(item.prompt, item.answer)]


def vocabulary():
    """The tokenizer that all models share (learn_vocabulary.py made it)."""
    return Tokenizer.load(Path(__file__).with_name("vocabulary.json"))


def document(tokenizer, turns, response=1):
    """(ids, roles) of [(prompt, answer)]; an answer ends in END up to a multiple of `response`."""
    ids, roles = [START], [PROMPT]
    for prompt, answer in turns:
        head = tokenizer.encode(prompt)
        tail = [*tokenizer.encode(answer), END]
        tail += [END] * (-len(tail) % response)
        ids += head + tail
        roles += [PROMPT] * len(head) + [ANSWER] * len(tail)
    return ids, roles


def pack(documents, length, window=128):
    """Rows of `length` filled with whole documents, the largest that fits first."""
    waiting, rows = [], []
    source = iter(documents)
    while True:
        waiting += [d for d, _ in zip(source, range(window - len(waiting)))]
        if not waiting:
            return rows
        waiting.sort(key=lambda d: len(d[0]))
        ids, segment, role = [], [], []
        number = 0
        while waiting:
            fit = [i for i, d in enumerate(waiting) if len(ids) + len(d[0]) <= length]
            if not fit:
                break
            # the first document of a row is any, the others fill it
            pick = fit[-1] if ids else fit[len(rows) % len(fit)]
            doc, roles = waiting.pop(pick)
            number += 1
            ids += doc
            segment += [number] * len(doc)
            role += roles
        space = length - len(ids)
        rows.append((ids + [PAD] * space, segment + [0] * space, role + [0] * space))


def build(path, tokenizer, seed, items, text_folder, response=1):
    """Write the packed rows of `items` items and the plain text to `path` (.npz)."""
    started = time.time()
    short, long = [], []

    def add(doc):
        if len(doc[0]) <= LONG:
            (short if len(doc[0]) <= SHORT else long).append(doc)

    for i, turns in enumerate(draw_turns(seed, items, 1 if response > 1 else SEVERAL)):
        add(document(tokenizer, turns, response))
        if i % 2000 == 0 and sys.stderr.isatty():
            print(f"\r{i} of {items} items", end="", file=sys.stderr)
    texts = plain_texts(text_folder)
    random.Random(seed).shuffle(texts)
    for text in texts[: items // sum(SHARE.values())]:
        ids = tokenizer.encode(text)[: LONG - 2]
        doc = [START, *ids, END]
        doc += [END] * ((1 - len(doc)) % response)
        add((doc, [PROMPT] + [ANSWER] * (len(doc) - 1)))
    rng = random.Random(seed)
    drills = (document(tokenizer, drill.turns(rng)) for _ in range(int(DRILLS * items)))
    drills = [d for d in drills if len(d[0]) <= SHORT]
    arrays = {}
    for name, docs, length in (
        ("short", short, SHORT), ("long", long, LONG), ("drills", drills, SHORT)
    ):
        rows = pack(docs, length)
        random.Random(seed).shuffle(rows)
        table = numpy.array(rows, dtype=numpy.uint16).reshape(-1, 3, length)
        arrays[name] = table
    numpy.savez(path, **arrays)
    used = sum(int((a[:, 1] > 0).sum()) for a in arrays.values())
    print(
        f"{path.name}: {items} items, {used} tokens in "
        f"{len(arrays['short'])} rows of {SHORT}, {len(arrays['long'])} of {LONG} and "
        f"{len(arrays['drills'])} of drills, "
        f"{time.time() - started:.0f} s",
        file=sys.stderr,
    )
