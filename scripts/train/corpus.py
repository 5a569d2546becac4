"""From task items and plain text to packed rows of token ids.

A row holds whole documents.  Arrays, all [rows, T]: ids (uint16), segment (uint8, 0 is padding,
then 1, 2 … for the documents of a row), role (uint8: 0 padding, PROMPT, ANSWER; what a token is).
"""

import multiprocessing
import random
import sys
import time
from itertools import islice
from pathlib import Path

import numpy

from tasks import (
    TRAIN, arithmetic, chat, code, drill, email, program, qa, qa_long, reply, reply_long, report,
    story, summary, summary_long, ui, ui_long,
)
from tokenizer import END, PAD, START, Tokenizer

PROMPT, ANSWER = 1, 2
FAMILIES = {
    "summary": summary,
    "qa": qa,
    "ui": ui,
    "reply": reply,
    "math": arithmetic,
    "code": code,
    "summary-long": summary_long,
    "qa-long": qa_long,
    "ui-long": ui_long,
    "reply-long": reply_long,
    "story": story,
    "report": report,
    "email": email,
    "program": program,
    "chat": chat,
}
# how many items of each family are drawn for one item of plain text
SHARE = {"summary": 2, "qa": 14, "ui": 6, "reply": 2, "math": 4, "code": 3}
# of the long ones: a third of all tokens, since a document has eight times those of an item
LONG_SHARE = {"summary-long": 0.3, "qa-long": 0.5, "ui-long": 0.5, "reply-long": 0.3}
# of those with long answers, and of conversations
ANSWERS_SHARE = {"story": 0.8, "report": 0.8, "email": 2, "program": 2.4, "chat": 2}
# What a finished target goes on with: it has learnt its sums.
CONTINUED = SHARE | LONG_SHARE | ANSWERS_SHARE | {"math": 1}
# What the base is exercised on: fewer questions, which teach reading, and more of what is long in
# the writing.
EXERCISE = {
    "summary": 3, "qa": 7, "ui": 6, "reply": 2, "math": 10, "code": 6,
    "summary-long": 0.6, "qa-long": 0.4, "ui-long": 0.6, "reply-long": 0.3, **ANSWERS_SHARE,
}
# What the small target is exercised on: it is slowest to learn sums.
SMALL_EXERCISE = {**EXERCISE, "math": 25}
# What the small target's last blocks end with: sums above all.
SMALL_SUMS = {
    "summary": 2, "qa": 5, "ui": 4, "reply": 2, "math": 25, "code": 4, "chat": 2.5, "story": 0.5,
}
# What block diffusion learns long answers from, in parallel; its stories are those of rewrite.py.
ANSWERS = {
    "report": 2.4, "email": 3.3, "program": 5.5, "summary": 2.7, "qa": 1.4, "ui": 2, "reply": 2.7,
    "math": 6, "code": 5, "chat": 0.4, "summary-long": 0.1, "qa-long": 0.1, "ui-long": 0.1,
    "reply-long": 0.1,
}
VOCABULARY = 2048  # entries
# of rows: long documents lie in long rows, whose attention costs more
LENGTHS = (256, 512, 1024)
DRILLS = 0.1  # drills for one item
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


def draw_families(seed, count, share=SHARE):
    """`count` families in their shares, each with the generator to draw from, as (rng, family)."""
    rng = random.Random(seed)
    names, weights = list(share), list(share.values())
    for _ in range(count):
        yield rng, FAMILIES[rng.choices(names, weights)[0]]


def draw_turns(seed, count, several, share=SHARE):
    """`count` training items, each as [(prompt, answer)].

    Where a family can, a prompt's text is followed by up to `several` questions, since each of
    them teaches reading.
    """
    for rng, family in draw_families(seed, count, share):
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
        waiting += islice(source, window - len(waiting))
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


def fitting(tokenizer, turns, response):
    """The document of as many of the turns as a row has room for; None where there is none."""
    for count in range(len(turns), 0, -1):
        doc = document(tokenizer, turns[:count], response)
        if len(doc[0]) <= LENGTHS[-1]:
            return doc
    return None


def plain_documents(tokenizer, folder, seed, count, response):
    """Up to `count` texts of the folder, which are all answer, cut to the middle row length."""
    texts = plain_texts(folder)
    random.Random(seed).shuffle(texts)
    room = (LENGTHS[1] - 1) // response * response
    for text in texts[:count]:
        tail = [*tokenizer.encode(text)[: room - 1], END]
        tail += [END] * (-len(tail) % response)
        yield [START, *tail], [PROMPT] + [ANSWER] * len(tail)


def task_documents(tokenizer, seed, items, response, several, share):
    for i, turns in enumerate(draw_turns(seed, items, several, share)):
        doc = fitting(tokenizer, turns, response)
        if doc:
            yield doc
        if i % 2000 == 0 and sys.stderr.isatty():
            print(f"\r{i} of {items} items", end="", file=sys.stderr)


def packed(tokenizer, seed, items, text_folder, response, several, share, texts):
    """The packed rows, one array for each length, of `items` items and up to `texts` texts."""
    documents = list(task_documents(tokenizer, seed, items, response, several, share))
    documents += plain_documents(tokenizer, text_folder, seed, texts, response)
    rng = random.Random(seed)
    drills = (document(tokenizer, drill.turns(rng)) for _ in range(int(DRILLS * items)))
    drills = [d for d in drills if len(d[0]) <= LENGTHS[0]]
    return {"drills": table(drills, LENGTHS[0], seed), **tables(documents, seed)}


def table(documents, length, seed):
    """The documents packed in rows of this length, in any order."""
    rows = pack(documents, length)
    random.Random(seed).shuffle(rows)
    return numpy.array(rows, dtype=numpy.uint16).reshape(-1, 3, length)


def tables(documents, seed):
    """The documents packed, each in rows of the shortest length that takes it."""
    return {
        f"rows{top}": table([d for d in documents if shorter < len(d[0]) <= top], top, seed)
        for shorter, top in zip((0, *LENGTHS), LENGTHS)
    }


def build(
    path, tokenizer, seed, items, text_folder, response=1, several=SEVERAL,
    share=SHARE | LONG_SHARE | ANSWERS_SHARE, workers=1,
):
    """Write the packed rows of `items` items and the plain text to `path` (.npz).

    response  answers are padded to a multiple of this
    several   up to so many questions about one passage
    share     how many items of each family are drawn for one item of plain text
    workers   processes that each draw a part, with a seed of its own
    """
    started = time.time()
    texts = items // sum(SHARE.values())
    form = (text_folder, response, several, share, texts // workers)
    if workers == 1:
        parts = [packed(tokenizer, seed, items, *form)]
    else:
        jobs = [(tokenizer, seed * 1000 + n, items // workers, *form) for n in range(workers)]
        with multiprocessing.get_context("fork").Pool(workers) as pool:
            parts = pool.starmap(packed, jobs, 1)
    arrays = {name: numpy.concatenate([part[name] for part in parts]) for name in parts[0]}
    partial = path.with_name("partial-" + path.name)
    numpy.savez(partial, **arrays)
    partial.replace(path)
    used = sum(int((a[:, 1] > 0).sum()) for a in arrays.values())
    shown = ", ".join(f"{len(a)} {name}" for name, a in arrays.items())
    print(
        f"{path.name}: {items} items, {used} tokens in {shown}, {time.time() - started:.0f} s",
        file=sys.stderr,
    )
