"""Computes a training's progress, its curves, and the hours and dollars that are left."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import pairwise

from sqlalchemy import Connection

from costguard.jobs.rows import attempts, job_rows
from costguard.jobs.rows.progress import progress_rows
from costguard.jobs.rows.recovery import interruptions
from costguard.ledger import job_costs
from costguard.ledger.accrual import Accrual
from costguard.model.attempt import Attempt, Interruption
from costguard.model.job import Job
from costguard.model.money import Money, Priced
from costguard.model.reported.progress import EVALUATION, LOSS, NAMED, POSITION, SeenProgress, SeriesPoint
from costguard.spend import goodput_rows
from costguard.spend.goodput import BilledVM
from costguard_vm.progress.finish import Mark, TrainingLeft, left
from costguard_vm.progress.series import rewound

_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """`cost` is what the job had cost by then: its bill, by the seconds of its VMs at their rates; None: not known."""

    at: datetime
    unit: str | None
    done: float | None
    value: float | None
    cost: Money | None


@dataclass(frozen=True, slots=True)
class SharedBill:
    """The cost of a job by any moment: the one figure that pages show as its cost, shared out over its VMs' time."""

    vms: Sequence[BilledVM]
    cost: Priced
    now: datetime

    def by(self, moment: datetime) -> Money | None:
        """Returns the cost by a moment; None where a part has no price, or no VM is in the ledger yet."""
        if not self.cost.whole or any(vm.rate is None for vm in self.vms):
            return None
        whole = self._weight(self.now)
        return Money(self.cost.amount.nanos * self._weight(moment) // whole) if whole else None

    def _weight(self, until: datetime) -> int:
        """Nano-dollars an hour times microseconds."""
        return sum(
            vm.rate.nanos * max(0, (min(vm.ended or self.now, until) - vm.began) // _MICROSECOND)
            for vm in self.vms
            if vm.rate is not None
        )


@dataclass(frozen=True, slots=True)
class JobCurve:
    """`name` is what the output calls it; `kind` is loss, metric (the job's own), evaluation or speed."""

    kind: str
    name: str
    points: tuple[CurvePoint, ...]


@dataclass(frozen=True, slots=True)
class TimeLeft:
    """The running time left, without preemptions and starts. Costs at the rate of the latest VM; None: not known."""

    work: TrainingLeft
    low: timedelta
    likely: timedelta
    high: timedelta
    cost_low: Money | None
    cost_likely: Money | None
    cost_high: Money | None


@dataclass(frozen=True, slots=True)
class JobProgress:
    """`total` is the job's own number of steps, else what its output says. None is unknown."""

    seen: SeenProgress | None
    unit: str | None
    done: float | None
    total: float | None
    per_second: float | None
    left: TimeLeft | None
    curves: tuple[JobCurve, ...]
    interrupted_at: tuple[datetime, ...]
    is_open: bool = True


def job_progress(connection: Connection, accrual: Accrual, job_id: str) -> JobProgress | None:
    """Computes the progress of a job. None: there is no such job."""
    job = job_rows.read(connection, job_id)
    if job is None:
        return None
    tried = attempts.of_jobs(connection, [job_id]).get(job_id, [])
    ended = interruptions.of_jobs(connection, [job_id]).get(job_id, ())
    bill = SharedBill(
        goodput_rows.billed_vms(connection, job_id), job_costs.costs(connection, accrual, [job_id])[job_id], accrual.now
    )
    return progress_of(job, tried, ended, progress_rows.of_job(connection, job_id), bill)


def progress_of(
    job: Job,
    tried: Sequence[Attempt],
    ended: Sequence[Interruption],
    series: Mapping[str, Sequence[SeriesPoint]],
    bill: SharedBill,
) -> JobProgress:
    positions = series.get(POSITION, ())
    seen = next((one.agent.progress for one in reversed(tried) if one.agent.progress is not None), None)
    unit, total = seen.unit if seen is not None else None, total_of(job, seen)
    curves = [
        _curve(kind, name, points, bill)
        for kind, name, points in _named(series)
        if any(point.value is not None for point in points)
    ]
    if len(speeds := _speeds(positions)) > 1:
        curves.append(_curve("speed", f"{unit or 'step'}s per second", speeds, bill))
    is_over = job.state.is_over
    return JobProgress(
        seen=seen,
        unit=unit,
        done=seen.done if seen is not None else None,
        total=total,
        per_second=seen.per_second if seen is not None and not is_over else None,
        left=None if is_over else priced(work_left(job, seen, positions), tried),
        curves=tuple(curves),
        interrupted_at=tuple(one.happened_at for one in ended),
        is_open=not is_over,
    )


def total_of(job: Job, seen: SeenProgress | None) -> float | None:
    """The owner's number of steps wins where steps are counted. One that was passed was none."""
    if seen is None:
        return float(job.spec.total_steps) if job.spec.total_steps else None
    is_named = bool(job.spec.total_steps) and seen.unit in (None, "step")
    total = float(job.spec.total_steps) if is_named and job.spec.total_steps else seen.end
    return None if total is not None and seen.done is not None and seen.done > total else total


def work_left(job: Job, seen: SeenProgress | None, positions: Sequence[SeriesPoint]) -> TrainingLeft | None:
    """Estimates the work left by the pace of all its runs. None where its total or its pace is unknown."""
    if seen is None or seen.unit is None:
        return None
    starts = sorted({point.start for point in positions})
    marks = [
        Mark(starts.index(point.start), point.at.timestamp(), point.done)
        for point in positions
        if point.unit == seen.unit and point.done is not None
    ]
    return left(marks, total_of(job, seen))


def priced(work: TrainingLeft | None, tried: Sequence[Attempt]) -> TimeLeft | None:
    if work is None:
        return None
    low, likely, high = (timedelta(seconds=round(hours * 3600)) for hours in (work.low_h, work.likely_h, work.high_h))
    rate = next((one.rate for one in reversed(tried) if one.rate is not None), None)
    if rate is None:
        return TimeLeft(work, low, likely, high, None, None, None)
    return TimeLeft(work, low, likely, high, rate.over(low), rate.over(likely), rate.over(high))


def _named(series: Mapping[str, Sequence[SeriesPoint]]) -> list[tuple[str, str, list[SeriesPoint]]]:
    named = [("loss", "loss", LOSS), ("metric", "metric", NAMED)]
    named += [("evaluation", name[len(EVALUATION) :], name) for name in sorted(series) if name.startswith(EVALUATION)]
    return [(kind, shown, rewound(series[name])) for kind, shown, name in named if name in series]


def _speeds(positions: Sequence[SeriesPoint]) -> list[SeriesPoint]:
    """Units a second from each point to the next of its start; also of work that was done again."""
    speeds = []
    for before, point in pairwise(positions):
        seconds = (point.at - before.at).total_seconds()
        is_next = point.start == before.start and point.unit == before.unit and seconds > 0
        if is_next and point.done is not None and before.done is not None and point.done >= before.done:
            speed = (point.done - before.done) / seconds
            speeds.append(replace(point, value=speed))
    return speeds


def _curve(kind: str, name: str, points: Sequence[SeriesPoint], bill: SharedBill) -> JobCurve:
    return JobCurve(
        kind,
        name,
        tuple(CurvePoint(one.at, one.unit, one.done, one.value, bill.by(one.at)) for one in points),
    )
