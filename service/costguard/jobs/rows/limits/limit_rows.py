"""Reads what counts under limits: VMs in use, jobs that wait, and jobs that lost a VM a moment ago."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Row, Select, and_, bindparam, case, delete, exists, func, or_, select, text

from costguard.access.teams import team_of
from costguard.db.bulk import chunks
from costguard.db.tables import LIVE_ATTEMPT, OPEN_JOB, UNPRICED_RANK, attempts, instances, jobs, limit_waits
from costguard.db.types import storable
from costguard.db.upsert import upsert
from costguard.jobs.decide.limits.in_use import NOTHING, InUse, LimitedBy, PresentUse, of_vm
from costguard.jobs.decide.limits.queue import PAST, PastUse, Wanted
from costguard.jobs.decide.view import NEVER_A_VM
from costguard.model.attempt import AttemptState, Outcome
from costguard.model.instance import Status
from costguard.model.job import JobState
from costguard.model.money import Money
from costguard.model.reminder import Team

# For this time a job whose VM was lost keeps its place: its next VM is requested once nothing can write any more.
KEEPS_PLACE = timedelta(minutes=5)
_LOST = tuple(
    outcome.value
    for outcome in (
        Outcome.PREEMPTED,
        Outcome.HOST_ERROR,
        Outcome.LOST,
        Outcome.MOVED,
        Outcome.TIME_LIMIT,
        Outcome.CRASHED,
    )
)
_STOPPED = frozenset({Status.STOPPED.value, Status.SUSPENDED.value})
_ALWAYS = frozenset(
    {
        AttemptState.INTENDED,
        AttemptState.ASKED,
        AttemptState.WAITING,
        AttemptState.BOOTING,
        AttemptState.RUNNING,
        AttemptState.RESTARTING,
    }
)
_OF_JOB = (
    jobs.c.id.label("job_id"),
    jobs.c.name,
    jobs.c.owner,
    jobs.c.project,
    jobs.c.preset,
    jobs.c.state.label("job_state"),
    jobs.c.created_at,
    jobs.c.spec["priority"].as_integer().label("priority"),
    jobs.c.recipe["gpu_count"].as_integer().label("gpus"),
)
_OPEN_JOB = OPEN_JOB.replace("state", "jobs.state")


@dataclass(slots=True)
class LimitAttribution:
    """Finds the parts by which limits apply. The teams are looked up once for each project and owner."""

    teams: Sequence[Team]
    _known: dict[tuple[str, str], str] = field(default_factory=dict)

    def by(self, project: str, preset: str, owner: str) -> LimitedBy:
        owner = owner.lower()
        if (project, owner) not in self._known:
            team = team_of(project, owner, self.teams)
            self._known[project, owner] = team.name if team is not None else ""
        return LimitedBy(project, preset, owner, self._known[project, owner])


def uses(connection: Connection, attribution: LimitAttribution, *, with_others: bool) -> list[PresentUse]:
    """Returns what is in use: by job, each VM that is there or may be, and with `with_others` all other VMs."""
    of_jobs: dict[str, tuple[Row[Any], InUse]] = {}
    for row in connection.execute(_ATTEMPTS):
        if _counts(row):
            rate = None if row.rate_nanos is None else Money(row.rate_nanos)
            amount = of_vm(row.gpus or 0, rate)
            before = of_jobs.get(row.job_id)
            of_jobs[row.job_id] = (row, amount if before is None else before[1] + amount)
    present = [
        PresentUse(attribution.by(row.project, row.preset, row.owner), amount, job_id, row.name or job_id)
        for job_id, (row, amount) in of_jobs.items()
    ]
    return [*present, *_others(connection, attribution)] if with_others else present


def _counts(row: Row[Any]) -> bool:
    """Says whether an attempt that is not over may have a VM that is up. What is not known counts."""
    state = AttemptState(row.state)
    if state in _ALWAYS and row.outcome is None:
        return True
    if row.outcome is not None and Outcome(row.outcome) in NEVER_A_VM and not row.gce_id and not row.vm_group:
        return False
    if state is AttemptState.RESTING and row.rested_at is not None:
        return False
    return row.gone_at is None and row.status not in _STOPPED


def _others(connection: Connection, attribution: LimitAttribution) -> Iterator[PresentUse]:
    for project, preset, owner, gpus, count, nanos, unpriced in connection.execute(_OTHERS):
        amount = InUse(int(count), int(gpus) * int(count), Money(int(nanos or 0)), int(unpriced or 0))
        yield PresentUse(attribution.by(project, preset, owner), amount)


def is_any_waiting(connection: Connection) -> bool:
    return connection.execute(select(limit_waits.c.job_id).limit(1)).first() is not None


def past_uses(connection: Connection, attribution: LimitAttribution, now: datetime) -> list[PastUse]:
    """Returns what jobs' VMs used within the last day, as far as their attempts tell: up to now where one runs."""
    since = now - PAST
    sums: dict[LimitedBy, InUse] = {}
    for row in connection.execute(_PAST, {"since": since}):
        seconds = int(((row.ended_at or now) - max(row.made_at, since)).total_seconds())
        rate = None if row.rate_nanos is None else Money(row.rate_nanos)
        by = attribution.by(row.project, row.preset, row.owner)
        sums[by] = sums.get(by, NOTHING) + of_vm(row.gpus or 0, rate).times(max(seconds, 0))
    return [PastUse(by, amount) for by, amount in sums.items()]


