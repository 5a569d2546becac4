#!/usr/bin/python3
"""Write the held-out items that `tandem eval` measures accuracy on, one file a task."""

import argparse
import json
import random
from pathlib import Path

from corpus import ANSWERS_SHARE, FAMILIES, LONG_SHARE
from tasks import HELD_OUT


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("flash/models/tasks"))
    parser.add_argument("--items", type=int, default=400, help="items of each task")
    parser.add_argument("--long", type=int, default=120, help="items of each long task")
    parser.add_argument(
        "--answers", type=int, default=200, help="items of each task with long answers, and of chat"
    )
    parser.add_argument("--seed", type=int, default=2024)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    for task, family in FAMILIES.items():
        rng = random.Random(f"{args.seed} {task}")
        with open(args.out / f"{task}.jsonl", "w", encoding="ascii", newline="\n") as out:
            count = args.long if task in LONG_SHARE else args.items
            for number in range(args.answers if task in ANSWERS_SHARE else count):
                item = family.generate(rng, HELD_OUT)._asdict()
                out.write(json.dumps({"id": f"{task}-{number}", **item}) + "\n")


if __name__ == "__main__":
    main()
