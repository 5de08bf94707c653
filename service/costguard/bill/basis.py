"""Spend by the bill: what was paid, where a project's day is closed; the ledger's figures elsewhere."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import date

from sqlalchemy import BigInteger, Connection, cast, func, select

from costguard.bill.lines import BillStanding
from costguard.db.scoped import within_scope
from costguard.db.tables import bill_costs, bill_days
from costguard.ledger.accrual import Accrual
from costguard.model.budget import Scope
from costguard.model.money import Amounts, add_figures
from costguard.spend.spend import Group, Spend, SpendRow, in_order, spend
from costguard.spend.spend_rows import Grouping

_FIGURES = ("machine_nanos", "gpu_nanos", "storage_nanos", "seconds")


def spend_by_bill(
    connection: Connection,
    accrual: Accrual,
    first: date,
    last: date,
    group_by: Sequence[Grouping],
    scope: Scope | None = None,
) -> Spend:
    """Returns the spend as `spend` has it, with effective cost, after discounts and credits, on closed days.

    SKUs that Google billed and the ledger does not hold, such as network, are in neither. Raises no error without a
    bill.
    """
    scope = scope or Scope()
    places = (Grouping.DAY, Grouping.PROJECT)
    wider = [*places, *(grouping for grouping in group_by if grouping not in places)]
    ledger = spend(connection, accrual, first, last, wider, scope)
    closed = _closed(connection, first, last)
    sums: dict[Group, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    unpriced: dict[Group, int] = defaultdict(int)

    def group_of(values: Sequence[str]) -> Group:
        named = dict(zip(wider, values, strict=True))
        return tuple(named[grouping] for grouping in group_by)

    for row in ledger.rows:
        group = group_of(row.group)
        unpriced[group] = max(unpriced[group], row.unpriced)
        if row.group[:2] not in closed:
            add_figures(sums[group], row.amounts)
    for values, amounts in _billed(connection, first, last, wider, scope):
        add_figures(sums[group_of(values)], amounts)
    rows = [SpendRow(group, Amounts._make(sums[group]), unpriced[group]) for group in {**sums, **unpriced}]
    rows.sort(key=lambda row: in_order(row, group_by))
    total = Amounts._make([sum(figures) for figures in zip(*sums.values(), strict=True)] or [0, 0, 0, 0])
    return Spend(tuple(rows), total, ledger.unpriced)


def _closed(connection: Connection, first: date, last: date) -> set[tuple[str, str]]:
    columns = bill_days.c
    query = select(columns.day, columns.project).where(
        columns.day.between(first, last), columns.standing == BillStanding.CLOSED.value
    )
    return {(row.day.isoformat(), row.project) for row in connection.execute(query)}


def closed_days(connection: Connection, first: date, last: date, project: str | None = None) -> int:
    """Counts the days of the range with a known effective cost, of one project or of any."""
    columns = bill_days.c
    closed = [columns.day.between(first, last), columns.standing == BillStanding.CLOSED.value]
    of_project = [] if project is None else [columns.project == project]
    return connection.scalar(select(func.count(columns.day.distinct())).where(*closed, *of_project)) or 0


def _billed(
    connection: Connection, first: date, last: date, wider: Sequence[Grouping], scope: Scope
) -> list[tuple[Group, Amounts]]:
    groups = [bill_costs.c[grouping.value] for grouping in wider]
    sums = [cast(func.sum(bill_costs.c[name]), BigInteger) for name in _FIGURES]
    query = select(*groups, *sums).where(bill_costs.c.day.between(first, last), *within_scope(bill_costs, scope))
    width = len(groups)
    return [
        (tuple(str(value) for value in row[:width]), Amounts._make(row[width:]))
        for row in map(tuple, connection.execute(query.group_by(*groups)))
    ]
