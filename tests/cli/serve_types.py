#!/usr/bin/env python3
"""Writes answers of a server as a TypeScript file that gives each the type
that OpenAI's client has for it, for a compiler to check.

Usage: serve_types.py URL FILE

Left out are the members that Tandem adds: settings and timings, and those of
a model.
"""
import json
import sys
import urllib.request

URL = sys.argv[1]
CHAT = {"messages": [{"role": "user", "content": "What is 12 + 30?"}]}
TOOL = {"name": "get", "strict": True, "parameters": {
    "type": "object", "properties": {"n": {
        "type": "integer", "minimum": 1, "maximum": 50}}, "required": ["n"],
    "additionalProperties": False}}
LINES = ['import OpenAI from "openai";']


def ask(path, body=None):
    data = json.dumps(body).encode() if body else None
    with urllib.request.urlopen(
            urllib.request.Request(URL + path, data)) as answer:
        return answer.read().decode()


def own(value):
    for name in ("settings", "timings"):
        value.pop(name, None)
    return value


def whole(path, body):
    return own(json.loads(ask(path, body)))


def events(path, body):
    text = ask(path, {**body, "stream": True})
    return [own(json.loads(line[6:])) for line in text.splitlines()
            if line.startswith("data: {")]


def put(kind, value):
    LINES.append(f"const x{len(LINES)}: {kind} = {json.dumps(value)};")


def main():
    required = {"tool_choice": "required"}
    tools = [{"type": "function", "function": TOOL}]
    for more in ({}, {"logprobs": True, "top_logprobs": 2},
                 {"tools": tools, **required}):
        body = {**CHAT, **more}
        kind = "OpenAI.Chat.Completions.ChatCompletion"
        put(kind, whole("/v1/chat/completions", body))
        body["stream_options"] = {"include_usage": True}
        for event in events("/v1/chat/completions", body):
            put(kind + "Chunk", event)
    put("OpenAI.Completions.Completion", whole(
        "/v1/completions", {"prompt": "Once", "max_tokens": 4,
                            "logprobs": 2}))
    put("OpenAI.Embeddings.CreateEmbeddingResponse", whole(
        "/v1/embeddings", {"input": "Once"}))
    for more in ({}, {"max_output_tokens": 3},
                 {"tools": [{"type": "function", **TOOL}], **required}):
        body = {"input": "What is 12 + 30?", **more}
        # The client itself adds output_text.
        put('Omit<OpenAI.Responses.Response, "output_text">',
            whole("/v1/responses", body))
        for event in events("/v1/responses", body):
            if "response" in event:
                own(event["response"])["output_text"] = ""
            put("OpenAI.Responses.ResponseStreamEvent", event)
    model = json.loads(ask("/v1/models"))["data"][0]
    put("OpenAI.Models.Model", {name: model[name] for name in (
        "id", "object", "created", "owned_by")})
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        file.write("\n".join(LINES) + "\n")
    print(len(LINES) - 1, "answers and events")


main()
