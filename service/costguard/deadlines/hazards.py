"""Estimates the hazards of a zone, by age: that its Spot VMs are preempted, and that a zone that is out comes back.

Young VMs are preempted far more often than old ones, and outages behave the same way. A zone's own history counts with
the prior, which stands for `PRIOR_HOURS` of every bin.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple

BIN_STARTS = (0.0, 0.16, 0.33, 0.66, 1.5, 4.0, 8.0, 16.0)  # hours; the last bin has no end
BINS = len(BIN_STARTS)
_BIN_ENDS = (*BIN_STARTS[1:], math.inf)
ByAge = tuple[float, ...]  # a number for each bin

NONE_BY_AGE: ByAge = (0.0,) * BINS


class ZoneCounts(NamedTuple):
    """The history of a zone, by age: preemptions in so many hours up, recoveries in so many hours down."""

    preemptions: ByAge = NONE_BY_AGE
    up_hours: ByAge = NONE_BY_AGE
    recoveries: ByAge = NONE_BY_AGE
    down_hours: ByAge = NONE_BY_AGE


NO_COUNTS = ZoneCounts()


class TogetherCounts(NamedTuple):
    """The history of zones together, for a job that holds the oldest one that is up until it is preempted, then the
    next.

    `held` counts the zone that is held, and the times when all are out. Of `lost` preemptions, another zone was up at
    once in as many cases as `found_ages` counts, by its age.
    """

    held: ZoneCounts = NO_COUNTS
    lost: float = 0.0
    found_ages: ByAge = NONE_BY_AGE


class SeenPeriod(NamedTuple):
    """A time for which a zone was up or down, as it was seen, in hours on any one clock.

    `age_h`: how long it had been so already when it began to be seen, where that is known. `is_cut`: it was seen no
    longer, by the end of the record or because the VM was given up: neither preempted nor recovered.
    """

    is_up: bool
    began_h: float
    ended_h: float
    is_cut: bool = False
    age_h: float = 0.0


def bin_of(age_h: float) -> int:
    return bisect_right(BIN_STARTS, max(0.0, age_h)) - 1


# Events an hour, by age, before a zone is known: the means of recorded series of several clouds and machine types.
PRIOR_PREEMPTIONS: ByAge = (1.40, 1.31, 0.89, 0.50, 0.30, 0.16, 0.13, 0.05)
PRIOR_RECOVERIES: ByAge = (2.04, 1.51, 0.93, 0.54, 0.33, 0.21, 0.13, 0.04)
PRIOR_HOURS = 20.0  # that the prior counts for, in every bin


class Hazards(NamedTuple):
    """Events an hour by age: of a zone that is up, and of one that is out."""

    preemption: ByAge = PRIOR_PREEMPTIONS
    recovery: ByAge = PRIOR_RECOVERIES


def counts_of(periods: Iterable[SeenPeriod], now_h: float) -> ZoneCounts:
    """Counts a zone's history until now; what lies later is left out, and a period that goes on still is cut there."""
    events = {True: [0.0] * BINS, False: [0.0] * BINS}
    hours = {True: [0.0] * BINS, False: [0.0] * BINS}
    for period in periods:
        if period.began_h >= now_h:
            continue
        is_cut = period.is_cut or period.ended_h > now_h
        ended_h = min(period.ended_h, now_h)
        age_h = period.age_h + ended_h - period.began_h
        for place, (start, end) in enumerate(zip(BIN_STARTS, (*BIN_STARTS[1:], math.inf), strict=True)):
            first, last = max(start, period.age_h), min(end, age_h)
            if first >= last:
                continue
            hours[period.is_up][place] += last - first
        if not is_cut:
            events[period.is_up][bin_of(age_h)] += 1.0
    return ZoneCounts(tuple(events[True]), tuple(hours[True]), tuple(events[False]), tuple(hours[False]))


class Followed(NamedTuple):
    """A period of a job that holds the oldest zone that is up, or of all zones out.

    `found_age_h`: of the zone that was up when the held one was lost; None where there was none.
    """

    period: SeenPeriod
    found_age_h: float | None = None


