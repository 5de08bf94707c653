"""Tips to the owners of jobs, by their diagnoses and hints, and the account of all tips of a quarter."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from fractions import Fraction
from typing import NamedTuple
from zoneinfo import ZoneInfo

from sqlalchemy import Connection, select

from costguard.db.tables import events, jobs
from costguard.jobs.decide.machines.bound_savings import script_of
from costguard.jobs.decide.view import rate_of
from costguard.jobs.reports.diagnosis import paced
from costguard.jobs.rows import attempts, job_rows
from costguard.jobs.rows.diagnosis import diagnosis_rows
from costguard.ledger import job_costs
from costguard.ledger.accrual import Accrual
from costguard.model.attempt import Attempt
from costguard.model.job import Job, JobKind
from costguard.model.money import Money
from costguard.spend.tips.quarter import Quarter
from costguard.spend.tips.reminded import reminder_tips
from costguard.spend.tips.rules import (
    NEXT_RUN,
    HintedJob,
    PacedRun,
    Tip,
    TipAccount,
    TipKind,
    account,
    judge_diagnosis,
    judge_standstill,
)

_HOUR_S = 3600


class _Training(NamedTuple):
    """The key of jobs that are runs of the same training, as `is_same_training` has it."""

    owner: str
    project: str
    preset: str
    script: str


def tips_of_quarter(connection: Connection, accrual: Accrual, quarter: Quarter, zone: ZoneInfo) -> TipAccount:
    """Returns the account of the tips that were given in a quarter of that time zone."""
    since, until = quarter.begins_at(zone), quarter.ends_at(zone)
    trainings = _Trainings(connection, since)
    return account(
        [
            *reminder_tips(connection, accrual, since, until),
            *_standstills(connection, accrual, trainings, since, until),
            *_diagnoses(connection, accrual, trainings, since, until),
        ]
    )


def _given(connection: Connection, kind: str, since: datetime, until: datetime) -> list[tuple[datetime, str, str]]:
    """Returns when each tip of a kind of event was given, the job, and what bounds it; the oldest first."""
    columns = events.c
    job, bound = columns.data["job"].as_string(), columns.data["bound"].as_string()
    query = select(columns.occurred_at, job.label("job"), bound.label("bound")).where(
        columns.kind == kind, columns.occurred_at >= since, columns.occurred_at < until
    )
    return [(row.occurred_at, row.job, row.bound or "") for row in connection.execute(query.order_by(columns.id))]


def _standstills(
    connection: Connection, accrual: Accrual, trainings: _Trainings, since: datetime, until: datetime
) -> list[Tip]:
    """Returns a tip for each job that was hinted at: all of its hints are one."""
    first: dict[str, datetime] = {}
    last: dict[str, datetime] = {}
    for at, job_id, _ in _given(connection, "JobStandsStill", since, until):
        first.setdefault(job_id, at)
        last[job_id] = at
    hinted_jobs = job_rows.of_ids(connection, first)
    tried = attempts.of_jobs(connection, hinted_jobs)
    tips = []
    for job in hinted_jobs.values():
        later = trainings.next_after(job, job.settled_at) if job.settled_at is not None else None
        cancel_at = job.cancel_after_at or job.cancel_asked_at
        by = job.cancel_after_by or job.cancel_asked_by
        hinted = HintedJob(
            _last_before(first[job.id], last[job.id], cancel_at),
            cancel_at,
            by,
            job.settled_at,
            None if later is None else later[0],
            _rest(job, tried.get(job.id, ())),
            _rate(tried.get(job.id, ())),
        )
        judged = judge_standstill(hinted, accrual.now)
        tips.append(Tip(TipKind.STANDSTILL, first[job.id], job.id, job.spec.owner, judged, f"job:{job.id}"))
    return tips


def _last_before(first: datetime, last: datetime, cancel_at: datetime | None) -> datetime:
    return last if cancel_at is None or last <= cancel_at else first


def _rest(job: Job, tried: Sequence[Attempt]) -> timedelta | None:
    """Returns how long it was expected to run on when it ended, by its owner's estimate; None: not known."""
    began = [one.agent.started_at for one in tried if one.agent.started_at is not None]
    if job.spec.work is None or job.settled_at is None or not began:
        return None
    return max(timedelta(), job.spec.work - (job.settled_at - min(began)))


