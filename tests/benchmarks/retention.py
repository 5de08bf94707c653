"""Five years and five million lifetimes: the size before and after archiving, page times, and unchanged totals.

Smaller, and on both databases: `python -m tests.benchmarks.retention FOLDER YEARS LIFETIMES_A_YEAR`.
"""

from __future__ import annotations

import sqlite3
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
from sqlalchemy import Connection, func, select
from tests.benchmarks import busy_year, pages, year
from tests.benchmarks.databases import fresh
from tests.benchmarks.figures import Shown, compare, figures
from tests.benchmarks.look import NOW
from tests.benchmarks.measure import Measured, show
from tests.rolled_up import ROLLED_UP

from costguard.daemon.retention import Retention, archive_old
from costguard.db.backup import verify
from costguard.db.backup.verify import Check
from costguard.db.limits import MIGRATING
from costguard.db.migrate import upgrade
from costguard.db.tables import charge_days, charges
from costguard.db.transaction import Database

YEARS = 5
_DAY = timedelta(days=1)
_KEPT = 90 * _DAY
_GOAL_MB = 500  # a year of a million lifetimes, with what is archived rolled up
_GOAL_ARCHIVE_MB = 150  # of files next to it


def retention(folder: Path, years: int = YEARS, lifetimes: int = year.LIFETIMES) -> Iterator[Measured]:
    """Measures retention on SQLite, where the file's size is the ledger's; five years take half an hour and ten
    gigabytes.
    """
    url = f"sqlite:///{folder / 'years.db'}"
    upgrade(url)
    yield from _measured("SQLite", url, folder / "archive", years, lifetimes)


def on_both(folder: Path, years: int, lifetimes: int) -> Iterator[Measured]:
    """The same of SQLite and of PostgreSQL, one after the other; 300,000 lifetimes take a quarter of an hour."""
    with fresh(folder, "years") as addresses:
        for name, url in addresses.items():
            yield from _measured(name, url, folder / f"archive-{name}", years, lifetimes)


def _measured(name: str, url: str, archive: Path, years: int, lifetimes: int) -> Iterator[Measured]:
    with closing(Database.open(url, limits=MIGRATING)) as database:
        busy_year.fill(database, years, lifetimes)
        _compact(url)
        sums, broken = _sums(database), _broken(database)
        yield Measured(
            f"{years} years of {lifetimes:,} lifetimes, all in the database, {name}", "MB", [_megabytes(url)]
        )
        shown = figures(database, years, archive)
        yield from pages.times(f"{name}, before archiving", database, 3)
        began, cpu = time.perf_counter(), time.process_time()
        done = archive_old(database, Retention(archive, _KEPT, _KEPT, _KEPT, _KEPT, _KEPT), NOW)
        rows = sum(one.rows for one in done.values())
        yield Measured(f"Archiving {rows} rows, {name}", "s", [time.perf_counter() - began])
        yield Measured(
            f"Archiving {rows} rows, of a core without the server's, {name}", "s", [time.process_time() - cpu]
        )
        assert _sums(database) == sums
        assert _broken(database) == broken
        yield Measured(f"The database right after archiving, {name}", "MB", [_megabytes(url)])
        yield from _differences(name, shown, figures(database, years, archive))
        _vacuum(url)
        yield Measured(f"The same after VACUUM, {name}", "MB", [_megabytes(url)])
        yield from pages.times(f"{name}, after archiving", database, 3)
        _compact(url)
        millions = years * lifetimes / 1_000_000
        size = _megabytes(url)
        yield Measured(f"Older than {_KEPT.days} days archived, {name}, compact", "MB", [size], _GOAL_MB * millions)
        size = sum(one.stat().st_size for one in archive.iterdir()) / 1e6
        yield Measured(f"Files of the archive, {name}", "MB", [size], _GOAL_ARCHIVE_MB * millions)


def _differences(name: str, before: Shown, after: Shown) -> Iterator[Measured]:
    compared = compare(before, after)
    yield Measured(
        f"Figures on pages and in API answers that were compared, {name}", "", [sum(one.count for one in compared)]
    )
    for one in compared:
        if one.differs:
            print(f"{one.address}: {' '.join(one.before)} -> {' '.join(one.after)}")
    yield Measured(
        f"Pages and API answers that differ after archiving, {name}", "", [sum(one.differs for one in compared)], 0
    )


def _vacuum(url: str) -> None:
    """Frees space as autovacuum does: free space is used again, and given back only at the end of a table."""
    if url.startswith("postgresql"):
        _alone(url, "VACUUM ANALYZE")


def _compact(url: str) -> None:
    """Compacts the database: PostgreSQL locks each table meanwhile, SQLite all of it."""
    if url.startswith("postgresql"):
        _alone(url, "VACUUM FULL ANALYZE")
        return
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
        connection.execute("VACUUM")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _alone(url: str, command: str) -> None:
    """Outside of any transaction."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(command)


def _megabytes(url: str) -> float:
    if url.startswith("postgresql"):
        with psycopg.connect(url) as connection:
            row = connection.execute("SELECT pg_database_size(current_database())").fetchone()
        assert row
        return int(row[0]) / 1e6
    file = Path(url.removeprefix("sqlite:///"))
    return sum(part.stat().st_size for part in file.parent.glob(f"{file.name}*")) / 1e6


def _sums(database: Database) -> dict[str, Any]:
    with database.read() as connection:
        rolled_up = {
            table.name: connection.execute(
                select(func.count(), *(func.sum(column) for column in table.c if not column.primary_key))
            ).all()
            for table in ROLLED_UP
        }
        return {**rolled_up, "charged": _charged(connection)}


def _broken(database: Database) -> list[Check]:
    """The filled ledger has open runs whose charges are in no daily sum: archiving must change nothing of that."""
    with database.read() as connection:
        return [check for check in verify.checks(connection) if not check.holds]


def _charged(connection: Connection) -> int:
    return sum(connection.scalar(select(func.sum(table.c.amount_nanos))) or 0 for table in (charges, charge_days))


if __name__ == "__main__":
    show(list(on_both(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))))
