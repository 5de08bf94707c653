"""Decides which unusual spending deserves a notification. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from costguard.model.money import Money
from costguard.spend.forecast import median

WEEKS = 4
LEAST_WEEKS = 3  # that a project was watched before anything counts as unusual for it
GPU_DAYS = 14  # without a GPU, after which one is sudden
_TIMES = 3
_LEAST_MORE = Money.of(5)  # an hour


def unusual_burn(rate: Money, before: Sequence[Money]) -> Money | None:
    """The usual rate an hour, when the one now is far above it; None when it is not.

    `before` are the rates at this hour of the week and the hours next to it, in past weeks. The usual is their median.
    Far above is three times that, five dollars an hour more, and more than each of them.
    """
    if not before:
        return None
    usual = median([Fraction(past.nanos) for past in before])
    is_far = rate.nanos >= _TIMES * usual and rate.nanos >= usual + _LEAST_MORE.nanos and rate > max(before)
    return Money(round(usual)) if is_far else None
