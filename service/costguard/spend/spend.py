"""Spend by day: stored daily sums, and what has accrued since."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from typing import NamedTuple, TypeAlias

from sqlalchemy import Connection

from costguard.ledger.accrual import Accrual, AccruingSpan, accruing_spans, figures_of, uncharged_instances
from costguard.ledger.running import running_totals
from costguard.ledger.running.running_totals import accrued
from costguard.model.budget import Scope
from costguard.model.lifetime import Attribution, Lifetime
from costguard.spend.label_days import gaps_within, label_days
from costguard.spend.spend_rows import (
    Amounts,
    Grouping,
    InstanceKind,
    UnpricedSpan,
    add,
    added,
    amounts_of,
    day_start,
    days_of,
    kind_of,
    rolled_up,
    unpriced,
)


@dataclass(frozen=True, slots=True)
class Live:
    figures: list[tuple[date, InstanceKind, Amounts]]
    unpriced: list[UnpricedSpan]


def live(connection: Connection, accrual: Accrual, first: date, last: date, scope: Scope, by: Collection[str]) -> Live:
    """Returns the spend on the UTC days [first, last], up to now, that is not stored, kept apart at least by the
    columns in `by`.

    Open spans are in the running totals. Those that ended and are not charged yet, or cannot be priced whole, are
    billed one by one. A day's figure is the same in every range, since charges are cut at midnight.

    Of a scope with a label all spend is here, charged or not.
    """
    if first > accrual.now.date():
        return Live([], [])
    if scope.label is not None:
        gaps = live(connection, accrual, first, last, replace(scope, label=None), by).unpriced
        return Live(label_days(connection, accrual, first, last, scope, by), gaps)
    sums: dict[tuple[date, InstanceKind], list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    totals = running_totals.read(connection, accrual, scope, by, last)
    for group, since, figures in totals.rows:
        kind = group.project, Attribution(group.preset, group.owner, group.job), group.provisioning_model
        for day, amounts in accrued(since, figures, accrual.now):
            if first <= day <= last:
                add(sums[day, kind], amounts)
    gaps = []
    start, end = day_start(first), day_start(last) + timedelta(days=1)
    for span in _one_by_one(connection, accrual, scope, totals.unpriced):
        bill = accrual.bill(span.span, max(span.since, start), end)
        for day, billed in figures_of(bill):
            add(sums[day, kind_of(span)], billed)
        if bill.unpriced and max(span.since, start) < min(end, span.span.ended_at or accrual.now):
            gaps.append(_gap(span, bill.unpriced))
    return Live([(day, kind, amounts_of(of_day)) for (day, kind), of_day in sums.items()], gaps)


def _one_by_one(
    connection: Connection, accrual: Accrual, scope: Scope, unpriced: Collection[int]
) -> Iterator[AccruingSpan]:
    """Spans that are in no total."""
    # As a tuple, so that thousands of VMs without a price are read once, and not for every page.
    for span in accruing_spans(connection, tuple(sorted({*unpriced, *uncharged_instances(connection)}))):
        whose = span.attribution
        is_in_totals = span.span.ended_at is None and running_totals.is_priced(accrual, span.span)
        if not is_in_totals and scope.holds(span.span.key.project, whose.preset, whose.owner, whose.job):
            yield span


def _gap(accruing: AccruingSpan, reason: str) -> UnpricedSpan:
    _, attribution, model = kind_of(accruing)
    return UnpricedSpan(
        kind="lifetime" if isinstance(accruing.span, Lifetime) else "storage",
        id=accruing.span.id or 0,
        key=accruing.span.key,
        name=accruing.name,
        attribution=attribution,
        provisioning_model=model,
        started_at=accruing.span.started_at,
        ended_at=accruing.span.ended_at,
        reason=reason,
    )


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
    rows: tuple[SpendRow, ...]
    total: Amounts
    unpriced: tuple[UnpricedSpan, ...]


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
    for day, kind, figures in running.figures:
        group = _group(group_by, day, kind)
        sums[group] = added(sums.get(group, _NOTHING), figures)
    gaps = all_unpriced(connection, running, first, last, scope, accrual.now)
    counts: dict[Group, int] = {}
    for gap in gaps:
        for group in _groups_of(gap, group_by, first, last, accrual.now):
            counts[group] = counts.get(group, 0) + 1
    rows = sorted(_in_order({**dict.fromkeys(counts, _NOTHING), **sums}, group_by))
    total = _total(sums.values())
    ordered = tuple([SpendRow(group, amounts, counts.get(group, 0)) for _, _, group, amounts in rows])
    return Spend(ordered, total, gaps)


def _in_order(sums: Mapping[Group, Amounts], group_by: Sequence[Grouping]) -> Iterator[tuple[str, int, Group, Amounts]]:
    """Yields groups with what they are sorted by first: thousands are sorted faster as they are than by a key."""
    place = group_by.index(Grouping.DAY) if Grouping.DAY in group_by else None
    for group, amounts in sums.items():
        yield "" if place is None else group[place], -amounts.total_nanos, group, amounts


def all_unpriced(
    connection: Connection, running: Live, first: date, last: date, scope: Scope, now: datetime
) -> tuple[UnpricedSpan, ...]:
    """Spans that could not be priced whole, of stored charges and of what runs; each once, the latest first."""
    gaps = {(span.kind, span.id): span for span in unpriced(connection, first, last, replace(scope, label=None))}
    for span in running.unpriced:
        gaps.setdefault((span.kind, span.id), span)
    mine = gaps.values() if scope.label is None else gaps_within(connection, gaps.values(), first, last, scope, now)
    return tuple(sorted(mine, key=lambda gap: (gap.started_at, gap.kind, gap.id), reverse=True))


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
    for day, kind, amounts in live(connection, accrual, first, last, scope, _kept_apart_by((group_by,), scope)).figures:
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
    return names | {name for name in ("project", "preset", "owner", "job") if getattr(scope, name) is not None}


def _group(group_by: Sequence[Grouping], day: date, kind: InstanceKind) -> Group:
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


def _groups_of(
    span: UnpricedSpan, group_by: Sequence[Grouping], first: date, last: date, now: datetime
) -> Iterator[Group]:
    """Each group that the span is part of: one, or one a day where days were asked for."""
    kind = (span.key.project, span.attribution, span.provisioning_model)
    if Grouping.DAY not in group_by:
        yield _group(group_by, first, kind)
        return
    for day in days_of_span(span, first, last, now):
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
