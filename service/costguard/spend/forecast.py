"""Forecasts a period's cost from what was spent, the current rate, and past days. Pure.

For each moment that is left, two rates are blended: what runs now, which counts whole at once and fades to nothing
over two days, because VMs end (a VM whose end is known counts up to it); and the usual for that weekday, the median
of the same weekdays of the last four weeks, moved by the median of how far the last seven days were from theirs, so
that one odd day changes nothing and a new level counts after four. Without a whole day watched there is no usual,
and the forecast is halfway between what runs now fading and all of it running on.

The range reaches from what runs now ending at once to its lasting all of the two days, widened by twice the spread of
a day times the square root of the days that are left. The spread is 1.5 median deviations, and at least a day's usual
spend divided by one more than the days known: few days that happen to be alike do not make a forecast certain.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from fractions import Fraction
from functools import lru_cache
from math import isqrt

from costguard.model.money import Money

HISTORY = 28  # whole days looked back on
_FADE = timedelta(days=2)
_DAY = timedelta(days=1)
_HOUR = timedelta(hours=1)
_RECENT = 7
_GROUNDED = 3  # whole days that make a forecast worth telling by itself

METHOD = (
    "Spent so far, and for the time that is left a blend of what runs now, fading to nothing over two days, and of "
    "the usual for that weekday: the median of the same weekdays of the last four weeks, moved to the level of the "
    "last seven days. The range is from what runs now ending at once to its lasting two days, widened by how much "
    "past days varied."
)
METHOD_WITHOUT_HISTORY = (
    "Spent so far, and for what runs now halfway between fading to nothing over two days and running on to the end: no "
    "whole day was watched yet, so there is no usual to go by. The range is from the one to the other."
)


@dataclass(frozen=True, slots=True)
class Burn:
    """A rate per hour that bills until `until` at the latest; None: its end is not known."""

    rate: Money
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class Forecast:
    """The spend at the period's end; `expected` is below `high` as long as anything more is expected.

    Where it is not grounded, people read that it is too early to say, and no threshold is held against it.
    """

    expected: Money
    low: Money
    high: Money
    method: str
    days_known: int
    is_grounded: bool


def forecast(
    spent: Money, burns: Sequence[Burn], days: Mapping[date, Money], now: datetime, ends_at: datetime
) -> Forecast:
    """`days` are whole UTC days before today that were watched, zeros included; those too old are not looked at.

    Never below what was spent.
    """
    days = {day: spend for day, spend in days.items() if now.date() - HISTORY * _DAY <= day < now.date()}
    left = max(timedelta(), ends_at - now)
    if not days:
        lasting = sum((_running(burn, now, left) for burn in burns), Fraction(0))
        fading = sum((_faded(burn, now, left) for burn in burns), Fraction(0))
        return _made(spent, (fading + lasting) / 2, fading, lasting, METHOD_WITHOUT_HISTORY, 0, left)
    usual = _usual(tuple(days.items()), now.date())
    whole = usual.between(now, ends_at)
    faded_usual = usual.faded(now, ends_at)
    expected = whole - faded_usual + sum((_faded(burn, now, left) for burn in burns), Fraction(0))
    near = min(left, _FADE)
    lasting = whole - usual.between(now, now + near) + sum((_running(burn, now, near) for burn in burns), Fraction(0))
    spread = 2 * usual.spread * _root(Fraction(left // timedelta(seconds=1), 86_400))
    low, high = min(expected, whole, lasting) - spread, max(expected, whole, lasting) + spread
    return _made(spent, expected, low, high, METHOD, len(days), left)


def _made(
    spent: Money, expected: Fraction, low: Fraction, high: Fraction, method: str, days_known: int, left: timedelta
) -> Forecast:
    more = [Money(round(max(Fraction(0), part))) for part in (expected, low, high)]
    is_grounded = days_known >= _GROUNDED or left <= _FADE
    return Forecast(spent + more[0], spent + more[1], spent + more[2], method, days_known, is_grounded)


class _Usual:
    """The usual cost of each weekday, in nano-dollars, at the level of the last days."""

    def __init__(self, days: Mapping[date, Money], today: date) -> None:
        weekdays: dict[int, list[Fraction]] = {}
        for day, spend in days.items():
            weekdays.setdefault(day.weekday(), []).append(Fraction(spend.nanos))
        any_day = median([Fraction(spend.nanos) for spend in days.values()])
        own = {weekday: median(spends) for weekday, spends in weekdays.items()}
        off = {day: spend.nanos - own[day.weekday()] for day, spend in days.items()}
        level = median([value for day, value in off.items() if today - day <= _RECENT * _DAY] or [Fraction(0)])
        self._of = {weekday: max(Fraction(0), own.get(weekday, any_day) + level) for weekday in range(7)}
        deviation = median([abs(spend.nanos - self._of[day.weekday()]) for day, spend in days.items()])
        a_day = sum(self._of.values(), Fraction(0)) / 7
        self.spread = max(Fraction(3, 2) * deviation, a_day / (len(days) + 1))

    def between(self, start: datetime, end: datetime) -> Fraction:
        return sum((self._of[a.weekday()] * _hours(b - a) / 24 for a, b in _by_day(start, end)), Fraction(0))

    def faded(self, now: datetime, end: datetime) -> Fraction:
        """The part of it that what runs now stands for."""
        return sum(
            (
                self._of[a.weekday()] * (_weight(b - now) - _weight(a - now)) / 24
                for a, b in _by_day(now, min(end, now + _FADE))
            ),
            Fraction(0),
        )


# Of each budget, what was usual stays the same until midnight.
@lru_cache(maxsize=256)
def _usual(days: tuple[tuple[date, Money], ...], today: date) -> _Usual:
    return _Usual(dict(days), today)


def _by_day(start: datetime, end: datetime) -> list[tuple[datetime, datetime]]:
    pieces = []
    while start < end:
        midnight = datetime.combine(start.date() + _DAY, time(), UTC)
        pieces.append((start, min(end, midnight)))
        start = midnight
    return pieces


def _running(burn: Burn, now: datetime, left: timedelta) -> Fraction:
    return burn.rate.nanos * _hours(_lasts(burn, now, left))


def _faded(burn: Burn, now: datetime, left: timedelta) -> Fraction:
    return burn.rate.nanos * _weight(_lasts(burn, now, left))


def _lasts(burn: Burn, now: datetime, left: timedelta) -> timedelta:
    return left if burn.until is None else max(timedelta(), min(left, burn.until - now))


def _weight(span: timedelta) -> Fraction:
    """Hours in `span` from now, each counted by how much of what runs now is still thought to run in it."""
    hours, fade = _hours(min(span, _FADE)), _hours(_FADE)
    return hours - hours * hours / (2 * fade)


def _hours(span: timedelta) -> Fraction:
    return Fraction(span // timedelta(microseconds=1), _HOUR // timedelta(microseconds=1))


def median(values: Sequence[Fraction]) -> Fraction:
    """Exact, of at least one value; the mean of the middle two of an even number."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def _root(value: Fraction) -> Fraction:
    """Good to a millionth."""
    return Fraction(isqrt(value.numerator * 10**12 // value.denominator), 10**6)
