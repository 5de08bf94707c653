"""Rows of gangs: the round that is wanted, the members that begin it, and the rounds that are over."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Row, func, select, update

from costguard.db.bulk import chunks
from costguard.db.tables import attempts, gang_rounds, jobs
from costguard.db.types import storable
from costguard.db.upsert import upsert
from costguard.model.attempt import GangRound, Outcome
from costguard.model.job import Job
from costguard.model.money import Money

_SECOND = timedelta(seconds=1)


def next_round(connection: Connection, job_id: str, number: int) -> bool:
    """Makes this the round that is wanted. False: it is, or a later one is."""
    mine = update(jobs).where(jobs.c.id == job_id, jobs.c.gang_round < number)
    return connection.execute(mine.values(gang_round=number)).rowcount == 1


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


def add_round(connection: Connection, job_id: str, over: GangRound, now: datetime) -> None:
    """Records a round that is over, once; what was lost of it is known when the next one begins."""
    row = {
        "job_id": storable(job_id),
        "number": over.number,
        "released_at": over.released_at,
        "started_at": over.started_at,
        "ended_at": over.ended_at or now,
        "outcome": None if over.outcome is None else over.outcome.value,
        "reason": storable(over.reason),
        "resume_from": storable(over.resume_from),
        "resume_step": over.resume_step,
        "step": over.step,
        "rate_nanos": None if over.rate is None else over.rate.nanos,
        "vms": over.vms,
    }
    upsert(connection, gang_rounds, [row], ["job_id", "number"], update_columns=[])


def set_lost(
    connection: Connection, job_id: str, number: int, lost: timedelta, lost_cost: Money | None, from_zero: bool
) -> None:
    """Records the work of this and earlier rounds that the next one does again."""
    mine = update(gang_rounds).where(gang_rounds.c.job_id == job_id, gang_rounds.c.number == number)
    nanos = None if lost_cost is None else lost_cost.nanos
    connection.execute(mine.values(lost_s=lost // _SECOND, lost_nanos=nanos, from_zero=from_zero))


def rounds_of(connection: Connection, of_jobs: Collection[Job]) -> dict[str, list[GangRound]]:
    """Returns the rounds of those that are gangs that are over, the oldest first; jobs without any are left out."""
    rounds: dict[str, list[GangRound]] = {}
    for some in chunks({job.id for job in of_jobs if job.is_gang}):
        query = select(gang_rounds).where(gang_rounds.c.job_id.in_(some))
        for row in connection.execute(query.order_by(gang_rounds.c.job_id, gang_rounds.c.number)):
            rounds.setdefault(row.job_id, []).append(_round(row))
    return rounds


def _round(row: Row[Any]) -> GangRound:
    return GangRound(
        number=row.number,
        started_at=row.started_at,
        ended_at=row.ended_at,
        released_at=row.released_at,
        outcome=None if row.outcome is None else Outcome(row.outcome),
        reason=row.reason,
        resume_from=row.resume_from,
        resume_step=row.resume_step,
        step=row.step,
        rate=None if row.rate_nanos is None else Money(row.rate_nanos),
        vms=row.vms,
        lost=None if row.lost_s is None else timedelta(seconds=row.lost_s),
        lost_cost=None if row.lost_nanos is None else Money(row.lost_nanos),
        from_zero=bool(row.from_zero),
    )
