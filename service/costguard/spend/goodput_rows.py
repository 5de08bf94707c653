"""Reads what is needed to know what jobs' time went into, and what they cost in a range of days."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from enum import StrEnum
from typing import Any, NamedTuple

from sqlalchemy import Connection, func, literal_column, or_, select

from costguard.db import tables
from costguard.db.bulk import chunks
from costguard.db.remembered import remembers
from costguard.db.scoped import within_scope
from costguard.ledger.accrual import Accrual
from costguard.ledger.gaps import gap_groups
from costguard.model.attempt import MemberRun, Outcome, run_in_round, span_of_round
from costguard.model.budget import Scope
from costguard.model.job import JobKind, JobState
from costguard.model.moments import day_start
from costguard.model.money import Money, Priced
from costguard.spend.goodput import (
    BilledVM,
    CommandRun,
    Goodput,
    JobHistory,
    TimePart,
    added,
    goodput,
    parts_of,
    within,
)
from costguard.spend.job_costs import costs
from costguard.spend.spend import live
from costguard.spend.spend_rows import days_of_jobs

_DAY = timedelta(days=1)
_NO_COST = Priced()


class GoodputGrouping(StrEnum):
    MONTH = "month"
    PROJECT = "project"
    PRESET = "preset"
    OWNER = "owner"
    JOB = "job"


@dataclass(frozen=True, slots=True)
class GoodputRow:
    """A group: its values in the requested order."""

    group: tuple[str, ...]
    goodput: Goodput


@dataclass(frozen=True, slots=True)
class GoodputReport:
    rows: tuple[GoodputRow, ...]
    total: Goodput


def of_job(connection: Connection, accrual: Accrual, job_id: str) -> Goodput | None:
    """Returns the goodput of a job to its end, or to the last whole minute; None for a development VM, and where there
    is no job.

    A poll of a job in which nothing has happened is then the same answer.
    """
    histories = _histories(connection, [job_id])
    if not histories:
        return None
    now = accrual.now.replace(second=0, microsecond=0)
    return goodput(parts_of(histories[0], now), costs(connection, accrual, [job_id])[job_id])


def billed_vms(connection: Connection, job_id: str) -> Sequence[BilledVM]:
    """The lifetimes of a job's VMs, with the rates at which its cost is shared out."""
    _, vms = _runs_and_vms(connection, (job_id,))
    return vms.get(job_id, ())


def billed_vms_of(connection: Connection, job_ids: Collection[str]) -> Mapping[str, Sequence[BilledVM]]:
    """The same of several jobs; jobs without any are left out."""
    return _runs_and_vms(connection, tuple(sorted(set(job_ids))))[1]


def goodput_between(
    connection: Connection, accrual: Accrual, first: date, last: date, group_by: Sequence[GoodputGrouping], scope: Scope
) -> GoodputReport:
    """Reports the goodput of training jobs on the UTC days [first, last] up to now.

    By month first, then the most expensive first.
    """
    return goodput_reports(connection, accrual, first, last, [group_by], scope)[0]


def goodput_reports(
    connection: Connection,
    accrual: Accrual,
    first: date,
    last: date,
    groupings: Sequence[Sequence[GoodputGrouping]],
    scope: Scope,
) -> list[GoodputReport]:
    """The same by each of several groupings: the jobs are read once for all."""
    ids = _job_ids(connection, day_start(first), day_start(last) + _DAY, scope)
    jobs = [_timed(job, parts_of(job, accrual.now)) for job in _histories(connection, ids)]
    costs_of = _costs(connection, accrual, first, last, scope)
    # Most jobs begin and end within a month: what they came to in it is what they came to in the whole range.
    shares: dict[Hashable, Goodput] = {}

    def share(job: _Timed, since: datetime, until: datetime, cost: Priced) -> Goodput:
        key = job.history.id, max(since, job.began), min(until, job.ended), cost
        if key not in shares:
            shares[key] = goodput(within(job.parts, since, until), cost)
        return shares[key]

    return [_report(first, last, accrual.now, group_by, jobs, costs_of, share) for group_by in groupings]


