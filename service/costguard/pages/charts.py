"""Charts of money over a period and of recovery times. Drawings are rounded; the figures shown are exact.

In curves, places across are thousandths of the width, which stretches with the page; down, they are pixels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import accumulate

from costguard.jobs.decide.measures.histogram import Histogram
from costguard.model.budget import Period
from costguard.model.duration import span_text
from costguard.model.money import ZERO, Money
from costguard.spend.budget import Outlook, Standing
from costguard.spend.burning import STEP, BurnHistory
from costguard.spend.forecast import Forecast
from costguard.spend.spend_story import Month

HEIGHT = 150
_WIDTH = 1000
_TRACE_HEIGHT = 64
_DAY = timedelta(days=1)
_BARS_WIDTH, _BARS_HEIGHT, _BARS_TOP, _BARS_BOTTOM = 520, 150, 22, 24
_BARS_GAP = 6
_LEAST_BARS = 3  # of other heights than nothing: less is said in the words next to it


@dataclass(frozen=True, slots=True)
class GridLine:
    """A line across, at a round amount."""

    y: float
    amount: Money


@dataclass(frozen=True, slots=True)
class AxisLabel:
    """A label below the canvas, at so many percent of its width."""

    x: float
    text: str
    anchor: str


@dataclass(frozen=True, slots=True)
class Curve:
    """`other` is the line for comparison: an even pace, or the last month.

    `coming` and `band`, the forecast and its range, are empty while it is too early to say.
    """

    line: str
    area: str
    other: str
    coming: str
    band: str
    now_x: float  # percent
    now_y: float
    levels: tuple[GridLine, ...]
    labels: tuple[AxisLabel, ...]
    height: int = HEIGHT


def burn_down(standing: Standing, now: datetime) -> Curve:
    """Draws the rest of a budget, from all of it towards nothing, with an even pace for comparison."""
    limit, outlook = standing.budget.limit, standing.outlook
    ahead = [limit - amount for amount in _ahead(outlook.forecast)]
    left = [limit - spent for spent in _climbing(outlook.days)]
    # A very wide range must not squeeze the rest into a corner.
    floor = max(min(ZERO, *ahead, *left), min(ZERO, *left) - Money(limit.nanos // 2))
    down = _scale(floor, limit)
    points = _points(_moments(outlook, now), left, down)
    levels = [GridLine(down(ZERO), ZERO), GridLine(down(limit), limit)]
    if floor > Money(-limit.nanos // 3):
        levels.insert(1, GridLine(down(Money(limit.nanos // 2)), Money(limit.nanos // 2)))
    return _curve(points, ahead, down, floor, [(0, limit), (_WIDTH, ZERO)], levels, _labels(outlook, now))


def climb(month: Month, now: datetime) -> Curve:
    """Draws the past and expected cost of the month, with the last month day by day for comparison."""
    outlook = month.outlook
    ahead = _ahead(outlook.forecast)
    top = max(outlook.spent, month.before_total, *ahead[1:2])
    top = max(top, min(max(ahead, default=ZERO), Money(2 * top.nanos)), Money(1))
    down = _scale(ZERO, top)
    spent = list(_climbing(outlook.days))
    points = _points(_moments(outlook, now), spent, down)
    length = (outlook.ends_at - outlook.starts_at) // _DAY
    before = [(min(_WIDTH, _WIDTH * place // length), amount) for place, amount in enumerate(_climbing(month.before))]
    levels = [GridLine(down(amount), amount) for amount in ticks(top)]
    return _curve(points, ahead, down, ZERO, before, levels, _labels(outlook, now))


def _ahead(made: Forecast) -> list[Money]:
    """The low end, the forecast and the high end; nothing while it is too early to say."""
    return [made.low, made.expected, made.high] if made.is_grounded else []


@dataclass(frozen=True, slots=True)
class Trace:
    """The hourly cost up to now: `line` and `area` on a canvas of a thousand by `height`."""

    line: str
    area: str
    since: datetime
    peak: Money
    peak_at: datetime
    height: int = _TRACE_HEIGHT


def trace(history: BurnHistory, rate: Money, now: datetime) -> Trace | None:
    """Level until something starts or ends, and at its end the present rate. None where there is nothing to see."""
    if not history.rates or not any(history.rates):
        return None
    peak_at, peak = max(history.peak, (now, rate), key=lambda moment: moment[1])
    whole = now - history.since
    points: list[tuple[int, float]] = []
    for place, amount in enumerate((*history.rates, rate)):
        x = min(_WIDTH, _WIDTH * (place * STEP) // whole)
        y = round(_TRACE_HEIGHT - (_TRACE_HEIGHT - 2) * amount.nanos / peak.nanos, 1)
        if points and points[-1][1] != y:
            points.append((x, points[-1][1]))
        points.append((x, y))
    points[-1] = (_WIDTH, points[-1][1])
    area = [(points[0][0], _TRACE_HEIGHT), *points, (_WIDTH, _TRACE_HEIGHT)]
    return Trace(_written(points), _written(area), history.since, peak, peak_at)


def ticks(highest: Money) -> tuple[Money, ...]:
    """Zero and a few round amounts that are not above the highest."""
    step = next((step for step in _ROUND if highest.nanos < 5 * step), _ROUND[-1])
    return tuple(Money(step * number) for number in range(highest.nanos // step + 1))


_ROUND = tuple(digit * 10**power for power in range(7, 18) for digit in (1, 2, 5))


def _curve(
    points: Sequence[tuple[int, float]],
    ahead: Sequence[Money],
    down: Callable[[Money], float],
    floor: Money,
    other: Iterable[tuple[int, Money]],
    levels: Iterable[GridLine],
    labels: Iterable[AxisLabel],
) -> Curve:
    now = points[-1]
    coming = [(_WIDTH, down(amount)) for amount in ahead]
    base = down(max(floor, ZERO))
    return Curve(
        line=_written(points),
        area=_written([(points[0][0], base), *points, (now[0], base)]),
        other=_written([(x, down(amount)) for x, amount in other]),
        coming=_written([now, coming[1]]) if coming else "",
        band=_written([now, coming[0], coming[-1]]) if coming else "",
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


def _labels(outlook: Outlook, now: datetime) -> list[AxisLabel]:
    first, last = outlook.starts_at, outlook.ends_at - _DAY
    if outlook.period is Period.DAY:
        return [AxisLabel(0, "00:00", "start"), AxisLabel(100, "24:00 UTC", "end")]
    today = _moments(outlook, now)[-1] / 10
    labels = [AxisLabel(0, _short(first), "start"), AxisLabel(100, _short(last), "end")]
    if 14 < today < 86:
        labels.insert(1, AxisLabel(today, "today", "middle"))
    return labels


def _short(moment: datetime) -> str:
    return f"{moment.day} {moment:%b}"


def _written(points: Iterable[tuple[int, float]]) -> str:
    return " ".join(f"{x},{y:g}" for x, y in points)


@dataclass(frozen=True, slots=True)
class HistogramBar:
    label: str
    count: int
    x: float
    y: float
    width: float
    height: float
    middle: float


@dataclass(frozen=True, slots=True)
class Bars:
    title: str
    count: int
    median: str
    p90: str
    words: str  # for screen readers
    bars: tuple[HistogramBar, ...]
    width: int = _BARS_WIDTH
    height: int = _BARS_HEIGHT
    top: int = _BARS_TOP
    base: int = _BARS_HEIGHT - _BARS_BOTTOM

    @property
    def is_drawn(self) -> bool:
        """A histogram of one or two bars shows nothing that its median does not."""
        return sum(bar.count > 0 for bar in self.bars) >= _LEAST_BARS


def histogram(title: str, spans: Histogram) -> Bars:
    step = _BARS_WIDTH / len(spans.buckets)
    most = max((count for _, count in spans.buckets), default=0) or 1
    base = _BARS_HEIGHT - _BARS_BOTTOM
    bars = []
    for place, (edge, count) in enumerate(spans.buckets):
        height = round((base - _BARS_TOP) * count / most, 2)
        x = round(place * step + _BARS_GAP / 2, 2)
        width = round(step - _BARS_GAP, 2)
        label = "more" if edge is None else span_text(edge)
        middle = round(x + (step - _BARS_GAP) / 2, 2)
        bars.append(HistogramBar(label, count, x, round(base - height, 2), width, height, middle))
    counts = [f"{bar.count} up to {bar.label}" for bar in bars if bar.count]
    words = f"{title}: {', '.join(counts)}."
    return Bars(title, spans.count, _span(spans.median), _span(spans.p90), words, tuple(bars))


def _span(length: timedelta | None) -> str:
    """Formats a length, under ten seconds with a decimal: preemption notices take fractions of a second."""
    if length is None:
        return "–"
    return span_text(length, tenths=True)
