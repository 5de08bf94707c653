"""The state of a budget: spent, forecast, and thresholds crossed. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from enum import StrEnum

from costguard.model.budget import Budget, Period, Scope
from costguard.model.event import event_key
from costguard.model.money import ZERO, Money, about_text
from costguard.spend.forecast import Forecast

CROSSED = "BudgetThresholdCrossed"
TOO_EARLY = "too early to say"


class On(StrEnum):
    """The amount that a threshold is compared with."""

    SPENT = "spent"
    FORECAST = "forecast"


@dataclass(frozen=True, slots=True)
class Outlook:
    """The spend of a scope in the period, with its forecast for the end of the period."""

    scope: Scope
    period: Period
    starts_at: datetime
    ends_at: datetime
    spent: Money
    rate: Money  # per hour now, of what can be priced
    forecast: Forecast
    unpriced: int  # lifetimes and disks without a price: all figures are too low by them
    days: tuple[Money, ...] = ()  # what was spent on each day of the period, today's share up to now the last
    downloads: Money = ZERO  # of what was spent: on another cloud's bill, for jobs' inputs; counted for budgets alone


@dataclass(frozen=True, slots=True)
class Threshold:
    on: On
    percent: int
    amount: Money
    is_crossed: bool  # now
    first_at: datetime | None  # when that was first told in this period; a forecast may have fallen since


@dataclass(frozen=True, slots=True)
class Standing:
    budget: Budget
    outlook: Outlook
    thresholds: tuple[Threshold, ...]  # on what is spent, then on the forecast; the lowest first

    @property
    def percent(self) -> int:
        """Returns the spend in percent of the limit, cut off: 99 until all of it is spent."""
        return 100 * self.outlook.spent.nanos // self.budget.limit.nanos

    @property
    def forecast_text(self) -> str:
        """Formats the forecast for a message."""
        made = self.outlook.forecast
        return f"{about_text(str(made.expected))} ({self.forecast_percent}%)" if made.is_grounded else TOO_EARLY

    @property
    def forecast_percent(self) -> int:
        return 100 * self.outlook.forecast.expected.nanos // self.budget.limit.nanos


def bounds(period: Period, now: datetime) -> tuple[datetime, datetime]:
    """The period around `now`, from midnight UTC up to another: a day, a week from Monday, a calendar month."""
    today = datetime.combine(now.astimezone(UTC).date(), time(), UTC)
    if period is Period.DAY:
        return today, today + timedelta(days=1)
    if period is Period.WEEK:
        monday = today - timedelta(days=today.weekday())
        return monday, monday + timedelta(days=7)
    first = today.replace(day=1)
    return first, (first + timedelta(days=31)).replace(day=1)


def key(budget: Budget, starts_at: datetime, on: On, percent: int) -> str:
    """The natural key of a crossing: once for each budget, period and threshold."""
    return event_key(CROSSED, *crossing(budget, starts_at, on, percent))


def crossing(budget: Budget, starts_at: datetime, on: On, percent: int) -> tuple[object, ...]:
    """Returns the key of a crossed threshold, which differs from all others."""
    return budget.name, budget.period.value, f"{starts_at:%Y-%m-%d}", on.value, percent


def standing(budget: Budget, outlook: Outlook, announced: Mapping[str, datetime]) -> Standing:
    """`announced` holds when each recorded crossing was first seen, by its key."""
    return Standing(budget, outlook, tuple(_thresholds(budget, outlook, announced)))


def due(standing: Standing) -> list[Threshold]:
    """Thresholds that are crossed and were not told yet. None on a forecast when it is too early to say."""
    return [threshold for threshold in standing.thresholds if threshold.is_crossed and threshold.first_at is None]


def _thresholds(budget: Budget, outlook: Outlook, announced: Mapping[str, datetime]) -> Iterator[Threshold]:
    held = (
        (On.SPENT, budget.thresholds, outlook.spent),
        (On.FORECAST, budget.forecast_thresholds, outlook.forecast.expected),
    )
    for on, percents, amount in held:
        for percent in sorted(percents):
            first_at = announced.get(key(budget, outlook.starts_at, on, percent))
            is_known = on is On.SPENT or outlook.forecast.is_grounded
            is_crossed = is_known and 100 * amount.nanos >= percent * budget.limit.nanos
            yield Threshold(on, percent, Money(budget.limit.nanos * percent // 100), is_crossed, first_at)
