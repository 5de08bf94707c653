"""Rows of schedules, and of their runs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from pydantic import TypeAdapter
from sqlalchemy import Connection, Row, func, insert, select, text, update

from costguard.db import named as named_rows
from costguard.db.bulk import chunks
from costguard.db.named import RowFilters
from costguard.db.tables import LIVE_SCHEDULE, OPEN_JOB, PENDING_RUN, jobs, schedule_runs, schedules
from costguard.db.types import storable
from costguard.jobs.submit.submission import Submission
from costguard.model.access import Authority
from costguard.schedules.schedule import Recurrence, RunOutcome, Schedule, ScheduleRun, ScheduleState

_LIVE = text(LIVE_SCHEDULE)
_PENDING = text(PENDING_RUN)
# Keys that a later version wrote are passed over, and fields that an earlier one lacked have their defaults.
_TEMPLATE = TypeAdapter(Submission)
_AUTHORITY = TypeAdapter(Authority)


@dataclass(frozen=True, slots=True)
class Template:
    """The job of a schedule with its {names}, and the authority that it was asked with; None: the lists alone."""

    submission: Submission
    authority: Authority | None


def add(
    connection: Connection, schedule: Schedule, template: Template, idempotency_key: str | None, digest: str
) -> None:
    row = {
        "id": schedule.id,
        "idempotency_key": storable(idempotency_key),
        "request_digest": digest,
        "name": storable(schedule.name),
        "owner": storable(schedule.owner),
        "project": storable(schedule.project),
        "preset": storable(schedule.preset),
        "cron": storable(schedule.recurrence.cron),
        "time_zone": storable(schedule.recurrence.time_zone),
        "overlaps": schedule.overlaps,
        "late_s": None if schedule.late is None else schedule.late // timedelta(seconds=1),
        "template": storable(_TEMPLATE.dump_python(template.submission, mode="json")),
        "authority": None
        if template.authority is None
        else storable(_AUTHORITY.dump_python(template.authority, mode="json")),
        "state": schedule.state.value,
        "reason": storable(schedule.reason),
        "next_due": schedule.next_due,
        "via": storable(schedule.via),
        "created_at": schedule.created_at,
    }
    connection.execute(insert(schedules).values(row))


def of_key(connection: Connection, idempotency_key: str) -> tuple[Schedule, str] | None:
    """The schedule that came with this key, and the digest of the request; None: it is not known."""
    row = connection.execute(select(schedules).where(schedules.c.idempotency_key == storable(idempotency_key))).first()
    return None if row is None else (_schedule(row), row.request_digest)


def read(connection: Connection, schedule_id: str) -> Schedule | None:
    row = connection.execute(select(schedules).where(schedules.c.id == storable(schedule_id))).first()
    return None if row is None else _schedule(row)


def id_of(connection: Connection, named: str) -> str:
    """The id of the schedule with this id or name, as `db.named.id_of` chooses. Raises Conflict."""
    return named_rows.id_of(connection, schedules, _LIVE, named, "schedules")


def of_ids(connection: Connection, schedule_ids: Collection[str]) -> dict[str, Schedule]:
    """Returns the schedules with these ids, as far as they exist."""
    rows = (
        row
        for some in chunks(set(schedule_ids))
        for row in connection.execute(select(schedules).where(schedules.c.id.in_(some)))
    )
    return {row.id: _schedule(row) for row in rows}


def count_live(connection: Connection, owner: str) -> int:
    """Counts the schedules of an owner that have not ended."""
    query = select(func.count()).select_from(schedules).where(_LIVE, schedules.c.owner == storable(owner))
    return int(connection.scalar(query) or 0)


def page(connection: Connection, filters: RowFilters, after: tuple[datetime, str] | None, limit: int) -> list[Schedule]:
    return [_schedule(row) for row in named_rows.page(connection, schedules, filters, after, limit)]


def due(connection: Connection, now: datetime) -> list[str]:
    """Returns ids of the schedules of which a due time has come."""
    query = select(schedules.c.id).where(_LIVE, schedules.c.next_due <= now)
    return list(connection.scalars(query.order_by(schedules.c.next_due, schedules.c.id)))


def template(connection: Connection, schedule_id: str) -> Template:
    """Reads what a schedule launches."""
    query = select(schedules.c.template, schedules.c.authority).where(schedules.c.id == schedule_id)
    row = connection.execute(query).one()
    authority = None if row.authority is None else _AUTHORITY.validate_python(row.authority)
    return Template(_TEMPLATE.validate_python(row.template), authority)


def advance(connection: Connection, schedule_id: str, next_due: datetime | None, reason: str) -> None:
    """Stores the next due time of an active schedule."""
    values = {"next_due": next_due, "reason": storable(reason)}
    connection.execute(update(schedules).where(schedules.c.id == schedule_id).values(values))


def set_state(
    connection: Connection, schedule_id: str, state: ScheduleState, reason: str, next_due: datetime | None, by: str
) -> None:
    values = {"state": state.value, "reason": storable(reason), "next_due": next_due, "changed_by": storable(by)}
    connection.execute(update(schedules).where(schedules.c.id == schedule_id).values(values))


def add_runs(connection: Connection, runs: Sequence[ScheduleRun], idempotency_key: str | None = None) -> None:
    """A second run of the same due time breaks a constraint. The key is of one run that was asked for."""
    rows = [
        {
            "schedule_id": run.schedule_id,
            "due_at": run.due_at,
            "outcome": run.outcome.value,
            "reason": storable(run.reason),
            "asked_by": storable(run.asked_by),
            "idempotency_key": storable(idempotency_key),
        }
        for run in runs
    ]
    if rows:
        connection.execute(insert(schedule_runs), rows)


def run_at(connection: Connection, schedule_id: str, due_at: datetime) -> ScheduleRun | None:
    """Reads the run of a due time; None: there is none."""
    columns = schedule_runs.c
    query = select(schedule_runs).where(columns.schedule_id == schedule_id, columns.due_at == due_at)
    row = connection.execute(query).first()
    return None if row is None else _run(row)


def run_of_key(connection: Connection, idempotency_key: str) -> ScheduleRun | None:
    """Reads the run that was asked for under this key; None: it is not known."""
    row = connection.execute(
        select(schedule_runs).where(schedule_runs.c.idempotency_key == storable(idempotency_key))
    ).first()
    return None if row is None else _run(row)


def pending(connection: Connection) -> list[ScheduleRun]:
    """Returns the runs whose jobs are being submitted, the oldest first."""
    query = select(schedule_runs).where(_PENDING).order_by(schedule_runs.c.due_at, schedule_runs.c.schedule_id)
    return [_run(row) for row in connection.execute(query)]


def settle(connection: Connection, run: ScheduleRun) -> bool:
    """Stores the outcome of a run that was being submitted. False: it was settled before, and stays as it is."""
    columns = schedule_runs.c
    mine = (columns.schedule_id == run.schedule_id, columns.due_at == run.due_at, _PENDING)
    values = {
        "outcome": run.outcome.value,
        "reason": storable(run.reason),
        "job_id": run.job_id or None,
        "tried_at": run.tried_at,
    }
    return connection.execute(update(schedule_runs).where(*mine).values(values)).rowcount == 1


def open_runs(connection: Connection, schedule_ids: Collection[str]) -> dict[str, list[str]]:
    """Returns the runs of each schedule that are not over: the job's id of each, "" of one that is being submitted."""
    columns = schedule_runs.c
    result: dict[str, list[str]] = {}
    of_open = select(columns.schedule_id, columns.job_id).join(jobs, jobs.c.id == columns.job_id).where(text(OPEN_JOB))
    waiting = select(columns.schedule_id, columns.job_id).where(_PENDING)
    for some in chunks(set(schedule_ids)):
        for query in (of_open, waiting):
            for row in connection.execute(query.where(columns.schedule_id.in_(some))):
                result.setdefault(row.schedule_id, []).append(row.job_id or "")
    return result


