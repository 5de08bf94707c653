"""The guard's database copied, as an operator does, and the copy put back later."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import psycopg

from costguard.db.tables import metadata
from costguard.db.transaction import Database

_NAMES = [table.name for table in metadata.sorted_tables]


def copied(database: Database, number: int) -> Callable[[], None]:
    """How the copy made now is put back. Nothing may have the database open then."""
    if database.dialect == "sqlite":
        return _file_copied(Path(database._engine.url.database or ""), number)
    return _rows_copied(database._engine.url.set(drivername="postgresql").render_as_string(hide_password=False))


def _file_copied(path: Path, number: int) -> Callable[[], None]:
    backup = path.with_name(f"{path.name}-backup-{number}")
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(backup)) as target:
        source.backup(target)
    shutil.copymode(path, backup)

    def put_back() -> None:
        for suffix in ("-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
        shutil.copy(backup, path)

    return put_back


def _rows_copied(url: str) -> Callable[[], None]:
    """As `pg_dump --data-only` and `pg_restore --disable-triggers` do: rows, and where sequences stand.

    https://www.postgresql.org/docs/current/app-pgrestore.html
    """
    with psycopg.connect(url) as connection:
        rows = {name: _rows_of(connection, name) for name in _NAMES}
        sequences = connection.execute("SELECT sequencename, last_value FROM pg_sequences").fetchall()

    def put_back() -> None:
        with psycopg.connect(url) as connection:
            connection.execute("SET session_replication_role = replica")
            connection.execute(f"TRUNCATE {', '.join(_NAMES)}")
            for name, data in rows.items():
                with connection.cursor().copy(f"COPY {name} FROM STDIN (FORMAT binary)") as copy:
                    copy.write(data)
            for name, last in sequences:
                connection.execute("SELECT setval(%s, %s, %s)", (name, last or 1, last is not None))

    return put_back


def _rows_of(connection: psycopg.Connection, name: str) -> bytes:
    with connection.cursor().copy(f"COPY {name} TO STDOUT (FORMAT binary)") as copy:
        return b"".join(copy)
