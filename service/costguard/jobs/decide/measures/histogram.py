"""Counts spans by their length, with their median and the longest."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

_NOTHING = timedelta()
_EDGES_S = (1, 5, 15, 30, 60, 120, 300, 600, 1800, 3600)


@dataclass(frozen=True, slots=True)
class Histogram:
    """`buckets` count the spans up to each edge and above the one before; None is everything above the last.

    Half of the spans are at most `median`, nine in ten at most `p90`; None where there are none.
    """

    count: int
    median: timedelta | None
    p90: timedelta | None
    longest: timedelta | None
    buckets: tuple[tuple[timedelta | None, int], ...]


def histogram(spans: Iterable[timedelta]) -> Histogram:
    """Spans below nothing, by clocks that differ, count as nothing."""
    ordered = sorted(max(span, _NOTHING) for span in spans)
    edges = [timedelta(seconds=seconds) for seconds in _EDGES_S]
    buckets: list[tuple[timedelta | None, int]] = []
    counted = 0
    for edge in edges:
        below = bisect_right(ordered, edge)
        buckets.append((edge, below - counted))
        counted = below
    buckets.append((None, len(ordered) - counted))
    return Histogram(
        len(ordered),
        _ranked(ordered, 50),
        _ranked(ordered, 90),
        ordered[-1] if ordered else None,
        tuple(buckets),
    )


def _ranked(ordered: list[timedelta], percent: int) -> timedelta | None:
    """The smallest that so many percent of all do not exceed."""
    return ordered[-(-len(ordered) * percent // 100) - 1] if ordered else None
