"""Computes the checkpoint interval that costs least, given a save's time and the hazard of a zone by a VM's age.

Young (1974) and Daly (2006) give `sqrt(2 x save / hazard)` for a hazard that never changes. Here the hazard follows the
age of the VM, so the expected kept work of one VM's life is computed exactly and its largest value searched for. The
expected length of that life does not depend on the interval: what keeps most of it costs least.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

from costguard.deadlines.hazards import (
    BIN_STARTS,
    BINS,
    ByAge,
    ZoneCounts,
    bin_of,
    expected_life,
    hazards_of,
    survival,
)

SHORTEST_H = 1 / 60  # of an interval: a save more often than every minute disturbs more than any model knows
LONGEST_H = 48.0
# The prior counts for less than in a plan, which a wrong guess could lead to a zone that is out: with 2 hours the
# interval is nearer to the best in zones whose VMs live shorter than usual (docs/deadlines.md).
PRIOR_HOURS = 2.0
_STEPS = 48  # of the search over the logarithm of the interval, before it is refined
_REFINED = 24
_NEGLIGIBLE = 1e-12
_GOLDEN = (math.sqrt(5) - 1) / 2


class SaveTerms(NamedTuple):
    """The terms on which a job saves.

    `save_h`: hours for which a save holds the training up. `upload_h`: hours from its end until it outlasts the VM.
    `start_h`: hours that each VM bills before its first new step. `hazard`: preemptions an hour, by age.
    `noticed`: the share of preemptions on whose notice a save comes to its end, so that hardly any work is lost.
    """

    save_h: float
    start_h: float
    hazard: ByAge
    upload_h: float = 0.0
    noticed: float = 0.0


class Parts(NamedTuple):
    """The shares of the billed hours, together 1: work that is kept, saves, starts, and work that is done again."""

    kept: float
    saves: float
    starts: float
    again: float

    @property
    def cost_of_work(self) -> float:
        """Billed hours for an hour of work that is kept; infinite where none is."""
        return 1 / self.kept if self.kept > 0 else math.inf


def hazard_of(counts: ZoneCounts) -> ByAge:
    """Returns a zone's preemptions an hour, by age, as intervals are computed with."""
    return hazards_of(counts, PRIOR_HOURS).preemption


@lru_cache(maxsize=1024)
def best_interval(terms: SaveTerms, age_h: float | None = None) -> float:
    """Returns the hours of work between two saves that cost least.

    `age_h` None: over all lives of VMs. Otherwise over the rest of the life of a VM of this age whose command runs.
    Between one minute and 48 hours; the longest where waiting costs nothing.
    """

    def kept(log_h: float) -> float:
        return _kept_hours(terms, math.exp(log_h), age_h)

    low, high = math.log(max(SHORTEST_H, 0.1 * terms.save_h)), math.log(LONGEST_H)
    step = (high - low) / _STEPS
    best = max(range(_STEPS + 1), key=lambda place: kept(low + place * step))
    return math.exp(_highest(kept, max(low, low + (best - 1) * step), min(high, low + (best + 1) * step)))


def _highest(function: Callable[[float], float], low: float, high: float) -> float:
    """Searches by golden section: the place of the highest value between two bounds."""
    first, second = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_first, at_second = function(first), function(second)
    for _ in range(_REFINED):
        if at_first >= at_second:
            high, second, at_second = second, first, at_first
            first = high - _GOLDEN * (high - low)
            at_first = function(first)
        else:
            low, first, at_first = first, second, at_second
            second = low + _GOLDEN * (high - low)
            at_second = function(second)
    return (low + high) / 2


@lru_cache(maxsize=1024)
def parts_of(terms: SaveTerms, interval_h: float) -> Parts:
    """Returns what the billed hours of VMs are spent on, where a job saves after so many hours of work."""
    life_h = expected_life(terms.hazard, 0.0)
    starts_h = _integral(terms.hazard, 0.0, terms.start_h)
    saves_h = _spent_on_saves(terms, interval_h)
    kept_h = _kept_hours(terms, interval_h, None)
    if not math.isfinite(life_h):  # never preempted: after its start a VM works and saves for ever
        return Parts(interval_h / (interval_h + terms.save_h), terms.save_h / (interval_h + terms.save_h), 0.0, 0.0)
    again_h = max(0.0, life_h - starts_h - saves_h - kept_h)
    return Parts(kept_h / life_h, saves_h / life_h, starts_h / life_h, again_h / life_h)


