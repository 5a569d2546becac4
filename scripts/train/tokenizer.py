"""Byte-level byte-pair encoding: learning it, and encoding with it.

Text is cut by the pre-tokenizer that GGUF calls `qwen2` (every digit alone), and the bytes of a
piece are merged pair by pair.  Four control tokens come first, then the 256 bytes, then one entry
a merge.
"""

import collections
import json

try:
    import regex
except ImportError:  # enough for the tasks, which are ASCII
    import re as regex

END, START, MASK, PAD = range(4)
CONTROL = ["<|end|>", "<|start|>", "<|mask|>", "<|pad|>"]
PRE = "qwen2"
LETTER, DIGIT = ("a-zA-Z", "0-9") if regex.__name__ == "re" else (r"\p{L}", r"\p{N}")
PATTERN = regex.compile(
    rf"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n{LETTER}{DIGIT}]?[{LETTER}]+|[{DIGIT}]"
    rf"| ?[^\s{LETTER}{DIGIT}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def byte_letters():
    """The printable letter that stands for each byte in a vocabulary, as GPT-2 introduced it."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = {byte: chr(byte) for byte in shown}
    hidden = [byte for byte in range(256) if byte not in letters]
    letters.update({byte: chr(256 + i) for i, byte in enumerate(hidden)})
    return [letters[byte] for byte in range(256)]


LETTERS = byte_letters()


def learn(texts, size):
    """The merges, most frequent pair first, of a vocabulary of `size` entries."""
    counts = collections.Counter(piece for text in texts for piece in PATTERN.findall(text))
    words = [[LETTERS[b] for b in piece.encode()] for piece in counts]
    weight = list(counts.values())
    pairs = collections.Counter()
    where = collections.defaultdict(set)
    for i, word in enumerate(words):
        for pair in zip(word, word[1:]):
            pairs[pair] += weight[i]
            where[pair].add(i)
    merges, made = [], set()
    while len(made) < size - len(CONTROL) - 256:
        pair = max(pairs, key=lambda p: (pairs[p], p))
        merges.append(pair)
        made.add(pair[0] + pair[1])  # two merges may make the same entry
        for i in where.pop(pair):
            old = words[i]
            for p in zip(old, old[1:]):
                pairs[p] -= weight[i]
                if pairs[p] <= 0:
                    del pairs[p]
            words[i] = new = merged(old, pair)
            for p in zip(new, new[1:]):
                pairs[p] += weight[i]
                where[p].add(i)
    return merges


def merged(word, pair):
    """`word` with every occurrence of `pair` joined, from the left."""
    out, i = [], 0
    while i < len(word):
        if i + 1 < len(word) and (word[i], word[i + 1]) == pair:
            out.append(word[i] + word[i + 1])
            i += 2
        else:
            out.append(word[i])
            i += 1
    return out


class Tokenizer:
    def __init__(self, merges):
        self.merges = [tuple(pair) for pair in merges]
        self.tokens = CONTROL + LETTERS + list(dict.fromkeys(a + b for a, b in self.merges))
        self.ids = {token: i for i, token in enumerate(self.tokens)}
        self.rank = {pair: i for i, pair in enumerate(self.merges)}
        self.cache = {}
        self.bytes = {letter: byte for byte, letter in enumerate(LETTERS)}

    def piece(self, piece):
        word = [LETTERS[b] for b in piece.encode()]
        while len(word) > 1:
            best = min(zip(word, word[1:]), key=lambda p: self.rank.get(p, len(self.rank)))
            if best not in self.rank:
                break
            word = merged(word, best)
        return [self.ids[token] for token in word]

    def encode(self, text):
        """Token ids of a text, in which CONTROL[END] stands for that token (a chat's turns)."""
        first, *others = text.split(CONTROL[END])
        out = self.encode_plain(first)
        for part in others:
            out += [END, *self.encode_plain(part)]
        return out

    def encode_plain(self, text):
        out = []
        for piece in PATTERN.findall(text):
            ids = self.cache.get(piece)
            if ids is None:
                ids = self.cache[piece] = self.piece(piece)
            out += ids
        return out

    def decode(self, ids):
        letters = "".join(self.tokens[i] for i in ids if i >= len(CONTROL))
        return bytes(self.bytes[letter] for letter in letters).decode(errors="replace")

    def save(self, path):
        path.write_text(json.dumps({"pre": PRE, "merges": self.merges}, ensure_ascii=True))

    @classmethod
    def load(cls, path):
        return cls(json.loads(path.read_text())["merges"])