def waiting(connection: Connection, attribution: LimitAttribution) -> dict[str, Wanted]:
    """Returns what each job wants that waits for a limit, by job; jobs that end are left out."""
    return {row.job_id: _wanted(row, attribution) for row in connection.execute(_WAITING)}


def _wanted(row: Row[Any], attribution: LimitAttribution) -> Wanted:
    rate = None if row.rate_nanos is None else Money(row.rate_nanos)
    return Wanted(
        job=row.job_id,
        title=row.name or row.job_id,
        by=attribution.by(row.project, row.preset, row.owner),
        one=of_vm(row.gpus or 0, rate),
        most=row.most,
        least=row.least,
        created_at=row.created_at,
        since=row.since,
        priority=row.priority or 0,
        is_recovering=row.job_state == JobState.RECOVERING.value,
        takes=None if row.takes_s is None else timedelta(seconds=row.takes_s),
    )


def returning(connection: Connection, attribution: LimitAttribution, now: datetime) -> dict[str, Wanted]:
    """Returns jobs that lost a VM a moment ago and have none: as many VMs as they lost are kept for them."""
    lately = now - KEEPS_PLACE
    ended = and_(attempts.c.outcome.in_(_LOST), attempts.c.ended_at >= lately, _HAS_NONE)
    rests = and_(attempts.c.state == AttemptState.RESTING.value, attempts.c.rested_at >= lately)
    wanted: dict[str, dict[int, Row[Any]]] = {}
    for row in connection.execute(_RETURNING.where(or_(ended, rests)).order_by(attempts.c.id)):
        wanted.setdefault(row.job_id, {})[row.node] = row
    return {job_id: _returned(list(nodes.values()), attribution) for job_id, nodes in wanted.items()}


def _returned(rows: Sequence[Row[Any]], attribution: LimitAttribution) -> Wanted:
    row, count = rows[-1], len(rows)
    return Wanted(
        job=row.job_id,
        title=row.name or row.job_id,
        by=attribution.by(row.project, row.preset, row.owner),
        one=of_vm(row.gpus or 0, None if row.rate_nanos is None else Money(row.rate_nanos)),
        most=count,
        least=count,
        created_at=row.created_at,
        since=row.ended_at or row.rested_at,
        priority=row.priority or 0,
        is_recovering=True,
    )


