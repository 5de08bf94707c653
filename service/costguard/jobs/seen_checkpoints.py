"""Complete checkpoints that were seen, for the timeline of their job."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, select

from costguard.db.tables import seen_checkpoints
from costguard.db.types import storable
from costguard.db.upsert import upsert


@dataclass(frozen=True, slots=True)
class KeptCheckpoint:
    """A name such as last.ckpt is there once for each time it was written."""

    resume_from: str
    written_at: datetime
    step: int | None
    first_seen_at: datetime


def add(
    connection: Connection, job_id: str, resume_from: str, written_at: datetime, step: int | None, seen_at: datetime
) -> bool:
    """False: it was seen before."""
    row = {
        "job_id": job_id,
        "resume_from": storable(resume_from),
        "written_at": written_at,
        "step": step,
        "first_seen_at": seen_at,
    }
    return upsert(connection, seen_checkpoints, [row], ["job_id", "resume_from", "written_at"], []) == 1


def of_job(connection: Connection, job_id: str, limit: int = 1000) -> list[KeptCheckpoint]:
    """The newest first."""
    of = seen_checkpoints.c
    query = select(of.resume_from, of.written_at, of.step, of.first_seen_at).where(of.job_id == job_id)
    rows = connection.execute(query.order_by(of.written_at.desc(), of.resume_from).limit(limit))
    return [KeptCheckpoint(*row) for row in rows]