def _rate(tried: Sequence[Attempt]) -> Money | None:
    """Returns the hourly cost of the VMs that ran last, together; None where that of one is not known."""
    formation = tried[-1].formation if tried else 0
    last = [one for one in tried if one.formation == formation] if formation else list(tried[-1:])
    newest = {one.node: one for one in last}
    return rate_of(newest.values()) if newest else None


class _Trainings:
    """The trainings that were submitted since a moment, by what makes them the same: one query for all of them."""

    def __init__(self, connection: Connection, since: datetime) -> None:
        self._submitted: defaultdict[_Training, list[tuple[datetime, str]]] = defaultdict(list)
        columns = jobs.c
        command = columns.spec["command"].label("command")
        query = select(columns.id, columns.created_at, columns.owner, columns.project, columns.preset, command)
        query = query.where(columns.kind == JobKind.TRAINING.value, columns.created_at >= since)
        for row in connection.execute(query.order_by(columns.created_at, columns.id)):
            if (script := script_of(row.command or ())) is not None:
                key = _Training(row.owner, row.project, row.preset, script)
                self._submitted[key].append((row.created_at, row.id))

    def next_after(self, job: Job, moment: datetime) -> tuple[datetime, str] | None:
        """Returns when the training of a job was submitted next after a moment, and as which job; None: not yet."""
        spec, script = job.spec, script_of(job.spec.command)
        if script is None:
            return None
        later = self._submitted.get(_Training(spec.owner, spec.project, spec.preset, script), [])
        return next((one for one in later if one[0] > moment and one[1] != job.id), None)


def _diagnoses(
    connection: Connection, accrual: Accrual, trainings: _Trainings, since: datetime, until: datetime
) -> list[Tip]:
    """Returns a tip for each diagnosis of a job."""
    given = _given(connection, "JobBoundFound", since, until)
    diagnosed = job_rows.of_ids(connection, {job_id for _, job_id, _ in given})
    next_runs: dict[tuple[str, datetime], str] = {}
    for at, job_id, _ in given:
        later = trainings.next_after(diagnosed[job_id], at) if job_id in diagnosed else None
        if later is not None and later[0] - at <= NEXT_RUN:
            next_runs[job_id, at] = later[1]
    runs = _runs(connection, accrual, {**diagnosed, **job_rows.of_ids(connection, set(next_runs.values()))})
    tips = []
    for at, job_id, bound in given:
        if (job := diagnosed.get(job_id)) is None:
            continue
        after = runs.get(next_runs.get((job_id, at), ""))
        judged = judge_diagnosis(bound, runs[job_id], after, at, accrual.now)
        effect = "" if after is None else f"steps:{after.job_id}"
        tips.append(Tip(TipKind.DIAGNOSIS, at, job_id, job.spec.owner, judged, effect))
    return tips


def _runs(connection: Connection, accrual: Accrual, some: Mapping[str, Job]) -> dict[str, PacedRun]:
    stretches = diagnosis_rows.of_jobs(connection, list(some))
    tried = attempts.of_jobs(connection, some)
    costs = job_costs.costs(connection, accrual, some)
    runs = {}
    for job_id, job in some.items():
        pace = paced(job, stretches.get(job_id, []), tried.get(job_id, []))
        step_cost = None
        if pace is not None and pace.steps_per_s > 0:
            step_cost = Fraction(pace.rate.nanos * job.spec.nodes, _HOUR_S) / Fraction(pace.steps_per_s)
        runs[job_id] = PacedRun(job_id, None if pace is None else pace.bound, step_cost, costs[job_id])
    return runs
