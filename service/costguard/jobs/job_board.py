"""How all open jobs stand, counted by the database."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import Connection, func, select, text

from costguard.db.tables import LIVE_ATTEMPT, OPEN_JOB, attempts, jobs
from costguard.model.attempt import AttemptState
from costguard.model.job import JobState
from costguard.model.money import Money, Priced


@dataclass(frozen=True, slots=True)
class Standing:
    """So many open jobs of one state, owner and preset."""

    state: JobState
    owner: str
    preset: str
    count: int


def standings(connection: Connection) -> list[Standing]:
    of = jobs.c
    query = select(of.state, of.owner, of.preset, func.count()).where(text(OPEN_JOB))
    rows = connection.execute(query.group_by(of.state, of.owner, of.preset))
    return [Standing(JobState(state), owner, preset, count) for state, owner, preset, count in rows]


def rate(connection: Connection, states: Collection[AttemptState]) -> Priced:
    """What an hour of all live attempts in these states costs; not whole where the rate of one is not known."""
    of = attempts.c
    query = select(func.sum(of.rate_nanos), func.count(), func.count(of.rate_nanos))
    wanted = query.where(text(LIVE_ATTEMPT), of.state.in_([state.value for state in states]))
    nanos, every, priced = connection.execute(wanted).one()
    return Priced(Money(int(nanos or 0)), every == priced)
