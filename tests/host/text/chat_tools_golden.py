#!/usr/bin/env python3
"""What real chat templates make of conversations with tools, as
chat_golden.py does: chat_tools_golden.json.

Usage: chat_tools_golden.py FOLDER > chat_tools_golden.json

FOLDER/MODEL.jinja is the template of a model. Left out of the texts is what
the program does not write: the token that begins a text, and the dates and
the word "Environment" with which Llama's templates begin the system turn. A
"text" of null is a conversation for which the template raises an exception, of
which it leaves out a turn, or to which it adds a system turn.
"""
import json
import pathlib
import re
import sys

import jinja2

TOOLS = [
    {"type": "function", "function": {
        "name": "weather", "description": "The weather of a city.",
        "parameters": {"type": "object", "properties": {
            "city": {"type": "string"}}, "required": ["city"]}}},
    {"type": "function", "function": {
        "name": "add", "description": "Adds \u00bd.", "parameters": {
            "type": "object", "properties": {
                "a": {"type": "number"}, "b": {"type": "number"}}}}},
]
S, U, A, C, R = "system", "user", "assistant", "call", "tool"
CALL, ADD = (C, 'weather {"city": "Oslo"}'), (C, 'add {"a": 1, "b": 2}')
CONVERSATIONS = [
    [(U, "How is Oslo?"), CALL, (R, '{"sun": true}'), (A, "Sunny."),
     (U, "Oslo, and 1 + 2?"), CALL, ADD, (R, '{"sun": true}'), (R, "3")],
    [(S, "Be brief."), (U, "Hello")],
    [(S, "Be brief."), (U, "Hello"), (A, "Hi"), (U, "How is Oslo?")],
    [(S, "Be brief."), (U, "How is Oslo?"), CALL, (R, '{"sun": true}')],
    [(S, "Be brief."), (U, "How is Oslo?"), CALL, (R, '{"sun": true}'),
     (A, "Sunny."), (U, "And 1 + 2?")],
    [(S, "Be brief."), (U, "Oslo, and 1 + 2?"), CALL, ADD,
     (R, '{"sun": true}'), (R, "3")],
    [(S, "Be brief."), (U, "How is Oslo?"), (A, "I look."), CALL,
     (R, '{"sun": true}')],
]


class Refused(Exception):
    pass


def refuse(why):
    raise Refused(why)


def messages(turns):
    """The turns as the templates have them. Ids are the program's."""
    out, calls, results = [], 0, 0
    for role, text in turns:
        if role == C:
            name, arguments = text.split(" ", 1)
            if out[-1]["role"] != A:
                out.append({"role": A, "content": ""})
            out[-1].setdefault("tool_calls", []).append({
                "type": "function", "id": f"call{calls:05}", "function": {
                    "name": name, "arguments": json.loads(arguments)}})
            calls += 1
        elif role == R:
            out.append({"role": R, "content": text,
                        "tool_call_id": f"call{results:05}"})
            results += 1
        else:
            out.append({"role": role, "content": text})
    return out


def render(template, turns):
    env = jinja2.Environment(trim_blocks=True, lstrip_blocks=True)
    env.filters["tojson"] = lambda value, indent=None: json.dumps(
        value, indent=indent, ensure_ascii=False)
    text = env.from_string(template).render(
        messages=messages(turns), tools=TOOLS, bos_token="<s>",
        eos_token="</s>", add_generation_prompt=True, raise_exception=refuse)
    text = re.sub(r"Environment: ipython\nCutting.*\nToday.*\n\n", "", text)
    return re.sub(r"^(<s>|<\|begin_of_text\|>)", "", text)


def main():
    golden = []
    for path in sorted(pathlib.Path(sys.argv[1]).glob("*.jinja")):
        for turns in CONVERSATIONS:
            try:
                text = render(path.read_text(), turns)
            except Refused:
                text = None
            if text and turns[0][0] != S and "system" in text:
                text = None
            if text and not all(said in text for role, said in turns
                                if role in (S, A)):
                text = None
            golden.append({"model": path.stem, "turns": turns, "text": text})
    print(json.dumps({"tools": TOOLS, "texts": golden}, indent=0))


main()
