#!/usr/bin/env python3
"""A small chat model whose template has tools, made of one that has none.

Usage: tools_model.py IN OUT

IN is what "tandem synth --like tiny-dream" writes: its vocabulary has Qwen's
tokens of calls. Each change keeps its length: the architecture becomes qwen2,
each position sees those before it, the context grows to 4096 tokens, and the
template has what tells that it writes tools.
"""
import sys

data = open(sys.argv[1], "rb").read()
key = b"tokenizer.chat_template\x08\0\0\0"
at = data.index(key) + len(key)
length = int.from_bytes(data[at:at + 8], "little")
template = (b"{% if tools %}<tools> {{ tools }} <tool_call>{% endif %}"
            b"{% for m in messages %}<|im_start|>{{ m.role }}\n"
            b"{{ m.content }}<|im_end|>\n{% endfor %}<|im_start|>assistant\n")
assert len(template) <= length
data = data[:at + 8] + template.ljust(length) + data[at + 8 + length:]
for old, new in ((b"dream.attention.causal\x07\0\0\0\0",
                  b"dream.attention.causal\x07\0\0\0\1"),
                 (b"dream.context_length\x04\0\0\0\0\2\0\0",
                  b"dream.context_length\x04\0\0\0\0\x10\0\0"),
                 (b"dream", b"qwen2")):
    assert old in data
    data = data.replace(old, new)
open(sys.argv[2], "wb").write(data)
