"""Rows of what bounds jobs: the last hour's minutes of each attempt, and stretches of equal verdicts."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row, Select, bindparam, delete, func, select, update

from costguard.db.bulk import chunks
from costguard.db.prepared import prepared
from costguard.db.tables import activity_minutes, job_bounds
from costguard.db.types import storable
from costguard.db.upsert import upsert
from costguard.jobs.rows.agent_fields import MOST_MINUTES, BoundStretch, JudgedWindow, MeasuredMinute
from costguard_vm.diagnosis.kinds import BoundVerdict, Number
from costguard_vm.diagnosis.signals import Minute, as_json, read_minute

MOST_STRETCHES = 100  # of a job
_MS = timedelta(milliseconds=1)
# Made once: thousands of agents report every minute, and making a statement takes longer than running it.
_OF_ATTEMPT = activity_minutes.c.attempt_id == bindparam("of_attempt")
_IS_OPEN = activity_minutes.c.is_judged.is_(False)
_OPEN_OF_ATTEMPTS = (
    select(activity_minutes.c.attempt_id)
    .where(activity_minutes.c.attempt_id.in_(bindparam("of_attempts", expanding=True)), _IS_OPEN)
    .group_by(activity_minutes.c.attempt_id)
    .having(func.count() >= bindparam("least"))
)
_JUDGED = (
    update(activity_minutes)
    .where(_OF_ATTEMPT, activity_minutes.c.run == bindparam("of_run"), activity_minutes.c.at <= bindparam("through"))
    .values(is_judged=True)
)
_KEPT = select(activity_minutes.c.at).where(_OF_ATTEMPT).order_by(activity_minutes.c.at.desc())
_FORGET_MINUTES = delete(activity_minutes).where(
    _OF_ATTEMPT, activity_minutes.c.at < _KEPT.offset(MOST_MINUTES - 1).limit(1).scalar_subquery()
)
_OF_JOB = job_bounds.c.job_id == bindparam("of_job")
_NEWEST = select(job_bounds.c.id).where(_OF_JOB).order_by(job_bounds.c.id.desc())
_FORGET_STRETCHES = delete(job_bounds).where(
    _OF_JOB, job_bounds.c.id < _NEWEST.offset(MOST_STRETCHES - 1).limit(1).scalar_subquery()
)
_JOIN = update(job_bounds).where(job_bounds.c.id == bindparam("of_id"))
_PPM = 1_000_000


class NewWindow(NamedTuple):
    job_id: str
    attempt_id: int
    run: int
    window: JudgedWindow


def add_minutes(connection: Connection, minutes_of: Mapping[int, Sequence[MeasuredMinute]]) -> None:
    """Adds minutes of attempts, by their ids. A stored minute stays as it is. The oldest beyond an hour go."""
    rows = [
        {
            "attempt_id": attempt_id,
            "at": one.at,
            "run": one.run,
            "minute": storable(as_json(one.minute)),
            "step": one.step,
            "step_at": one.step_at,
            "is_judged": one.is_judged,
        }
        for attempt_id, minutes in minutes_of.items()
        for one in minutes
    ]
    if rows:
        upsert(connection, activity_minutes, rows, ("attempt_id", "at"), ())
        connection.execute(_FORGET_MINUTES, [{"of_attempt": attempt_id} for attempt_id in minutes_of])


def with_open_minutes(connection: Connection, attempt_ids: Collection[int], least: int) -> set[int]:
    """Returns those of the attempts that have so many minutes in no window yet."""
    return {
        attempt_id
        for some in chunks(attempt_ids)
        for attempt_id in connection.scalars(_OPEN_OF_ATTEMPTS, {"of_attempts": some, "least": least})
    }


def open_minutes(connection: Connection, runs: Mapping[int, int]) -> dict[int, list[MeasuredMinute]]:
    """Returns the minutes of these runs, by attempt, that stand in no window yet, the oldest first."""
    opened: dict[int, list[MeasuredMinute]] = {}
    for some in chunks(runs):
        for row in connection.execute(*_open_minutes(some)):
            if row.run == runs[row.attempt_id]:
                opened.setdefault(row.attempt_id, []).append(_minute(row))
    return opened


@prepared
def _open_minutes(attempt_ids: list[int]) -> Select[Any]:
    columns = activity_minutes.c
    query = select(activity_minutes).where(columns.attempt_id.in_(attempt_ids), _IS_OPEN)
    return query.order_by(columns.attempt_id, columns.at)


def set_judged(connection: Connection, judged: Sequence[tuple[int, int, datetime]]) -> None:
    """Marks the minutes of runs of attempts as judged, through a moment."""
    if judged:
        names = ("of_attempt", "of_run", "through")
        connection.execute(_JUDGED, [dict(zip(names, one, strict=True)) for one in judged])


def minutes_of(connection: Connection, attempt_id: int) -> list[MeasuredMinute]:
    """The last hour's, the oldest first."""
    query = select(activity_minutes).where(activity_minutes.c.attempt_id == attempt_id)
    return [_minute(row) for row in connection.execute(query.order_by(activity_minutes.c.at))]