def _kept_hours(terms: SaveTerms, interval_h: float, age_h: float | None) -> float:
    """Returns the expected hours of work that a VM keeps from this age on; None: from its request on.

    The save after the k-th interval outlasts the VM if it lives until that save is written and uploaded. On a notice on
    which a save comes to its end, all work up to that save is kept.
    """
    begin_h = terms.start_h if age_h is None else age_h
    cycle_h = interval_h + terms.save_h
    reached = 1.0 if age_h is None else survival(terms.hazard, 0.0, age_h)
    if terms.hazard[-1] <= 0:
        return interval_h / cycle_h  # every life is without an end in its last bin: the share of it
    written = _sum_by_cycle(
        terms.hazard, begin_h + cycle_h + terms.upload_h, cycle_h, 0.0, lambda at: survival(terms.hazard, 0.0, at)
    )
    announced = 0.0
    if terms.noticed > 0:
        first = begin_h + terms.save_h
        announced = _sum_by_cycle(
            terms.hazard, first, cycle_h, interval_h, lambda at: _integral(terms.hazard, at, at + interval_h)
        )
    return ((1 - terms.noticed) * interval_h * written + terms.noticed * announced) / reached


def _spent_on_saves(terms: SaveTerms, interval_h: float) -> float:
    """Returns the expected hours that a VM of this life spends on saves, on a notice too."""
    if terms.hazard[-1] <= 0:
        return 0.0
    cycle_h, first_h = interval_h + terms.save_h, terms.start_h + interval_h

    def until(before_h: float) -> float:
        """Returns the hours of a life that ends so many hours earlier."""
        return _sum_by_cycle(
            terms.hazard,
            first_h + before_h,
            cycle_h,
            terms.save_h,
            lambda at: _integral(terms.hazard, at, at + terms.save_h),
        )

    unheard = (1 - terms.noticed) * until(0.0)
    if terms.noticed <= 0:
        return unheard
    last = terms.save_h * survival(terms.hazard, 0.0, terms.start_h + terms.save_h)
    return unheard + terms.noticed * (until(terms.save_h) + last)


def _sum_by_cycle(
    hazard: ByAge, first_h: float, cycle_h: float, width_h: float, value: Callable[[float], float]
) -> float:
    """Adds up `value` at `first_h` and after each further cycle, for ever.

    `value(at)` rests on the hazard between `at` and `at + width_h` alone, next to the chance to live until `at`: within
    one bin it falls by the same factor with each cycle, so that a geometric series adds up the cycles there.
    """
    total, at = 0.0, first_h
    while True:
        place = bin_of(at)
        end_h = BIN_STARTS[place + 1] if place + 1 < BINS else math.inf
        term = value(at)
        if term <= _NEGLIGIBLE:
            return total
        if place + 1 == BINS:
            return total + term / -math.expm1(-hazard[place] * cycle_h)
        cycles = int((end_h - width_h - at) / cycle_h) + 1 if end_h - width_h >= at else 1
        factor = hazard[place] * cycle_h
        total += term * (cycles if factor <= 0 else math.expm1(-factor * cycles) / math.expm1(-factor))
        at += cycles * cycle_h


def _integral(hazard: ByAge, start_h: float, end_h: float) -> float:
    """Returns the expected hours that a VM spends between two ages."""
    total = 0.0
    reached = survival(hazard, 0.0, start_h)
    for place in range(bin_of(start_h), BINS):
        low = max(start_h, BIN_STARTS[place])
        high = min(end_h, BIN_STARTS[place + 1] if place + 1 < BINS else math.inf)
        if high <= low:
            break
        gone = -math.expm1(-hazard[place] * (high - low))
        total += reached * (gone / hazard[place] if hazard[place] > 0 else high - low)
        reached *= 1 - gone
    return total
