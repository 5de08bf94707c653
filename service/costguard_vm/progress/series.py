"""Points of one curve: what a later start of the command did again is left out, and many become fewer, evenly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

MOST = 500  # points of a series that are kept


class Placed(Protocol):
    """A point: the start of the command that it belongs to, and its position in a unit."""

    @property
    def start(self) -> tuple[int, int]: ...
    @property
    def unit(self) -> str | None: ...
    @property
    def done(self) -> float | None: ...


P = TypeVar("P", bound=Placed)


def rewound(points: Sequence[P]) -> list[P]:
    """The curve of the model that there is: without what was above the position where a later start went on.

    That position is the least of the later start's own points, and not the checkpoint's step: trainers number a
    checkpoint by the step before it or after it. Points without a position, or in another unit, stay.
    """
    kept: list[P] = []
    least: dict[str | None, float] = {}
    of_start: dict[str | None, float] = {}
    last: tuple[int, int] | None = None
    for point in sorted(points, key=lambda one: one.start, reverse=True):
        if point.start != last:
            for unit, done in of_start.items():
                least[unit] = min(done, least.get(unit, done))
            of_start, last = {}, point.start
        if point.done is not None:
            of_start[point.unit] = min(point.done, of_start.get(point.unit, point.done))
            if point.unit in least and point.done >= least[point.unit]:
                continue
        kept.append(point)
    chosen = set(map(id, kept))
    return [point for point in points if id(point) in chosen]


def thinned(points: Sequence[P], most: int = MOST) -> list[P]:
    """Thins points: every second one goes until they are few enough; the first and the last stay."""
    kept = list(points)
    while len(kept) > most:
        kept = [*kept[:-1:2], kept[-1]]
    return kept
