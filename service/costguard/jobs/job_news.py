"""What changed about jobs since they were last decided on: two cheap queries, before anything is read in full."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, Connection, and_, bindparam, exists, select, text, type_coerce

from costguard.db.tables import LIVE_ATTEMPT, OPEN_JOB, attempts, instances, jobs

_RAW = BigInteger  # to make moments of what is only compared would cost more than to read it
_OF = attempts.c


@dataclass(frozen=True, slots=True)
class News:
    """Jobs that are not done with: open, or with a live attempt.

    Each has a mark that changes with what decisions rest on. Heartbeats are no news.
    """

    marks: dict[str, tuple[Any, ...]]
    heard: dict[int, datetime]  # when the agent of each attempt was heard last, where its outcome is not known
    unsettled: frozenset[str]  # jobs with an attempt whose VM does not simply run, as the ledger has it


def read(connection: Connection) -> News:
    marks: dict[str, tuple[Any, ...]] = {row.id: tuple(row) for row in connection.execute(_JOBS)}
    heard: dict[int, datetime] = {}
    unsettled: set[str] = set()
    for row in connection.execute(_ATTEMPTS):
        *mark, heard_at, is_open, status, given_up_at = row
        marks[row.job_id] = (*marks.get(row.job_id, ()), *mark, status, given_up_at)
        if heard_at is not None and is_open:
            heard[row.attempt_id] = heard_at
        if status not in (None, "running"):
            unsettled.add(row.job_id)
    return News(marks, heard, frozenset(unsettled))


def states(connection: Connection) -> dict[str, str]:
    """Of all open jobs."""
    return {row.id: row.state for row in connection.execute(select(jobs.c.id, jobs.c.state).where(text(OPEN_JOB)))}


def may_follow(connection: Connection, job_id: str) -> bool:
    """Whether another attempt may be made: the job is open, nobody wants it cancelled, and no attempt of it is open."""
    return connection.execute(_MAY_FOLLOW, {"job_id": job_id}).first() is not None


def has_started(connection: Connection, attempt_id: int) -> bool:
    """Whether its agent told that the command runs."""
    return connection.execute(_HAS_STARTED, {"attempt_id": attempt_id}).first() is not None


# Asked for each VM that is made: built once, for building a statement takes longer than running it.
_MAY_FOLLOW = select(jobs.c.id).where(
    jobs.c.id == bindparam("job_id"),
    text(OPEN_JOB.replace("state", "jobs.state")),
    jobs.c.cancel_asked_at.is_(None),
    ~exists().where(_OF.job_id == jobs.c.id, _OF.outcome.is_(None)),
)
_HAS_STARTED = select(_OF.id).where(_OF.id == bindparam("attempt_id"), _OF.started_at.is_not(None))

_JOBS = select(
    jobs.c.id,
    jobs.c.state,
    type_coerce(jobs.c.cancel_asked_at, _RAW),
    type_coerce(jobs.c.advanced_at, _RAW),
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