def last_runs(connection: Connection, schedule_ids: Collection[str], limit: int) -> dict[str, list[ScheduleRun]]:
    """Returns the last runs of each schedule, the newest first, at most `limit` of each."""
    columns = schedule_runs.c
    place = func.row_number().over(partition_by=columns.schedule_id, order_by=columns.due_at.desc()).label("place")
    result: dict[str, list[ScheduleRun]] = {schedule_id: [] for schedule_id in schedule_ids}
    for some in chunks(set(schedule_ids)):
        ranked = select(schedule_runs, place).where(columns.schedule_id.in_(some)).subquery()
        query = select(ranked).where(ranked.c.place <= limit).order_by(ranked.c.due_at.desc())
        for row in connection.execute(query):
            result[row.schedule_id].append(_run(row))
    return result


def outcomes(connection: Connection, schedule_ids: Collection[str]) -> dict[str, dict[RunOutcome, int]]:
    """Counts all runs of each schedule by outcome."""
    columns = schedule_runs.c
    result: dict[str, dict[RunOutcome, int]] = {schedule_id: {} for schedule_id in schedule_ids}
    query = select(columns.schedule_id, columns.outcome, func.count().label("number"))
    for some in chunks(set(schedule_ids)):
        of_some = query.where(columns.schedule_id.in_(some)).group_by(columns.schedule_id, columns.outcome)
        for row in connection.execute(of_some):
            result[row.schedule_id][RunOutcome(row.outcome)] = row.number
    return result


def _schedule(row: Row[Any]) -> Schedule:
    return Schedule(
        id=row.id,
        name=row.name,
        owner=row.owner,
        project=row.project,
        preset=row.preset,
        recurrence=Recurrence(row.cron, row.time_zone),
        overlaps=row.overlaps,
        late=None if row.late_s is None else timedelta(seconds=row.late_s),
        state=ScheduleState(row.state),
        reason=row.reason,
        next_due=row.next_due,
        created_at=row.created_at,
        via=row.via,
        changed_by=row.changed_by,
    )


def _run(row: Row[Any]) -> ScheduleRun:
    return ScheduleRun(
        schedule_id=row.schedule_id,
        due_at=row.due_at,
        outcome=RunOutcome(row.outcome),
        reason=row.reason,
        job_id=row.job_id or "",
        tried_at=row.tried_at,
        asked_by=row.asked_by,
    )
