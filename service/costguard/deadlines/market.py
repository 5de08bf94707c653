"""The zones that a replayed run sees, point by point: which are up, for how long, at what price, with what history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from costguard.deadlines.hazards import (
    NO_COUNTS,
    SeenPeriod,
    TogetherCounts,
    ZoneCounts,
    added,
    counts_of,
    follow,
    together_of,
)
from costguard.deadlines.series import ZoneSeries
from costguard.deadlines.situation import Zone

HISTORY_STEP_H = 4.0  # history is counted again so often: a policy plans again no sooner


class NoZones:
    """A market of a job that may have no Spot VM."""

    def __init__(self, gap_h: float, points: int) -> None:
        self.gap_h = gap_h
        self.points = points

    def is_up(self, _name: str, _point: int) -> bool:
        return False

    def price(self, _name: str, _point: int) -> float:
        return 0.0

    def next_change(self, _point: int) -> int:
        return self.points

    def zones(self, _point: int) -> tuple[Zone, ...]:
        return ()

    def together(self, _point: int) -> TogetherCounts | None:
        return None


class RecordedMarket:
    """Recorded series of one recording. `spot_price`: an hour of Spot where the files name no price.

    A zone's history is what was recorded before the present point, and nothing later. With `counts`, by zone, it is
    those instead, however long the record goes on.
    """

    def __init__(
        self, series: Sequence[ZoneSeries], spot_price: float, *, counts: Mapping[str, ZoneCounts] | None = None
    ) -> None:
        self.gap_h = series[0].gap_h
        self.points = min(len(one.ups) for one in series)
        self.names = tuple(one.name for one in series)
        self._spot_price = spot_price
        self._given_counts = counts
        self._series = tuple(series)
        self._began = tuple(_began(one.ups) for one in series)
        self._next_of_any = _next_of_any(self._began, self.points)
        self._places = {name: place for place, name in enumerate(self.names)}
        periods = [_periods(began, one) for began, one in zip(self._began, series, strict=True)]
        self._histories = [_History(of_zone) for of_zone in periods]
        self._followed = follow(periods) if len(series) > 1 and counts is None else []
        self._held = _History([one.period for one in self._followed])
        self._together: dict[int, TogetherCounts] = {}
        self._zones: dict[int, tuple[Zone, ...]] = {}

    def is_up(self, name: str, point: int) -> bool:
        return self._series[self._places[name]].ups[point]

    def price(self, name: str, point: int) -> float:
        one = self._series[self._places[name]]
        return one.price_at(point) if one.prices else self._spot_price

    def next_change(self, point: int) -> int:
        """The first point after this one at which any zone comes or goes; the end of the record if none does."""
        return self._next_of_any[point]

    def zones(self, point: int) -> tuple[Zone, ...]:
        zones = self._zones.get(point)
        if zones is None:
            zones = self._zones[point] = tuple(self._zone(place, point) for place in range(len(self.names)))
        return zones

    def together(self, point: int) -> TogetherCounts | None:
        if self._given_counts is not None or len(self.names) == 1:
            return None
        step = int(point * self.gap_h / HISTORY_STEP_H)
        counts = self._together.get(step)
        if counts is None:
            counted = together_of([one for one in self._followed if one.found_age_h is not None], step * HISTORY_STEP_H)
            held = self._held.at(step)
            counts = self._together[step] = TogetherCounts(held, sum(held.preemptions), counted.found_ages)
        return counts

    def _zone(self, place: int, point: int) -> Zone:
        one = self._series[place]
        age_h = (point - self._began[place][point]) * self.gap_h
        price = one.price_at(point) if one.prices else self._spot_price
        return Zone(one.name, price, one.ups[point], age_h, self._history(place, point))

    def _history(self, place: int, point: int) -> ZoneCounts:
        if self._given_counts is not None:
            return self._given_counts.get(self.names[place], NO_COUNTS)
        return self._histories[place].at(int(point * self.gap_h / HISTORY_STEP_H))


class _History:
    """The counts of periods at every step of history, each from the one before."""

    def __init__(self, periods: Sequence[SeenPeriod]) -> None:
        self._periods = periods
        self._counts = [NO_COUNTS]
        self._first = 0  # the period that lasts until the last step that is counted, or longer

    def at(self, step: int) -> ZoneCounts:
        while len(self._counts) <= step:
            start_h = (len(self._counts) - 1) * HISTORY_STEP_H
            end_h = start_h + HISTORY_STEP_H
            seen = []
            for place in range(self._first, len(self._periods)):
                period = self._periods[place]
                if period.began_h >= end_h:
                    break
                if period.ended_h <= start_h:
                    self._first = place + 1
                    continue
                began_h = max(period.began_h, start_h)
                age_h = period.age_h + began_h - period.began_h
                seen.append(period._replace(began_h=began_h, age_h=age_h))
            self._counts.append(added(self._counts[-1], counts_of(seen, end_h)))
        return self._counts[step]


def _began(ups: Sequence[bool]) -> list[int]:
    """Returns, for each point, the one at which its state began."""
    began = []
    since = 0
    for point, is_up in enumerate(ups):
        if point and is_up != ups[point - 1]:
            since = point
        began.append(since)
    return began


def _next_of_any(began: Sequence[Sequence[int]], points: int) -> list[int]:
    changes = [points] * points
    for point in range(points - 2, -1, -1):
        is_change = any(one[point + 1] == point + 1 for one in began)
        changes[point] = point + 1 if is_change else changes[point + 1]
    return changes


def _periods(began: Sequence[int], one: ZoneSeries) -> list[SeenPeriod]:
    starts = [point for point, since in enumerate(began) if since == point]
    ends = [*starts[1:], len(began)]
    return [
        SeenPeriod(one.ups[start], start * one.gap_h, end * one.gap_h, is_cut=end == len(began))
        for start, end in zip(starts, ends, strict=True)
    ]
