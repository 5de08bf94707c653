"""Paths with the step's number in them, as people write them: `ckpt_{step}.pt`, `run-*/model-{step}.bin`."""

from __future__ import annotations

import re

STEP = "{step}"


def matcher(pattern: str) -> re.Pattern[str]:
    """Matches whole paths; the group `step` is the number. `*` stands for anything but a slash.

    Where `{step}` stands more than once, it is the same number each time.
    """
    first, *rest = pattern.split(STEP)
    # No digit may stand before or after: in ckpt*{step} the number is the whole number.
    step, again = "(?<![0-9])(?P<step>[0-9]{1,18})(?![0-9])", "(?P=step)"
    parts = [_literal(first), *(f"{again if at else step}{_literal(part)}" for at, part in enumerate(rest))]
    return re.compile("".join(parts))


def _literal(part: str) -> str:
    return "[^/]*".join(re.escape(piece) for piece in part.split("*"))
