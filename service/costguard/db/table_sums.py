"""Figures that are added to the rows of a table, by its primary key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from sqlalchemy import ColumnElement, Connection, Delete, Table, bindparam, delete

from costguard.db.bulk import add_to_rows, stored_rows


def add_sums(connection: Connection, table: Table, sums: Mapping[tuple[Any, ...], Sequence[int]]) -> None:
    """Add figures to the rows of a table, by its primary key; rows that come to nothing are deleted."""
    TableSums.of(connection, table, sums).add(connection)


@dataclass(frozen=True, slots=True)
class TableSums:
    """Figures to add to the rows of a table: rows as the driver takes them, and the keys of those that get less."""

    table: Table
    names: Sequence[str]  # of the primary key, then of the figures
    rows: Sequence[tuple[Any, ...]]
    less: Sequence[Mapping[str, Any]]

    @classmethod
    def of(cls, connection: Connection, table: Table, sums: Mapping[tuple[Any, ...], Sequence[int]]) -> TableSums:
        keys = [column.name for column in table.c if column.primary_key]
        names = [*keys, *(column.name for column in _figures(table))]
        rows = stored_rows(connection, table, names, [(*key, *sums[key]) for key in sorted(sums)])
        less = [
            {f"of_{name}": value for name, value in zip(keys, key, strict=True)}
            for key, added_values in sums.items()
            if min(added_values) < 0
        ]
        return cls(table, names, rows, less)

    def add(self, connection: Connection) -> None:
        """Adds them; rows that come to nothing are deleted."""
        if self.rows:
            add_to_rows(connection, self.table, self.names, len(self.table.primary_key.columns), self.rows)
        if self.less:
            connection.execute(_deleting_nothing(self.table), self.less)


@cache
def _deleting_nothing(table: Table) -> Delete:
    of_key = [column == bindparam(f"of_{column.name}") for column in table.c if column.primary_key]
    return delete(table).where(*of_key, *(column == 0 for column in _figures(table)))


def _figures(table: Table) -> list[ColumnElement[int]]:
    return [column for column in table.c if not column.primary_key]
