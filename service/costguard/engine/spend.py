"""Spend over days: the stored roll-up, and on top of it what has run up since."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence, Set
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import TypeAlias

from sqlalchemy import Connection

from costguard.engine.accrual import Accrual
from costguard.model.budget import Scope
from costguard.model.instance import InstanceKey, ProvisioningModel
from costguard.model.lifetime import Attribution
from costguard.model.money import ZERO, Money
from costguard.policy.pricing import Bill
from costguard.store import accruing
from costguard.store.accruing import AccruingLifetime, AccruingStorage, Within
from costguard.store.spend import Amounts, Grouping, UnpricedSpan, day_start, rolled_up, unpriced

_DAY = timedelta(days=1)
_CHARGED_WITHIN = timedelta(days=2)  # what ended longer ago has its charges in the roll-up
_NOTHING = Amounts(ZERO, ZERO, ZERO, 0)

Group: TypeAlias = tuple[str, ...]
InstanceKind: TypeAlias = tuple[str, Attribution, str]  # project, whose money it is, provisioning model


@dataclass(frozen=True, slots=True)
class SpendRow:
    """One group: its values in the order that was asked for, and how many of its spans lack a price."""

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
    """What was spent on the UTC days [first, last], today's share up to now included.

    Rows come by day where days were asked for, then the most expensive first.
    """
    scope = scope or Scope()
    found = dict(rolled_up(connection, first, last, group_by, scope))
    gaps = {(span.kind, span.id): span for span in unpriced(connection, first, last, scope)}
    equal: Counter[tuple[int, InstanceKind]] = Counter()
    bills: dict[int, Bill] = {}
    by = _told_apart_by(group_by, scope)
    for span, bill, count in _live(connection, accrual, first, last, scope, by):
        bills[id(bill)] = bill
        equal[id(bill), (span.key.project, span.attribution, span.provisioning_model)] += count
        if bill.unpriced:
            gaps.setdefault((span.kind, span.id), span)
    by_day = {identity: _by_day(bill) for identity, bill in bills.items()}
    for (identity, kind), count in equal.items():
        for day, amounts in by_day[identity].items():
            group = _group(group_by, day, kind)
            found[group] = _sum(found.get(group, _NOTHING), _times(amounts, count))
    counts: dict[Group, int] = {}
    for gap in gaps.values():
        for group in _groups_of(gap, group_by, first, last, accrual.now):
            counts[group] = counts.get(group, 0) + 1
    rows = [
        SpendRow(group, found.get(group, _NOTHING), counts.get(group, 0))
        for group in {**found, **dict.fromkeys(counts)}
    ]
    rows.sort(key=lambda row: _order(row, group_by))
    total = _total(found.values())
    latest_first = sorted(gaps.values(), key=lambda gap: (gap.started_at, gap.kind, gap.id), reverse=True)
    return Spend(tuple(rows), total, tuple(latest_first))


def _told_apart_by(group_by: Sequence[Grouping], scope: Scope) -> set[str]:
    """Whose money it is counts only where it was asked for."""
    asked = {grouping.value for grouping in group_by}
    return asked | {name for name in ("preset", "owner", "job") if getattr(scope, name) is not None}


def _live(
    connection: Connection, accrual: Accrual, first: date, last: date, scope: Scope, by: Set[str]
) -> Iterator[tuple[UnpricedSpan, Bill, int]]:
    """What each span ran up since it was charged, and how many did the same."""
    start, end = day_start(first), day_start(last) + _DAY
    within = Within(end, accrual.now - _CHARGED_WITHIN, with_alike=False)
    runs, stores = accruing.alike_lifetimes(connection, end, by), accruing.alike_storage(connection, end, by)
    if any(accrual.of_lifetime(run.lifetime, run.charged_to).unpriced for run, _ in runs) or any(
        accrual.of_storage(store.span, store.charged_to).unpriced for store, _ in stores
    ):
        # What lost its price since it was last charged has to be named, one by one.
        runs, stores, within = [], [], Within(end, within.ended_after)
    runs += ((run, 1) for run in accruing.accruing_lifetimes(connection, within))
    stores += ((store, 1) for store in accruing.accruing_storage(connection, within))
    for run, count in runs:
        since = max(run.charged_to or run.lifetime.started_at, start)
        until = min(end, run.lifetime.ended_at or accrual.now)
        if since < until and _is_in(scope, run.lifetime.key, run.attribution):
            bill = accrual.of_lifetime(run.lifetime, since, end)
            yield _of_lifetime(run, bill.unpriced), bill, count
    for store, count in stores:
        since = max(store.charged_to or store.span.started_at, start)
        until = min(end, store.span.ended_at or accrual.now)
        if since < until and _is_in(scope, store.span.key, store.attribution):
            bill = accrual.of_storage(store.span, since, until)
            yield _of_storage(store, bill.unpriced), bill, count


def _of_lifetime(run: AccruingLifetime, reason: str) -> UnpricedSpan:
    return UnpricedSpan(
        kind="lifetime",
        id=run.lifetime.id or 0,
        key=run.lifetime.key,
        name=run.name,
        attribution=run.attribution,
        provisioning_model=run.lifetime.provisioning_model,
        started_at=run.lifetime.started_at,
        ended_at=run.lifetime.ended_at,
        reason=reason,
    )


def _of_storage(store: AccruingStorage, reason: str) -> UnpricedSpan:
    return UnpricedSpan(
        kind="storage",
        id=store.span.id or 0,
        key=store.span.key,
        name=store.name,
        attribution=store.attribution,
        provisioning_model=ProvisioningModel.STANDARD,
        started_at=store.span.started_at,
        ended_at=store.span.ended_at,
        reason=reason,
    )


def _by_day(bill: Bill) -> dict[date, Amounts]:
    """As the daily roll-up does it: a run's seconds are those of its vCPUs."""
    days: dict[date, Amounts] = {}
    for charge in bill.charges:
        is_gpu = charge.resource.startswith("gpu:")
        is_storage = charge.resource.startswith("disk:") or charge.resource == "suspended-memory"
        amounts = Amounts(
            machine=ZERO if is_gpu or is_storage else charge.amount,
            gpu=charge.amount if is_gpu else ZERO,
            storage=charge.amount if is_storage else ZERO,
            seconds=charge.seconds if charge.resource.endswith(":core") else 0,
        )
        days[charge.day] = _sum(days.get(charge.day, _NOTHING), amounts)
    return days


