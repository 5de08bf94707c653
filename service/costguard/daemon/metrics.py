"""The ledger's figures for Prometheus, read in one transaction."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from sqlalchemy import BigInteger, Connection, func, select, text, type_coerce

from costguard.access.rules import Rules
from costguard.daemon import watch_report
from costguard.daemon.listings import RHYTHM, Rhythm
from costguard.daemon.watch_report import WatchFigures
from costguard.db import health_rows
from costguard.db.remembered import remembers
from costguard.db.tables import OPEN_JOB, WAITING, events, interruptions, jobs, messages, stops
from costguard.events import stream
from costguard.jobs.listing.limits import LimitUse, limit_uses
from costguard.ledger import projects
from costguard.ledger.accrual import accrual_at
from costguard.ledger.fleet_rows import Burning
from costguard.ledger.projects import ProjectLook
from costguard.ledger.running import burn_rates
from costguard.model.attempt import Outcome
from costguard.model.event_kinds import EVENT_KINDS
from costguard.model.job import JobState
from costguard.model.money import ZERO, Money
from costguard.spend.budget import Standing
from costguard.spend.budgets import standings
from costguard.spend.spend import SpendRow, spend
from costguard.spend.spend_rows import Grouping


@dataclass(frozen=True, slots=True)
class InterruptionCounts:
    """All interruptions there ever were, by their outcome. `recoveries` are in seconds, of preemptions alone."""

    happened: Mapping[Outcome, int] = field(default_factory=dict)
    resumed: Mapping[Outcome, int] = field(default_factory=dict)
    recoveries: tuple[float, ...] = ()
    lost: Money = ZERO
    lost_seconds: int = 0


def count_events(connection: Connection, after: int, through: int) -> dict[str, int]:
    """Events recorded after one id, up to the other."""
    columns = events.c
    query = (
        select(columns.kind, func.count().label("many"))
        .where(columns.id > after, columns.id <= through)
        .group_by(columns.kind)
    )
    return {row.kind: row.many for row in connection.execute(query)}


def count_waiting_messages(connection: Connection) -> dict[str, int]:
    """Counts messages by kind that Slack has not accepted yet."""
    query = select(messages.c.kind, func.count().label("many")).where(text(WAITING)).group_by(messages.c.kind)
    return {row.kind: row.many for row in connection.execute(query)}


def count_open_jobs(connection: Connection) -> dict[JobState, int]:
    query = select(jobs.c.state, func.count()).where(text(OPEN_JOB)).group_by(jobs.c.state)
    return {JobState(state): count for state, count in connection.execute(query)}


def count_stops(connection: Connection) -> dict[tuple[str, bool], int]:
    """All there ever were, by outcome and whether a person had requested it."""
    is_asked = stops.c.request_id.is_not(None).label("is_asked")
    query = select(stops.c.outcome, is_asked, func.count()).group_by(stops.c.outcome, is_asked)
    return {(outcome, bool(is_requested)): count for outcome, is_requested, count in connection.execute(query)}


@remembers(interruptions)
def count_interruptions(connection: Connection) -> InterruptionCounts:
    columns = interruptions.c
    happened: dict[Outcome, int] = {}
    resumed: dict[Outcome, int] = {}
    nanos = seconds = 0
    sums = func.sum(columns.lost_nanos), func.sum(columns.lost_s)
    query = select(columns.outcome, func.count(), func.count(columns.resumed_at), *sums).group_by(columns.outcome)
    for outcome, count, resumed_count, lost_nanos, lost_s in connection.execute(query):
        happened[Outcome(outcome)], resumed[Outcome(outcome)] = count, resumed_count
        nanos, seconds = nanos + int(lost_nanos or 0), seconds + int(lost_s or 0)
    took = type_coerce(columns.resumed_at, BigInteger) - type_coerce(columns.happened_at, BigInteger)  # microseconds
    ended = select(took).where(columns.outcome == Outcome.PREEMPTED.value, columns.resumed_at.is_not(None))
    recoveries = tuple(microseconds / 1_000_000 for microseconds in connection.scalars(ended))
    return InterruptionCounts(happened, resumed, recoveries, Money(nanos), seconds)


MONTH = (Grouping.DAY, Grouping.PROJECT, Grouping.PRESET, Grouping.PROVISIONING_MODEL)


@dataclass(frozen=True, slots=True)
class Figures:
    """`month` has a row a day, project, preset and provisioning model, since the first of the month in UTC.

    `events` counts the events recorded since this process's first scrape.
    """

    as_of: datetime
    burning: Sequence[Burning]
    looks: Sequence[ProjectLook]
    prices_at: datetime | None
    month: Sequence[SpendRow]
    budgets: Sequence[Standing]
    waiting_messages: Mapping[str, int]
    open_jobs: Mapping[JobState, int]
    stops: Mapping[tuple[str, bool], int]  # by outcome, and whether a person had requested it
    interrupted: InterruptionCounts
    events: Mapping[str, int]
    watch: WatchFigures = field(default_factory=WatchFigures)
    limits: Sequence[LimitUse] = ()


class EventCounts:
    """Counts events by kind as any process records them. Each read covers only new ones."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._through: int | None = None
        self._counts: Counter[str] = Counter(dict.fromkeys(EVENT_KINDS, 0))

    def read(self, connection: Connection) -> dict[str, int]:
        with self._lock:
            latest = stream.latest_id(connection)
            if self._through is not None and latest > self._through:
                self._counts.update(count_events(connection, self._through, latest))
            # Of two looks at once, the one that began first may be the last to get here.
            self._through = max(latest, self._through or 0)
            return dict(self._counts)


def figures(
    connection: Connection, rules: Rules, now: datetime, event_counts: EventCounts, rhythm: Rhythm = RHYTHM
) -> Figures:
    accrual = accrual_at(connection, now)
    today = now.date()
    # Budgets first: they tell owners apart, and what they read of what is not stored yet answers the month as well.
    budgets = standings(connection, accrual, rules.budgets, rules.teams)
    looks = projects.read_all(connection)
    return Figures(
        as_of=now,
        burning=burn_rates.burning(connection, accrual),
        looks=looks,
        prices_at=health_rows.prices_recorded_at(connection),
        month=spend(connection, accrual, today.replace(day=1), today, MONTH).rows,
        budgets=budgets,
        waiting_messages=count_waiting_messages(connection),
        open_jobs=count_open_jobs(connection),
        stops=count_stops(connection),
        interrupted=count_interruptions(connection),
        events=event_counts.read(connection),
        watch=watch_report.read(connection, looks, now, rhythm),
        limits=limit_uses(connection, rules, now),
    )
