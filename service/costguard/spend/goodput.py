"""Divides the time and the cost of jobs by use: work that stands, work that was lost, starts, ends and waiting. Pure.

Every second from a job's launch to its end, and as long after it as a VM of it billed, counts once. A command's time
counts as work from the moment that the command starts; of a run that was interrupted, what came after the checkpoint
that was resumed from is lost, as the job's own page has it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import pairwise
from typing import TypeVar

from costguard.model.money import ZERO, Money, Priced

METHOD = (
    "Every second from a job's launch to the end of its last VM, once: kept is the time of its command whose work was "
    "saved, or led to success; lost is the time of its command after the checkpoint that it resumed from, or after its "
    "last one where it did not succeed; not saved yet is the time since the newest checkpoint, while that may still "
    "come; starting and ending are a VM's time before and after its command; waiting is the time without a VM. The "
    "cost is the job's bill, disks included, by the seconds of its VMs at their rates. A useful GPU-hour is an hour of "
    "one GPU in time that was kept."
)
_NONE = timedelta()
_MICROSECOND = timedelta(microseconds=1)
_Key = TypeVar("_Key")


class TimeUse(StrEnum):
    """The use of a second of a job; pages show them in this order."""

    KEPT = "kept"  # the command ran, and its work stands
    LOST = "lost"  # the command ran, and its work had to be done again or led to nothing
    UNSAVED = "unsaved"  # the command ran, and nobody knows yet whether its work will stand
    STARTING = "starting"  # a VM billed, and its command did not run yet
    ENDING = "ending"  # a VM billed after its command had ended
    WAITING = "waiting"  # no VM billed


@dataclass(frozen=True, slots=True)
class CommandRun:
    """A run of a job's command. `lost`: of this and earlier runs, when it was interrupted; None: not known yet."""

    began: datetime
    ended: datetime | None
    lost: timedelta | None = None


@dataclass(frozen=True, slots=True)
class BilledVM:
    """A lifetime of a VM of the job; `rate` is an hour of it, None where nobody knows."""

    began: datetime
    ended: datetime | None
    gpus: int = 0
    rate: Money | None = None


@dataclass(frozen=True, slots=True)
class JobHistory:
    """`saved_at`: when the newest complete checkpoint was written. `may_have_saved`: nobody could look for one.

    `nodes` VMs run its command together.
    """

    id: str
    project: str
    preset: str
    owner: str
    created_at: datetime
    ended_at: datetime | None
    is_success: bool
    runs: tuple[CommandRun, ...] = ()
    vms: tuple[BilledVM, ...] = ()
    saved_at: datetime | None = None
    may_have_saved: bool = False
    nodes: int = 1


@dataclass(frozen=True, slots=True)
class TimePart:
    """A stretch of a job's time. `weight` divides the cost: nano-dollars an hour, or the VMs that billed."""

    use: TimeUse
    began: datetime
    ended: datetime
    gpus: int = 0
    weight: int = 0

    @property
    def span(self) -> timedelta:
        return self.ended - self.began


def parts_of(job: JobHistory, now: datetime) -> list[TimePart]:
    """The job's time, whole, in order and without gaps; neighbours differ."""
    begin, end = job.created_at, max(job.created_at, job.ended_at or now)
    if job.ended_at is not None:
        end = max([end, *(min(now, vm.ended or now) for vm in job.vms)])
    runs = _in_order(job.runs, begin, end)
    kept_until = _kept_until(job.runs, runs)
    tail = _tail_of(job, runs, kept_until)
    spans = [(vm, max(begin, vm.began), min(end, vm.ended or end)) for vm in job.vms]
    edges = [begin, end, *kept_until]
    for span_begin, span_end in runs + tail + [(since, until) for _, since, until in spans]:
        edges += (span_begin, span_end)
    moments = sorted([edge for edge in edges if begin <= edge <= end])
    knows_rates = all(vm.rate is not None for vm in job.vms)
    begins = [since for since, _ in runs]
    parts: list[TimePart] = []
    for since, until in pairwise(moments):
        if since == until:
            continue
        up = [(vm, span_begin, span_end) for vm, span_begin, span_end in spans if span_begin <= since < span_end]
        place = bisect_right(begins, since) - 1
        if place >= 0 and since < runs[place][1]:
            use = TimeUse.KEPT if since < kept_until[place] else TimeUse.LOST
            if any(tail_begin <= since < tail_end for tail_begin, tail_end in tail):
                use = _use_of_tail(job)
        elif up:
            ran_before = [run for run in runs[: place + 1] if any(run[1] > span_begin for _, span_begin, _ in up)]
            runs_later = any(run[0] < span_end for run in runs[place + 1 :] for _, _, span_end in up)
            use = TimeUse.ENDING if ran_before and not runs_later else TimeUse.STARTING
        else:
            use = TimeUse.WAITING
        weight = sum((vm.rate.nanos if knows_rates and vm.rate is not None else 1) for vm, _, _ in up)
        gpus = sum(sorted((vm.gpus for vm, _, _ in up), reverse=True)[: job.nodes])
        _append(parts, TimePart(use, since, until, gpus, weight))
    return parts


def within(parts: Iterable[TimePart], begin: datetime, end: datetime) -> list[TimePart]:
    """The parts cut to [begin, end)."""
    return [
        TimePart(part.use, max(begin, part.began), min(end, part.ended), part.gpus, part.weight)
        for part in parts
        if part.began < end and part.ended > begin
    ]


