"""Spend by day and preset over a year with a million lifetimes: again, uncached, and against the same over a week."""

from __future__ import annotations

import gc
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import date, timedelta
from pathlib import Path

from sqlalchemy import select, update
from tests.benchmarks import year
from tests.benchmarks.databases import both, urls
from tests.benchmarks.measure import Measured
from tests.postgres import shared_server

from costguard.db.tables import changes
from costguard.db.transaction import Database
from costguard.ledger.accrual import accrual_at
from costguard.spend.spend import spend
from costguard.spend.spend_rows import Grouping

_ROUNDS = 15
_PROCESSES = 5
_PROJECTS = 500
_GOAL_MS = 50
_GOAL_BY_OWNER_MS = 150


def spending(folder: Path) -> Iterator[Measured]:
    with both(folder, "spending") as databases, shared_server(folder) as server:
        for name, database in databases:
            year.fill(database)
            yield from _uncached(name, database, urls(server, folder, "spending")[name])
            yield from _spending(name, database)
            year.spread(database, _PROJECTS)
            yield from _uncached(f"{name}, {_PROJECTS} projects", database, urls(server, folder, "spending")[name])


def _uncached(name: str, database: Database, url: str) -> Iterator[Measured]:
    """Measures readings where nothing that a process keeps is good: by a new process, and after every table changed at
    once.
    """
    what = f"Spend by day and preset over a year, {year.LIFETIMES:,} lifetimes, {name}, uncached"
    command = [sys.executable, "-m", "tests.benchmarks.spending", url]
    first = [float(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout) for _ in range(_PROCESSES)]
    yield Measured(f"{what}: first ask of a process", "ms", first, _GOAL_MS)
    changed = []
    for _ in range(_ROUNDS):
        with database.write() as connection:
            connection.execute(update(changes).values(number=changes.c.number + 1))
        changed.append(_a_year_in_ms(database))
    yield Measured(f"{what}: after everything changed", "ms", changed, _GOAL_MS)


def _a_year_in_ms(database: Database) -> float:
    first = year.LAST - timedelta(days=year.DAYS - 1)
    return _answered_in_ms(database, first, year.LAST, Grouping.PRESET, year.DAYS * year.PRESETS)


def _spending(name: str, database: Database) -> Iterator[Measured]:
    gc.freeze()  # as the processes that serve do; here it is the databases' filling as well
    last = year.LAST
    spans = {"year": last - timedelta(days=year.DAYS - 1), "week": last - timedelta(days=6)}
    took: dict[str, list[float]] = {which: [] for which in spans}
    for _ in range(_ROUNDS):
        for which, first in spans.items():
            rows = ((last - first).days + 1) * year.PRESETS
            took[which].append(_answered_in_ms(database, first, last, Grouping.PRESET, rows))
    what = f"Spend by day and preset, {year.LIFETIMES:,} lifetimes, {name}"
    yield Measured(f"{what}: a year, asked again", "ms", took["year"], _GOAL_MS)
    yield Measured(f"{what}: a week", "ms", took["week"])
    by_owner = [
        _answered_in_ms(database, spans["year"], last, Grouping.OWNER, year.OWNERS * year.DAYS) for _ in range(3)
    ]
    yield Measured(
        f"Spend by day and owner, {year.LIFETIMES:,} lifetimes, {name}: a year", "ms", by_owner, _GOAL_BY_OWNER_MS
    )
    ratios = [one / other for one, other in zip(took["year"], took["week"], strict=True)]
    yield Measured(f"{what}: a year / a week", "ratio", ratios)


def _answered_in_ms(database: Database, first: date, last: date, grouping: Grouping, rows: int) -> float:
    """Measures from the question to the rows, as the API asks: open VMs are billed up to now."""
    begun = time.perf_counter()
    with database.read() as connection:
        accrual = accrual_at(connection, year.NOW)
        report = spend(connection, accrual, first, last, (Grouping.DAY, grouping))
    took = time.perf_counter() - begun
    assert len(report.rows) == rows
    return took * 1000


def _first(url: str) -> float:
    """Measures a process that has loaded everything and connected, as for the visitor's session, and asked nothing
    else. What it imported is out of the way of the search for garbage, as in the processes that serve.
    """
    gc.freeze()
    gc.set_threshold(10_000, 10, 10)
    with closing(Database.open(url)) as database:
        with database.read() as connection:
            connection.execute(select(1))
        return _a_year_in_ms(database)


if __name__ == "__main__":
    print(_first(sys.argv[1]))
