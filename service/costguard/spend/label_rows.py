"""Reads daily spend by the value of a label, and which days are not rolled up and have to be read from charges."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import date, timedelta
from itertools import pairwise
from typing import Any, TypeAlias

from sqlalchemy import BigInteger, ColumnElement, Connection, Table, cast, func, select

from costguard.db.remembered import remembers
from costguard.db.tables import daily_label_values, daily_labels, daily_totals, label_days
from costguard.ledger.accrual import within_scope
from costguard.model.budget import LabelFilter, Scope
from costguard.model.lifetime import Attribution
from costguard.spend.spend_rows import InstanceKind

Days: TypeAlias = tuple[date, date]  # from one to another, both included
_DAY = timedelta(days=1)
_KINDS = ("project", "preset", "owner", "job", "provisioning_model")
_AMOUNTS = ("machine_nanos", "gpu_nanos", "storage_nanos", "seconds")
_MOST_RANGES = 4  # each is a query over charges: of more, those with the least between them are joined


@remembers(daily_totals, label_days)
def not_rolled_up(connection: Connection, label: str, first: date, last: date) -> tuple[Days, ...]:
    """Ranges that hold every day of [first, last] with charges whose sums by this label are not good."""
    totals = daily_totals.c.day
    is_good = select(label_days.c.day).where(label_days.c.label == label)
    query = select(totals).where(totals.between(first, last), totals.not_in(is_good)).distinct().order_by(totals)
    ranges: list[Days] = []
    for day in connection.scalars(query):
        if ranges and ranges[-1][1] == day - _DAY:
            ranges[-1] = ranges[-1][0], day
        else:
            ranges.append((day, day))
    while len(ranges) > _MOST_RANGES:
        gaps = [after[0] - before[1] for before, after in pairwise(ranges)]
        place = gaps.index(min(gaps))
        ranges[place : place + 2] = [(ranges[place][0], ranges[place + 1][1])]
    return tuple(ranges)


@remembers(label_days)
def days_of_value(
    connection: Connection, first: date, last: date, without: tuple[Days, ...], scope: Scope, by: tuple[str, ...]
) -> list[tuple[date, InstanceKind, Sequence[int]]]:
    """Reads the roll-up of the scope and its label's value, by day and these columns; the others are ""."""
    wanted = scope.label
    if wanted is None:
        raise ValueError("the scope has no label")
    table = daily_labels
    columns = [table.c[name] for name in _KINDS if name in by]
    query = select(table.c.day, *_sums(table), *columns).group_by(table.c.day, *columns)
    query = query.where(*_of_value(wanted), *_on_days(table, wanted.label, first, last, without))
    places = {column.name: place for place, column in enumerate(columns, start=1 + len(_AMOUNTS))}
    rows: list[tuple[date, InstanceKind, Sequence[int]]] = []
    for row in connection.execute(query.where(*within_scope(table, scope))):
        kind = [row[places[name]] if name in places else "" for name in _KINDS]
        rows.append((row[0], (kind[0], Attribution(*kind[1:4]), kind[4]), tuple(row[1 : 1 + len(_AMOUNTS)])))
    return rows


@remembers(label_days)
def sums_by_value(
    connection: Connection,
    label: str,
    first: date,
    last: date,
    without: tuple[Days, ...],
    scope: Scope,
    by_day: bool,
) -> list[tuple[date | None, str | None, Sequence[int]]]:
    """Reads the roll-up of each value of the label in this scope, by day where `by_day` says so."""
    is_fine = any(getattr(scope, name) is not None for name in ("preset", "owner", "job"))
    table = daily_labels if is_fine else daily_label_values
    keys = (*((table.c.day,) if by_day else ()), table.c.is_labelled, table.c.value)
    query = select(*_sums(table), *keys).where(*_on_days(table, label, first, last, without))
    rows = connection.execute(query.where(*within_scope(table, scope)).group_by(*keys))
    width = len(_AMOUNTS)
    return [
        (row[width] if by_day else None, row[-1] if row[-2] else None, tuple(row[:width])) for row in map(tuple, rows)
    ]


def _sums(table: Table) -> list[ColumnElement[int]]:
    return [cast(func.sum(table.c[name]), BigInteger).label(name) for name in _AMOUNTS]


def _of_value(wanted: LabelFilter) -> list[ColumnElement[bool]]:
    return [
        daily_labels.c.label == wanted.label,
        daily_labels.c.is_labelled == (wanted.value is not None),
        daily_labels.c.value == (wanted.value or ""),
    ]


def _on_days(table: Table, label: str, first: date, last: date, without: Collection[Days]) -> list[ColumnElement[Any]]:
    good = select(label_days.c.day).where(label_days.c.label == label, label_days.c.day.between(first, last))
    return [
        *(table.c.label == label, table.c.day.between(first, last), table.c.day.in_(good)),
        *(~table.c.day.between(*days) for days in without),
    ]
