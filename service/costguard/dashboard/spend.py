"""What the page Spend shows: each day's dollars, stacked by what one asks for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from costguard.dashboard.asked import BadAddress, day
from costguard.dashboard.chart import Chart, draw
from costguard.dashboard.show import link
from costguard.dashboard.source import Source
from costguard.engine import budgets, spend
from costguard.engine.accrual import accrual_at
from costguard.engine.spend import SpendRow
from costguard.model.budget import Period, Scope
from costguard.model.money import Money
from costguard.policy.budget import Outlook
from costguard.store.spend import Amounts, Grouping, UnpricedSpan

LONGEST = timedelta(days=366)
GROUPINGS = (Grouping.PRESET, Grouping.OWNER, Grouping.PROJECT, Grouping.PROVISIONING_MODEL)
_LISTED_UNPRICED = 20


@dataclass(frozen=True, slots=True)
class Range:
    """A link to other days."""

    name: str
    first: date
    last: date


@dataclass(frozen=True, slots=True)
class SpendAsked:
    first: date
    last: date
    group_by: Grouping
    today: date

    def address(self, first: date | None = None, last: date | None = None, group_by: str | None = None) -> str:
        return link("/spend", from_=first or self.first, to=last or self.last, group_by=group_by or self.group_by.value)

    @property
    def csv_address(self) -> str:
        groups = f"day,{self.group_by.value}"
        return link("/api/v1/spend", from_=self.first, to=self.last, group_by=groups, format="csv")

    @property
    def ranges(self) -> list[Range]:
        month = self.today.replace(day=1)
        before = month - timedelta(days=1)
        return [
            Range("This month", month, self.today),
            Range("Last month", before.replace(day=1), before),
            Range("30 days", self.today - timedelta(days=29), self.today),
            Range("90 days", self.today - timedelta(days=89), self.today),
        ]


@dataclass(frozen=True, slots=True)
class Spend:
    month: Money  # to date, whatever days are shown
    month_unpriced: int
    outlook: Outlook  # of everything, for the month
    total: Amounts
    groups: Sequence[SpendRow]
    chart: Chart | None  # None: nothing was spent
    unpriced: Sequence[UnpricedSpan]
    unpriced_count: int


def spend_asked(query: Mapping[str, str], today: date) -> SpendAsked:
    """Raises BadAddress. The month to date by preset, where nothing else is asked for."""
    last = day(query, "to", today)
    first = day(query, "from", min(last, today).replace(day=1))
    if first > last:
        raise BadAddress(f"The first day, {first}, is after the last, {last}.", "Exchange them.")
    if last - first >= LONGEST:
        raise BadAddress(
            f"{first} to {last} is longer than a year.", "Choose fewer days, or take the CSV from the API."
        )
    name = query.get("group_by") or Grouping.PRESET.value
    if name not in {grouping.value for grouping in GROUPINGS}:
        known = ", ".join(grouping.value for grouping in GROUPINGS)
        raise BadAddress(f"Spend is not shown by {name[:40]}.", f"Choose one of {known}.")
    return SpendAsked(first, last, Grouping(name), today)


def spend_page(source: Source, asked: SpendAsked, now: datetime) -> Spend:
    """Everything that the page shows, read in one transaction."""
    with source.database.read() as connection:
        accrual = accrual_at(connection, now)
        month = spend.spend(connection, accrual, asked.today.replace(day=1), asked.today, [])
        (outlook,) = budgets.outlooks(connection, accrual, [(Scope(), Period.MONTH)])
        by_day = spend.spend(connection, accrual, asked.first, asked.last, [Grouping.DAY, asked.group_by])
        by_group = spend.spend(connection, accrual, asked.first, asked.last, [asked.group_by])
    days: dict[str, dict[str, Money]] = {}
    for row in by_day.rows:
        of_day, group = row.group
        days.setdefault(of_day, {})[group] = row.amounts.total
    groups = [row.group[0] for row in by_group.rows]
    return Spend(
        month=month.total.total,
        month_unpriced=len(month.unpriced),
        outlook=outlook,
        total=by_group.total,
        groups=by_group.rows,
        chart=draw(asked.first, asked.last, groups, days) if by_group.total.total else None,
        unpriced=by_group.unpriced[:_LISTED_UNPRICED],
        unpriced_count=len(by_group.unpriced),
    )
