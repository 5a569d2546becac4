#!/usr/bin/python3
"""Learn the byte-pair vocabulary from task items and plain text: vocabulary.json anew.

Only for models that are trained anew, all of them: a model knows tokens by their numbers.
"""

import argparse
from pathlib import Path

import corpus
from tasks import TRAIN
from tokenizer import Tokenizer, learn


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--text", type=Path, help="folder of plain text to mix in")
    parser.add_argument("--items", type=int, default=12000)
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("vocabulary.json"))
    args = parser.parse_args()
    texts = []
    for rng, family in corpus.draw_families(1, args.items):
        item = family.generate(rng, TRAIN)
        texts.append(item.prompt + item.answer)
    texts += corpus.plain_texts(args.text)[:1500]
    Tokenizer(learn(texts, corpus.VOCABULARY)).save(args.out)


if __name__ == "__main__":
    main()
