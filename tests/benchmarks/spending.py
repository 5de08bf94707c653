"""Spend by day and preset over a year with a million lifetimes, against the same over a week."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path

from tests.benchmarks import year
from tests.benchmarks.databases import both
from tests.benchmarks.measure import Measured

from costguard.engine.accrual import Accrual
from costguard.engine.spend import spend
from costguard.policy.price_book import PriceBook
from costguard.store import prices
from costguard.store.spend import Grouping
from costguard.store.transaction import Database

_ROUNDS = 15
_GOAL_MS = 50


def spending(folder: Path) -> Iterator[Measured]:
    with both(folder, "spending") as databases:
        for name, database in databases:
            year.fill(database)
            yield from _spending(name, database)


def _spending(name: str, database: Database) -> Iterator[Measured]:
    last = year.LAST
    spans = {"year": last - timedelta(days=year.DAYS - 1), "week": last - timedelta(days=6)}
    took: dict[str, list[float]] = {which: [] for which in spans}
    for _ in range(_ROUNDS):
        for which, first in spans.items():
            rows = ((last - first).days + 1) * year.PRESETS
            took[which].append(_answered_in_ms(database, first, last, Grouping.PRESET, rows))
    what = f"Spend by day and preset, {year.LIFETIMES:,} lifetimes, {name}"
    yield Measured(f"{what}: a year", "ms", took["year"], _GOAL_MS)
    yield Measured(f"{what}: a week", "ms", took["week"])
    by_owner = [
        _answered_in_ms(database, spans["year"], last, Grouping.OWNER, year.OWNERS * year.DAYS) for _ in range(3)
    ]
    yield Measured(f"Spend by day and owner, {year.LIFETIMES:,} lifetimes, {name}: a year", "ms", by_owner)
    ratios = [one / other for one, other in zip(took["year"], took["week"], strict=True)]
    yield Measured(f"{what}: a year / a week", "ratio", ratios)


def _answered_in_ms(database: Database, first: date, last: date, grouping: Grouping, rows: int) -> float:
    """From the question to the rows, as the API asks: prices are read and open VMs are billed up to now."""
    begun = time.perf_counter()
    with database.read() as connection:
        accrual = Accrual(PriceBook(prices.load(connection)), year.NOW)
        found = spend(connection, accrual, first, last, (Grouping.DAY, grouping))
    took = time.perf_counter() - begun
    assert len(found.rows) == rows
    return took * 1000
