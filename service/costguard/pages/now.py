"""What the page Now shows: the fleet with its money, why each VM is left alone, and what is not known."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from costguard.events import facts
from costguard.ledger import projects
from costguard.ledger.accrual import accrual_at
from costguard.ledger.fleet_rows import Burning
from costguard.ledger.projects import ProjectLook
from costguard.model.access import Principal
from costguard.model.budget import Scope
from costguard.model.instance import Status
from costguard.model.mending import command_for
from costguard.model.money import Money
from costguard.pages.asked import FleetAsked
from costguard.pages.curve import Trace, trace
from costguard.pages.folding import Folded, folded
from costguard.pages.rows import Row, rows_of
from costguard.pages.source import Source
from costguard.spend import choices, fleet, spend
from costguard.spend.burn_history import burned
from costguard.spend.choices import Choices
from costguard.spend.fleet import FleetPage

PAGE = 50
_FACTS = 12


@dataclass(frozen=True, slots=True)
class Share:
    """What the VMs of a preset cost an hour, and where that stands on a bar of a thousand parts."""

    preset: str
    rate: Money
    running: int
    x: int
    width: int


@dataclass(frozen=True, slots=True)
class Gap:
    """A part of a project that the last look could not read."""

    project: str
    scope: str
    reason: str
    last_complete_at: datetime | None
    command: str  # what makes it readable; "" where no one command does
    is_whole: bool  # nothing of the project was read


@dataclass(frozen=True, slots=True)
class Now:
    page: FleetPage
    rows: Sequence[Row]
    shares: Sequence[Share]
    trace: Trace | None  # of the day; None also where the filters ask for what the past cannot be asked for
    month: Money
    month_unpriced: int
    gaps: Sequence[Gap]
    stale: Sequence[ProjectLook]
    looks: Sequence[ProjectLook]
    choices: Choices
    facts: Sequence[Folded]


def now_page(source: Source, asked: FleetAsked, now: datetime, me: Principal | None = None) -> Now:
    """Everything that the page shows, read in one transaction."""
    with source.database.read() as connection:
        accrual = accrual_at(connection, now)
        page = fleet.fleet_page(
            connection,
            accrual,
            source.rules.limits,
            asked.filters,
            sort=asked.sort,
            with_gone=asked.gone,
            after=asked.after,
            size=PAGE,
        )
        rows = rows_of(connection, page.rows, source.rules, now, me)
        shares = _shares(page.burning)
        scope = Scope(asked.project, asked.preset, asked.owner)
        by_past = asked.status is None and asked.name is None
        history = burned(connection, accrual, scope) if by_past else None
        month = spend.spend(connection, accrual, now.date().replace(day=1), now.date(), [], scope)
        looks = projects.read_all(connection)
        found = choices.read(connection)
        told = facts.read(connection, project=asked.project, limit=_FACTS)
    return Now(
        page=page,
        rows=rows,
        shares=shares,
        trace=None if history is None else trace(history, page.totals.rate, now),
        month=month.total.total,
        month_unpriced=len(month.unpriced),
        gaps=gaps_of(looks),
        stale=[look for look in looks if _is_stale(look, now, source.stale_after) and not look.is_unread],
        looks=looks,
        choices=found,
        facts=folded(told),
    )


def gaps_of(looks: Iterable[ProjectLook]) -> list[Gap]:
    return [
        Gap(
            look.project,
            part.scope,
            part.reason,
            look.last_complete_at,
            command_for(look.project, part),
            is_whole=part.is_whole,
        )
        for look in looks
        for part in look.unread
    ]


def _shares(burning: Sequence[Burning]) -> list[Share]:
    """By preset, the dearest first. Rounded for drawing alone."""
    rates: dict[str, int] = defaultdict(int)
    running: dict[str, int] = defaultdict(int)
    for each in burning:
        rates[each.preset] += each.rate.nanos
        running[each.preset] += each.count if each.status is Status.RUNNING else 0
    whole, done, made = sum(rates.values()), 0, []
    for preset, nanos in sorted(rates.items(), key=lambda item: (-item[1], item[0])):
        if nanos > 0:
            x, end = 1000 * done // whole, 1000 * (done + nanos) // whole
            made.append(Share(preset, Money(nanos), running[preset], x, end - x))
            done += nanos
    return made


def _is_stale(look: ProjectLook, now: datetime, stale_after: timedelta) -> bool:
    return look.last_complete_at is not None and now - look.last_complete_at > stale_after
