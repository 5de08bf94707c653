"""Reads daily spend in any grouping, the value of a label among them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import date, timedelta
from enum import StrEnum
from itertools import pairwise
from typing import Any, TypeAlias

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    String,
    Table,
    case,
    cast,
    func,
    select,
    type_coerce,
)

from costguard.db.remembered import remembers
from costguard.db.scoped import within_scope
from costguard.db.tables import (
    daily_label_values,
    daily_labels,
    daily_owners,
    daily_presets,
    daily_spend,
    daily_totals,
    label_days,
)
from costguard.model.budget import LabelFilter, Scope
from costguard.model.money import Amounts


class Grouping(StrEnum):
    DAY = "day"
    PROJECT = "project"
    PRESET = "preset"
    OWNER = "owner"
    JOB = "job"
    PROVISIONING_MODEL = "provisioning_model"
    VM = "vm"  # in no roll-up: by VM, charges are read one by one


Days: TypeAlias = tuple[date, date]  # from one to another, both included
_KEY_START = (Grouping.DAY, Grouping.PROJECT, Grouping.PRESET)  # of each roll-up that has them
_DAY = timedelta(days=1)
_MOST_RANGES = 4  # each is a query over charges: of more, those with the least between them are joined


@remembers(daily_owners, daily_presets, daily_spend, daily_totals)
def rolled_up(
    connection: Connection, first: date, last: date, group_by: tuple[Grouping, ...], scope: Scope
) -> list[tuple[tuple[str, ...], Amounts]]:
    """Reads the daily roll-up of the days [first, last], by group; each group once. Nothing for a label's value, of
    which not all days are rolled up.
    """
    if scope.label is not None:
        return []
    # By the beginning of the primary key SQLite adds up as it reads; by anything else it sorts a year first.
    table = _table(group_by, scope)
    key_start = [grouping for grouping in _KEY_START if grouping.value in table.c]
    by_key = Grouping.DAY in group_by and set(key_start).issuperset(group_by)
    sql_groups = key_start if by_key else list(group_by)
    columns = [table.c[grouping.value] for grouping in sql_groups]
    query = select(*(_text(column) for column in columns), *_sums(table))
    query = query.where(table.c.day.between(first, last), *within_scope(table, scope)).group_by(*columns)
    width, text = len(columns), _Texts().__getitem__
    # Rows of the library's own are slow to index. Without groups, a sum over nothing is one row of NULLs.
    rows = ((tuple(map(text, row[:width])), row[width:]) for row in map(tuple, connection.execute(query).all()))
    sums = [(group, Amounts._make(figures)) for group, figures in rows if figures[0] is not None]
    if sql_groups == list(group_by):
        return sums
    places = [sql_groups.index(grouping) for grouping in group_by]
    by_group: dict[tuple[str, ...], Amounts] = {}
    for of_key, figures in sums:
        group = tuple([of_key[place] for place in places])
        old = by_group.get(group)
        by_group[group] = figures if old is None else old.plus(figures)
    return list(by_group.items())


def _text(column: Column[Any]) -> ColumnElement[Any]:
    """A day as its driver gives it: SQLite's text would become thousands of dates, only to be written again."""
    return type_coerce(column, String).label(column.key) if column.key == Grouping.DAY.value else column


class _Texts(dict[object, str]):
    """The text of each day and name, made once: a year has few days, and many rows of each."""

    def __missing__(self, value: object) -> str:
        self[value] = text = str(value)
        return text


@remembers(daily_owners, daily_presets, daily_spend, daily_totals)
def rolled_up_days(
    connection: Connection, first: date, last: date, group_by: tuple[Grouping, ...], scope: Scope
) -> dict[tuple[str, ...], dict[date, int]]:
    """Reads the daily roll-up of each group, in nano-dollars by day; `group_by` is without days."""
    if scope.label is not None:
        return {}
    table = _table(group_by, scope)
    columns = [table.c[grouping.value] for grouping in group_by]
    amount = cast(func.sum(table.c.machine_nanos + table.c.gpu_nanos + table.c.storage_nanos), BigInteger)
    query = select(amount, table.c.day, *columns)
    query = query.where(table.c.day.between(first, last), *within_scope(table, scope))
    days_by_group: dict[tuple[str, ...], dict[date, int]] = {}
    for nanos, day, *group in connection.execute(query.group_by(table.c.day, *columns)):
        days_by_group.setdefault(tuple(group), {})[day] = nanos
    return days_by_group


