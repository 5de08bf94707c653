"""Waits for flex-start VMs: what is known of them, the chance of a grant by the age of a request, and made-up ones.

Google lets a request wait for at most two hours and says nothing of how long most do. So the prior is even over those
two hours, with a fifth never granted; it counts for `PRIOR_REQUESTS` requests, so that a few of one's own outweigh it.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

LONGEST_WAIT_H = 2.0  # of a request, by Google's page on provisioning models
WAIT_STARTS = (0.0, 0.1, 0.5, 1.0)  # hours; bins of a request's age, the last of which ends with the request
WAIT_BINS = len(WAIT_STARTS)
ByWait = tuple[float, ...]  # a number for each bin
NEVER_GRANTED = 0.2  # of requests, by the prior
PRIOR_REQUESTS = 4.0
_SURE = 0.999  # a grant is never certain


class WaitCounts(NamedTuple):
    """Requests by the age at which they were granted, and those that outlasted an age bin without a grant.

    A request that ended in vain has outlasted all of them; one that was dropped, those that it was open for.
    """

    granted: ByWait = (0.0,) * WAIT_BINS
    outlasted: ByWait = (0.0,) * WAIT_BINS
    never: float = NEVER_GRANTED  # the prior's share that is never granted, from 0 to 1


NO_WAITS = WaitCounts()


class SeenWait(NamedTuple):
    """A request. `hours`: until it was granted or dropped, or until now; it is `is_refused` where it ended in vain."""

    hours: float
    is_granted: bool = False
    is_refused: bool = False


class Waits(NamedTuple):
    """Waits that are drawn: even from `shortest_h` to `longest_h`, but for the share `never`, which ends in vain."""

    shortest_h: float = 0.0
    longest_h: float = LONGEST_WAIT_H
    never: float = NEVER_GRANTED

    def drawn(self, run: int, point: int) -> float | None:
        """The hours that a request waits which this run makes at this point; None where it is never granted."""
        lot, hours = _lots(run, point)
        if lot < self.never:
            return None
        return self.shortest_h + hours * (self.longest_h - self.shortest_h)


def counts_of_waits(waits: Iterable[SeenWait]) -> WaitCounts:
    granted, outlasted = [0.0] * WAIT_BINS, [0.0] * WAIT_BINS
    for wait in waits:
        reached = WAIT_BINS if wait.is_refused else wait_bin_of(wait.hours)
        for place in range(reached):
            outlasted[place] += 1
        if wait.is_granted and not wait.is_refused:
            granted[reached] += 1
    return WaitCounts(tuple(granted), tuple(outlasted))


def expected_waits(waits: Waits, requests: float = 400.0) -> WaitCounts:
    """Counts so many requests as they are expected from such waits: what a policy knows that has seen many."""
    granted, outlasted = [], []
    for start_h, end_h in _bins(LONGEST_WAIT_H):
        by_start, by_end = (_granted_by(waits, hours) for hours in (start_h, end_h))
        granted.append(requests * (by_end - by_start))
        outlasted.append(requests * (1 - by_end))
    granted[0] += requests * _granted_by(waits, 0.0)
    return WaitCounts(tuple(granted), tuple(outlasted))


def _granted_by(waits: Waits, age_h: float) -> float:
    """The share of requests that are granted by this age."""
    span_h = waits.longest_h - waits.shortest_h
    part = (age_h - waits.shortest_h) / span_h if span_h > 0 else float(age_h >= waits.shortest_h)
    return (1 - waits.never) * min(1.0, max(0.0, part))


def wait_bin_of(age_h: float) -> int:
    return bisect_right(WAIT_STARTS, max(0.0, age_h)) - 1


@lru_cache(maxsize=256)
def grant_hazards(counts: WaitCounts, longest_h: float = LONGEST_WAIT_H) -> ByWait:
    """Grants an hour, by the age of a request, drawn towards the prior where few were seen."""
    hazards = []
    for place, (start_h, end_h) in enumerate(_bins(longest_h)):
        if end_h <= start_h:
            hazards.append(0.0)
            continue
        prior = _prior_chance(start_h, end_h, longest_h, counts.never)
        seen = counts.granted[place] + counts.outlasted[place]
        chance = (counts.granted[place] + PRIOR_REQUESTS * prior) / (seen + PRIOR_REQUESTS)
        hazards.append(-math.log(1 - min(_SURE, chance)) / (end_h - start_h))
    return tuple(hazards)


def drawn_wait(counts: WaitCounts, longest_h: float, run: int, point: int) -> float | None:
    """A wait by these hazards, the same for a run and a point each time; None: it ends in vain."""
    left = -math.log(1 - min(_lots(run, point)[0], _SURE))
    for hazard, (start_h, end_h) in zip(grant_hazards(counts, longest_h), _bins(longest_h), strict=True):
        passes = hazard * max(0.0, end_h - start_h)
        if passes > left:
            return start_h + left / hazard
        left -= passes
    return None


def _bins(longest_h: float) -> list[tuple[float, float]]:
    ends = (*WAIT_STARTS[1:], longest_h)
    return [(start_h, min(end_h, longest_h)) for start_h, end_h in zip(WAIT_STARTS, ends, strict=True)]


def _prior_chance(start_h: float, end_h: float, longest_h: float, never: float) -> float:
    """The chance that a request of the first age is granted by the second."""
    granted = 1 - never
    return granted * (end_h - start_h) / longest_h / (1 - granted * start_h / longest_h)


def _lots(run: int, point: int) -> tuple[float, float]:
    """Two even numbers from 0 to 1 for a run and a point, the same each time (SplitMix64)."""
    state = (run * 0x9E3779B97F4A7C15 + point * 0xD1B54A32D192ED03) & _WORD
    first = _mixed(state + 0x9E3779B97F4A7C15)
    return first / _WORD, _mixed(first + 0x9E3779B97F4A7C15) / _WORD


_WORD = (1 << 64) - 1


def _mixed(state: int) -> int:
    state &= _WORD
    state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _WORD
    state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & _WORD
    return state ^ (state >> 31)