def _is_in(scope: Scope, key: InstanceKey, attribution: Attribution) -> bool:
    wanted = (
        (scope.project, key.project),
        (scope.preset, attribution.preset),
        (scope.owner, attribution.owner),
        (scope.job, attribution.job),
    )
    return all(want is None or want == value for want, value in wanted)


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
    day = max(first, span.started_at.date())
    end = min(day_start(last) + _DAY, span.ended_at or now)
    while day_start(day) < end:
        yield _group(group_by, day, kind)
        day += _DAY


def _order(row: SpendRow, group_by: Sequence[Grouping]) -> tuple[str, int, Group]:
    day = row.group[group_by.index(Grouping.DAY)] if Grouping.DAY in group_by else ""
    amounts = row.amounts
    return day, -(amounts.machine.nanos + amounts.gpu.nanos + amounts.storage.nanos), row.group


def _total(all_amounts: Collection[Amounts]) -> Amounts:
    """In whole numbers: a year by day and preset is thousands of rows."""
    machine, gpu, storage = (
        Money(sum(getattr(amounts, part).nanos for amounts in all_amounts)) for part in ("machine", "gpu", "storage")
    )
    return Amounts(machine, gpu, storage, sum(amounts.seconds for amounts in all_amounts))


def _sum(one: Amounts, other: Amounts) -> Amounts:
    return Amounts(
        one.machine + other.machine, one.gpu + other.gpu, one.storage + other.storage, one.seconds + other.seconds
    )


def _times(amounts: Amounts, count: int) -> Amounts:
    machine, gpu, storage = (Money(part.nanos * count) for part in (amounts.machine, amounts.gpu, amounts.storage))
    return Amounts(machine, gpu, storage, amounts.seconds * count)
