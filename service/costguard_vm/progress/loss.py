"""Judges whether a training's loss went wrong: not a number, infinite, or ten times what it was. Pure."""

from __future__ import annotations

import math
from statistics import median
from typing import NamedTuple, Sequence

WINDOW = 50  # values that count as what it was
FEWEST = 8
TIMES = 10.0
SPREADS = 6.0  # a loss that is noisy anyway must also leave its noise, in standard deviations of its logarithm


class LossTrouble(NamedTuple):
    """The place among the new values at which it went wrong. `value` is None where it is no finite number."""

    place: int
    value: float | None
    usual: float | None  # the median before; None where nothing finite was printed


def loss_trouble(before: Sequence[float | None], new: Sequence[float | None]) -> LossTrouble | None:
    """The first of the new values at which trouble begins; None where it goes well, or goes on being wrong.

    None among the values is one that is not finite. Values in trouble do not count as what it was.
    """
    good: list[float] = []
    was_wrong = False
    for place, value in enumerate([*before, *new]):
        usual = median(good[-WINDOW:]) if good else None
        is_wrong = value is None or not math.isfinite(value) or _is_tenfold(value, good[-WINDOW:])
        if is_wrong and not was_wrong and place >= len(before):
            finite = value if value is not None and math.isfinite(value) else None
            return LossTrouble(place - len(before), finite, usual)
        if value is not None and not is_wrong:
            good.append(value)
        was_wrong = is_wrong
    return None


def _is_tenfold(value: float, good: Sequence[float]) -> bool:
    """Judges on a scale of ratios, on which a loss that swings by factors is wide.

    False for a loss that may be negative.
    """
    if len(good) < FEWEST or value <= 0 or min(good) <= 0:
        return False
    logs = [math.log(one) for one in good]
    usual = median(logs)
    spread = 1.4826 * median(abs(one - usual) for one in logs)
    return math.log(value) - usual >= max(math.log(TIMES), SPREADS * spread)
