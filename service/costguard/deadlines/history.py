"""A fleet's own history of Spot VMs in one zone: as periods for its hazards, and as a series for a replay.

A zone is seen up while a Spot VM runs in it, and out from a stockout or a preemption on, as long as requests that
follow closely are refused too. Times are hours on any one clock.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from costguard.deadlines.hazards import PRIOR_HOURS, PRIOR_PREEMPTIONS, SeenPeriod, ZoneCounts

WATCHED_H = 1.0  # two requests no further apart: nobody could have missed a recovery in between for long


class SpotRun(NamedTuple):
    """A Spot VM. `is_preempted`: its end was the zone's, not its owner's; while it runs, `ended_h` is None."""

    began_h: float
    ended_h: float | None
    is_preempted: bool = False


class ZoneHistory(NamedTuple):
    """`stockouts_h`: when a Spot VM was asked for and not to be had."""

    runs: Sequence[SpotRun] = ()
    stockouts_h: Sequence[float] = ()

    @property
    def begins_h(self) -> float | None:
        return min((*(run.began_h for run in self.runs), *self.stockouts_h), default=None)


def periods_of(history: ZoneHistory, now_h: float) -> list[SeenPeriod]:
    """Returns the periods of the zone until now. Times without observation are in none."""
    ups = [
        SeenPeriod(True, run.began_h, end, is_cut=run.ended_h is None or run.ended_h > now_h or not run.is_preempted)
        for run in history.runs
        if (end := min(now_h, run.ended_h if run.ended_h is not None else now_h)) > run.began_h
    ]
    return ups + list(_outages(history, now_h))


def _outages(history: ZoneHistory, now_h: float) -> Iterable[SeenPeriod]:
    """Yields outages: from each first refusal, or the preemption shortly before it, to the next VM, or to the last
    refusal.
    """
    events = sorted(
        [(at, True) for at in history.stockouts_h if at <= now_h]
        + [(run.began_h, False) for run in history.runs if run.began_h <= now_h]
    )
    lost = sorted(run.ended_h for run in history.runs if run.is_preempted and run.ended_h is not None)
    began: float | None = None
    last = last_launch = -math.inf
    for at, is_stockout in events:
        if began is not None and at - last > WATCHED_H:
            if last > began:
                yield SeenPeriod(False, began, last, is_cut=True)
            began = None
        if is_stockout:
            if began is None:
                place = bisect_right(lost, at) - 1
                began = lost[place] if place >= 0 and lost[place] > max(at - WATCHED_H, last_launch) else at
            last = at
            continue
        if began is not None and at > began:
            yield SeenPeriod(False, began, at)
        began, last_launch = None, at
    if began is not None and last > began:
        yield SeenPeriod(False, began, last, is_cut=True)


class SeenSeries(NamedTuple):
    """1 where a Spot VM ran, or the last that was seen of the zone was no refusal. `seen`: points near any evidence."""

    ups: list[int]
    seen: int


def series_of_history(history: ZoneHistory, begin_h: float, now_h: float, gap_h: float) -> SeenSeries:
    """Makes a series with a point each `gap_h` from `begin_h` on.

    Between evidence the last of it holds; before all of it, the first.
    """
    ends = [(run.ended_h, not run.is_preempted) for run in history.runs if run.ended_h is not None]
    events = sorted([(at, False) for at in history.stockouts_h] + [(run.began_h, True) for run in history.runs] + ends)
    spans = _merged([(run.began_h, now_h if run.ended_h is None else run.ended_h) for run in history.runs])
    ups: list[int] = []
    seen = span = event = 0
    state = events[0][1] if events else False
    for place in range(int((now_h - begin_h) / gap_h) + 1):
        at = begin_h + place * gap_h
        while span < len(spans) and spans[span][1] <= at:
            span += 1
        while event < len(events) and events[event][0] <= at:
            state = events[event][1]
            event += 1
        runs = span < len(spans) and spans[span][0] <= at
        is_near = event > 0 and at - events[event - 1][0] <= WATCHED_H
        ups.append(int(runs or state))
        seen += runs or is_near
    return SeenSeries(ups, seen)


MOST_TIMES = 3.0  # that a zone may be better or worse than the mean, by Google's rates


def counts_of_rates(rates: Mapping[str, float]) -> dict[str, ZoneCounts]:
    """Zones without history, by the share of Spot VMs that were preempted among those that stopped there.

    That share is no hazard, as nobody says how long the VMs ran. So it only compares the zones with each other: each
    counts as many hours as the prior does, with the prior's preemptions times its rate over the mean of all.
    """
    mean = sum(rates.values()) / len(rates) if rates else 0.0
    if not mean:
        return {}
    counts = {}
    for zone, rate in rates.items():
        times = min(MOST_TIMES, max(1 / MOST_TIMES, rate / mean))
        preemptions = tuple(PRIOR_HOURS * prior * times for prior in PRIOR_PREEMPTIONS)
        counts[zone] = ZoneCounts(preemptions=preemptions, up_hours=(PRIOR_HOURS,) * len(PRIOR_PREEMPTIONS))
    return counts


def _merged(spans: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    merged: list[tuple[float, float]] = []
    for begin, end in sorted(spans):
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((begin, end))
    return merged
