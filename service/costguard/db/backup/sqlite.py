"""SQLite: the database file by the online backup API, and put back in one step (https://www.sqlite.org/backup.html)."""

from __future__ import annotations

import os
import secrets
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path

from costguard.db import database_file
from costguard.db.backup.archive import LEDGER, Manifest, Reader, Rows, Writer, chunks_of, sync_folder
from costguard.errors import Invalid, StoreError

_SIDE_FILES = ("-wal", "-shm", "-journal")


def write(
    source: Path, writer: Writer, scratch: Path, describe: Callable[[str, int, dict[str, Rows]], Manifest]
) -> None:
    """Writes one unmoving view of the database, whatever is written meanwhile; writers do not wait.

    `scratch` is a folder for a copy. `describe` makes the manifest of revision, generation and tables.
    """
    copy = scratch / LEDGER
    with closing(_opened(source)) as live, closing(sqlite3.connect(copy)) as target:
        live.backup(target, pages=-1)  # in one step: a copy in several would begin again at each write
        target.execute("PRAGMA journal_mode = DELETE")  # one file, whole by itself
        revision, generation, tables = described(target)
    writer.add(LEDGER, chunks_of(copy))
    writer.finish(describe(revision, generation, tables))


def described(connection: sqlite3.Connection) -> tuple[str, int, dict[str, Rows]]:
    """Revision, generation, and the rows of each table. Raises Invalid where it is no ledger."""
    query = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name"
    names = [str(row[0]) for row in connection.execute(query)]
    if "alembic_version" not in names:
        raise Invalid("The database has no tables of Costguard's.", "Check the database's address.")
    (revision,) = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    installation = (
        connection.execute("SELECT generation FROM installation").fetchone() if "installation" in names else None
    )
    counts = {name: _count(connection, name) for name in names}
    return (
        str(revision),
        int(installation[0]) if installation else 1,
        {name: Rows(rows=rows) for name, rows in counts.items()},
    )


@contextmanager
def unpacked(reader: Reader, folder: Path) -> Iterator[Path]:
    """The database of an archive as a file of its own in this folder, for its owner alone; gone afterwards.

    Raises Invalid where it is damaged.
    """
    path = folder / f".costguard-restore-{secrets.token_hex(4)}.db"
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, database_file.PRIVATE), "wb") as file:
            for chunk in reader.read(LEDGER):
                file.write(chunk)
        yield path
    finally:
        for suffix in ("", *_SIDE_FILES):
            path.with_name(path.name + suffix).unlink(missing_ok=True)


def put_in_place(new: Path, path: Path, now: datetime) -> Path | None:
    """`new` becomes the database at `path`. The one that was there is kept under the name that is returned.

    There is a whole database at `path` at every moment. Raises StoreError where a process has it open.
    """
    with closing(sqlite3.connect(new, isolation_level=None)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.execute("PRAGMA journal_mode = DELETE")
    _sync(new)
    kept = None
    if path.exists():
        close_for_good(path)
        kept = path.with_name(f"{path.name}.replaced-{now:%Y%m%dT%H%M%SZ}")
        if kept.exists():
            kept = kept.with_name(f"{kept.name}-{secrets.token_hex(2)}")
        try:
            os.link(path, kept)
        except OSError:  # a file system without hard links
            shutil.copy2(path, kept)
            _sync(kept)
    os.replace(new, path)
    sync_folder(path.parent)
    return kept


def close_for_good(path: Path) -> None:
    """Closes a database: its log is written into the file, and taken away, or it would be replayed into another
    database.
    """
    try:
        with closing(sqlite3.connect(path, timeout=5, isolation_level=None)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            connection.execute("PRAGMA journal_mode = DELETE")  # only where nobody else has it open
    except sqlite3.OperationalError as error:
        raise StoreError(
            f"The SQLite database {path} is open in another process.",
            "Stop the guard, and whatever else uses the file, then try again. Nothing was changed.",
        ) from error
    except sqlite3.DatabaseError:
        # It is broken, which is why another is put in its place. What lies next to it is kept with it.
        for suffix in _SIDE_FILES:
            left = path.with_name(path.name + suffix)
            if left.exists():
                left.rename(left.with_name(f"{left.name}.replaced"))


def _opened(path: Path) -> sqlite3.Connection:
    try:
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True, timeout=30)
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.DatabaseError as error:
        raise Invalid(
            f"The SQLite database {path} cannot be read: {error}.", "Check its address, and that this user may read it."
        ) from error
    return connection


def _count(connection: sqlite3.Connection, table: str) -> int:
    (rows,) = connection.execute(f'SELECT count(*) FROM "{table}"').fetchone()  # noqa: S608 a name of sqlite_master
    return int(rows)


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())