class _Timed(NamedTuple):
    """A job with its parts, and their bounds."""

    history: JobHistory
    parts: Sequence[TimePart]
    began: datetime
    ended: datetime


def _timed(job: JobHistory, parts: Sequence[TimePart]) -> _Timed:
    return _Timed(job, parts, job.created_at, parts[-1].ended if parts else job.created_at)


def _report(
    first: date,
    last: date,
    now: datetime,
    group_by: Sequence[GoodputGrouping],
    jobs: Sequence[_Timed],
    costs_of: Callable[[date, date], Mapping[str, Priced]],
    share: Callable[[_Timed, datetime, datetime, Priced], Goodput],
) -> GoodputReport:
    groups: dict[tuple[str, ...], list[Goodput]] = defaultdict(list)
    counted: set[str] = set()
    for begin, end in _months(first, last) if GoodputGrouping.MONTH in group_by else [(first, last)]:
        paid = costs_of(begin, end)
        since, until = day_start(begin), min(day_start(end) + _DAY, now)
        for job in jobs:
            cost = paid.get(job.history.id, _NO_COST)
            if (job.began < until and job.ended > since and job.parts) or cost.amount:
                group = tuple([_value(job.history, begin, name) for name in group_by])
                groups[group].append(share(job, since, until, cost))
                counted.add(job.history.id)
    rows = [GoodputRow(group, added(figures)) for group, figures in groups.items()]
    total = replace(added(row.goodput for row in rows), jobs=len(counted))
    rows.sort(key=lambda row: (-row.goodput.cost.amount.nanos, row.group))
    if GoodputGrouping.MONTH in group_by:
        place = list(group_by).index(GoodputGrouping.MONTH)
        rows.sort(key=lambda row: row.group[place])
    return GoodputReport(tuple(rows), total)


def _value(job: JobHistory, day: date, name: GoodputGrouping) -> str:
    if name is GoodputGrouping.MONTH:
        return f"{day:%Y-%m}"
    return job.id if name is GoodputGrouping.JOB else str(getattr(job, name.value))


def _months(first: date, last: date) -> Iterator[tuple[date, date]]:
    """The days [first, last], cut by calendar months."""
    while first <= last:
        following = (first.replace(day=1) + 32 * _DAY).replace(day=1)
        yield first, min(last, following - _DAY)
        first = following


