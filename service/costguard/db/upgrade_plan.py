"""Plans an upgrade of a database, with the time it may take, without touching the database.

The migrations that are missing run on an empty copy; what they do there is multiplied by the rows of the database.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, event, inspect, text

from costguard.db import migrate
from costguard.db.transaction import Database


class ChangeKind(StrEnum):
    CREATE = "create table"
    ADD_COLUMN = "add column"
    RENAME = "rename"
    DROP_COLUMN = "drop column"
    DROP = "drop table"
    REWRITE = "rewrite table"
    COPY = "copy rows"
    UPDATE = "update rows"
    DELETE = "delete rows"
    INDEX = "build index"


@dataclass(frozen=True, slots=True)
class TableChange:
    """`rows` is the most that the change may read or write: those of the table, whatever its condition."""

    kind: ChangeKind
    table: str
    rows: int


@dataclass(frozen=True, slots=True)
class UpgradeStep:
    revision: str
    subject: str
    changes: tuple[TableChange, ...]


@dataclass(frozen=True, slots=True)
class UpgradePlan:
    """`current` is None for a database without tables. `lasts` is an estimate from rates that were measured once."""

    name: str
    dialect: str
    current: str | None
    target: str
    steps: tuple[UpgradeStep, ...]
    lasts: timedelta


# Microseconds a row: what 46 migrations of 1,000,000 lifetimes took on one of two busy cores, divided among the kinds
# by choice; `python -m tests.upgrades.measure` measures each. Changes that are not here take no time worth naming.
_MICROSECONDS = {
    "sqlite": {
        ChangeKind.REWRITE: 3.0,
        ChangeKind.COPY: 3.0,
        ChangeKind.DROP_COLUMN: 2.0,
        ChangeKind.UPDATE: 5.0,
        ChangeKind.DELETE: 2.0,
        ChangeKind.INDEX: 1.0,
    },
    "postgresql": {
        ChangeKind.REWRITE: 8.0,
        ChangeKind.COPY: 8.0,
        ChangeKind.UPDATE: 20.0,
        ChangeKind.DELETE: 4.0,
        ChangeKind.INDEX: 2.5,
    },
}
_EACH_STEP = timedelta(milliseconds=50)


def plan(url: str, folder: Path = migrate.MIGRATIONS) -> UpgradePlan:
    """Reads the database alone. Raises StoreError for one that an upgrade would refuse."""
    with closing(Database.open(url)) as database:
        with database.read() as connection:
            current = migrate.check_upgradable(connection, database.name, folder)
            steps = tuple(_steps(current, _Rows(connection), folder))
        lasts = _estimate(database.dialect, steps)
        return UpgradePlan(database.name, database.dialect, current, migrate.head(folder), steps, lasts)


class _Rows:
    """The number of rows of the tables; PostgreSQL estimates large ones, as a count would read them whole."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._names = set(inspect(connection).get_table_names())
        self._by_table: dict[str, int] = {}

    def of(self, table: str) -> int:
        if table not in self._by_table:
            self._by_table[table] = self._count(table) if table in self._names else 0
        return self._by_table[table]

    def copied(self, source: str, target: str) -> None:
        self._by_table[target] = self.of(target) + self.of(source)

    def _count(self, table: str) -> int:
        if self._connection.dialect.name == "postgresql":
            query = text("SELECT reltuples::bigint FROM pg_class WHERE oid = to_regclass(:name)")
            estimate = self._connection.scalar(query, {"name": f'"{table}"'})
            if estimate is not None and estimate > _FEW:
                return int(estimate)
        quoted = self._connection.dialect.identifier_preparer.quote(table)
        return int(self._connection.scalar(text(f"SELECT count(*) FROM {quoted}")) or 0)  # noqa: S608  quoted


_FEW = 100_000


def _steps(current: str | None, rows: _Rows, folder: Path) -> Iterator[UpgradeStep]:
    missing = migrate.missing_after(current, folder)
    with migrate.empty_database() as connection:
        if current is not None:
            migrate.upgrade_within(connection, current, folder)
        made: set[str] = set()
        for revision, subject in missing:
            statements = _statements(connection, revision, folder)
            yield UpgradeStep(revision, subject, tuple(_changes(statements, rows, made)))


def _statements(connection: Connection, revision: str, folder: Path) -> list[str]:
    statements: list[str] = []

    def hear(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        statements.append(" ".join(statement.split()).replace('"', ""))

    event.listen(connection, "before_cursor_execute", hear)
    try:
        migrate.upgrade_within(connection, revision, folder)
    finally:
        event.remove(connection, "before_cursor_execute", hear)
    return statements


_REBUILT = "_alembic_tmp_"  # SQLite alone rebuilds a table to change a column
_PATTERNS = (
    (ChangeKind.CREATE, re.compile(r"CREATE TABLE (\w+)")),
    (ChangeKind.ADD_COLUMN, re.compile(r"ALTER TABLE (\w+) ADD ")),
    (ChangeKind.DROP_COLUMN, re.compile(r"ALTER TABLE (\w+) DROP ")),
    (ChangeKind.RENAME, re.compile(r"ALTER TABLE (\w+) RENAME ")),
    (ChangeKind.DROP, re.compile(r"DROP TABLE (\w+)")),
    (ChangeKind.COPY, re.compile(r"INSERT INTO (\w+) .*?\bFROM (\w+)")),
    (ChangeKind.UPDATE, re.compile(r"UPDATE (\w+) SET ")),
    (ChangeKind.DELETE, re.compile(r"DELETE FROM (\w+)")),
    (ChangeKind.INDEX, re.compile(r"CREATE (?:UNIQUE )?INDEX \w+ ON (\w+)")),
)


def _changes(statements: list[str], rows: _Rows, made: set[str]) -> Iterator[TableChange]:
    """Changes of tables that the upgrade itself has made are left out while these are empty."""
    rebuilt = {match[1] for statement in statements if (match := re.match(rf"CREATE TABLE {_REBUILT}(\w+)", statement))}
    for statement in statements:
        kind, names = _read(statement)
        if kind is None or names[0] == "alembic_version":
            continue
        target, source = names[0], names[-1]
        if kind is ChangeKind.CREATE and target.startswith(_REBUILT):
            table = target.removeprefix(_REBUILT)
            yield TableChange(ChangeKind.REWRITE, table, rows.of(table))
        elif target.startswith(_REBUILT) or (kind is ChangeKind.DROP and target in rebuilt):
            continue
        elif kind is ChangeKind.COPY:
            yield TableChange(kind, source, rows.of(source))
            rows.copied(source, target)
        elif kind is ChangeKind.CREATE:
            made.add(target)
            yield TableChange(kind, target, 0)
        elif target not in made or rows.of(target):
            yield TableChange(kind, target, rows.of(target))


def _read(statement: str) -> tuple[ChangeKind | None, tuple[str, ...]]:
    for kind, pattern in _PATTERNS:
        if match := pattern.match(statement):
            return kind, match.groups()
    return None, ()


def _estimate(dialect: str, steps: tuple[UpgradeStep, ...]) -> timedelta:
    rates = _MICROSECONDS[dialect]
    changes = [change for step in steps for change in step.changes]
    working = sum(change.rows * rates.get(change.kind, 0.0) for change in changes)
    return timedelta(microseconds=working) + len(steps) * _EACH_STEP