@remembers(daily_spend)
def days_of_jobs(connection: Connection, first: date, last: date, scope: Scope) -> list[tuple[date, str, int]]:
    """The same of each job in nano-dollars, without what is of none: that is most, and would have to be sorted."""
    if scope.label is not None:
        return []
    table = daily_spend
    amount = cast(func.sum(table.c.machine_nanos + table.c.gpu_nanos + table.c.storage_nanos), BigInteger)
    query = select(table.c.day, table.c.job, amount).where(table.c.day.between(first, last), table.c.job != "")
    rows = connection.execute(query.where(*within_scope(table, scope)).group_by(table.c.day, table.c.job))
    return [(day, job, nanos) for day, job, nanos in rows]


@remembers(daily_owners, daily_presets, daily_spend, daily_totals)
def days_of(
    connection: Connection, first: date, last: date, group_by: Grouping, names: tuple[str, ...], scope: Scope
) -> dict[date, list[int]]:
    """Reads the daily roll-up of each of these groups, and last of all groups, in nano-dollars by day."""
    if scope.label is not None:
        return {}
    table = _table((group_by,), scope)
    amount = table.c.machine_nanos + table.c.gpu_nanos + table.c.storage_nanos
    # A column for each: days come one after the other in the order of the primary key, groups would have to be sorted.
    of_each = [func.sum(case((table.c[group_by.value] == name, amount), else_=0)) for name in names]
    query = select(table.c.day, *(cast(column, BigInteger) for column in (*of_each, func.sum(amount))))
    query = query.where(table.c.day.between(first, last), *within_scope(table, scope)).group_by(table.c.day)
    return {row[0]: list(row[1:]) for row in connection.execute(query)}


@remembers(label_days)
def rolled_up_by_label(
    connection: Connection,
    label: str,
    first: date,
    last: date,
    without: tuple[Days, ...],
    scope: Scope,
    keys: tuple[str, ...],
    value: LabelFilter | None = None,
) -> list[tuple[dict[str, Any], Sequence[int]]]:
    """Reads the daily roll-up by a label in this scope, by these columns; of one value alone where it is given.

    Days in `without` are left out, and those whose sums are not good.
    """
    table = _smallest((daily_label_values, daily_labels), keys, scope)
    columns = [table.c[name] for name in keys]
    good = select(label_days.c.day).where(label_days.c.label == label, label_days.c.day.between(first, last))
    query = select(*_sums(table), *columns).where(
        *(table.c.label == label, table.c.day.between(first, last), table.c.day.in_(good)),
        *(~table.c.day.between(*days) for days in without),
        *within_scope(table, scope),
    )
    if value is not None:
        query = query.where(table.c.is_labelled == (value.value is not None), table.c.value == (value.value or ""))
    rows = map(tuple, connection.execute(query.group_by(*columns)))
    return [(dict(zip(keys, row[4:], strict=True)), row[:4]) for row in rows if row[0] is not None]


@remembers(daily_presets, label_days)
def not_rolled_up(connection: Connection, label: str, first: date, last: date) -> tuple[Days, ...]:
    """Ranges that hold every day of [first, last] with charges whose sums by this label are not good."""
    totals = daily_presets.c.day
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


def _table(group_by: Sequence[Grouping], scope: Scope) -> Table:
    tables = (daily_presets, daily_totals, daily_owners, daily_spend)
    return _smallest(tables, {grouping.value for grouping in group_by}, scope)


def _smallest(tables: Sequence[Table], names: Collection[str], scope: Scope) -> Table:
    """Returns the first of these, the smallest first, that tells apart what is asked for."""
    needed = {*names, *scope.columns}
    return next(table for table in tables if needed <= set(table.c.keys()))


def _sums(table: Table) -> list[ColumnElement[int]]:
    # PostgreSQL adds BIGINTs up to NUMERIC, and thousands of those take their time; nine billion dollars fit BIGINT.
    figures = (table.c.machine_nanos, table.c.gpu_nanos, table.c.storage_nanos, table.c.seconds)
    return [cast(func.sum(column), BigInteger).label(column.name) for column in figures]
