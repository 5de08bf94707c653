"""Spend by day: stored daily sums, and what has accrued since."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import NamedTuple, TypeAlias

from sqlalchemy import Connection

from costguard.ledger.accrual import Accrual, CostKind
from costguard.ledger.gaps import GapGroup, UnpricedSpan, gap_groups
from costguard.ledger.running import live as accruing
from costguard.model.budget import Scope
from costguard.model.lifetime import Attribution
from costguard.model.moments import day_start
from costguard.model.money import Amounts
from costguard.spend.label_days import label_days
from costguard.spend.spend_rows import Grouping, days_of, rolled_up


def live(
    connection: Connection, accrual: Accrual, first: date, last: date, scope: Scope, by: Collection[str]
) -> list[tuple[date, CostKind, Amounts]]:
    """Returns the spend on the UTC days [first, last], up to now, that is not stored, kept apart at least by the
    columns in `by`. Of a scope with a label all spend is here, charged or not.
    """
    if first > accrual.now.date():
        return []
    read = accruing.costs if scope.label is None else label_days
    return read(connection, accrual, first, last, scope, by)


_DAY = timedelta(days=1)
_NOTHING = Amounts(0, 0, 0, 0)

Group: TypeAlias = tuple[str, ...]


class SpendRow(NamedTuple):
    """A group: its values in the requested order, and the number of its spans without a price."""

    group: Group
    amounts: Amounts
    unpriced: int


@dataclass(frozen=True, slots=True)
class Spend:
    """`unpriced` is the number of lifetimes and disks without a price, of which `gaps` has the list."""

    rows: tuple[SpendRow, ...]
    total: Amounts
    unpriced: int


def spend(
    connection: Connection,
    accrual: Accrual,
    first: date,
    last: date,
    group_by: Sequence[Grouping],
    scope: Scope | None = None,
) -> Spend:
    """Returns the spend on the UTC days [first, last], today's share up to now included.

    Rows come by day where days were requested, then the most expensive first.
    """
    scope = scope or Scope()
    sums = dict(rolled_up(connection, first, last, tuple(group_by), scope))
    running = live(connection, accrual, first, last, scope, _kept_apart_by(group_by, scope))
    gaps = gap_groups(connection, accrual, first, last, scope)
    for day, kind, figures in running:
        group = _group(group_by, day, kind)
        sums[group] = sums.get(group, _NOTHING).plus(figures)
    counts: dict[Group, int] = {}
    for gap in gaps:
        for group in _groups_of(gap, group_by, first, last, accrual.now):
            counts[group] = counts.get(group, 0) + gap.number
    rows = sorted(_in_order({**dict.fromkeys(counts, _NOTHING), **sums}, group_by))
    total = _total(sums.values())
    ordered = tuple([SpendRow(group, amounts, counts.get(group, 0)) for _, _, group, amounts in rows])
    return Spend(ordered, total, sum(gap.number for gap in gaps))


def _in_order(sums: Mapping[Group, Amounts], group_by: Sequence[Grouping]) -> Iterator[tuple[str, int, Group, Amounts]]:
    """Yields groups with what they are sorted by first: thousands are sorted faster as they are than by a key."""
    place = group_by.index(Grouping.DAY) if Grouping.DAY in group_by else None
    for group, amounts in sums.items():
        yield "" if place is None else group[place], -amounts.total_nanos, group, amounts


def spend_by_day(
    connection: Connection,
    accrual: Accrual,
    first: date,
    last: date,
    group_by: Grouping,
    names: Sequence[str],
    scope: Scope,
) -> dict[date, list[int]]:
    """Nano-dollars of each day: of each of these groups, and last of all groups, up to now.

    A year of a hundred owners has few figures once all but some are added together.
    """
    stored = days_of(connection, first, last, group_by, tuple(names), scope)
    days = {day: list(nanos) for day, nanos in stored.items()}
    places = {name: place for place, name in enumerate(names)}
    for day, kind, amounts in live(connection, accrual, first, last, scope, _kept_apart_by((group_by,), scope)):
        of_day = days.setdefault(day, [0] * (len(names) + 1))
        nanos = amounts.total_nanos
        of_day[-1] += nanos
        (name,) = _group((group_by,), day, kind)
        if name in places:
            of_day[places[name]] += nanos
    return days


def _kept_apart_by(group_by: Sequence[Grouping], scope: Scope) -> set[str]:
    """Returns the groupings to keep apart: attribution counts only where it was requested."""
    names = {grouping.value for grouping in group_by}
    return names | scope.columns.keys()


def _group(group_by: Sequence[Grouping], day: date, kind: CostKind) -> Group:
    project, attribution, provisioning_model = kind
    values = {
        Grouping.DAY: day.isoformat(),
        Grouping.PROJECT: project,
        Grouping.PRESET: attribution.preset,
        Grouping.OWNER: attribution.owner,
        Grouping.JOB: attribution.job,
        Grouping.PROVISIONING_MODEL: provisioning_model,
    }
    return tuple(values[grouping] for grouping in group_by)


def _groups_of(gap: GapGroup, group_by: Sequence[Grouping], first: date, last: date, now: datetime) -> Iterator[Group]:
    """Yields each group that the spans are part of: one, or one a day where days were asked for."""
    kind = gap.project, Attribution(gap.preset, gap.owner, gap.job), gap.provisioning_model
    for day in gap.days(first, last, now) if Grouping.DAY in group_by else (first,):
        yield _group(group_by, day, kind)


def days_of_span(span: UnpricedSpan, first: date, last: date, now: datetime) -> Iterator[date]:
    """The UTC days of [first, last] that it reaches into."""
    day = max(first, span.started_at.date())
    end = min(day_start(last) + _DAY, span.ended_at or now)
    while day_start(day) < end:
        yield day
        day += _DAY


def in_order(row: SpendRow, group_by: Sequence[Grouping]) -> tuple[str, int, Group]:
    """Returns the sort key of rows: their day, where they have one, and then the most expensive first."""
    day = row.group[group_by.index(Grouping.DAY)] if Grouping.DAY in group_by else ""
    return day, -row.amounts.total_nanos, row.group


def _total(all_amounts: Collection[Amounts]) -> Amounts:
    """Adds up amounts column by column: a year by day and preset is thousands of rows."""
    return Amounts._make(map(sum, zip(*all_amounts, strict=True))) if all_amounts else _NOTHING
