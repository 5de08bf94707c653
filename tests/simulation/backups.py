"""The guard's database copied, as an operator does, and the copy put back later."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
from tests.simulation.job_vms import Restore

from costguard.db.tables import metadata
from costguard.db.transaction import Database
from costguard.ledger import generation

if TYPE_CHECKING:
    from tests.simulation.life import Life

_NAMES = [table.name for table in metadata.sorted_tables]


class Older:
    """An older database: whether the one that was put back last was noticed to be older, and how it is put back once
    more.
    """

    def __init__(self) -> None:
        self.again: Callable[[], None] = lambda: None
        self.has_looked = False  # a guard that holds the lease, since it was put back
        self._generation: int | None = None  # with which it came

    def put_back(self, database: Database) -> None:
        self._generation, self.has_looked = _generation_of(database), False

    def unnoticed(self, database: Database, restores: Sequence[Restore]) -> Iterator[str]:
        if self._generation is None or not self.has_looked:
            return
        if _generation_of(database) > self._generation:
            self._generation = None
            return
        last = restores[-1]
        yield f"the database of {last.backup_at}, put back at {last.put_back_at}, was not noticed to be older"


def older_databases_are_noticed(life: Life) -> list[str]:
    """A database that lost something by being put back begins a generation as soon as a guard acts on it."""
    return list(life.older.unnoticed(life.ledger, life.restores))


def _generation_of(database: Database) -> int:
    with database.read() as connection:
        return generation.read(connection).number


def copied(database: Database, number: int) -> Callable[[], bool]:
    """Copies the database; returns how the copy is put back, and whether the database is another one by that.

    Nothing may have the database open then.
    """
    if database.dialect == "sqlite":
        return _file_copied(Path(database._engine.url.database or "").resolve(), number)
    return _rows_copied(database._engine.url.set(drivername="postgresql").render_as_string(hide_password=False))


def _file_copied(path: Path, number: int) -> Callable[[], bool]:
    backup = path.with_name(f"{path.name}-backup-{number}")
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(backup)) as target:
        source.backup(target)
    shutil.copymode(path, backup)

    def put_back() -> bool:
        """Puts the copy back in place: the file is the same one to the system, with the bytes of then."""
        is_older = _dumped(path) != _dumped(backup)
        for suffix in ("-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
        shutil.copy(backup, path)
        return is_older

    return put_back


def _dumped(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as connection:
        return list(connection.iterdump())


def _rows_copied(url: str) -> Callable[[], bool]:
    """Copies rows, and where sequences stand, as `pg_dump --data-only` and `pg_restore --disable-triggers` do.

    https://www.postgresql.org/docs/current/app-pgrestore.html
    """
    with psycopg.connect(url) as connection:
        rows = {name: _rows_of(connection, name) for name in _NAMES}
        sequences = connection.execute("SELECT sequencename, last_value FROM pg_sequences").fetchall()

    def put_back() -> bool:
        with psycopg.connect(url) as connection:
            connection.execute("SET session_replication_role = replica")
            connection.execute(f"TRUNCATE {', '.join(_NAMES)}")
            for name, data in rows.items():
                with connection.cursor().copy(f"COPY {name} FROM STDIN (FORMAT binary)") as copy:
                    copy.write(data)
            for name, last in sequences:
                connection.execute("SELECT setval(%s, %s, %s)", (name, last or 1, last is not None))
        return True  # the same rows, too, are rows that another program wrote

    return put_back


def _rows_of(connection: psycopg.Connection, name: str) -> bytes:
    with connection.cursor().copy(f"COPY {name} TO STDOUT (FORMAT binary)") as copy:
        return b"".join(copy)
