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
    parser.add_argument("--items", type=int, default=400, help="items of each short task but math")
    parser.add_argument(
        "--math", type=int, default=2000, help="items of math, on which models are compared"
    )
    parser.add_argument("--long", type=int, default=120, help="items of each long task")
    parser.add_argument(
        "--answers", type=int, default=200, help="items of each task with long answers, and of chat"
    )
    parser.add_argument("--seed", type=int, default=2024)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    counts = {task: args.items for task in FAMILIES} | {"math": args.math}
    counts |= {task: args.long for task in LONG_SHARE}
    counts |= {task: args.answers for task in ANSWERS_SHARE}
    for task, family in FAMILIES.items():
        rng = random.Random(f"{args.seed} {task}")
        with open(args.out / f"{task}.jsonl", "w", encoding="ascii", newline="\n") as out:
            for number in range(counts[task]):
                item = family.generate(rng, HELD_OUT)._asdict()
                out.write(json.dumps({"id": f"{task}-{number}", **item}) + "\n")


if __name__ == "__main__":
    main()
