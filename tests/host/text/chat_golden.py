#!/usr/bin/env python3
"""What real chat templates make of conversations: chat_golden.json.

Usage: chat_golden.py FOLDER > chat_golden.json

FOLDER/FAMILY/MODEL.jinja is the template of a model, as the member
chat_template of its tokenizer_config.json or the key tokenizer.chat_template
of a GGUF file has it; FAMILY is what chat_name() calls it. It is rendered by
Jinja2, set up as the models' own tokenizers set it up. Templates are not kept
here: they are their authors'. A "text" of null is a conversation for which the
template raises an exception. The token that begins a text is not in it, since
it is put there by the tokenizer.
"""
import json
import pathlib
import sys

import jinja2

S, U, A = "system", "user", "assistant"
CONVERSATIONS = [
    [(U, "Hello")],
    [(S, "Be brief."), (U, "Hello")],
    [(U, "Hello"), (A, "Hi there"), (U, "Who are you")],
    [(S, "Be brief."), (U, "Hello"), (A, "Hi"), (U, "Who?"), (A, "I am."),
     (U, "And\nso?")],
    # White space at both ends of each.
    [(U, "  Hello \n"), (A, "  Hi\t\n"), (U, "\tWho are you  ")],
    [(S, " Be brief. \n"), (U, "  Hello \n"), (A, " Hi "), (U, " Who? ")],
    # Orders that some templates refuse.
    [(U, "Hello"), (U, "Who are you")],
    [(S, "Be brief."), (A, "Hi"), (U, "Who are you")],
    [(U, "Hello"), (A, "Hi"), (S, "Be brief."), (U, "Who are you")],
]
END = {"deepseek": "<\uff5cend\u2581of\u2581sentence\uff5c>"}


class Refused(Exception):
    pass


def refuse(why):
    raise Refused(why)


def render(template, family, turns):
    env = jinja2.Environment(trim_blocks=True, lstrip_blocks=True)
    text = env.from_string(template).render(
        messages=[{"role": r, "content": c} for r, c in turns],
        bos_token="<s>", eos_token=END.get(family, "</s>"),
        add_generation_prompt=True, raise_exception=refuse)
    return text.removeprefix("<s>")


def main():
    golden = []
    for path in sorted(pathlib.Path(sys.argv[1]).glob("*/*.jinja")):
        family = path.parent.name
        for turns in CONVERSATIONS:
            try:
                text = render(path.read_text(), family, turns)
            except Refused:
                text = None
            golden.append({"family": family,
                           "model": path.stem.replace("--", "/"),
                           "turns": turns, "text": text})
    print("[")
    print(",\n".join(json.dumps(g) for g in golden))
    print("]")


main()
