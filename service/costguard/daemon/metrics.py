"""What the ledger says to machines that watch the guard, read in one view of it."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection

from costguard.access.rules import Rules
from costguard.daemon import counts
from costguard.daemon.counts import Interrupted
from costguard.db import health_rows
from costguard.events import stream
from costguard.ledger import burn_rates, projects
from costguard.ledger.accrual import accrual_at
from costguard.ledger.fleet_rows import Burning
from costguard.ledger.projects import ProjectLook
from costguard.model.fact_kinds import FACT_KINDS
from costguard.model.job import JobState
from costguard.spend.budget import Standing
from costguard.spend.budgets import standings
from costguard.spend.spend import SpendRow, spend
from costguard.spend.spend_rows import Grouping

MONTH = (Grouping.DAY, Grouping.PROJECT, Grouping.PRESET, Grouping.PROVISIONING_MODEL)


@dataclass(frozen=True, slots=True)
class Figures:
    """`month` has a row a day, project, preset and provisioning model, since the first of the month in UTC.

    `facts` counts those that were recorded since the first time that this process was asked.
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
    interrupted: Interrupted
    facts: Mapping[str, int]


class FactCounts:
    """Counts facts by kind as they are recorded, by whatever process. Each look reads only what is new."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._through: int | None = None
        self._counts: Counter[str] = Counter(dict.fromkeys(FACT_KINDS, 0))

    def read(self, connection: Connection) -> dict[str, int]:
        with self._lock:
            latest = stream.latest_id(connection)
            if self._through is not None and latest > self._through:
                self._counts.update(counts.facts_by_kind(connection, self._through, latest))
            # Of two looks at once, the one that began first may be the last to get here.
            self._through = max(latest, self._through or 0)
            return dict(self._counts)


def figures(connection: Connection, rules: Rules, now: datetime, told: FactCounts) -> Figures:
    accrual = accrual_at(connection, now)
    today = now.date()
    # Budgets first: they tell owners apart, and what they read of what is not stored yet answers the month as well.
    budgets = standings(connection, accrual, rules.budgets, rules.teams)
    return Figures(
        as_of=now,
        burning=burn_rates.burning(connection, accrual),
        looks=projects.read_all(connection),
        prices_at=health_rows.prices_recorded_at(connection),
        month=spend(connection, accrual, today.replace(day=1), today, MONTH).rows,
        budgets=budgets,
        waiting_messages=counts.waiting_messages(connection),
        open_jobs=counts.open_jobs(connection),
        stops=counts.stops_by_outcome(connection),
        interrupted=counts.interrupted(connection),
        facts=told.read(connection),
    )
