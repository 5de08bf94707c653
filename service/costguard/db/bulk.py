"""Bulk queries: ids or days in chunks, and inserts that bypass SQLAlchemy's work for each row."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import date
from itertools import islice
from typing import Any, TypeAlias, TypeVar

from sqlalchemy import Connection, Table

Stored: TypeAlias = Callable[[Sequence[Any]], tuple[Any, ...]]
_Id = TypeVar("_Id", int, str, date)
CHUNK = 1000  # ids in one IN list: far below either database's limit on parameters


def chunks(ids: Collection[_Id]) -> Iterator[list[_Id]]:
    """The ids, or days, in order, in lists of at most CHUNK."""
    remaining = iter(sorted(ids))
    while chunk := list(islice(remaining, CHUNK)):
        yield chunk


def stored(connection: Connection, table: Table, names: Sequence[str]) -> Stored:
    """Returns the function that converts the values of these columns for the driver."""
    processors = [table.c[name].type.dialect_impl(connection.dialect) for name in names]
    needed = [
        (place, processor)
        for place, made in enumerate(processors)
        if (processor := made.bind_processor(connection.dialect)) is not None
    ]

    def processed(values: Sequence[Any]) -> tuple[Any, ...]:
        rows = list(values)
        for place, processor in needed:
            rows[place] = processor(rows[place])
        return tuple(rows)

    return processed


def add_rows(connection: Connection, table: Table, names: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> None:
    """Insert rows of these columns, in this order, with values as the driver takes them: see `stored`."""
    if not rows:
        return
    columns = ", ".join(f'"{name}"' for name in names)  # no part of this text comes from outside
    if connection.dialect.name == "sqlite":
        places = ", ".join("?" * len(names))
        connection.exec_driver_sql(f"INSERT INTO {table.name} ({columns}) VALUES ({places})", list(rows))  # noqa: S608
        return
    driver: Any = connection.connection.driver_connection
    with driver.cursor() as cursor, cursor.copy(f"COPY {table.name} ({columns}) FROM STDIN") as copy:
        for row in rows:
            copy.write_row(row)
