#!/usr/bin/env python3
"""Random tools and prompts; each call's arguments must be valid.

Usage: serve_tools.py URL NUMBER [URL NUMBER]...

Sends NUMBER chats with random tools to the server at URL, and checks the
arguments of the calls with python3-jsonschema. Calls that max_tokens cut are
counted apart. TANDEM_SEED sets the seed.
"""
import concurrent.futures
import json
import os
import random
import sys
import urllib.request

import jsonschema

SEED = int(os.environ.get("TANDEM_SEED", "1"))
WORDS = "city day unit name count size from to list note a b c".split()


def leaf(r):
    kind = r.randrange(7)
    if kind == 0:
        return {"type": "integer", "minimum": r.randrange(-9, 9),
                "maximum": r.randrange(9, 99)}
    if kind == 1:
        return {"type": "number", "minimum": -1.5, "maximum": 20}
    if kind == 2:
        return {"type": "string", "maxLength": r.randrange(1, 12)}
    if kind == 3:
        return {"enum": r.sample(WORDS, 3) + [7, None]}
    if kind == 4:
        return {"type": ["boolean", "null"]}
    if kind == 5:
        return {"const": r.choice(WORDS)}
    return {"anyOf": [{"type": "boolean"}, {"type": "string", "minLength": 1,
                                            "maxLength": 5}]}


def schema(r, depth):
    if depth and r.random() < 0.3:
        return {"type": "array", "items": schema(r, depth - 1),
                "minItems": r.randrange(2), "maxItems": 3}
    if depth and r.random() < 0.4:
        return record(r, depth - 1)
    return leaf(r)


def record(r, depth):
    names = r.sample(WORDS, r.randrange(0, 4))
    out = {"type": "object", "properties": {
        n: schema(r, depth) for n in names}, "description": "Some values."}
    if names:
        out["required"] = r.sample(names, r.randrange(len(names) + 1))
    if r.random() < 0.8:
        out["additionalProperties"] = False
    return out


def tools(r):
    names = r.sample(["get", "get_it", "set-it", "f1", "f10", "Find"],
                     r.randrange(1, 3))
    return [{"type": "function", "function": {
        "name": n, "description": "Does " + r.choice(WORDS) + ".",
        "parameters": record(r, 1)}} for n in names]


def ask(url, body):
    request = urllib.request.Request(
        url + "/v1/chat/completions", json.dumps(body).encode())
    try:
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)["choices"][0]
    except urllib.error.HTTPError as e:
        sys.exit(f"{e.read().decode()} for {json.dumps(body)}")


def main():
    r = random.Random(SEED)
    valid = cut = several = 0
    for url, number in zip(sys.argv[1::2], sys.argv[2::2]):
        bodies = [{
            "messages": [{"role": "user", "content": " ".join(
                r.choices(WORDS, k=r.randrange(1, 9)))}],
            "tools": tools(r), "tool_choice": "required",
            "temperature": r.choice([0, 0.7, 1]), "max_tokens": 250,
            "seed": r.randrange(1000)} for _ in range(int(number))]
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            choices = list(pool.map(lambda body: ask(url, body), bodies))
        for body, choice in zip(bodies, choices):
            offered = body["tools"]
            calls = choice["message"].get("tool_calls", [])
            whole = choice["finish_reason"] == "tool_calls"
            assert whole or choice["finish_reason"] == "length", choice
            assert calls or not whole
            several += len(calls) > 1
            for call in calls if whole else calls[:-1]:
                function = call["function"]
                parameters = next(
                    t["function"]["parameters"] for t in offered
                    if t["function"]["name"] == function["name"])
                jsonschema.validate(json.loads(function["arguments"]),
                                    parameters)
                valid += 1
            cut += not whole
    print(f"seed {SEED}: {valid} calls valid, {several} answers with several, "
          f"{cut} answers cut by max_tokens")


main()
