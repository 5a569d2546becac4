#!/usr/bin/python3
"""Draw the logs of loss as SVG: one picture a model, beside its log."""

import argparse
import csv
import math
import sys
from pathlib import Path

WIDTH, HEIGHT = 640, 320
LEFT, RIGHT, TOP, BOTTOM = 56, 132, 28, 44
COLOURS = ("#2a6fb0", "#c05a1c", "#2f8a57", "#8b5aa8")
# the columns that are drawn, where a log has them, and what they are called
LINES = {
    "loss": "training",
    "held_out_loss": "held out",
    "kd": "distillation",
    "candidate": "candidates",
}


def read(path):
    """(x values, their name, {line: values}) of a log; steps that were done twice count once."""
    with open(path, newline="") as file:
        rows = {int(row["step"]): row for row in csv.DictReader(file) if "step" in row}
    rows = [rows[step] for step in sorted(rows)]
    by_tokens = bool(rows) and "tokens" in rows[0]
    x = [int(row["tokens"]) / 1e6 if by_tokens else int(row["step"]) for row in rows]
    lines = {
        name: [float(row[column]) for row in rows]
        for column, name in LINES.items()
        if rows and column in rows[0]
    }
    return x, "million tokens" if by_tokens else "steps", lines


def marks(low, high):
    """Losses at which a logarithmic axis is marked: 1, 2 and 5 of each power of ten."""
    powers = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 1)
    values = [digit * 10.0**power for power in powers for digit in (1, 2, 5)]
    return [value for value in values if low <= value <= high]


def steps(high):
    """Round numbers along the other axis."""
    size = 10 ** math.floor(math.log10(high))
    size = next(s for s in (size / 5, size / 2, size, 2 * size) if high / s <= 8)
    return [size * i for i in range(int(high / size) + 1)]


def picture(title, x, unit, lines):
    values = [v for line in lines.values() for v in line]
    low, high, far = min(values) / 1.1, max(values) * 1.1, max(x)
    wide, tall = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def across(value):
        return LEFT + wide * value / far

    def down(value):
        return TOP + tall * math.log(high / value) / math.log(high / low)

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'font-family="sans-serif" font-size="12" fill="#333">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
        f'<text x="{LEFT}" y="18" font-size="14">{title}: loss</text>',
    ]
    for value in marks(low, high):
        y = down(value)
        out.append(f'<path d="M{LEFT} {y:.1f}h{wide}" stroke="#ddd"/>')
        out.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{value:g}</text>')
    for value in steps(far):
        out.append(
            f'<text x="{across(value):.1f}" y="{HEIGHT - BOTTOM + 18}" '
            f'text-anchor="middle">{value:g}</text>'
        )
    out.append(f'<text x="{LEFT + wide / 2}" y="{HEIGHT - 8}" text-anchor="middle">{unit}</text>')
    for number, (name, line) in enumerate(lines.items()):
        colour = COLOURS[number]
        points = " ".join(f"{across(a):.1f},{down(b):.1f}" for a, b in zip(x, line))
        out.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
        y = TOP + 14 + 20 * number
        out.append(f'<path d="M{WIDTH - RIGHT + 12} {y}h18" stroke="{colour}" stroke-width="2"/>')
        out.append(f'<text x="{WIDTH - RIGHT + 36}" y="{y + 4}">{name}</text>')
    return "\n".join([*out, "</svg>", ""])


def draw(path):
    """Write the picture of a log beside it; False where there is nothing to draw."""
    x, unit, lines = read(path)
    if len(x) < 2 or not lines:
        return False
    path.with_suffix(".svg").write_text(picture(path.stem, x, unit, lines))
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("logs", nargs="+", type=Path, help="logs (.csv) that training wrote")
    for path in parser.parse_args().logs:
        if not draw(path):
            print(f"{path}: too short to draw", file=sys.stderr)


if __name__ == "__main__":
    main()
