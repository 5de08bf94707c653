"""What the page Now shows: the fleet with its money, why each VM is left alone, and what is not known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from costguard.dashboard.asked import FleetAsked
from costguard.dashboard.source import Source
from costguard.engine import fleet, spend
from costguard.engine.accrual import Accrual
from costguard.engine.fleet import FleetPage, InstanceView
from costguard.model.budget import Scope
from costguard.model.money import Money
from costguard.policy.plan import Decision, Watched, decide
from costguard.policy.price_book import PriceBook
from costguard.policy.rules import Rules
from costguard.store import choices, facts, prices, projects
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
        accrual = Accrual(PriceBook(prices.load(connection)), now)
        page = fleet.fleet_page(
            connection,
            accrual,
            source.limits,
            asked.filters,
            with_gone=asked.gone,
            after=asked.after,
            size=PAGE,
        )
        scope = Scope(asked.project, asked.preset, asked.owner)
        month = spend.spend(connection, accrual, now.date().replace(day=1), now.date(), [], scope)
        looks = projects.read_all(connection)
        found = choices.read(connection)
        told = facts.read(connection, project=asked.project, limit=_FACTS)
    return Now(
        page=page,
        rows=rows_of(page.rows, source, now),
        month=month.total.total,
        month_unpriced=len(month.unpriced),
        gaps=gaps_of(looks),
        stale=[look for look in looks if _is_stale(look, now, source.stale_after)],
        looks=looks,
        choices=found,
        facts=told,
    )


def rows_of(views: Iterable[InstanceView], source: Source, now: datetime) -> list[Row]:
    """Each VM with the guard's own reason to leave it alone, decided as a pass decides it."""
    present = [view for view in views if view.instance.gone_at is None]
    unread: dict[str, set[str]] = {}
    for view in present:
        if view.instance.unread:
            unread.setdefault(view.instance.key.project, set()).add(view.instance.zone)
    presets = {preset.name: preset for preset in source.presets}
    frozen = {project: frozenset(zones) for project, zones in unread.items()}
    plan = decide([_watched(view) for view in present], Rules(presets=presets), frozen, {}, now)
    decisions = {decision.key: decision for decision in plan.decisions}
    return [Row(view, _bar(view, source.limits, now), decisions.get(view.instance.key)) for view in views]


def gaps_of(looks: Iterable[ProjectLook]) -> list[Gap]:
    return [Gap(look.project, part.scope, part.reason, look.last_complete_at) for look in looks for part in look.unread]


def _watched(view: InstanceView) -> Watched:
    known = view.instance
    return Watched(
        key=known.key,
        name=known.name,
        zone=known.zone,
        status=known.status,
        preset=known.preset,
        running_since=view.started_at,
        idle=view.idle,
    )


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
