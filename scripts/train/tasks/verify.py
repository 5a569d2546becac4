"""Marks a written solution of the "math" family line by line against its plan.

    plan = [(3, "*", 6, 18), (14, "+", 18, 32), (32, "-", 9, 23)]
    check_steps(plan, " 3 * 6 = 18.\\n14 + 18 = 32.\\n32 - 9 = 24.\\nThe answer is 24.")
    -> [True, True, False, False]

A line is right only while every line before it was right, so the labels of a solution are a run
of True and then a run of False: the first False is where the solution goes wrong.
"""

import os
import re

STEP = re.compile(r"(\d{1,9}) ([-+*/]) (\d{1,9}) = (\d{1,9})\.")
FINAL = re.compile(r"The answer is (\d{1,9})\.")
INTEGER = re.compile(r"(?<!\d)-?\d+")
LONGEST = 18


def step_lines(text):
    """The lines of a solution, stripped, without the empty ones."""
    return [line.strip() for line in text.split("\n") if line.strip()]


def parse_step(line):
    """(a, op, b, result) of a line "a op b = c.", or None."""
    match = STEP.fullmatch(line)
    if not match:
        return None
    return int(match[1]), match[2], int(match[3]), int(match[4])


def is_true(step):
    """Whether the arithmetic of (a, op, b, result) holds; a division has to be exact."""
    a, op, b, result = step
    if op == "+":
        return a + b == result
    if op == "-":
        return a - b == result
    if op == "*":
        return a * b == result
    return b != 0 and a % b == 0 and a // b == result


def same_step(step, planned):
    """Whether a step is the planned one; + and * may have their operands swapped."""
    a, op, b, result = step
    if (op, result) != (planned[1], planned[3]):
        return False
    wanted = (planned[0], planned[2])
    return (a, b) == wanted or (op in "+*" and (b, a) == wanted)


def line_is_right(plan, position, line):
    """Whether `line` is right as the line number `position` (from 0) of a solution."""
    if position < len(plan):
        step = parse_step(line)
        return step is not None and is_true(step) and same_step(step, plan[position])
    match = FINAL.fullmatch(line)
    return position == len(plan) and match is not None and int(match[1]) == plan[-1][3]


def check_steps(plan, text):
    """One bool for each line of the solution `text`, the line "The answer is N." included."""
    marks = []
    right = True
    for position, line in enumerate(step_lines(text)):
        right = right and line_is_right(plan, position, line)
        marks.append(right)
    return marks


def right_length(plan, text):
    """How much of `text` a right solution can begin with, in characters."""
    at = 0
    for position, (a, op, b, result) in enumerate(plan):
        pairs = [(a, b), (b, a)] if op in "+*" else [(a, b)]
        space = "" if position else " "
        lines = [f"{space}{x} {op} {y} = {result}.\n" for x, y in pairs]
        common = max(len(os.path.commonprefix([line, text[at:]])) for line in lines)
        at += common
        if common < len(lines[0]):
            return at
    last = f"The answer is {plan[-1][3]}."
    return at + len(os.path.commonprefix([last, text[at:]]))


def final_answer(text):
    """The last integer in `text`, or None where there is none (or an absurdly long one)."""
    numbers = INTEGER.findall(text)
    if not numbers or len(numbers[-1]) > LONGEST:
        return None
    return int(numbers[-1])
