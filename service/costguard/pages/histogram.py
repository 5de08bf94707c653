"""How long recoveries took, as bars on a canvas."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from costguard.jobs.figures import Histogram
from costguard.model.duration import span_text

_WIDTH, _HEIGHT, _TOP, _BOTTOM = 520, 150, 22, 24
_GAP = 6


@dataclass(frozen=True, slots=True)
class Column:
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
    words: str  # for those who do not see it
    bars: tuple[Column, ...]
    width: int = _WIDTH
    height: int = _HEIGHT
    top: int = _TOP
    base: int = _HEIGHT - _BOTTOM


def draw(title: str, of: Histogram) -> Bars:
    step = _WIDTH / len(of.buckets)
    most = max((count for _, count in of.buckets), default=0) or 1
    base = _HEIGHT - _BOTTOM
    bars = []
    for place, (edge, count) in enumerate(of.buckets):
        height = round((base - _TOP) * count / most, 2)
        x = round(place * step + _GAP / 2, 2)
        middle = round(x + (step - _GAP) / 2, 2)
        bars.append(Column(_label(edge), count, x, round(base - height, 2), round(step - _GAP, 2), height, middle))
    told = [f"{bar.count} up to {bar.label}" for bar in bars if bar.count]
    words = f"{title}: {', '.join(told)}."
    return Bars(title, of.count, _span(of.median), _span(of.p90), words, tuple(bars))


def _span(length: timedelta | None) -> str:
    """Under ten seconds with a place: a notice is a matter of fractions."""
    if length is None:
        return "–"
    seconds = length.total_seconds()
    return f"{seconds:.1f} s" if 0 < seconds < 10 and seconds % 1 else span_text(length)


def _label(edge: timedelta | None) -> str:
    return "more" if edge is None else span_text(edge)
