"""Spend by the value of a VM label, split at the moment at which a label changed."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from sqlalchemy import Connection

from costguard.ledger.accrual import Accrual
from costguard.model.budget import Scope
from costguard.spend import label_rows
from costguard.spend.label_days import charged_pieces, values_among, values_of_gap
from costguard.spend.label_running import running_by_value
from costguard.spend.spend import Spend, spend
from costguard.spend.spend_rows import Amounts, add, amounts_of, day_start
from costguard.spend.vm_charges import charged, ids_of

_DAY = timedelta(days=1)


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
    since = day_start(first)
    sums: dict[str | None, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for _, value, figures in _figures(connection, accrual, first, last, label, scope, by_day=False):
        add(sums[value], figures)
    whole = spend(connection, accrual, first, last, [], scope)
    ids = ids_of(connection, {gap.key for gap in whole.unpriced})
    values = values_among(connection, label, since, ids.values())
    gaps: Counter[str | None] = Counter()
    for gap in whole.unpriced:
        gaps.update(values_of_gap(values, ids[gap.key], gap, since, last, accrual.now))
    rows = [LabelSpend(value, amounts_of(sums[value]), gaps[value]) for value in {**sums, **gaps}]
    rows.sort(key=lambda row: (-row.amounts.total.nanos, row.value is None, row.value or ""))
    return tuple(rows), whole


def values_by_day(
    connection: Connection, accrual: Accrual, first: date, last: date, label: str, scope: Scope
) -> dict[date, dict[str | None, int]]:
    """The same in nano-dollars day by day."""
    days: dict[date, dict[str | None, int]] = defaultdict(lambda: defaultdict(int))
    for day, value, figures in _figures(connection, accrual, first, last, label, scope, by_day=True):
        days[day][value] += sum(figures[:3])
    return {day: dict(of_day) for day, of_day in days.items()}


def _figures(
    connection: Connection, accrual: Accrual, first: date, last: date, label: str, scope: Scope, *, by_day: bool
) -> Iterator[tuple[date, str | None, Sequence[int]]]:
    """Yields the cost of each value: days that are rolled up as one sum, or by day where `by_day` says so; the
    others.
    """
    ranges = label_rows.not_rolled_up(connection, label, first, last)
    for day, value, sums in label_rows.sums_by_value(connection, label, first, last, ranges, scope, by_day):
        yield day or first, value, sums
    for start, end in ranges:
        yield from _charged(connection, label, start, end, scope, by_day)
    yield from running_by_value(connection, accrual, first, last, label, scope)


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
        for value, part in values.parts(piece):
            yield piece.day, value, part