def save(connection: Connection, waits: Collection[Wanted], no_more: Collection[str]) -> None:
    """Writes who waits for a limit; a job keeps the moment since when it waits. `no_more` are jobs that do not."""
    for some in chunks(set(no_more)):
        connection.execute(delete(limit_waits).where(limit_waits.c.job_id.in_(some)))
    rows = [
        {
            "job_id": storable(one.job),
            "since": one.since,
            "most": one.most,
            "least": one.least,
            "rate_nanos": None if one.one.unpriced else one.one.rate.nanos,
            "takes_s": None if one.takes is None else one.takes // timedelta(seconds=1),
        }
        for one in waits
    ]
    changed = ["most", "least", "rate_nanos", "takes_s"]
    upsert(connection, limit_waits, rows, ["job_id"], update_columns=changed)


_ATTEMPTS: Select[Any] = (
    select(
        *_OF_JOB,
        attempts.c.state,
        attempts.c.outcome,
        attempts.c.gce_id,
        attempts.c.vm_group,
        attempts.c.rate_nanos,
        attempts.c.rested_at,
        instances.c.status,
        instances.c.gone_at,
    )
    .join_from(
        attempts,
        instances,
        and_(instances.c.project == attempts.c.project, instances.c.gce_id == attempts.c.gce_id),
        isouter=True,
    )
    .join(jobs, jobs.c.id == attempts.c.job_id)
    .where(text(LIVE_ATTEMPT.replace("state", "attempts.state")))
    .order_by(attempts.c.id)
)
_PAST: Select[Any] = (
    select(*_OF_JOB, *(attempts.c[name] for name in ("made_at", "ended_at", "rate_nanos")))
    .join(attempts, attempts.c.job_id == jobs.c.id)
    .where(
        attempts.c.made_at.is_not(None),
        or_(
            attempts.c.ended_at >= bindparam("since"),
            and_(attempts.c.outcome.is_(None), text(LIVE_ATTEMPT.replace("state", "attempts.state"))),
        ),
    )
)
_OTHERS: Select[Any] = (
    select(
        instances.c.project,
        instances.c.preset,
        instances.c.owner,
        instances.c.gpu_count,
        func.count(),
        func.sum(case((instances.c.rate_rank != UNPRICED_RANK, instances.c.rate_nanos), else_=0)),
        func.sum(case((instances.c.rate_rank.is_(None), 1), (instances.c.rate_rank == UNPRICED_RANK, 1), else_=0)),
    )
    .where(
        instances.c.gone_at.is_(None),
        instances.c.status.not_in(sorted(_STOPPED)),
        ~exists().where(
            attempts.c.name == instances.c.name,
            attempts.c.project == instances.c.project,
            text(LIVE_ATTEMPT.replace("state", "attempts.state")),
        ),
    )
    .group_by(instances.c.project, instances.c.preset, instances.c.owner, instances.c.gpu_count)
)
_WAITING: Select[Any] = (
    select(
        *_OF_JOB,
        *(limit_waits.c[name] for name in ("since", "most", "least", "rate_nanos", "takes_s")),
    )
    .join(limit_waits, limit_waits.c.job_id == jobs.c.id)
    .where(text(_OPEN_JOB), jobs.c.cancel_asked_at.is_(None))
    .order_by(jobs.c.id)
)
_open = attempts.alias("open_attempts")
_RETURNING: Select[Any] = (
    select(*_OF_JOB, *(attempts.c[name] for name in ("node", "rate_nanos", "ended_at", "rested_at")))
    .join(attempts, attempts.c.job_id == jobs.c.id)
    .where(
        jobs.c.state == JobState.RECOVERING.value,
        jobs.c.cancel_asked_at.is_(None),
        attempts.c.made_at.is_not(None),
    )
)
_HAS_NONE = ~exists(select(_open.c.id).where(_open.c.job_id == jobs.c.id, _open.c.outcome.is_(None)))
