"""What the page Budgets shows: what is left of each budget, day by day, and how it will end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from costguard.ledger.accrual import accrual_at
from costguard.model.budget import AtLimit, Budget, Period, Scope
from costguard.pages.curve import Curve, burn_down
from costguard.pages.show import day, link
from costguard.pages.source import Source
from costguard.spend import budgets
from costguard.spend.budget import TOO_EARLY, Standing
from costguard.spend.spend_rows import Grouping

_DAY = timedelta(days=1)
_AT_LIMIT = {
    AtLimit.TELL: "It is told, and nothing is stopped.",
    AtLimit.REFUSE: "Jobs that count against it get no VM until the period ends.",
    AtLimit.STOP_SPOT: "Jobs that count against it get no VM until the period ends, and their Spot VMs stop once they "
    "have saved.",
}


@dataclass(frozen=True, slots=True)
class Card:
    of: Standing
    curve: Curve
    tone: str  # "over", "soon", "early" or "well"
    verdict: str
    left: timedelta  # of the period
    period: str
    at_limit: str
    contact: str  # who is asked; "" where nobody is
    spend_address: str


@dataclass(frozen=True, slots=True)
class Budgets:
    cards: Sequence[Card]
    over: int
    soon: int
    methods: Sequence[str]


def budgets_page(source: Source, now: datetime) -> Budgets:
    """Everything that the page shows, read in one transaction."""
    rules = source.rules
    with source.database.read() as connection:
        accrual = accrual_at(connection, now)
        found = budgets.standings(connection, accrual, rules.budgets, rules.teams)
    cards = [_card(each, rules.contact, now) for each in found]
    tones = [card.tone for card in cards]
    methods = tuple(dict.fromkeys(card.of.outlook.forecast.method for card in cards))
    return Budgets(cards, tones.count("over"), tones.count("soon"), methods)


def _card(of: Standing, contact: str, now: datetime) -> Card:
    tone, verdict = _verdict(of)
    ends_at = of.outlook.ends_at
    return Card(
        of=of,
        curve=burn_down(of, now),
        tone=tone,
        verdict=verdict,
        left=ends_at - now,
        period="today, in UTC" if of.budget.period is Period.DAY else _to(of.budget.period, ends_at),
        at_limit=_AT_LIMIT[of.budget.at_limit],
        contact=of.budget.contact or contact,
        spend_address=_spend_address(of.budget, of.outlook.starts_at, now),
    )


def _to(period: Period, ends_at: datetime) -> str:
    return f"this {period.value}, to {day(ends_at.date() - _DAY)}"


def _spend_address(budget: Budget, starts_at: datetime, now: datetime) -> str:
    """The spend that it counts. Of a team it is everybody's by owner: spend knows no teams."""
    of: Scope = budget.scope
    group_by = Grouping.OWNER if of.team or of.preset else Grouping.PRESET
    return link(
        "/spend",
        from_=starts_at.date(),
        to=now.date(),
        group_by=group_by.value,
        project=of.project,
        preset=of.preset,
        owner=of.owner,
        job=of.job,
    )


def _verdict(of: Standing) -> tuple[str, str]:
    limit, spent, forecast = of.budget.limit, of.outlook.spent, of.outlook.forecast
    if spent >= limit:
        return "over", f"overspent by {spent - limit}"
    if not forecast.is_grounded:
        return "early", TOO_EARLY
    if forecast.expected >= limit:
        return "soon", f"will be overspent by about {forecast.expected - limit}"
    if forecast.high >= limit:
        return "well", "on course, and may yet be overspent"
    return "well", "on course"
