"""Stacked bars by day, as places on a canvas. Lengths are rounded for drawing; the table beside has the dollars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from costguard.model.money import ZERO, Money

SERIES = 6  # colours that can be told apart; what is beyond them is drawn together
WIDTH, HEIGHT = 960, 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 8, 12, 28
_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Segment:
    series: int
    group: str
    amount: Money
    y: float
    height: float


@dataclass(frozen=True, slots=True)
class Column:
    day: date
    x: float
    width: float
    total: Money
    amounts: tuple[Money, ...]  # of each series, and of the others together
    segments: tuple[Segment, ...]
    label: str  # "" where there is no room for one


@dataclass(frozen=True, slots=True)
class Line:
    y: float
    amount: Money


@dataclass(frozen=True, slots=True)
class Chart:
    columns: tuple[Column, ...]
    lines: tuple[Line, ...]
    series: tuple[str, ...]  # the groups with a colour of their own, the most expensive first
    others: int  # how many more there are
    width: int = WIDTH
    height: int = HEIGHT
    left: int = _LEFT
    right: int = WIDTH - _RIGHT
    base: int = HEIGHT - _BOTTOM


def draw(first: date, last: date, groups: Sequence[str], days: Mapping[str, Mapping[str, Money]]) -> Chart:
    """`groups` come with the most expensive first; each day's parts are stacked in that order."""
    own = tuple(groups) if len(groups) <= SERIES + 1 else tuple(groups[:SERIES])
    others = len(groups) - len(own)
    count = (last - first) // _DAY + 1
    step = (WIDTH - _LEFT - _RIGHT) / count
    gap = min(6.0, step * 0.25)
    highest = max((sum(parts.values(), ZERO) for parts in days.values()), default=ZERO)
    ticks = _ticks(highest)
    scale = (HEIGHT - _TOP - _BOTTOM) / ticks[-1].nanos
    base = HEIGHT - _BOTTOM
    every = max(1, -(-count // 10))
    columns = []
    for place in range(count):
        day = first + place * _DAY
        parts = days.get(day.isoformat(), {})
        amounts = [(number, group, parts.get(group, ZERO)) for number, group in enumerate(own)]
        if others:
            rest = sum((amount for group, amount in parts.items() if group not in own), ZERO)
            amounts.append((SERIES, "", rest))
        columns.append(
            Column(
                day=day,
                x=round(_LEFT + place * step + gap / 2, 2),
                width=round(step - gap, 2),
                total=sum(parts.values(), ZERO),
                amounts=tuple(amount for _, _, amount in amounts),
                segments=_stacked(amounts, base, scale),
                label=f"{day:%d %b}" if place % every == 0 else "",
            )
        )
    lines = tuple(Line(round(base - tick.nanos * scale, 2), tick) for tick in ticks)
    return Chart(tuple(columns), lines, own, others)


def _stacked(amounts: Sequence[tuple[int, str, Money]], base: float, scale: float) -> tuple[Segment, ...]:
    segments = []
    for series, group, amount in amounts:
        if amount:
            height = amount.nanos * scale
            base -= height
            segments.append(Segment(series, group, amount, round(base, 2), round(height, 2)))
    return tuple(segments)


def _ticks(highest: Money) -> tuple[Money, ...]:
    """Nought, and round amounts up to the first that is not below the highest."""
    step = 10_000_000  # a cent
    for factor in _ROUND:
        step = factor
        if highest.nanos <= 4 * step:
            break
    return tuple(Money(step * number) for number in range(-(-max(highest.nanos, 1) // step) + 1))


_ROUND = tuple(digit * 10**power for power in range(7, 18) for digit in (1, 2, 5))