@dataclass(frozen=True, slots=True)
class Goodput:
    """Time and cost by use, of one job or of several; every use is there. `useful_gpu_time` is kept, times its GPUs."""

    jobs: int
    spans: Mapping[TimeUse, timedelta]
    costs: Mapping[TimeUse, Money]
    useful_gpu_time: timedelta = _NONE
    is_priced: bool = True  # False: something in it has no price

    @property
    def span(self) -> timedelta:
        return sum(self.spans.values(), _NONE)

    @property
    def cost(self) -> Priced:
        return Priced(sum(self.costs.values(), ZERO), self.is_priced)

    @property
    def paid_span(self) -> timedelta:
        return self.span - self.spans[TimeUse.WAITING]

    @property
    def shares(self) -> Mapping[TimeUse, int]:
        """Returns the share of each use in its time, in hundredths of a percent that add up to 100 %; all 0 where it
        has no time.
        """
        total = self.span // _MICROSECOND
        return divided(10_000 if total else 0, {use: span // _MICROSECOND for use, span in self.spans.items()})

    @property
    def kept_share_of_paid(self) -> int | None:
        """Returns the kept share of the time that VMs billed, in hundredths of a percent, cut off; None where
        none did.
        """
        return 10_000 * self.spans[TimeUse.KEPT] // self.paid_span if self.paid_span else None

    @property
    def cost_per_useful_gpu_hour(self) -> Money | None:
        """All of the cost, by the GPU-hours that were kept; None where there were none, or not all has a price."""
        if not self.useful_gpu_time or not self.is_priced:
            return None
        microseconds = self.useful_gpu_time // _MICROSECOND
        return Money(sum(cost.nanos for cost in self.costs.values()) * 3_600_000_000 // microseconds)


NO_GOODPUT = Goodput(0, dict.fromkeys(TimeUse, _NONE), dict.fromkeys(TimeUse, ZERO))


def added(figures: Iterable[Goodput]) -> Goodput:
    """Adds up goodputs; jobs that are in several of them count as often."""
    jobs, useful, is_priced = 0, _NONE, True
    spans, nanos = dict.fromkeys(TimeUse, _NONE), dict.fromkeys(TimeUse, 0)
    for one in figures:
        jobs += one.jobs
        useful += one.useful_gpu_time
        is_priced = is_priced and one.is_priced
        for use, span in one.spans.items():
            if span:
                spans[use] += span
        for use, cost in one.costs.items():
            nanos[use] += cost.nanos
    return Goodput(jobs, spans, {use: Money(of_use) for use, of_use in nanos.items()}, useful, is_priced)


def goodput(parts: Collection[TimePart], cost: Priced) -> Goodput:
    """Adds up one job's parts, and divides their cost to the last nano-dollar."""
    spans = dict.fromkeys(TimeUse, _NONE)
    weights = dict.fromkeys(TimeUse, 0)
    useful = _NONE
    for part in parts:
        span = part.span
        spans[part.use] += span
        weights[part.use] += part.weight * (span // _MICROSECOND)
        if part.use is TimeUse.KEPT:
            useful += part.gpus * span
    if not any(weights.values()):
        weights[TimeUse.WAITING] = 1  # disks that bill while no VM does
    costs = {use: Money(nanos) for use, nanos in divided(cost.amount.nanos, weights).items()}
    return Goodput(1, spans, costs, useful, cost.whole)


def divided(total: int, weights: Mapping[_Key, int]) -> dict[_Key, int]:
    """A whole number by weights: each share at most one off, and together exactly the whole. Without weights, all 0."""
    of_all = sum(weights.values())
    if not of_all:
        return dict.fromkeys(weights, 0)
    shares = {key: total * weight // of_all for key, weight in weights.items()}
    rest = total - sum(shares.values())
    largest_first = sorted(weights, key=lambda key: -(total * weights[key] % of_all))
    for key in largest_first[:rest]:
        shares[key] += 1
    return shares


def _in_order(runs: Sequence[CommandRun], begin: datetime, end: datetime) -> list[tuple[datetime, datetime]]:
    """Clocks of guests differ: within the job's time, and none before the one before it has ended."""
    ordered: list[tuple[datetime, datetime]] = []
    reached = begin
    for run in runs:
        since = min(end, max(reached, run.began))
        reached = min(end, max(since, run.ended or end))
        ordered.append((since, reached))
    return ordered


def _kept_until(runs: Sequence[CommandRun], spans: Sequence[tuple[datetime, datetime]]) -> list[datetime]:
    """Returns the moment until which each run's work stands, by the losses known when the next one began."""
    kept = [until for _, until in spans]
    for last, run in enumerate(runs):
        lost = run.lost or _NONE
        for place in range(last, -1, -1):
            if lost <= _NONE:
                break
            taken = min(lost, kept[place] - spans[place][0])
            kept[place] -= taken
            lost -= taken
    return kept


def _tail_of(
    job: JobHistory, spans: Sequence[tuple[datetime, datetime]], kept: Sequence[datetime]
) -> list[tuple[datetime, datetime]]:
    """The work since the newest checkpoint, which no later run has built on."""
    if job.is_success:
        return []
    tail = []
    for (since, _), until in zip(spans, kept, strict=True):
        begin = since if job.saved_at is None else max(since, job.saved_at)
        if begin < until:
            tail.append((begin, until))
    return tail


def _use_of_tail(job: JobHistory) -> TimeUse:
    return TimeUse.UNSAVED if job.ended_at is None or job.may_have_saved else TimeUse.LOST


def _append(parts: list[TimePart], part: TimePart) -> None:
    """Neighbours that are alike become one."""
    last = parts[-1] if parts else None
    if last is not None and (last.use, last.gpus, last.weight) == (part.use, part.gpus, part.weight):
        parts[-1] = TimePart(part.use, last.began, part.ended, part.gpus, part.weight)
    else:
        parts.append(part)
