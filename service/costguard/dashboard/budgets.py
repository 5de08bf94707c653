"""What the page Budgets shows: each budget's spend and forecast as lengths against its limit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from costguard.dashboard.show import day
from costguard.dashboard.source import Source
from costguard.engine import budgets
from costguard.engine.accrual import accrual_at
from costguard.model.budget import Period
from costguard.model.money import Money
from costguard.policy.budget import On, Standing


@dataclass(frozen=True, slots=True)
class Mark:
    place: float
    percent: int
    is_crossed: bool


@dataclass(frozen=True, slots=True)
class Lengths:
    """Places on the bar in percents of its width, for drawing alone."""

    spent: float
    expected: float
    low: float
    high: float
    limit: float
    marks: Sequence[Mark]


@dataclass(frozen=True, slots=True)
class Card:
    of: Standing
    lengths: Lengths
    tone: str  # "over", "soon", "early" or "well"
    verdict: str
    left: timedelta  # of the period
    period: str


@dataclass(frozen=True, slots=True)
class Budgets:
    cards: Sequence[Card]
    over: int
    soon: int
    methods: Sequence[str]


def budgets_page(source: Source, now: datetime) -> Budgets:
    """Everything that the page shows, read in one transaction."""
    with source.database.read() as connection:
        accrual = accrual_at(connection, now)
        rules = source.rules
        cards = [_card(each, now) for each in budgets.standings(connection, accrual, rules.budgets, rules.teams)]
    tones = [card.tone for card in cards]
    methods = tuple(dict.fromkeys(card.of.outlook.forecast.method for card in cards))
    return Budgets(cards, tones.count("over"), tones.count("soon"), methods)


def _card(of: Standing, now: datetime) -> Card:
    tone, verdict = _verdict(of)
    ends_at = of.outlook.ends_at
    return Card(
        of=of,
        lengths=_lengths(of),
        tone=tone,
        verdict=verdict,
        left=ends_at - now,
        period="today, in UTC" if of.budget.period is Period.DAY else _to(of.budget.period, ends_at),
    )


def _to(period: Period, ends_at: datetime) -> str:
    return f"this {period.value}, to {day(ends_at.date() - timedelta(days=1))}"


def _verdict(of: Standing) -> tuple[str, str]:
    limit, spent, forecast = of.budget.limit, of.outlook.spent, of.outlook.forecast
    if spent >= limit:
        return "over", f"overspent by {spent - limit}"
    if not forecast.is_grounded:
        return "early", "too early to say"
    if forecast.expected >= limit:
        return "soon", f"will be overspent by about {forecast.expected - limit}"
    if forecast.high >= limit:
        return "well", "on course, and may yet be overspent"
    return "well", "on course"


def _lengths(of: Standing) -> Lengths:
    limit, spent, forecast = of.budget.limit, of.outlook.spent, of.outlook.forecast
    # A wild range must not press the rest of the bar into its corner.
    whole = min(max(limit, spent, forecast.high), max(spent, Money(2 * limit.nanos)))
    marks = [
        Mark(_place(each.amount, whole), each.percent, each.is_crossed)
        for each in of.thresholds
        if each.on is On.SPENT and each.amount < limit
    ]
    return Lengths(
        spent=_place(spent, whole),
        expected=_place(forecast.expected, whole),
        low=_place(forecast.low, whole),
        high=_place(forecast.high, whole),
        limit=_place(limit, whole),
        marks=marks,
    )


def _place(amount: Money, whole: Money) -> float:
    return min(1000, 1000 * amount.nanos // whole.nanos) / 10
