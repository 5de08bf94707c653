"""Many new rows at once, past SQLAlchemy's work for each of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import Connection, Table


def add_rows(connection: Connection, table: Table, names: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> None:
    """Insert rows of these columns, in this order. Their defaults are the database's."""
    if not rows:
        return
    processors = [_processor(connection, table, name) for name in names]
    if any(processor is not None for processor in processors):
        rows = _processed(rows, processors)
    columns = ", ".join(names)  # no part of this text comes from outside
    if connection.dialect.name == "sqlite":
        places = ", ".join("?" * len(names))
        connection.exec_driver_sql(f"INSERT INTO {table.name} ({columns}) VALUES ({places})", list(rows))  # noqa: S608
        return
    driver: Any = connection.connection.driver_connection
    with driver.cursor() as cursor, cursor.copy(f"COPY {table.name} ({columns}) FROM STDIN") as copy:
        for row in rows:
            copy.write_row(row)


def _processor(connection: Connection, table: Table, name: str) -> Callable[[Any], Any] | None:
    """What makes a value of this column one that the driver takes, if anything must."""
    column = table.c[name].type
    return column.dialect_impl(connection.dialect).bind_processor(connection.dialect)


def _processed(
    rows: Sequence[tuple[Any, ...]], processors: Sequence[Callable[[Any], Any] | None]
) -> list[tuple[Any, ...]]:
    """A column at a time; the moments and texts of many rows are few, and each is processed once."""
    columns: list[Sequence[Any]] = list(zip(*rows, strict=True))
    for place, processor in enumerate(processors):
        if processor is not None:
            columns[place] = _each(columns[place], processor)
    return list(zip(*columns, strict=True))


def _each(values: Sequence[Any], processor: Callable[[Any], Any]) -> list[Any]:
    known: dict[int, Any] = {}
    found = []
    for value in values:
        made = known.get(id(value), _UNKNOWN)
        if made is _UNKNOWN:
            made = known[id(value)] = processor(value)
        found.append(made)
    return found


_UNKNOWN = object()
