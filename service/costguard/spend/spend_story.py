"""The figures of the page Spend: how the month is going, by day and group, from few queries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from fractions import Fraction

from sqlalchemy import Connection

from costguard.ledger.accrual import Accrual
from costguard.model.budget import LabelFilter, Period, Scope
from costguard.model.money import ZERO, Amounts, Money
from costguard.spend import budgets
from costguard.spend.budget import Outlook
from costguard.spend.label_spend import spend_by_label_and_day
from costguard.spend.spend import SpendRow, spend, spend_by_day
from costguard.spend.spend_rows import Grouping

_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Month:
    """The present month and its forecast, next to the last one."""

    outlook: Outlook
    before: tuple[Money, ...]  # what was spent on each day of the last month
    before_first: date
    before_total: Money
    before_day: int  # the day of the last month that has today's number, or its last one
    before_to_day: Money  # up to and with that day
    change: int | None  # the percentage by which this month is more expensive by now; None: nothing to compare with


@dataclass(frozen=True, slots=True)
class Story:
    """Some days by group: the groups with their sums, the most expensive first, and each day's share of them.

    A day has an amount for each of the first groups, and where there are more, one for all of the others together.
    """

    groups: tuple[SpendRow, ...]
    others: int
    total: Amounts
    days: Mapping[date, tuple[Money, ...]]
    unpriced: int  # lifetimes and disks


def month_of(connection: Connection, accrual: Accrual, scope: Scope) -> Month:
    (outlook,) = budgets.outlooks(connection, accrual, [(scope, Period.MONTH)])
    last = outlook.starts_at.date() - _DAY
    first = last.replace(day=1)
    by_day = {
        row.group[0]: row.amounts.total for row in spend(connection, accrual, first, last, [Grouping.DAY], scope).rows
    }
    before = tuple(by_day.get((first + number * _DAY).isoformat(), Money()) for number in range(last.day))
    day = min(len(outlook.days), len(before))
    to_day = sum(before[:day], ZERO)
    change = round(Fraction(100 * (outlook.spent.nanos - to_day.nanos), to_day.nanos)) if to_day else None
    return Month(outlook, before, first, sum(before, ZERO), day, to_day, change)


def story_of(
    connection: Connection, accrual: Accrual, first: date, last: date, group_by: Grouping, scope: Scope, most: int
) -> Story:
    """Days with `most` groups, one more where that is all there are."""
    answer = spend(connection, accrual, first, last, [group_by], scope)
    others = _others(len(answer.rows), most)
    names = [row.group[0] for row in answer.rows[: len(answer.rows) - others]]
    by_day = spend_by_day(connection, accrual, first, last, group_by, names, scope)
    days = {day: _shares(nanos[:-1], nanos[-1], others) for day, nanos in by_day.items()}
    return Story(answer.rows, others, answer.total, days, answer.unpriced)


def label_story(
    connection: Connection, accrual: Accrual, first: date, last: date, label: str, scope: Scope, most: int
) -> Story:
    """The same by the values of a label, each as its filter is written: `experiment=a`, or `!experiment` without it."""
    values, whole, by_day = spend_by_label_and_day(connection, accrual, first, last, label, scope)
    others = _others(len(values), most)
    names = [row.value for row in values[: len(values) - others]]
    days = {
        day: _shares([of_day.get(name, 0) for name in names], sum(of_day.values()), others)
        for day, of_day in by_day.items()
    }
    rows = tuple(SpendRow((str(LabelFilter(label, row.value)),), row.amounts, row.unpriced) for row in values)
    return Story(rows, others, whole.total, days, whole.unpriced)


def _others(count: int, most: int) -> int:
    return 0 if count <= most + 1 else count - most


def _shares(own: Sequence[int], total: int, others: int) -> tuple[Money, ...]:
    rest = (total - sum(own),) if others else ()
    return tuple(Money(nanos) for nanos in (*own, *rest))
