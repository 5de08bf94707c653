"""Rows of the complete checkpoints that were seen at jobs' locations, one for each time that one was written."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Select, func, select

from costguard.db.bulk import chunks
from costguard.db.prepared import prepared
from costguard.db.tables import seen_checkpoints
from costguard.db.types import storable
from costguard.db.upsert import upsert
from costguard.model.job import SeenCheckpoint


@dataclass(frozen=True, slots=True)
class KeptCheckpoint:
    """A name such as last.ckpt is there once for each time it was written."""

    resume_from: str
    written_at: datetime
    step: int | None
    first_seen_at: datetime


def add_checkpoint(
    connection: Connection, job_id: str, resume_from: str, written_at: datetime, step: int | None, seen_at: datetime
) -> bool:
    """False: it was seen before."""
    return _add(connection, [_row(job_id, resume_from, written_at, step, seen_at)]) == 1


def add_seen(connection: Connection, looks: Mapping[str, SeenCheckpoint]) -> int:
    """Adds what each look found, by job, and returns how many were not seen before. Looks that failed found nothing."""
    return _add(
        connection,
        [
            _row(job_id, seen.resume_from, seen.written_at, seen.step, seen.looked_at)
            for job_id, seen in looks.items()
            if seen.resume_from and seen.written_at is not None and not seen.error
        ],
    )


def _row(
    job_id: str, resume_from: str, written_at: datetime, step: int | None, seen_at: datetime
) -> Mapping[str, object]:
    return {
        "job_id": job_id,
        "resume_from": storable(resume_from),
        "written_at": written_at,
        "step": step,
        "first_seen_at": seen_at,
    }


def _add(connection: Connection, rows: Sequence[Mapping[str, object]]) -> int:
    return upsert(connection, seen_checkpoints, rows, ["job_id", "resume_from", "written_at"], [])


def checkpoints_of(connection: Connection, job_id: str, limit: int = 1000) -> list[KeptCheckpoint]:
    """The newest first."""
    columns = seen_checkpoints.c
    query = select(columns.resume_from, columns.written_at, columns.step, columns.first_seen_at).where(
        columns.job_id == job_id
    )
    rows = connection.execute(query.order_by(columns.written_at.desc(), columns.resume_from).limit(limit))
    return [KeptCheckpoint(*row) for row in rows]


def written_of(connection: Connection, job_ids: Collection[str], newest: int) -> dict[str, list[datetime]]:
    """Returns when the newest checkpoints of each job were written, so many of each, the newest first."""
    by_job: dict[str, list[datetime]] = {job_id: [] for job_id in job_ids}
    for some in chunks(by_job):
        for job_id, written_at in connection.execute(*_written(some, newest)):
            by_job[job_id].append(written_at)
    return by_job


@prepared
def _written(job_ids: list[str], newest: int) -> Select[Any]:
    columns = seen_checkpoints.c
    place = func.row_number().over(
        partition_by=columns.job_id, order_by=(columns.written_at.desc(), columns.resume_from)
    )
    ranked = (
        select(columns.job_id, columns.written_at, place.label("place")).where(columns.job_id.in_(job_ids)).subquery()
    )
    mine = select(ranked.c.job_id, ranked.c.written_at).where(ranked.c.place <= newest)
    return mine.order_by(ranked.c.job_id, ranked.c.place)
