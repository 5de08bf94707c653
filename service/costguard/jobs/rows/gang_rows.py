"""Writes of gangs: the round that is wanted, and the members that begin it."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from sqlalchemy import Connection, func, select, update

from costguard.db.tables import attempts, jobs
from costguard.db.types import storable


def next_round(connection: Connection, job_id: str, number: int) -> bool:
    """Makes this the round that is wanted. False: it is, or a later one is."""
    mine = update(jobs).where(jobs.c.id == job_id, jobs.c.gang_round < number)
    return connection.execute(mine.values(gang_round=number)).rowcount == 1


def ready(connection: Connection, attempt_id: int, at: datetime) -> None:
    """Records when its agent said that it stands by for the round of its row."""
    connection.execute(update(attempts).where(attempts.c.id == attempt_id).values(ready_at=at))


def let_begin(
    connection: Connection,
    job_id: str,
    number: int,
    attempt_ids: Collection[int],
    resume: tuple[str, int | None, str],
    at: datetime,
) -> bool:
    """Lets all of these begin this round, with the checkpoint, its step, and why it is that one.

    False, and nothing is changed: one of them does not stand by for the round any more, or the job has another open
    attempt that may run a command or is elsewhere, or wants a later round.
    """
    columns, mine = attempts.c, attempts.c.id.in_(attempt_ids)
    is_ready = (columns.ready_round == number) & (columns.round < number) & columns.stop_asked_at.is_(None)
    count = select(func.count()).where(columns.job_id == job_id, columns.outcome.is_(None))
    formation = select(func.max(columns.formation)).where(mine).scalar_subquery()
    in_the_way = count.where(~mine, (columns.round > 0) | (columns.formation != formation))
    wanted = connection.scalar(select(jobs.c.gang_round).where(jobs.c.id == job_id))
    standing, others = (connection.scalar(query) for query in (count.where(mine, is_ready), in_the_way))
    if standing != len(attempt_ids) or others or max(1, wanted or 0) != number:
        return False
    resume_from, step, why = resume
    values = {"resume_from": storable(resume_from), "resume_step": step, "resume_why": storable(why)}
    connection.execute(update(attempts).where(mine).values({**values, "round": number, "released_at": at}))
    next_round(connection, job_id, number)
    return True
