"""Advises a job on its checkpoint interval: what the one in use loses to preemptions, and what the best would. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from statistics import median

from costguard.deadlines.hazards import ByAge
from costguard.deadlines.save_interval import Parts, SaveTerms, best_interval, parts_of
from costguard.jobs.decide.checkpoints.notice import fits
from costguard.model.attempt import Interruption, Outcome
from costguard.model.duration import span_text
from costguard.model.money import ZERO, Money
from costguard.model.reported.drill import Drill, SavedOnNotice
from costguard.model.words import count_text

WORTH = 0.02  # of the job's cost: a smaller saving is no advice
_HOUR = timedelta(hours=1)
_LATELY = 20  # gaps between checkpoints that the interval in use is read from
_CHANGED = 1.5  # an interval so many times as long, or as short, is another one
_ENOUGH = 2  # gaps on both sides of a change
_RESOLUTION = timedelta(seconds=1)  # of a checkpoint's time: a save is not measured to less


@dataclass(frozen=True, slots=True)
class MeasuredSave:
    """A save as it was measured: how long it held the training up, and how long its upload took after that."""

    span: timedelta
    upload: timedelta = timedelta()


@dataclass(frozen=True, slots=True)
class SaveCase:
    """Holds all that the advice rests on. `written`: when complete checkpoints were, the oldest first.

    `start`: what a VM bills until its command runs. `work`: of the whole job; None: not known. `rate`: of an hour.
    """

    written: Sequence[datetime]
    interruptions: Sequence[Interruption]
    drills: Sequence[Drill]
    save: MeasuredSave | None
    start: timedelta | None
    hazard: ByAge
    notice: timedelta
    on_notice: SavedOnNotice
    work: timedelta | None
    rate: Money | None


@dataclass(frozen=True, slots=True)
class SaveAdvice:
    """The cost of the interval in use and of the best. `loses` and `would_lose` are all that is billed and is
    not kept work: work that is done again, the starts of further VMs, and saves, of `expected`, which the job costs as
    it saves now. The three are None where the work of the job is not known; the shares never are.
    """

    uses: timedelta
    best: timedelta
    loses_share: float
    would_lose_share: float
    loses: Money | None
    would_lose: Money | None
    expected: Money | None
    achieved: str = ""

    @property
    def is_worth(self) -> bool:
        """Says whether the best interval saves more than a fiftieth of the job's cost."""
        return 1 - (1 - self.loses_share) / (1 - self.would_lose_share) > WORTH if self.would_lose_share < 1 else False

    @property
    def text(self) -> str:
        """`saving every 2 h loses $41 of an expected $312 to preemptions and saves; every 23 min would lose $9`."""
        uses, best = interval_text(self.uses), interval_text(self.best)
        if self.loses is not None and self.would_lose is not None:
            loses = f"saving every {uses} loses {self.loses} of an expected {self.expected} to preemptions and saves"
            return f"{loses}; every {best} would lose {self.would_lose}"
        loses = f"saving every {uses} loses {self.loses_share:.0%} of its cost to preemptions and saves"
        return f"{loses}; every {best} would lose {self.would_lose_share:.0%}"


def save_advice(case: SaveCase) -> SaveAdvice | None:
    """Advises on the interval; None where the interval, the time of a save, of a start, or the price is not known."""
    terms = save_terms(case)
    uses = interval_in_use(case)
    if terms is None or uses is None or case.rate is None:
        return None
    best = best_interval(terms)
    now, then = parts_of(terms, uses / _HOUR), parts_of(terms, best)
    if now.kept <= 0 or then.kept <= 0:
        return None
    expected, loses = _priced(now, case)
    _, would_lose = _priced(then, case)
    achieved = achieved_text(case)
    return SaveAdvice(uses, best * _HOUR, 1 - now.kept, 1 - then.kept, loses, would_lose, expected, achieved)


def save_terms(case: SaveCase) -> SaveTerms | None:
    """Returns the terms of the job's saves; None where a save or a start was not measured."""
    if case.save is None or case.start is None:
        return None
    return SaveTerms(
        case.save.span / _HOUR,
        case.start / _HOUR,
        case.hazard,
        case.save.upload / _HOUR,
        noticed_share(case.save, case.notice, case.on_notice),
    )


def noticed_share(save: MeasuredSave, notice: timedelta, seen: SavedOnNotice) -> float:
    """Returns the share of preemptions on whose notice a save comes to its end.

    Of the notices that were seen, drills and preemptions, one more counts as without a save: a single drill that went
    well does not make each preemption harmless. 0 where none was seen, or a save does not fit in the notice.
    """
    return seen.saved / (seen.times + 1) if fits(save.span + save.upload, notice) else 0.0


