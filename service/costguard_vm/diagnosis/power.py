"""Measures the power of a GPU as a share of the most that it can draw: its use does not show that. Pure.

A kernel that waits counts as use. Of eight GPUs that were 85 to 88 % in use, those that saved every 1000, 100 and 10
steps drew 518, 313 and 178 W (grantwilkins/training_profile at 5f999fe, folder h100-traces): ranks wait in a collective
while one of them writes.
"""

from __future__ import annotations

from typing import NamedTuple

LOW, HIGH = 0.55, 0.75  # of the best: under the first it waits for much of its time, from the second on it computes
_LEAST_W = 40.0  # between idle and best, and
_LEAST_SHARE = 0.2  # of the limit: with less nothing was seen that would count as best


class PowerRange(NamedTuple):
    """Watts of a GPU without work, and the most that was seen of it or of its like."""

    idle_w: float
    best_w: float


def power_share(power_w: float | None, seen: PowerRange | None, limit_w: float | None = None) -> float | None:
    """Power over idle, as a share of the best that was seen; None where too little was seen to compare with."""
    if power_w is None or seen is None:
        return None
    span = seen.best_w - seen.idle_w
    if span < max(_LEAST_W, _LEAST_SHARE * (limit_w or 0.0)):
        return None
    return min(1.0, max(0.0, (power_w - seen.idle_w) / span))


def not_computing(share: float) -> str:
    """Describes a low power, after a comma or a colon."""
    time = "most of the time" if share < 0.5 else "part of the time"
    return f"{time} it does not compute: power over idle is {share:.0%} of the best run's"
