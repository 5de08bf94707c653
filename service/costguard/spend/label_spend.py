"""Spend by the value of a VM label, split at the moment at which a label changed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import TypeAlias

from sqlalchemy import Connection

from costguard.ledger.accrual import Accrual, accruing_spans, uncharged_instances
from costguard.ledger.charged.label_pieces import charged_pieces, parts_of, pieces_of
from costguard.ledger.charged.vm_charges import accruing_ids, charged
from costguard.ledger.gaps import gaps_by_value
from costguard.ledger.labels.label_history import changes_since
from costguard.ledger.labels.label_values import LabelValues, present_values, values_among
from costguard.ledger.running import live, running_totals
from costguard.model.budget import Scope
from costguard.model.moments import day_start
from costguard.model.money import Amounts, add_figures
from costguard.spend import spend_rows
from costguard.spend.spend import Spend, spend

_DAY = timedelta(days=1)
_Days: TypeAlias = Mapping[date, Mapping[str | None, int]]


@dataclass(frozen=True, slots=True)
class LabelSpend:
    """The cost of VMs while their label had this value. None: while they had no such label, which "" is not."""

    value: str | None
    amounts: Amounts
    unpriced: int


def spend_by_label(
    connection: Connection, accrual: Accrual, first: date, last: date, label: str, scope: Scope
) -> tuple[tuple[LabelSpend, ...], Spend]:
    """Spend on the UTC days [first, last] by the value of one label, the most expensive first, and their sum.

    The rows add up to the sum; of VMs that run to some nano-dollars, as rates an hour are rounded. Days that are rolled
    up by the label are read from their sums, the others from charges, as spend by VM is. What has no price is counted
    under each value that its VM had meanwhile.
    """
    rows, whole, _ = _spend(connection, accrual, first, last, label, scope, by_day=False)
    return rows, whole


def spend_by_label_and_day(
    connection: Connection, accrual: Accrual, first: date, last: date, label: str, scope: Scope
) -> tuple[tuple[LabelSpend, ...], Spend, _Days]:
    """The same, and the nano-dollars of each value day by day."""
    return _spend(connection, accrual, first, last, label, scope, by_day=True)


def _spend(
    connection: Connection, accrual: Accrual, first: date, last: date, label: str, scope: Scope, *, by_day: bool
) -> tuple[tuple[LabelSpend, ...], Spend, _Days]:
    sums: dict[str | None, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    days: dict[date, dict[str | None, int]] = defaultdict(lambda: defaultdict(int))
    for day, value, figures in _figures(connection, accrual, first, last, label, scope, by_day=by_day):
        add_figures(sums[value], figures)
        days[day][value] += sum(figures[:3])
    whole = spend(connection, accrual, first, last, [], scope)
    gaps = gaps_by_value(connection, accrual, first, last, label, scope)
    rows = [LabelSpend(value, Amounts._make(sums[value]), gaps[value]) for value in {**sums, **gaps}]
    rows.sort(key=lambda row: (-row.amounts.total.nanos, row.value is None, row.value or ""))
    return tuple(rows), whole, days


def _figures(
    connection: Connection, accrual: Accrual, first: date, last: date, label: str, scope: Scope, *, by_day: bool
) -> Iterator[tuple[date, str | None, Sequence[int]]]:
    """Yields the cost of each value: days that are rolled up as one sum, or by day where `by_day` says so; the
    others.
    """
    ranges = spend_rows.not_rolled_up(connection, label, first, last)
    keys = ("day", "is_labelled", "value") if by_day else ("is_labelled", "value")
    for row, sums in spend_rows.rolled_up_by_label(connection, label, first, last, ranges, scope, keys):
        yield row.get("day", first), row["value"] if row["is_labelled"] else None, sums
    for start, end in ranges:
        yield from _charged(connection, label, start, end, scope, by_day)
    yield from _running(connection, accrual, first, last, label, scope)


def _charged(
    connection: Connection, label: str, first: date, last: date, scope: Scope, by_day: bool
) -> Iterator[tuple[date, str | None, Sequence[int]]]:
    """Yields the charges of days that are not rolled up."""
    vms = charged(connection, first, last, scope, by_day=by_day)
    values = values_among(connection, label, day_start(first), {vm.instance_id for vm in vms})
    for vm in vms:
        if vm.instance_id not in values.changes:
            yield vm.day or first, values.present.get(vm.instance_id), vm.figures
    changed = sorted(values.changes.keys() & values.present.keys())
    for piece in charged_pieces(connection, first, last, scope, changed):
        for value, part in parts_of(values, piece):
            yield piece.day, value, part


def _running(
    connection: Connection, accrual: Accrual, first: date, last: date, label: str, scope: Scope
) -> Iterator[tuple[date, str | None, Sequence[int]]]:
    """Yields what has accrued since charges were stored on the UTC days [first, last]: equal spans are added up.

    One by one come only VMs whose label changed since, and spans that ended.
    """
    start, end = day_start(first), day_start(last) + _DAY
    changes = changes_since(connection, label, start)
    totals = running_totals.by_label(connection, accrual, label, start, end, scope)
    for (value, since), figures in totals.items():
        for day, amounts in running_totals.accrued(since, figures, accrual.now):
            if first <= day <= last:
                yield day, value, amounts
    for spans, _, value in live.unpriced(connection, accrual, scope, label, start):
        for day, accrued in live.billed(accrual, spans, start, end):
            yield day, value, accrued
    alone = changes.keys() & accruing_ids(connection, end) if changes else set()
    ids = sorted({*alone, *uncharged_instances(connection)})
    values = LabelValues(present_values(connection, label, ids), changes)
    for span in accruing_spans(connection, ids):
        if span.span.ended_at is None and span.instance_id not in changes:
            continue  # it is in one of the groups above
        for piece in pieces_of(accrual, span, start, end, scope):
            for value, part in parts_of(values, piece):
                yield piece.day, value, part
