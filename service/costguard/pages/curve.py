"""Money over a period as lines on a canvas. Places are rounded for drawing; the figures beside them are exact.

Across, places are thousandths of the width, which stretches with the page; down, they are pixels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import accumulate

from costguard.model.budget import Period
from costguard.model.money import ZERO, Money
from costguard.spend.budget import Outlook, Standing
from costguard.spend.burn_history import STEP, BurnHistory
from costguard.spend.spend_story import Month

HEIGHT = 150
_WIDTH = 1000
_TRACE_HEIGHT = 64
_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Level:
    """A line across, at a round amount."""

    y: float
    amount: Money


@dataclass(frozen=True, slots=True)
class Label:
    """Below the canvas, at so many percent of its width."""

    x: float
    text: str
    anchor: str


@dataclass(frozen=True, slots=True)
class Curve:
    """`other` is what the line is held against: an even pace, or the last month."""

    line: str
    area: str
    other: str
    coming: str
    band: str
    now_x: float  # percent
    now_y: float
    levels: tuple[Level, ...]
    labels: tuple[Label, ...]
    height: int = HEIGHT


def burn_down(of: Standing, now: datetime) -> Curve:
    """What is left of a budget: from all of it towards nothing, beside an even pace."""
    limit, outlook = of.budget.limit, of.outlook
    low, high = limit - outlook.forecast.low, limit - outlook.forecast.high
    left = [limit - spent for spent in _climbing(outlook.days)]
    # A wild range must not press the rest into a corner.
    floor = max(min(ZERO, high, *left), min(ZERO, *left) - Money(limit.nanos // 2))
    down = _scale(floor, limit)
    points = _points(_moments(outlook, now), left, down)
    end = (_WIDTH, limit - outlook.forecast.expected)
    levels = [Level(down(ZERO), ZERO), Level(down(limit), limit)]
    if floor > Money(-limit.nanos // 3):
        levels.insert(1, Level(down(Money(limit.nanos // 2)), Money(limit.nanos // 2)))
    return _curve(points, end, (low, high), down, floor, [(0, limit), (_WIDTH, ZERO)], levels, _labels(outlook, now))


def climb(month: Month, now: datetime) -> Curve:
    """What the month has cost so far and may cost, beside the last month day by day."""
    outlook = month.outlook
    forecast = outlook.forecast
    top = max(outlook.spent, month.before_total, forecast.expected)
    top = max(top, min(forecast.high, Money(2 * top.nanos)), Money(1))
    down = _scale(ZERO, top)
    spent = list(_climbing(outlook.days))
    points = _points(_moments(outlook, now), spent, down)
    length = (outlook.ends_at - outlook.starts_at) // _DAY
    before = [(min(_WIDTH, _WIDTH * place // length), amount) for place, amount in enumerate(_climbing(month.before))]
    levels = [Level(down(amount), amount) for amount in ticks(top)]
    end = (_WIDTH, forecast.expected)
    return _curve(points, end, (forecast.low, forecast.high), down, ZERO, before, levels, _labels(outlook, now))


@dataclass(frozen=True, slots=True)
class Trace:
    """What burned up to now: `line` and `area` on a canvas of a thousand by `height`."""

    line: str
    area: str
    since: datetime
    peak: Money
    peak_at: datetime
    height: int = _TRACE_HEIGHT


def trace(of: BurnHistory, rate: Money, now: datetime) -> Trace | None:
    """Level until something starts or ends, and at its end what burns now. None where there is nothing to see."""
    if not of.rates or not any(of.rates):
        return None
    peak_at, peak = max(of.peak, (now, rate), key=lambda each: each[1])
    whole = now - of.since
    points: list[tuple[int, float]] = []
    for place, amount in enumerate((*of.rates, rate)):
        x = min(_WIDTH, _WIDTH * (place * STEP) // whole)
        y = round(_TRACE_HEIGHT - (_TRACE_HEIGHT - 2) * amount.nanos / peak.nanos, 1)
        if points and points[-1][1] != y:
            points.append((x, points[-1][1]))
        points.append((x, y))
    points[-1] = (_WIDTH, points[-1][1])
    area = [(points[0][0], _TRACE_HEIGHT), *points, (_WIDTH, _TRACE_HEIGHT)]
    return Trace(_written(points), _written(area), of.since, peak, peak_at)


def ticks(highest: Money) -> tuple[Money, ...]:
    """Nought and a few round amounts that are not above the highest."""
    step = next((step for step in _ROUND if highest.nanos < 5 * step), _ROUND[-1])
    return tuple(Money(step * number) for number in range(highest.nanos // step + 1))


_ROUND = tuple(digit * 10**power for power in range(7, 18) for digit in (1, 2, 5))


def _curve(
    points: Sequence[tuple[int, float]],
    end: tuple[int, Money],
    bounds: tuple[Money, Money],
    down: Callable[[Money], float],
    floor: Money,
    other: Iterable[tuple[int, Money]],
    levels: Iterable[Level],
    labels: Iterable[Label],
) -> Curve:
    now = points[-1]
    low, high = bounds
    base = down(max(floor, ZERO))
    return Curve(
        line=_written(points),
        area=_written([(points[0][0], base), *points, (now[0], base)]),
        other=_written([(x, down(amount)) for x, amount in other]),
        coming=_written([now, (end[0], down(end[1]))]),
        band=_written([now, (_WIDTH, down(low)), (_WIDTH, down(high))]),
        now_x=now[0] / 10,
        now_y=now[1],
        levels=tuple(levels),
        labels=tuple(labels),
    )


def _climbing(days: Iterable[Money]) -> Iterable[Money]:
    return accumulate(days, initial=ZERO)


def _moments(outlook: Outlook, now: datetime) -> list[int]:
    """The period's beginning, each midnight in it, and now."""
    whole = outlook.ends_at - outlook.starts_at
    midnights = [outlook.starts_at + number * _DAY for number in range(len(outlook.days))]
    return [_WIDTH * (moment - outlook.starts_at) // whole for moment in (*midnights, now)]


def _points(across: Sequence[int], amounts: Sequence[Money], down: Callable[[Money], float]) -> list[tuple[int, float]]:
    return [(x, down(amount)) for x, amount in zip(across, amounts, strict=True)]


def _scale(floor: Money, top: Money) -> Callable[[Money], float]:
    whole = top.nanos - floor.nanos

    def down(amount: Money) -> float:
        held = max(floor.nanos, min(amount.nanos, top.nanos))
        return round(HEIGHT - HEIGHT * (held - floor.nanos) / whole, 1)

    return down


def _labels(outlook: Outlook, now: datetime) -> list[Label]:
    first, last = outlook.starts_at, outlook.ends_at - _DAY
    if outlook.period is Period.DAY:
        return [Label(0, "00:00", "start"), Label(100, "24:00 UTC", "end")]
    today = _moments(outlook, now)[-1] / 10
    labels = [Label(0, _short(first), "start"), Label(100, _short(last), "end")]
    if 14 < today < 86:
        labels.insert(1, Label(today, "today", "middle"))
    return labels


def _short(moment: datetime) -> str:
    return f"{moment.day} {moment:%b}"


def _written(points: Iterable[tuple[int, float]]) -> str:
    return " ".join(f"{x},{y:g}" for x, y in points)
