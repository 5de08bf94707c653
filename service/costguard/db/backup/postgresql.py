"""PostgreSQL: every table by COPY, out of one snapshot and back in one transaction, without programs of the server's.

`pg_dump` refuses servers that are newer than itself, and is not in the container image.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from sqlalchemy import Connection, inspect, text

from costguard.db.backup.archive import Manifest, Reader, Rows, Writer
from costguard.db.tables import metadata
from costguard.errors import Conflict, Invalid
from costguard.model.words import count_text

_VERSION = "alembic_version"
_FORMER_TABLES = {"facts"}  # of earlier versions, which a restore may have to replace
_MADE_BY_MIGRATIONS = frozenset({_VERSION, "changes", "installation"})  # tables with rows in a database of no use yet


def write(connection: Connection, writer: Writer, describe: Callable[[str, int, dict[str, Rows]], Manifest]) -> None:
    """Writes the archive within a reading transaction: one unmoving view. Raises Invalid where there is no ledger."""
    unhurried(connection)
    names = _in_order(connection)
    if _VERSION not in names:
        raise Invalid("The database has no tables of Costguard's.", "Check the database's address.")
    revision = connection.execute(text(f"SELECT version_num FROM {_VERSION}")).scalar_one()  # noqa: S608 a constant
    generation = None
    if "installation" in names:
        generation = connection.execute(text("SELECT generation FROM installation")).scalar()
    columns_of = {name: columns for (_, name), columns in inspect(connection).get_multi_columns().items()}
    tables: dict[str, Rows] = {}
    for name in names:
        if name == _VERSION:
            continue
        columns = [column["name"] for column in columns_of[name]]
        counted = _Counted(_copied_out(connection, name, columns))
        writer.add(part_of(name), counted)
        tables[name] = Rows(rows=counted.rows, columns=columns)
    writer.finish(describe(revision, generation or 1, tables))


def check_may_fill(connection: Connection, replace: bool) -> None:
    """Raises Conflict where there is something that was not said to be replaced."""
    if replace:
        return
    for name in _in_order(connection):
        if name in _MADE_BY_MIGRATIONS:
            continue
        if connection.execute(text(f"SELECT EXISTS (SELECT FROM {_quoted(name)})")).scalar_one():  # noqa: S608 quoted
            raise Conflict(
                f"The database holds rows in {name}, and nothing was changed.",
                "Restore into an empty database, or back this one up and add --replace.",
            )


def clear(connection: Connection) -> None:
    """Drops all tables and functions of Costguard's, within a write."""
    names = set(_in_order(connection))
    for name in sorted(names & {*metadata.tables, *_FORMER_TABLES, _VERSION}):
        connection.execute(text(f"DROP TABLE {_quoted(name)} CASCADE"))
    connection.execute(text("DROP FUNCTION IF EXISTS count_change() CASCADE"))


def fill(connection: Connection, reader: Reader) -> None:
    """Fills the tables within a write, once they are those of the archive's revision. Raises Invalid."""
    unhurried(connection)
    wanted = reader.manifest.tables
    there = [name for name in _in_order(connection) if name != _VERSION]
    if missing := sorted(wanted.keys() - set(there)):
        raise Invalid(f"{reader.path} holds a table {missing[0]} that its version does not have.", "")
    for name in reversed(there):
        connection.execute(text(f"DELETE FROM {_quoted(name)}"))  # noqa: S608 quoted
    for name in (name for name in there if name in wanted):
        rows = _copy_in(connection, name, wanted[name].columns, reader.read(part_of(name)))
        if rows != wanted[name].rows:
            raise Invalid(f"{reader.path} is damaged: {name} has {count_text(rows, 'row')}.", "Use another backup.")
        # Queries are planned by it. Autovacuum comes a minute later, and pages of a large ledger took 20 s until then
        # (https://www.postgresql.org/docs/current/backup-dump.html#BACKUP-DUMP-RESTORE).
        connection.execute(text(f"ANALYZE {_quoted(name)}"))
    _set_sequences(connection)


def unhurried(connection: Connection) -> None:
    """Statements of a backup take as long as they take, whatever limit the daemon's have."""
    connection.execute(text("SET LOCAL statement_timeout = 0"))


def part_of(table: str) -> str:
    return f"tables/{table}.copy"


class _Counted:
    """Rows are lines: COPY escapes every line break within a value."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self.rows = 0

    def __iter__(self) -> Iterator[bytes]:
        for chunk in self._chunks:
            self.rows += chunk.count(b"\n")
            yield chunk


def _copied_out(connection: Connection, table: str, columns: list[str]) -> Iterator[bytes]:
    listed = ", ".join(map(_quoted, columns))
    with _cursor(connection) as cursor, cursor.copy(f"COPY {_quoted(table)} ({listed}) TO STDOUT") as copy:
        for chunk in copy:
            yield bytes(chunk)


def _copy_in(connection: Connection, table: str, columns: list[str], chunks: Iterator[bytes]) -> int:
    listed = ", ".join(map(_quoted, columns))
    with _cursor(connection) as cursor:
        with cursor.copy(f"COPY {_quoted(table)} ({listed}) FROM STDIN") as copy:
            for chunk in chunks:
                copy.write(chunk)
        return int(cursor.rowcount)


def _cursor(connection: Connection) -> Any:
    driver: Any = connection.connection.driver_connection
    return driver.cursor()


def _in_order(connection: Connection) -> list[str]:
    """The tables, each after those that it refers to."""
    tables = inspect(connection).get_sorted_table_and_fkc_names()
    return [name for name, _ in tables if name is not None]


def _set_sequences(connection: Connection) -> None:
    """Sets the sequences of the tables as they are, whose version may be an earlier one."""
    for (_, name), columns in inspect(connection).get_multi_columns().items():
        for column in columns:
            if column.get("autoincrement"):
                sequence = f"pg_get_serial_sequence('{name}', '{column['name']}')"
                last = f"(SELECT max({column['name']}) FROM {_quoted(name)})"  # noqa: S608 names of ours
                connection.execute(text(f"SELECT setval({sequence}, coalesce({last}, 1), {last} IS NOT NULL)"))


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
