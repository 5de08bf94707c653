"""How the month goes, and what was spent by day and group: what the page Spend tells, from few readings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from fractions import Fraction

from sqlalchemy import Connection

from costguard.engine import budgets
from costguard.engine.accrual import Accrual
from costguard.engine.spend import Spend, SpendRow, spend
from costguard.model.budget import Period, Scope
from costguard.model.money import Money
from costguard.policy.budget import Outlook
from costguard.store.spend import Amounts, Grouping, UnpricedSpan

_DAY = timedelta(days=1)
_MANY = timedelta(days=100)
_CAN_BE_MANY = frozenset({Grouping.OWNER, Grouping.PROJECT})


@dataclass(frozen=True, slots=True)
class Month:
    """The present month and its forecast, beside each day of the last one."""

    outlook: Outlook
    before: tuple[Money, ...]  # what was spent on each day of the last month

    @property
    def before_first(self) -> date:
        return (self.outlook.starts_at.date() - _DAY).replace(day=1)

    @property
    def before_day(self) -> int:
        """The day of the last month that `before_to_day` reaches to."""
        return min(len(self.outlook.days), len(self.before))

    @property
    def before_total(self) -> Money:
        return _sum(self.before)

    @property
    def before_to_day(self) -> Money:
        """The last month up to and with the day of it that has today's number, or its last."""
        return _sum(self.before[: self.before_day])

    @property
    def change(self) -> int | None:
        """By how many percent this month is dearer by now; None where there is nothing to compare with."""
        before = self.before_to_day.nanos
        return round(Fraction(100 * (self.outlook.spent.nanos - before), before)) if before else None


@dataclass(frozen=True, slots=True)
class Story:
    """Some days by group: the groups with their sums, the most expensive first, and each day's share of them.

    A day has an amount for each of the first groups, and where there are more, one for all of the others together.
    """

    groups: tuple[SpendRow, ...]
    others: int
    total: Amounts
    days: Mapping[date, tuple[Money, ...]]
    unpriced: tuple[UnpricedSpan, ...]


def month_of(connection: Connection, accrual: Accrual, scope: Scope) -> Month:
    (outlook,) = budgets.outlooks(connection, accrual, [(scope, Period.MONTH)])
    last = outlook.starts_at.date() - _DAY
    first = last.replace(day=1)
    found = {
        row.group[0]: row.amounts.total for row in spend(connection, accrual, first, last, [Grouping.DAY], scope).rows
    }
    days = [first + number * _DAY for number in range(last.day)]
    return Month(outlook, tuple(found.get(day.isoformat(), Money()) for day in days))


def story_of(
    connection: Connection, accrual: Accrual, first: date, last: date, group_by: Grouping, scope: Scope, most: int
) -> Story:
    """Days with `most` groups, one more where that is all there are."""
    if last - first > _MANY and group_by in _CAN_BE_MANY:
        return _long_story(connection, accrual, first, last, group_by, scope, most)
    found = spend(connection, accrual, first, last, [Grouping.DAY, group_by], scope)
    days: dict[str, dict[str, int]] = {}
    parts: dict[str, list[Amounts]] = {}
    for row in found.rows:
        day, group = row.group
        days.setdefault(day, {})[group] = row.amounts.total.nanos
        parts.setdefault(group, []).append(row.amounts)
    unpriced = _unpriced(found, group_by)
    groups = [SpendRow((group,), _added(amounts), unpriced.get(group, 0)) for group, amounts in parts.items()]
    groups.sort(key=lambda row: (-row.amounts.total.nanos, row.group))
    others = _others(len(groups), most)
    own = [row.group[0] for row in groups[: len(groups) - others]]
    return Story(
        groups=tuple(groups),
        others=others,
        total=found.total,
        days={
            date.fromisoformat(day): _shares([of_day.get(name, 0) for name in own], sum(of_day.values()), others)
            for day, of_day in days.items()
        },
        unpriced=found.unpriced,
    )


def _long_story(
    connection: Connection, accrual: Accrual, first: date, last: date, group_by: Grouping, scope: Scope, most: int
) -> Story:
    """A year of a hundred owners is few figures once all but some are told together: each of these is read alone."""
    found = spend(connection, accrual, first, last, [group_by], scope)
    others = _others(len(found.rows), most)
    names = [row.group[0] for row in found.rows[: len(found.rows) - others]]

    def by_day(of: Scope) -> dict[str, int]:
        rows = spend(connection, accrual, first, last, [Grouping.DAY], of).rows
        return {row.group[0]: row.amounts.total.nanos for row in rows}

    parts = [by_day(replace(scope, **{group_by.value: name})) for name in names]
    days = {
        date.fromisoformat(day): _shares([part.get(day, 0) for part in parts], total, others)
        for day, total in by_day(scope).items()
    }
    return Story(found.rows, others, found.total, days, found.unpriced)


def _others(count: int, most: int) -> int:
    return 0 if count <= most + 1 else count - most


def _shares(own: Sequence[int], total: int, others: int) -> tuple[Money, ...]:
    rest = (total - sum(own),) if others else ()
    return tuple(Money(nanos) for nanos in (*own, *rest))


def _unpriced(found: Spend, group_by: Grouping) -> dict[str, int]:
    """How many spans of each group lack a price: each once, on however many days it ran."""
    counts: dict[str, int] = {}
    for group in _groups(found.unpriced, group_by):
        counts[group] = counts.get(group, 0) + 1
    return counts


def _groups(spans: Sequence[UnpricedSpan], group_by: Grouping) -> Iterator[str]:
    for span in spans:
        whose = span.attribution
        yield {
            Grouping.PROJECT: span.key.project,
            Grouping.PRESET: whose.preset,
            Grouping.OWNER: whose.owner,
            Grouping.JOB: whose.job,
        }.get(group_by, span.provisioning_model)


def _added(amounts: Sequence[Amounts]) -> Amounts:
    machine, gpu, storage = (
        Money(sum(getattr(each, part).nanos for each in amounts)) for part in ("machine", "gpu", "storage")
    )
    return Amounts(machine, gpu, storage, sum(each.seconds for each in amounts))


def _sum(amounts: Sequence[Money]) -> Money:
    return Money(sum(each.nanos for each in amounts))
