"""Writes of attempts whose VMs stand by."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Connection, select, update

from costguard.db.tables import attempts
from costguard.db.types import storable
from costguard.model.attempt import Attempt


def ready(connection: Connection, attempt_id: int, at: datetime) -> None:
    """Records when its agent first said that nothing but the guard's word is missing; of a gang, for the round of its
    row.
    """
    connection.execute(update(attempts).where(attempts.c.id == attempt_id).values(ready_at=at))


def release(
    connection: Connection, attempt: Attempt, resume_from: str, step: int | None, why: str, at: datetime
) -> bool:
    """Let the command of an attempt that stands by begin. False: another one is open, or it does not stand by."""
    others = attempts.alias()
    another = select(others.c.id).where(
        others.c.job_id == attempt.job_id, others.c.id != attempt.id, others.c.outcome.is_(None)
    )
    mine = update(attempts).where(
        attempts.c.id == attempt.id, attempts.c.outcome.is_(None), attempts.c.released_at.is_(None), ~another.exists()
    )
    values = {"resume_from": storable(resume_from), "resume_step": step, "resume_why": storable(why)}
    return connection.execute(mine.values({**values, "released_at": at})).rowcount == 1
