"""How much of what there is, for machines that watch the guard."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlalchemy import BigInteger, Connection, func, select, text, type_coerce

from costguard.db.remembered import remembers
from costguard.db.tables import OPEN_JOB, WAITING, facts, interruptions, jobs, messages, stops
from costguard.model.attempt import Outcome
from costguard.model.job import JobState
from costguard.model.money import ZERO, Money


@dataclass(frozen=True, slots=True)
class Interrupted:
    """All interruptions there ever were, by their outcome. `recoveries` are in seconds, of preemptions alone."""

    happened: Mapping[Outcome, int] = field(default_factory=dict)
    resumed: Mapping[Outcome, int] = field(default_factory=dict)
    recoveries: tuple[float, ...] = ()
    lost: Money = ZERO
    lost_seconds: int = 0


def facts_by_kind(connection: Connection, after: int, through: int) -> dict[str, int]:
    """Of those that were recorded after the one, up to the other."""
    of = facts.c
    query = select(of.kind, func.count().label("many")).where(of.id > after, of.id <= through).group_by(of.kind)
    return {row.kind: row.many for row in connection.execute(query)}


def waiting_messages(connection: Connection) -> dict[str, int]:
    """By kind, those that Slack has not accepted yet."""
    query = select(messages.c.kind, func.count().label("many")).where(text(WAITING)).group_by(messages.c.kind)
    return {row.kind: row.many for row in connection.execute(query)}


def open_jobs(connection: Connection) -> dict[JobState, int]:
    query = select(jobs.c.state, func.count()).where(text(OPEN_JOB)).group_by(jobs.c.state)
    return {JobState(state): count for state, count in connection.execute(query)}


def stops_by_outcome(connection: Connection) -> dict[tuple[str, bool], int]:
    """All there ever were, by outcome and whether a person had asked for it."""
    is_asked = stops.c.request_id.is_not(None).label("is_asked")
    query = select(stops.c.outcome, is_asked, func.count()).group_by(stops.c.outcome, is_asked)
    return {(outcome, bool(asked)): count for outcome, asked, count in connection.execute(query)}


@remembers(interruptions)
def interrupted(connection: Connection) -> Interrupted:
    of = interruptions.c
    happened: dict[Outcome, int] = {}
    resumed: dict[Outcome, int] = {}
    nanos = seconds = 0
    sums = func.sum(of.lost_nanos), func.sum(of.lost_s)
    query = select(of.outcome, func.count(), func.count(of.resumed_at), *sums).group_by(of.outcome)
    for outcome, count, resumed_count, lost_nanos, lost_s in connection.execute(query):
        happened[Outcome(outcome)], resumed[Outcome(outcome)] = count, resumed_count
        nanos, seconds = nanos + int(lost_nanos or 0), seconds + int(lost_s or 0)
    took = type_coerce(of.resumed_at, BigInteger) - type_coerce(of.happened_at, BigInteger)  # microseconds
    ended = select(took).where(of.outcome == Outcome.PREEMPTED.value, of.resumed_at.is_not(None))
    recoveries = tuple(microseconds / 1_000_000 for microseconds in connection.scalars(ended))
    return Interrupted(happened, resumed, recoveries, Money(nanos), seconds)