def interval_in_use(case: SaveCase) -> timedelta | None:
    """Returns the usual work between two saves of one run; None before two of them were seen."""
    gaps = [gap for _, gap in _gaps(case)][-_LATELY:]
    return _work_between(gaps, case) if gaps else None


def achieved_text(case: SaveCase) -> str:
    """Says what a change of the interval achieved: the work lost at a preemption before and after it.

    Empty where the interval did not change, or a side of the change has no preemption of which the loss is known.
    """
    gaps = _gaps(case)
    place = _changed_at(gaps)
    if place is None:
        return ""
    since = gaps[place][0]
    lost = _known_losses(case)
    before = [one for one in lost if one.happened_at < since]
    after = [one for one in lost if one.happened_at >= since]
    if not before or not after:
        return ""
    was, now = (_work_between([gap for _, gap in some], case) for some in (gaps[:place], gaps[place:]))
    return (
        f"since it saves every {interval_text(now)} instead of every {interval_text(was)}, {_mean_loss(after)}; "
        f"before, {_mean_loss(before)}"
    )


def achieved_since(earlier: SaveCase, job_id: str, case: SaveCase) -> str:
    """Says the same of a job next to an earlier one with the same script; empty where the intervals are alike."""
    was, now = interval_in_use(earlier), interval_in_use(case)
    if was is None or now is None or abs(math.log(was / now)) < math.log(_CHANGED):
        return ""
    before, after = _known_losses(earlier), _known_losses(case)
    if not before or not after:
        return ""
    return (
        f"since it saves every {interval_text(now)} instead of every {interval_text(was)} as in job {job_id}, "
        f"{_mean_loss(after)}; in that one, {_mean_loss(before)}"
    )


def _known_losses(case: SaveCase) -> list[Interruption]:
    return [one for one in case.interruptions if one.lost is not None and one.outcome is Outcome.PREEMPTED]


def interval_text(interval: timedelta) -> str:
    """`23 min`: to a minute from ten minutes on, below that to ten seconds."""
    unit = timedelta(minutes=1) if interval >= timedelta(minutes=10) else timedelta(seconds=10)
    return span_text(max(round(interval / unit), 1) * unit)


def _mean_loss(some: Sequence[Interruption]) -> str:
    """`4 preemptions lost 55 min each ($5.00)`."""
    spans = [one.lost for one in some if one.lost is not None]
    costs = [one.lost_cost for one in some if one.lost_cost is not None]
    mean = span_text(sum(spans, timedelta()) / len(spans))
    cost = f" ({Money(sum(costs, ZERO).nanos // len(costs))})" if len(costs) == len(some) else ""
    return f"{count_text(len(some), 'preemption')} lost {mean}{' each' if len(some) > 1 else ''}{cost}"


def _work_between(gaps: Sequence[timedelta], case: SaveCase) -> timedelta:
    """A checkpoint's time is the end of its save: from one to the next lie the work and a save."""
    save = case.save.span if case.save is not None else timedelta()
    return max(timedelta(seconds=median(gap.total_seconds() for gap in gaps)) - save, _RESOLUTION)


def _gaps(case: SaveCase) -> list[tuple[datetime, timedelta]]:
    """Returns the times between two checkpoints in one run, with the moment of the first: none across a preemption, and
    none in which a drill asked for a save.
    """
    cuts = [one.happened_at for one in case.interruptions]
    cuts += [moment for drill in case.drills for moment in (drill.began_at, drill.ended_at) if moment is not None]
    moments = sorted(set(case.written))
    return [
        (earlier, later - earlier)
        for earlier, later in pairwise(moments)
        if not any(earlier <= cut <= later for cut in cuts)
    ]


def _changed_at(gaps: Sequence[tuple[datetime, timedelta]]) -> int | None:
    """Returns the place from which on the gaps are of another length; None where they are not."""
    lengths = [math.log(max(gap, _RESOLUTION) / _RESOLUTION) for _, gap in gaps]
    places = range(_ENOUGH, len(lengths) - _ENOUGH + 1)
    if not places:
        return None
    # The split that leaves the least spread on both sides is where the change was made.
    place = min(places, key=lambda at: _spread(lengths[:at]) + _spread(lengths[at:]))
    changed = abs(median(lengths[:place]) - median(lengths[place:]))
    return place if changed >= math.log(_CHANGED) else None


def _spread(values: Sequence[float]) -> float:
    middle = median(values)
    return sum(abs(value - middle) for value in values)


def _priced(parts: Parts, case: SaveCase) -> tuple[Money | None, Money | None]:
    """Returns the expected cost of the whole job, and the part of it that pays for no kept work."""
    if case.work is None or case.rate is None:
        return None, None
    expected = case.rate.over(case.work * parts.cost_of_work)
    return expected, expected - case.rate.over(case.work)
