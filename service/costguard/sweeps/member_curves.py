"""Reads the curves that members of a sweep are compared by, in a few queries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from math import isfinite
from statistics import median

from sqlalchemy import Connection

from costguard.jobs.reports.progress.progress import total_of
from costguard.jobs.rows import attempts, job_rows
from costguard.jobs.rows.progress import progress_rows
from costguard.model.attempt import Attempt
from costguard.model.job import EarlyEnd, Job, JobState
from costguard.model.reported.metric import HIGHER
from costguard.model.reported.progress import EVALUATION, LOSS, NAMED, SeriesPoint
from costguard.model.sweep import Halving, Sweep, SweepMember
from costguard.sweeps.halving import MemberCurve, SweepCurves
from costguard_vm.progress.series import rewound

_LEAST_AGE = timedelta(hours=1)  # of a newest evaluation, before it is of the past
_SPANS = 3  # between evaluations: so many without one, and what is known of the member is of the past


def series_of(halving: Halving) -> str:
    """Returns the series of points that holds the sweep's metric."""
    if not halving.metric:
        return NAMED
    return LOSS if halving.metric == LOSS else f"{EVALUATION}{halving.metric}"


def curves_of(
    connection: Connection, sweep: Sweep, members: Sequence[SweepMember], now: datetime
) -> SweepCurves | None:
    """Returns the members' curves; None where halving does not act on this sweep."""
    if sweep.halving is None or not sweep.halves:
        return None
    ids = [job_id for member in members for job_id in member.jobs]
    points = progress_rows.series_of_jobs(connection, ids, series_of(sweep.halving))
    present = [member.job_id for member in members if member.job_id]
    jobs = job_rows.of_ids(connection, present)
    tried = attempts.of_jobs(connection, present)
    curves = {
        member.number: rewound([point for job_id in member.jobs for point in points.get(job_id, ())])
        for member in members
    }
    unit = _unit(curves)
    total = max(_totals(jobs, tried, unit), default=None)
    compared = [
        _curve(member, jobs[member.job_id], curves[member.number], sweep.halving, unit, now)
        for member in members
        if member.job_id in jobs
    ]
    if unit is None:
        waits = f"no member has reported its {sweep.halving.metric_text} with a step yet"
    else:
        waits = "" if total is not None else f"it is not known how many {unit}s the members take: give them as `steps`"
    return SweepCurves(compared, total, unit or "step", waits)


def _unit(curves: Mapping[int, Sequence[SeriesPoint]]) -> str | None:
    """Returns what most evaluations are counted in; None where none has a position."""
    units = Counter(point.unit for points in curves.values() for point in points if point.unit and point.done)
    return units.most_common(1)[0][0] if units else None


def _totals(jobs: Mapping[str, Job], tried: Mapping[str, Sequence[Attempt]], unit: str | None) -> list[float]:
    """Returns how many of `unit` each member takes, as far as that is known."""
    result = []
    for job_id, job in jobs.items():
        seen = next((one.agent.progress for one in reversed(tried.get(job_id, ())) if one.agent.progress), None)
        total = total_of(job, seen)
        counted = seen.unit if seen is not None and seen.unit is not None else "step"
        if total is not None and counted == unit:
            result.append(total)
    return result


def _curve(
    member: SweepMember, job: Job, points: Sequence[SeriesPoint], halving: Halving, unit: str | None, now: datetime
) -> MemberCurve:
    """Makes a curve of a member's points: the last value at each step. What is not a number is no evaluation."""
    sign = -1.0 if halving.better == HIGHER else 1.0
    by_step: dict[float, float] = {}
    times: list[datetime] = []
    for point in points:
        if point.unit == unit and point.done is not None and point.value is not None and isfinite(point.value):
            by_step[point.done] = sign * point.value
            times.append(point.at)
    steps = tuple(sorted(by_step))
    is_running = job.state is JobState.RUNNING and job.cancel_asked_at is None
    return MemberCurve(
        number=member.number,
        steps=steps,
        values=tuple(by_step[step] for step in steps),
        leads=job.state is JobState.SUCCEEDED or (not job.state.is_over and job.cancel_asked_at is None),
        counts=job.state is not JobState.FAILED and (job.cancel_asked_at is None or job.early is EarlyEnd.LOSER),
        may_stop=is_running and not member.kept_by and _is_of_now(times, now),
    )


def _is_of_now(times: Sequence[datetime], now: datetime) -> bool:
    """Says whether the newest evaluation is no older than usual. Reports of a VM that is silent are of the past."""
    if len(times) < 2:
        return False
    usual = timedelta(seconds=median((after - before).total_seconds() for before, after in pairwise(times)))
    return now - times[-1] <= max(_SPANS * usual, _LEAST_AGE)


def pace_of(connection: Connection, sweep: Sweep, job_ids: Sequence[str], unit: str) -> float | None:
    """Returns the steps a second of a member's last start, from its evaluations; None where there are too few."""
    if sweep.halving is None:
        return None
    series = progress_rows.series_of_jobs(connection, job_ids[-1:], series_of(sweep.halving))
    points = [point for some in series.values() for point in some if point.unit == unit and point.done is not None]
    mine = [point for point in points if point.start == points[-1].start] if points else []
    if len(mine) < 2:
        return None
    seconds = (mine[-1].at - mine[0].at).total_seconds()
    steps = (mine[-1].done or 0.0) - (mine[0].done or 0.0)
    return steps / seconds if seconds > 0 and steps > 0 else None
