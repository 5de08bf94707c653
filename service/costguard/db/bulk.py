"""Bulk queries: ids or days in chunks, and inserts that bypass SQLAlchemy's work for each row."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date
from functools import lru_cache
from itertools import chain, islice
from typing import Any, TypeAlias, TypeVar

from sqlalchemy import ColumnElement, Connection, Date, Table, select

Stored: TypeAlias = Callable[[Sequence[Any]], tuple[Any, ...]]
_Id = TypeVar("_Id", int, str, date)
_FEW = 5000
_ROWS_AT_ONCE = 256  # a longer statement takes more time a row: SQLite prepares some 600 bytes for each
_MOST_VALUES = 32_766  # of one statement (https://www.sqlite.org/limits.html#max_variable_number)
_COPY_ESCAPES = str.maketrans({"\\": r"\\", "\t": r"\t", "\n": r"\n", "\r": r"\r"})
CHUNK = 1000  # ids in one IN list: far below either database's limit on parameters


def chunks(ids: Collection[_Id]) -> Iterator[list[_Id]]:
    """The ids, or days, in order, in lists of at most CHUNK."""
    remaining = iter(sorted(ids))
    while chunk := list(islice(remaining, CHUNK)):
        yield chunk


def among(connection: Connection, column: ColumnElement[_Id], wanted: Collection[_Id]) -> Collection[_Id]:
    """Returns those of many values that the column holds at all, by one look at its index; few are given back as they
    are.
    """
    if len(wanted) <= _FEW:
        return wanted
    return set(wanted).intersection(connection.scalars(select(column).distinct()))


def stored(connection: Connection, table: Table, names: Sequence[str]) -> Stored:
    """Returns the function that converts the values of these columns for the driver."""
    needed = _processors(connection, table, names)

    def processed(values: Sequence[Any]) -> tuple[Any, ...]:
        rows = list(values)
        for place, processor in needed:
            rows[place] = processor(rows[place])
        return tuple(rows)

    return processed


def stored_rows(
    connection: Connection, table: Table, names: Sequence[str], rows: Iterable[Sequence[Any]]
) -> list[tuple[Any, ...]]:
    """Converts rows of these columns for the driver, all at once: in a third of the time that one by one takes."""
    columns: list[Iterable[Any]] = list(zip(*rows, strict=True))
    for place, processor in _processors(connection, table, names) if columns else ():
        if isinstance(table.c[names[place]].type, Date):  # many rows, few days
            processor = lru_cache(maxsize=1024)(processor)
        columns[place] = map(processor, columns[place])
    return list(zip(*columns, strict=True))


def _processors(connection: Connection, table: Table, names: Sequence[str]) -> list[tuple[int, Callable[[Any], Any]]]:
    types = [table.c[name].type.dialect_impl(connection.dialect) for name in names]
    processors = [kind.bind_processor(connection.dialect) for kind in types]
    return [(place, processor) for place, processor in enumerate(processors) if processor is not None]


def add_rows(connection: Connection, table: Table, names: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> None:
    """Insert rows of these columns, in this order, with values as the driver takes them: see `stored`."""
    if not rows:
        return
    if connection.dialect.name == "sqlite":
        _insert_many(connection, f"INSERT INTO {table.name} ({_quoted(names)}) VALUES", "", rows)
        return
    driver: Any = connection.connection.driver_connection
    with driver.cursor() as cursor, cursor.copy(f"COPY {table.name} ({_quoted(names)}) FROM STDIN") as copy:
        for row in rows:
            copy.write_row(row)


@contextmanager
def adding(connection: Connection, table: Table, names: Sequence[str], rows: Sequence[Any]) -> Iterator[None]:
    """Inserts rows, each a sum of `beginning` and `ending`, by the end of the block.

    PostgreSQL takes them while the block computes something, which must send nothing over this connection.
    """
    if not rows or connection.dialect.name == "sqlite":
        add_rows(connection, table, names, rows)
        yield
        return
    driver: Any = connection.connection.driver_connection
    with driver.cursor() as cursor, cursor.copy(f"COPY {table.name} ({_quoted(names)}) FROM STDIN") as copy:
        copy.write("".join(rows))
        yield


def beginning(connection: Connection, values: tuple[Any, ...]) -> Any:
    """Returns the first fields of a row for `adding`, of values as the driver takes them: a tuple, or COPY's text."""
    return values if connection.dialect.name == "sqlite" else "".join([f"{_copied(value)}\t" for value in values])


def ending(connection: Connection, values: tuple[Any, ...]) -> Any:
    """Returns the last fields of a row for `adding`; rows that end alike are made of the same one."""
    return values if connection.dialect.name == "sqlite" else "\t".join(map(_copied, values)) + "\n"


def _copied(value: Any) -> str:
    """Writes a text, a whole number, a date or nothing in COPY's text format.

    https://www.postgresql.org/docs/current/sql-copy.html#id-1.9.3.55.9.2
    """
    if value is None:
        return r"\N"
    if isinstance(value, str):
        return value.translate(_COPY_ESCAPES)
    assert type(value) in (int, date), value
    return str(value)


def insert_rows(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Inserts rows, all of which have the same columns in the same order."""
    if rows:
        names = list(rows[0])
        add_rows(connection, table, names, stored_rows(connection, table, names, [tuple(row.values()) for row in rows]))


def add_to_rows(
    connection: Connection, table: Table, names: Sequence[str], keys: int, rows: Sequence[tuple[Any, ...]]
) -> None:
    """Adds the figures of rows to those of the stored ones with the same key; what is not stored yet is inserted.

    `names` are those of the primary key, `keys` of them, then those of the figures. Values are as the driver takes
    them: see `stored`. No key may come twice.
    """
    if not rows:
        return
    figures = ", ".join(f'"{name}" = {table.name}."{name}" + excluded."{name}"' for name in names[keys:])
    conflict = f"ON CONFLICT ({_quoted(names[:keys])}) DO UPDATE SET {figures}"
    into = f"INSERT INTO {table.name} ({_quoted(names)})"
    if connection.dialect.name == "sqlite":
        _insert_many(connection, f"{into} VALUES", conflict, rows)
        return
    kinds = [table.c[name].type.compile(connection.dialect) for name in names]
    lists = ", ".join(f"%s::{kind}[]" for kind in kinds)
    columns = tuple([list(column) for column in zip(*rows, strict=True)])
    connection.exec_driver_sql(f"{into} SELECT * FROM unnest({lists}) {conflict}", columns)  # noqa: S608 as above


def _quoted(names: Sequence[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)  # no part of this text comes from outside


def _insert_many(connection: Connection, before: str, after: str, rows: Sequence[tuple[Any, ...]]) -> None:
    """Inserts many rows with each statement: of SQLite one for each row takes twice as long where a trigger counts."""
    places = f"({', '.join('?' * len(rows[0]))})"
    count = min(_ROWS_AT_ONCE, _MOST_VALUES // len(rows[0]))
    whole = len(rows) - len(rows) % count
    many = f"{before} {', '.join([places] * count)} {after}" if whole else ""
    for at in range(0, whole, count):
        connection.exec_driver_sql(many, tuple(chain.from_iterable(rows[at : at + count])))
    if whole < len(rows):  # not in one of that length: the driver keeps each statement prepared
        connection.exec_driver_sql(f"{before} {places} {after}", list(rows[whole:]))