def _costs(
    connection: Connection, accrual: Accrual, first: date, last: date, scope: Scope
) -> Callable[[date, date], Mapping[str, Priced]]:
    """Returns the cost of each job on any days within [first, last], as Spend by job has it; the ledger is read once
    for all.
    """
    by_day: dict[date, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for day, job, nanos in days_of_jobs(connection, first, last, scope):
        by_day[day][job] = nanos
    kept_apart = [name for name in ("project", "preset", "owner", "job") if name == "job" or getattr(scope, name)]
    for day, (_, whose, _), amounts in live(connection, accrual, first, last, scope, kept_apart):
        if whose.job:
            by_day[day][whose.job] += amounts.total.nanos
    gaps = [gap for gap in gap_groups(connection, accrual, first, last, scope) if gap.job]

    def between(begin: date, end: date) -> Mapping[str, Priced]:
        unpriced = {gap.job for gap in gaps if any(gap.days(begin, end, accrual.now))}
        jobs: dict[str, int] = defaultdict(int)
        for day, of_day in by_day.items():
            if begin <= day <= end:
                for job, nanos in of_day.items():
                    jobs[job] += nanos
        return {job: Priced(Money(jobs[job]), job not in unpriced) for job in (*jobs, *unpriced)}

    return between


def _job_ids(connection: Connection, since: datetime, until: datetime, scope: Scope) -> list[str]:
    """Training jobs that were open in [since, until), or whose VM or disk may have billed in it: a day longer."""
    columns = tables.jobs.c
    open_then = or_(columns.settled_at.is_(None), columns.settled_at >= since - _DAY)
    query = select(columns.id).where(columns.created_at < until, open_then, columns.kind == JobKind.TRAINING.value)
    wanted = query.where(*within_scope(tables.jobs, scope))
    if scope.job is not None:
        wanted = wanted.where(columns.id == scope.job)
    return list(connection.scalars(wanted))


def _histories(connection: Connection, ids: Collection[str]) -> list[JobHistory]:
    """A job's own row changes with every look at its checkpoints: it is read each time, and the rest is remembered."""
    runs, vms = _runs_and_vms(connection, tuple(sorted(ids)))
    columns = tables.jobs.c
    location = columns.spec[("checkpoint", "location")].as_string().label("location")
    names = (columns.id, columns.project, columns.preset, columns.owner, columns.state, columns.created_at)
    nodes = columns.spec["nodes"].as_integer().label("nodes")
    looks = (nodes, columns.settled_at, columns.looked_at, columns.look_error, columns.look_written_at, location)
    query = select(*names, *looks).where(columns.kind == JobKind.TRAINING.value)
    return [
        JobHistory(
            row.id,
            row.project,
            row.preset,
            row.owner,
            row.created_at,
            row.settled_at,
            row.state == JobState.SUCCEEDED.value,
            tuple(runs.get(row.id, ())),
            tuple(vms.get(row.id, ())),
            row.look_written_at,
            may_have_saved=bool(row.location) and (row.looked_at is None or bool(row.look_error)),
            nodes=row.nodes or 1,
        )
        for some in chunks(ids)
        for row in connection.execute(query.where(columns.id.in_(some)))
    ]


@remembers(tables.attempts, tables.interruptions, tables.gang_rounds, tables.lifetimes)
def _runs_and_vms(
    connection: Connection, ids: tuple[str, ...]
) -> tuple[Mapping[str, Sequence[CommandRun]], Mapping[str, Sequence[BilledVM]]]:
    """Reads the runs and the VMs of these jobs, by job."""
    runs: dict[str, list[CommandRun]] = {}
    vms: dict[str, list[BilledVM]] = {}
    for some in chunks(ids):
        of_some, rates = _runs(connection, some)
        runs |= of_some
        vms |= _vms(connection, some, rates)
    return runs, vms


def _runs(
    connection: Connection, ids: Sequence[str]
) -> tuple[dict[str, list[CommandRun]], dict[tuple[str, str], Money | None]]:
    """The runs of each job in order; and the rate of each VM by its project and id."""
    ended: dict[int, list[Any]] = defaultdict(list)
    cut = tables.interruptions.c
    query = select(cut.attempt_id, cut.run, cut.started_at, cut.happened_at, cut.lost_s)
    ordered = query.where(cut.job_id.in_(ids)).order_by(cut.attempt_id, cut.happened_at, cut.run)
    for interrupted in connection.execute(ordered):
        ended[interrupted.attempt_id].append(interrupted)
    runs: dict[str, list[CommandRun]] = defaultdict(list)
    rates: dict[tuple[str, str], Money | None] = {}
    tried = tables.attempts.c
    columns = (tried.id, tried.job_id, tried.project, tried.gce_id, tried.run, tried.started_at, tried.ended_at)
    of_gangs = (tried.node, tried.formation, tried.round, tried.outcome, tried.step.is_not(None).label("has_step"))
    exits = (tried.exit["at"].as_string().label("exit_at"), tried.ended_round.label("ended_round"))
    attempts = select(*columns, *of_gangs, *exits, tried.rate_nanos).where(tried.job_id.in_(ids))
    gangs: dict[str, list[Any]] = defaultdict(list)
    for row in connection.execute(attempts.order_by(tried.job_id, tried.number)):
        if row.gce_id:
            rates[row.project, row.gce_id] = None if row.rate_nanos is None else Money(row.rate_nanos)
        if row.formation:
            gangs[row.job_id].append(row)
        else:
            runs[row.job_id] += _runs_of(row, ended.get(row.id, ()))
    runs |= _runs_of_gangs(connection, gangs, ended)
    return runs, rates


def _runs_of(attempt: Any, ended: Sequence[Any]) -> Iterator[CommandRun]:
    for cut in ended:
        began = cut.started_at or (attempt.started_at if cut.run == attempt.run else None)
        lost = None if cut.lost_s is None else timedelta(seconds=cut.lost_s)
        # A run that never began has lost nothing of its own, and may have found that what came before is lost.
        yield CommandRun(began or cut.happened_at, cut.happened_at, lost)
    if attempt.started_at is None or any(cut.run == attempt.run for cut in ended):
        return
    exit_at = None if attempt.exit_at is None else datetime.fromisoformat(attempt.exit_at)
    yield CommandRun(attempt.started_at, exit_at or attempt.ended_at)


def _runs_of_gangs(
    connection: Connection, gangs: Mapping[str, Sequence[Any]], ended: Mapping[int, Sequence[Any]]
) -> dict[str, list[CommandRun]]:
    """Returns the rounds of gangs, by job: those that are over as they were recorded, the last by its attempts."""
    over = tables.gang_rounds.c
    recorded: dict[str, dict[int, CommandRun]] = {job_id: {} for job_id in gangs}
    for some in chunks(gangs):
        query = select(over.job_id, over.number, over.started_at, over.ended_at, over.lost_s)
        for row in connection.execute(query.where(over.job_id.in_(some))):
            lost = None if row.lost_s is None else timedelta(seconds=row.lost_s)
            recorded[row.job_id][row.number] = CommandRun(row.started_at or row.ended_at, row.ended_at, lost)
    for job_id, rows in gangs.items():
        for number in {row.round for row in rows} - recorded[job_id].keys() - {0}:
            members = [row for row in rows if row.round == number]
            has_steps = any(row.node == 0 and row.has_step and row.started_at is not None for row in members)
            began, until = span_of_round([_member_run(row, ended.get(row.id, ())) for row in members], has_steps)
            if began is not None:
                recorded[job_id][number] = CommandRun(began, until)
    return {job_id: [one[number] for number in sorted(one)] for job_id, one in recorded.items()}


def _member_run(attempt: Any, ended: Sequence[Any]) -> MemberRun:
    """Returns the present run of a gang's VM."""
    fallen = attempt.ended_round
    return run_in_round(
        MemberRun(attempt.started_at, attempt.ended_at, attempt.outcome == Outcome.SUCCEEDED.value),
        attempt.round,
        attempt.run,
        ended,
        None if attempt.exit_at is None else datetime.fromisoformat(attempt.exit_at),
        None if fallen is None else (fallen["number"], datetime.fromisoformat(fallen["exit"]["at"])),
    )


def _vms(
    connection: Connection, ids: Sequence[str], rates: dict[tuple[str, str], Money | None]
) -> dict[str, list[BilledVM]]:
    vms: dict[str, list[BilledVM]] = defaultdict(list)
    spans, whose = tables.lifetimes.c, tables.instances.c
    query = (
        select(
            spans.job, spans.started_at, spans.ended_at, func.coalesce(spans.gpu_count, 0), whose.project, whose.gce_id
        )
        .join_from(tables.lifetimes, tables.instances, whose.id == spans.instance_id)
        .where(spans.job != literal_column("''"), spans.job.in_(ids))  # in the index's own words
        .order_by(spans.started_at, spans.id)
    )
    for job, began, until, gpus, project, gce_id in connection.execute(query):
        vms[job].append(BilledVM(began, until, gpus, rates.get((project, gce_id))))
    return vms
