"""Reads the runs of a job's script on all machines, to compare what they cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy import Connection

from costguard.jobs.decide.machines.alike import MetricReached, ScriptComparison, ScriptRun, compare, is_one_script
from costguard.jobs.decide.measures.pace import pace
from costguard.jobs.reports.progress.curve_news import ChosenCurve, chosen_curve
from costguard.jobs.reports.progress.progress import SharedBill
from costguard.jobs.rows import attempts, job_rows, script_rows
from costguard.jobs.rows.gang import gang_rows
from costguard.jobs.rows.progress import progress_rows
from costguard.ledger import job_costs
from costguard.ledger.accrual import Accrual
from costguard.model.attempt import Attempt, GangRound
from costguard.model.job import Job, JobKind
from costguard.model.money import Priced
from costguard.model.reported.progress import NAMED, SeriesPoint
from costguard.spend import goodput_rows
from costguard.spend.goodput import BilledVM
from costguard_vm.progress.series import rewound

_LOOKED_AT = 500  # newest trainings of its project
_MOST = 100  # runs that are compared


@dataclass(frozen=True, slots=True)
class AlikeJobs:
    """The runs of a job's script. `metric` is the curve by which they are compared; None: the job has none."""

    job: Job
    metric: ChosenCurve | None
    comparison: ScriptComparison


def alike_jobs(connection: Connection, accrual: Accrual, job_id: str) -> AlikeJobs | None:
    """Compares the job with those of the newest 500 trainings of its project that run the same script.

    None: there is no such job, or it is a VM to work on.
    """
    job = job_rows.read(connection, job_id)
    if job is None or job.spec.kind is JobKind.DEV:
        return None
    newest = script_rows.newest_scripts(connection, job.spec.project, _LOOKED_AT)
    others = [one for one, spec in newest if one != job.id and is_one_script(job.spec, spec)][: _MOST - 1]
    read = job_rows.of_ids(connection, others)
    jobs = [job, *(read[one] for one in others if one in read)]
    ids = [one.id for one in jobs]
    better = None if job.spec.metric is None else job.spec.metric.better
    metric = chosen_curve(better, progress_rows.counts(connection, [job.id]).get(job.id, {}))
    series = {} if metric is None else progress_rows.series_of_jobs(connection, ids, metric.series)
    tried = attempts.of_jobs(connection, ids)
    costs = job_costs.costs(connection, accrual, ids)
    vms = goodput_rows.billed_vms_of(connection, ids)
    rounds = gang_rows.rounds_of(connection, jobs)
    past = {one.id: _Past(tried.get(one.id, ()), rounds.get(one.id, ())) for one in jobs}
    runs = [_run(job, one, past[one.id], costs[one.id], series, metric, vms.get(one.id, ()), accrual) for one in jobs]
    return AlikeJobs(job, metric, compare(runs, "lower" if metric is None else metric.better))


class _Past(NamedTuple):
    """The attempts of a job, and of a gang its rounds that are over."""

    attempts: Sequence[Attempt]
    rounds: Sequence[GangRound]


def _run(
    subject: Job,
    job: Job,
    past: _Past,
    cost: Priced,
    series: Mapping[str, Sequence[SeriesPoint]],
    metric: ChosenCurve | None,
    vms: Sequence[BilledVM],
    accrual: Accrual,
) -> ScriptRun:
    is_comparable = metric is not None and (metric.series != NAMED or job.spec.metric == subject.spec.metric)
    curve: list[MetricReached] = []
    if is_comparable and not _went_on(past):
        bill = SharedBill(vms, cost, accrual.now)
        curve = [
            MetricReached(point.value, bill.by(point.at))
            for point in rewound(series.get(job.id, ()))
            if point.value is not None
        ]
    return ScriptRun(
        job, cost, pace(past.attempts, cost, past.rounds).steps, curve, job.spec.command == subject.spec.command
    )


def _went_on(past: _Past) -> bool:
    """Says whether its first run began with a checkpoint that was there before it."""
    if past.rounds:
        return bool(past.rounds[0].resume_from)
    first = next((one for one in past.attempts if one.agent.started_at is not None), None)
    return first is not None and bool(first.resume_from)
