"""What the page Now shows: the fleet with its money, why each VM is left alone, and what is not known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import Connection

from costguard.dashboard.asked import FleetAsked
from costguard.dashboard.source import Source
from costguard.engine import fleet, spend
from costguard.engine.accrual import accrual_at
from costguard.engine.fleet import FleetPage, InstanceView
from costguard.engine.reminding import look_at
from costguard.model.budget import Scope
from costguard.model.money import Money
from costguard.policy.rules import Rules
from costguard.policy.watched import Decision
from costguard.store import choices, facts, projects
from costguard.store.choices import Choices
from costguard.store.facts import StoredFact
from costguard.store.projects import ProjectLook

PAGE = 100
_FACTS = 12


@dataclass(frozen=True, slots=True)
class Bar:
    """A run's age against its limit, in thousandths of the bar's width."""

    age: timedelta
    limit: timedelta | None
    filled: int
    mark: int  # where the limit stands
    is_over: bool


@dataclass(frozen=True, slots=True)
class Row:
    view: InstanceView
    bar: Bar | None  # None: it does not run
    decision: Decision | None  # None: it is gone


@dataclass(frozen=True, slots=True)
class Gap:
    """A part of a project that the last look could not read."""

    project: str
    scope: str
    reason: str
    last_complete_at: datetime | None


@dataclass(frozen=True, slots=True)
class Now:
    page: FleetPage
    rows: Sequence[Row]
    month: Money
    month_unpriced: int
    gaps: Sequence[Gap]
    stale: Sequence[ProjectLook]
    looks: Sequence[ProjectLook]
    choices: Choices
    facts: Sequence[StoredFact]


def now_page(source: Source, asked: FleetAsked, now: datetime) -> Now:
    """Everything that the page shows, read in one transaction."""
    with source.database.read() as connection:
        accrual = accrual_at(connection, now)
        page = fleet.fleet_page(
            connection,
            accrual,
            source.rules.limits,
            asked.filters,
            with_gone=asked.gone,
            after=asked.after,
            size=PAGE,
        )
        rows = rows_of(connection, page.rows, source.rules, now)
        scope = Scope(asked.project, asked.preset, asked.owner)
        month = spend.spend(connection, accrual, now.date().replace(day=1), now.date(), [], scope)
        looks = projects.read_all(connection)
        found = choices.read(connection)
        told = facts.read(connection, project=asked.project, limit=_FACTS)
    return Now(
        page=page,
        rows=rows,
        month=month.total.total,
        month_unpriced=len(month.unpriced),
        gaps=gaps_of(looks),
        stale=[look for look in looks if _is_stale(look, now, source.stale_after)],
        looks=looks,
        choices=found,
        facts=told,
    )


def rows_of(connection: Connection, views: Sequence[InstanceView], rules: Rules, now: datetime) -> list[Row]:
    """Each VM with what happens next to it, or the guard's own reason to leave it alone, as a pass decides it."""
    present = [view.instance.id for view in views if view.instance.gone_at is None]
    decisions = {decision.key: decision for decision in look_at(connection, rules, now, present)[0].decisions}
    return [Row(view, _bar(view, rules.limits, now), decisions.get(view.instance.key)) for view in views]


def gaps_of(looks: Iterable[ProjectLook]) -> list[Gap]:
    return [Gap(look.project, part.scope, part.reason, look.last_complete_at) for look in looks for part in look.unread]


def _bar(view: InstanceView, limits: Mapping[str, timedelta | None], now: datetime) -> Bar | None:
    if view.started_at is None:
        return None
    age = max(timedelta(), now - view.started_at)
    limit = limits.get(view.instance.preset)
    if not limit:
        return Bar(age, None, 0, 0, is_over=False)
    whole = max(age, limit)
    return Bar(age, limit, 1000 * age // whole, 1000 * limit // whole, is_over=age > limit)


def _is_stale(look: ProjectLook, now: datetime, stale_after: timedelta) -> bool:
    return look.last_complete_at is not None and now - look.last_complete_at > stale_after
