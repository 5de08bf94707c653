"""Five years and five million lifetimes: the size before and after archiving, page times, and unchanged totals."""

from __future__ import annotations

import sqlite3
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, func, select
from tests.benchmarks import busy_year, pages
from tests.benchmarks.figures import Shown, compare, figures
from tests.benchmarks.look import NOW
from tests.benchmarks.measure import Measured, show
from tests.rolled_up import ROLLED_UP

from costguard.daemon.retention import Retention, archive_old
from costguard.db.backup import verify
from costguard.db.backup.verify import Check
from costguard.db.migrate import upgrade
from costguard.db.tables import charge_days, charges
from costguard.db.transaction import Database

YEARS = 5
_DAY = timedelta(days=1)
_KEPT = 90 * _DAY
_GOAL_MB = 500  # a year of a million lifetimes, with what is archived rolled up
_GOAL_ARCHIVE_MB = 150  # of files next to it


def retention(folder: Path, years: int = YEARS) -> Iterator[Measured]:
    """Of SQLite, where the file's size is the ledger's."""
    file, archive = folder / "years.db", folder / "archive"
    upgrade(f"sqlite:///{file}")
    with closing(Database.open(f"sqlite:///{file}")) as database:
        busy_year.fill(database, years)
        sums, broken = _sums(database), _broken(database)
        yield Measured(f"{years} years, everything in the database", "MB", [_megabytes(file)])
        shown = figures(database, years, archive)
        yield from pages.times("before archiving", database, 3)
        began, cpu = time.perf_counter(), time.process_time()
        done = archive_old(database, Retention(archive, _KEPT, _KEPT, _KEPT, _KEPT, _KEPT), NOW)
        rows = sum(one.rows for one in done.values())
        yield Measured(f"Archiving {rows} rows", "s", [time.perf_counter() - began])
        yield Measured(f"Archiving {rows} rows, of a core", "s", [time.process_time() - cpu])
        assert _sums(database) == sums
        assert _broken(database) == broken
        yield from _differences(shown, figures(database, years, archive))
        yield from pages.times("after archiving", database, 3)
    _compact(file)
    yield Measured(f"{years} years, older than {_KEPT.days} days archived", "MB", [_megabytes(file)], _GOAL_MB * years)
    size = sum(one.stat().st_size for one in archive.iterdir()) / 1e6
    yield Measured("Files of the archive", "MB", [size], _GOAL_ARCHIVE_MB * years)


def _differences(before: Shown, after: Shown) -> Iterator[Measured]:
    compared = compare(before, after)
    yield Measured("Figures on pages and in API answers that were compared", "", [sum(one.count for one in compared)])
    for one in compared:
        if one.differs:
            print(f"{one.address}: {' '.join(one.before)} -> {' '.join(one.after)}")
    yield Measured("Pages and API answers that differ after archiving", "", [sum(one.differs for one in compared)], 0)


def _compact(file: Path) -> None:
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("VACUUM")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _megabytes(file: Path) -> float:
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
    show(list(retention(Path(sys.argv[1]), int(sys.argv[2]))))