def _minute(row: Row[Any]) -> MeasuredMinute:
    return MeasuredMinute(
        row.run, row.at, read_minute(row.minute) or Minute(), row.step, row.step_at, is_judged=row.is_judged
    )


def add_windows(connection: Connection, new: Sequence[NewWindow]) -> list[BoundStretch]:
    """The stretch that each belongs to then: the job's last one, if that is of the same run and verdict, else its own.

    The oldest beyond `MOST_STRETCHES` of a job go: verdicts that take turns must not fill the database.
    """
    last = _last_of(connection, {one.job_id for one in new})
    rows: list[BoundStretch] = []
    places: dict[str, int] = {}  # of each job's last stretch in `rows`
    came: list[BoundStretch] = []
    for job_id, attempt_id, run, window in new:
        one = BoundStretch(
            job_id, attempt_id, run, window.since, window.until, 1, window.verdict, window.advice, window.steps,
            window.step_span,
        )  # fmt: skip
        before = last.get(job_id)
        is_more = before is not None and _continues(before, one)
        one = _joined(before, one) if before is not None and is_more else one
        if is_more and job_id in places:
            rows[places[job_id]] = one
        else:
            places[job_id] = len(rows)
            rows.append(one)
        last[job_id] = one
        came.append(one)
    if joined := [{"of_id": row.id, **_columns(row)} for row in rows if row.id is not None]:
        connection.execute(_JOIN, joined)
    if added := [row for row in rows if row.id is None]:
        connection.execute(job_bounds.insert(), [_columns(row) for row in added])
        connection.execute(_FORGET_STRETCHES, [{"of_job": row.job_id} for row in added])
    return came


def _last_of(connection: Connection, job_ids: Collection[str]) -> dict[str, BoundStretch]:
    rows = (row for some in chunks(job_ids) for row in connection.execute(*_last(some)))
    return {row.job_id: _stretch(row) for row in rows}


@prepared
def _last(job_ids: list[str]) -> Select[Any]:
    columns = job_bounds.c
    newest = select(func.max(columns.id)).where(columns.job_id.in_(job_ids)).group_by(columns.job_id)
    return select(job_bounds).where(columns.id.in_(newest))


def _continues(last: BoundStretch, one: BoundStretch) -> bool:
    same = (last.attempt_id, last.run) == (one.attempt_id, one.run)
    return same and (last.verdict.bound, last.verdict.cause) == (one.verdict.bound, one.verdict.cause)


def _joined(last: BoundStretch, one: BoundStretch) -> BoundStretch:
    shares, counts = (last.verdict.share, one.verdict.share), (last.windows, 1)
    share = one.verdict.share
    if shares[0] is not None and shares[1] is not None:
        share = (shares[0] * counts[0] + shares[1]) / (counts[0] + 1)
    steps = [part for part in (last.steps, one.steps) if part is not None]
    spans = [part for part in (last.step_span, one.step_span) if part is not None]
    return BoundStretch(
        last.job_id,
        last.attempt_id,
        last.run,
        last.since,
        one.until,
        last.windows + 1,
        one.verdict._replace(share=share),
        one.advice,
        sum(steps) if steps else None,
        sum(spans, timedelta()) if spans else None,
        last.id,
    )


def _columns(one: BoundStretch) -> dict[str, Any]:
    return {
        "job_id": storable(one.job_id),
        "attempt_id": one.attempt_id,
        "run": one.run,
        "bound": one.verdict.bound,
        "cause": one.verdict.cause,
        "since": one.since,
        "until": one.until,
        "windows": one.windows,
        "share_ppm": None if one.verdict.share is None else round(one.verdict.share * _PPM),
        "numbers": [list(number) for number in one.verdict.numbers],
        "why": storable(one.verdict.why),
        "advice": storable(one.advice),
        "steps": one.steps,
        "step_ms": None if one.step_span is None else one.step_span // _MS,
    }


def of_jobs(
    connection: Connection, job_ids: Collection[str], most: int = MOST_STRETCHES
) -> dict[str, list[BoundStretch]]:
    """The newest first; so many of each."""
    stretches: dict[str, list[BoundStretch]] = {}
    for some in chunks(job_ids):
        query = select(job_bounds).where(job_bounds.c.job_id.in_(some)).order_by(job_bounds.c.id.desc())
        for row in connection.execute(query.limit(most) if len(job_ids) == 1 else query):
            mine = stretches.setdefault(row.job_id, [])
            if len(mine) < most:
                mine.append(_stretch(row))
    return stretches


def _stretch(row: Row[Any]) -> BoundStretch:
    numbers = tuple(Number(*number) for number in row.numbers)
    share = None if row.share_ppm is None else row.share_ppm / _PPM
    return BoundStretch(
        row.job_id,
        row.attempt_id,
        row.run,
        row.since,
        row.until,
        row.windows,
        BoundVerdict(row.bound, row.cause, share, numbers, row.why),
        row.advice,
        row.steps,
        None if row.step_ms is None else row.step_ms * _MS,
        row.id,
    )
