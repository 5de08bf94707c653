"""Archives of the database, with or without a server."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

from sqlalchemy import Row, select

from costguard.daemon.retention import Retention, archive_old
from costguard.db import archive_file, connect, migrate
from costguard.db.tables import archives
from costguard.db.transaction import Database
from costguard.errors import Invalid
from costguard.ledger.archiving import Archived
from costguard.main.backups import refuse_while_acting


def archive(url: str, retention: Retention, now: datetime) -> Mapping[str, Archived]:
    """Archive what the settings say, also while a server runs. Raises Invalid where they keep everything."""
    if retention.keeps_all:
        text = "The settings keep everything in the database, and nothing was archived."
        raise Invalid(text, 'Say in [retention] what to archive, such as charges = "400d".')
    with closing(Database.open(url)) as database:
        migrate.check(database)
        return archive_old(database, retention, now)


def listed(url: str) -> Sequence[Row[Any]]:
    """All archives of this database, the oldest first."""
    with closing(Database.open(url)) as database:
        migrate.check(database)
        with database.read() as connection:
            return connection.execute(select(archives).order_by(archives.c.id)).all()


def read(folder: Path, name: str) -> Iterator[dict[str, Any]]:
    """The rows of one archive, by its name in the folder or its path. Raises Missing and Invalid."""
    path = Path(name)
    return archive_file.read(path if path.name != name else archive_file.named(folder, name))


def compact(url: str) -> tuple[int, int]:
    """The bytes before and after. Raises Conflict while a guard acts, and Invalid for PostgreSQL."""
    file = connect.file_of(connect.parse(url))
    if file is None:
        raise Invalid("Only an SQLite database is compacted.", "PostgreSQL's autovacuum reuses the space by itself.")
    refuse_while_acting(url)
    before = file.stat().st_size
    with closing(sqlite3.connect(file.absolute().as_uri() + "?mode=rw", uri=True, isolation_level=None)) as database:
        database.execute("PRAGMA auto_vacuum = INCREMENTAL")
        database.execute("VACUUM")
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return before, file.stat().st_size