def follow(periods_by_zone: Sequence[Sequence[SeenPeriod]]) -> list[Followed]:
    """Holds the oldest zone that is up until it is lost, then the next. A zone that is not seen counts as out."""
    changes: dict[float, dict[int, float | None]] = {}  # by moment and zone: since when it is up, None when it is out
    for zone, periods in enumerate(periods_by_zone):
        for period in periods:
            since_h = period.began_h - period.age_h if period.is_up else None
            changes.setdefault(period.began_h, {})[zone] = since_h
            changes.setdefault(period.ended_h, {}).setdefault(zone, None)
    ups: dict[int, float] = {}
    followed: list[Followed] = []
    held: int | None = None
    began_h, age_h = math.nan, 0.0  # of what is followed now
    for moment in sorted(changes)[:-1]:  # at the last, nothing more is seen
        for zone, since_h in changes[moment].items():
            ups.pop(zone, None)
            if since_h is not None:
                ups[zone] = since_h
        if not math.isnan(began_h) and (held in ups if held is not None else not ups):
            continue
        oldest = min(ups, key=lambda zone: (ups[zone], zone)) if ups else None
        if not math.isnan(began_h):
            found_age_h = moment - ups[oldest] if held is not None and oldest is not None else None
            followed.append(Followed(SeenPeriod(held is not None, began_h, moment, age_h=age_h), found_age_h))
        held, began_h = oldest, moment
        age_h = moment - ups[oldest] if oldest is not None else 0.0
    if not math.isnan(began_h):
        end_h = max(changes)
        followed.append(Followed(SeenPeriod(held is not None, began_h, end_h, is_cut=True, age_h=age_h)))
    return followed


def together_of(followed: Sequence[Followed], now_h: float) -> TogetherCounts:
    """Counts what was followed until now."""
    ended = [one for one in followed if one.period.ended_h <= now_h and one.period.is_up and not one.period.is_cut]
    found_ages = [0.0] * BINS
    for one in ended:
        if one.found_age_h is not None:
            found_ages[bin_of(one.found_age_h)] += 1
    return TogetherCounts(counts_of((one.period for one in followed), now_h), float(len(ended)), tuple(found_ages))


def added(earlier: ZoneCounts, later: ZoneCounts) -> ZoneCounts:
    """Counts of one time and of the hours that follow it, so long as no period is counted in both."""
    return ZoneCounts(
        _sums(earlier.preemptions, later.preemptions),
        _sums(earlier.up_hours, later.up_hours),
        _sums(earlier.recoveries, later.recoveries),
        _sums(earlier.down_hours, later.down_hours),
    )


def _sums(one: ByAge, other: ByAge) -> ByAge:
    return tuple(first + second for first, second in zip(one, other, strict=True))


@lru_cache(maxsize=4096)
def hazards_of(counts: ZoneCounts, prior_hours: float = PRIOR_HOURS) -> Hazards:
    """A zone's own hazards, drawn towards the prior where little was seen."""

    def drawn(events: float, hours: float, prior: float) -> float:
        return (events + prior_hours * prior) / (hours + prior_hours)

    return Hazards(
        tuple(map(drawn, counts.preemptions, counts.up_hours, PRIOR_PREEMPTIONS)),
        tuple(map(drawn, counts.recoveries, counts.down_hours, PRIOR_RECOVERIES)),
    )


@lru_cache(maxsize=1024)
def _passed_before(hazard: ByAge) -> ByAge:
    """The sum of the hazards from a life's begin to the start of each bin: events that are expected by then."""
    passed = (rate * (end - start) for rate, start, end in zip(hazard, BIN_STARTS, _BIN_ENDS[:-1], strict=False))
    return tuple(accumulate(passed, initial=0.0))


def survival(hazard: ByAge, age_h: float, hours: float) -> float:
    """The chance that what is `age_h` old goes on for so many hours more."""
    end_h = age_h + hours
    if age_h == 0:
        place = bin_of(end_h)
        return math.exp(-(_passed_before(hazard)[place] + hazard[place] * max(0.0, end_h - BIN_STARTS[place])))
    passed = 0.0
    for place in range(bin_of(age_h), BINS):
        if end_h <= BIN_STARTS[place]:
            break
        passed += hazard[place] * max(0.0, min(_BIN_ENDS[place], end_h) - max(BIN_STARTS[place], age_h))
    return math.exp(-passed)


def expected_life(hazard: ByAge, age_h: float) -> float:
    """Hours that what is `age_h` old is expected to go on; infinite where the last bin has no events."""
    first = bin_of(age_h)
    life = 0.0
    reached = 1.0
    for place in range(first, BINS):
        start = max(age_h, BIN_STARTS[place])
        rate = hazard[place]
        if place == BINS - 1:
            return life + (reached / rate if rate > 0 else math.inf)
        width = BIN_STARTS[place + 1] - start
        stays = math.exp(-rate * width)
        life += reached * ((1 - stays) / rate if rate > 0 else width)
        reached *= stays
    return life


@lru_cache(maxsize=1024)
def stationary_ages(hazard: ByAge) -> ByAge:
    """The share of each age among what is up at any one moment."""
    hours = []
    reached = 1.0
    for place, (start, end) in enumerate(zip(BIN_STARTS, (*BIN_STARTS[1:], BIN_STARTS[-1] + 48), strict=True)):
        stays = math.exp(-hazard[place] * (end - start))
        hours.append(reached * ((1 - stays) / hazard[place] if hazard[place] > 0 else end - start))
        reached *= stays
    return tuple(hour / sum(hours) for hour in hours)
