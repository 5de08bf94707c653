"""Paths with the step's number in them, as people write them: `ckpt_{step}.pt`, `run-*/model-{step}.bin`.

Names and patterns are a user's, and a regular expression of theirs may take hours over one name. Here each name takes
time in proportion to its length, the number of runs of digits in it, and the length of the pattern.
"""

from __future__ import annotations

import re

STEP = "{step}"
_DIGITS = re.compile(r"[0-9]+")
_LONGEST_STEP = 18


class StepPattern:
    """A whole path with `{step}` in it. `*` stands for anything but a slash.

    The step is a whole number in the name: no digit stands before or after it. Where the name holds several that fit,
    it is the last. Where `{step}` stands more than once, it is the same number each time.
    """

    def __init__(self, pattern: str) -> None:
        first, _, self._rest = pattern.partition(STEP)
        *self._folders, last = first.split("/")
        self._before = last.split("*")
        self._slashes = pattern.count("/")

    def step_of(self, path: str) -> int | None:
        """None where the path is not of this pattern."""
        names = path.split("/")
        at = len(self._folders)
        if len(names) != self._slashes + 1 or not _all_fit(self._folders, names[:at]):
            return None
        name, below = names[at], names[at + 1 :]
        for digits in reversed(list(_DIGITS.finditer(name))):
            step = digits.group()
            if len(step) <= _LONGEST_STEP and _fits(self._before, name[: digits.start()]):
                after, *folders = self._rest.replace(STEP, step).split("/")
                if _fits(after.split("*"), name[digits.end() :]) and _all_fit(folders, below):
                    return int(step)
        return None


def _all_fit(patterns: list[str], names: list[str]) -> bool:
    return all(_fits(pattern.split("*"), name) for pattern, name in zip(patterns, names))


def _fits(pieces: list[str], name: str) -> bool:
    """Whether a name is these pieces with anything in between: each is looked for where the one before ended."""
    first, *others = pieces
    if not others:
        return name == first
    *middle, last = others
    at, end = len(first), len(name) - len(last)
    if at > end or not name.startswith(first) or not name.endswith(last):
        return False
    for piece in middle:
        found = name.find(piece, at, end)
        if found < 0:
            return False
        at = found + len(piece)
    return True
