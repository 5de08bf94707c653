"""Finds the jobs that are due for a decision: with news, or at their time. Two cheap queries."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import BigInteger, Connection, and_, bindparam, exists, literal_column, or_, select, text, type_coerce

from costguard.db.bulk import chunks
from costguard.db.tables import LIVE_ATTEMPT, OPEN_JOB, attempts, instances, jobs
from costguard.model.backoff import Backoff
from costguard.model.job import JobKind

_BACKOFF = Backoff(timedelta(seconds=30), timedelta(minutes=10))


@dataclass(frozen=True, slots=True)
class _Wait:
    until: datetime
    reason: str
    tries: int


class LaunchBackoff:
    """The backoff of launches, in memory: after a restart everything is tried at once."""

    def __init__(self) -> None:
        self._waits: dict[str, _Wait] = {}

    def why(self, job_id: str, now: datetime) -> str:
        """ "" where nothing is known to hold it up."""
        wait = self._waits.get(job_id)
        return wait.reason if wait is not None and now < wait.until else ""

    def until(self, job_id: str) -> datetime | None:
        wait = self._waits.get(job_id)
        return wait.until if wait is not None else None

    def until_then(self, job_id: str, until: datetime, reason: str) -> None:
        self._waits[job_id] = _Wait(until, reason, 0)

    def for_longer(self, job_id: str, reason: str, now: datetime) -> None:
        """Each time in a row twice as long as the time before."""
        tries = self._waits[job_id].tries + 1 if job_id in self._waits else 1
        self._waits[job_id] = _Wait(now + _BACKOFF.after(tries), reason, tries)

    def forget(self, job_id: str) -> None:
        self._waits.pop(job_id, None)


# What makes no mark, such as a budget that fills up or a price that changes, is noticed so late at most.
_AT_LEAST_EVERY = timedelta(seconds=60)
_UNSETTLED_EVERY = timedelta(seconds=5)


class Agenda:
    """The times of the next decisions, in memory: after a restart every job is decided on once."""

    def __init__(self) -> None:
        self._marks: dict[str, tuple[Any, ...]] = {}
        self._due: dict[str, datetime] = {}

    def due(self, news: News, now: datetime) -> set[str]:
        for gone in self._marks.keys() - news.marks.keys():
            del self._marks[gone]
            self._due.pop(gone, None)
        return {
            job_id
            for job_id, mark in news.marks.items()
            if self._marks.get(job_id) != mark or self._due.get(job_id, now) <= now
        }

    def decided(self, job_id: str, news: News, next_at: datetime | None, now: datetime) -> None:
        """It was decided on with at least this news. `next_at` is when it has to be again, without any."""
        at_last = now + (_UNSETTLED_EVERY if job_id in news.unsettled else _AT_LEAST_EVERY)
        self._marks[job_id] = news.marks.get(job_id, ())
        self._due[job_id] = at_last if next_at is None else min(next_at, at_last)


_RAW = BigInteger  # to make moments of what is only compared would cost more than to read it
_OF = attempts.c


@dataclass(frozen=True, slots=True)
class News:
    """Jobs that are not done with: open, or with a live attempt.

    Each has a mark that changes with what decisions rest on. Heartbeats are no news.
    """

    marks: dict[str, tuple[Any, ...]]
    reported_at: dict[int, datetime]  # when the agent of each attempt was heard last, where its outcome is not known
    unsettled: frozenset[str]  # jobs with an attempt whose VM does not simply run, as the ledger has it


def read_news(connection: Connection) -> News:
    marks: dict[str, tuple[Any, ...]] = {row.id: tuple(row) for row in connection.execute(_JOBS)}
    reported_at: dict[int, datetime] = {}
    unsettled: set[str] = set()
    for row in connection.execute(_ATTEMPTS):
        *mark, heard_at, is_open, status, given_up_at = row
        marks[row.job_id] = (*marks.get(row.job_id, ()), *mark, status, given_up_at)
        if heard_at is not None and is_open:
            reported_at[row.attempt_id] = heard_at
        if status not in (None, "running"):
            unsettled.add(row.job_id)
    return News(marks, reported_at, frozenset(unsettled))


def states(connection: Connection) -> dict[str, str]:
    """Returns the states of all open jobs."""
    return {row.id: row.state for row in connection.execute(select(jobs.c.id, jobs.c.state).where(text(OPEN_JOB)))}


def at_work(connection: Connection, job_ids: Collection[str] | None = None) -> dict[tuple[str, str], str]:
    """The training jobs whose attempts go on, or these of them, by the project and the name of their VMs."""
    query = (
        select(attempts.c.project, attempts.c.name, attempts.c.job_id)
        .join_from(attempts, jobs, jobs.c.id == attempts.c.job_id)
        .where(attempts.c.state != literal_column("'over'"), attempts.c.outcome.is_(None))
        .where(jobs.c.kind == JobKind.TRAINING.value)
    )
    queries = [query] if job_ids is None else [query.where(attempts.c.job_id.in_(some)) for some in chunks(job_ids)]
    return {(row.project, row.name): row.job_id for query in queries for row in connection.execute(query)}


def may_follow(connection: Connection, job_id: str) -> bool:
    """Says whether another attempt may be made: the job is open, nobody wants it cancelled, and no attempt of it is
    open.
    """
    return connection.execute(_MAY_FOLLOW, {"job_id": job_id}).first() is not None


def may_join(connection: Connection, job_id: str, node: int, formation: int) -> bool:
    """Says whether a VM may be requested for this node of a gang: the job is open, nobody wants it cancelled, and no
    attempt of the node, or of an earlier formation, is open.
    """
    return connection.execute(_MAY_JOIN, {"job_id": job_id, "node": node, "formation": formation}).first() is not None


def is_open(connection: Connection, job_id: str) -> bool:
    """Says whether the job is open, and nobody wants it cancelled."""
    return connection.execute(_IS_OPEN, {"job_id": job_id}).first() is not None


def may_stand_by(connection: Connection, job_id: str, follows: int) -> bool:
    """Says whether a VM may be prepared to take over from this attempt, the only one that is open, and runs on."""
    return connection.execute(_MAY_STAND_BY, {"job_id": job_id, "follows": follows}).first() is not None


def has_started(connection: Connection, attempt_id: int) -> bool:
    """Says whether its agent reported that the command runs."""
    return connection.execute(_HAS_STARTED, {"attempt_id": attempt_id}).first() is not None


# Asked for each VM that is made: built once, for building a statement takes longer than running it.
_MAY_FOLLOW = select(jobs.c.id).where(
    jobs.c.id == bindparam("job_id"),
    text(OPEN_JOB.replace("state", "jobs.state")),
    jobs.c.cancel_asked_at.is_(None),
    ~exists().where(_OF.job_id == jobs.c.id, _OF.outcome.is_(None)),
)
_MAY_JOIN = select(jobs.c.id).where(
    jobs.c.id == bindparam("job_id"),
    text(OPEN_JOB.replace("state", "jobs.state")),
    jobs.c.cancel_asked_at.is_(None),
    ~exists().where(
        _OF.job_id == jobs.c.id,
        _OF.outcome.is_(None),
        or_(_OF.node == bindparam("node"), _OF.formation != bindparam("formation")),
    ),
)
_IS_OPEN = select(jobs.c.id).where(jobs.c.id == bindparam("job_id"), text(OPEN_JOB), jobs.c.cancel_asked_at.is_(None))
_OTHERS = attempts.alias()
_MAY_STAND_BY = select(jobs.c.id).where(
    jobs.c.id == bindparam("job_id"),
    text(OPEN_JOB.replace("state", "jobs.state")),
    jobs.c.cancel_asked_at.is_(None),
    jobs.c.cancel_after_at.is_(None),
    exists().where(
        _OF.job_id == jobs.c.id,
        _OF.number == bindparam("follows"),
        _OF.state == literal_column("'running'"),
        _OF.stop_asked_at.is_(None),
    ),
    ~exists(
        select(_OTHERS.c.id).where(
            _OTHERS.c.job_id == jobs.c.id, _OTHERS.c.outcome.is_(None), _OTHERS.c.number != bindparam("follows")
        )
    ),
)
_HAS_STARTED = select(_OF.id).where(_OF.id == bindparam("attempt_id"), _OF.started_at.is_not(None))

_JOBS = select(
    jobs.c.id,
    jobs.c.state,
    type_coerce(jobs.c.cancel_asked_at, _RAW),
    type_coerce(jobs.c.cancel_after_at, _RAW),
    type_coerce(jobs.c.advanced_at, _RAW),
    jobs.c.gang_round,
).where(text(OPEN_JOB))

_ATTEMPTS = (
    select(
        _OF.job_id,
        _OF.id.label("attempt_id"),
        _OF.state,
        _OF.run,
        _OF.gce_id,
        *(type_coerce(_OF[name], _RAW) for name in ("started_at", "noticed_at", "maintenance_at", "stop_asked_at")),
        _OF.exit.is_not(None).label("has_exit"),
        _OF.hang.is_not(None).label("has_hang"),
        _OF.ready_at.is_not(None).label("is_ready"),
        _OF.released_at.is_not(None).label("is_released"),
        _OF.ready_round,
        _OF.round,
        _OF.ended_round.is_not(None).label("has_ended_round"),
        type_coerce(instances.c.gone_at, _RAW).label("gone_at"),
        type_coerce(instances.c.last_stopped_at, _RAW).label("last_stopped_at"),
        _OF.heard_at,
        _OF.outcome.is_(None).label("is_open"),
        instances.c.status,
        type_coerce(jobs.c.disk_given_up_at, _RAW).label("disk_given_up_at"),
    )
    .join_from(
        attempts,
        instances,
        and_(instances.c.project == _OF.project, instances.c.gce_id == _OF.gce_id),
        isouter=True,
    )
    .join(jobs, jobs.c.id == _OF.job_id)
    .where(text(LIVE_ATTEMPT.replace("state", "attempts.state")))
    .order_by(_OF.id)
)
