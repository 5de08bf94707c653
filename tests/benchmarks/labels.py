"""Spend by label against spend by preset over a year with a million lifetimes, alternating, and how it is rolled up."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

from sqlalchemy import Connection, text, update
from tests.benchmarks import year
from tests.benchmarks.databases import both
from tests.benchmarks.measure import Measured

from costguard.db.tables import changes
from costguard.db.transaction import Database
from costguard.ledger.accrual import Accrual, accrual_at
from costguard.ledger.charged.label_roll_up import MOST_DAYS, roll_up
from costguard.model.budget import LabelFilter, Scope
from costguard.spend.label_spend import spend_by_label
from costguard.spend.spend import spend
from costguard.spend.spend_rows import Grouping

_LABEL = "experiment"
_ROUNDS = 9
_FIRST = year.LAST - timedelta(days=year.DAYS - 1)
# Of every tenth VM no label; the others share forty experiments, of any owner and preset.
_NAME = "UPDATE instances SET labels = '{\"experiment\": \"e-' || (id * 7 % 40) || '\"}' WHERE id % 10 <> 0"
_NAME_POSTGRESQL = (
    "UPDATE instances SET labels = jsonb_build_object('experiment', 'e-' || (id * 7 % 40)) WHERE id % 10 <> 0"
)


def labels(folder: Path) -> Iterator[Measured]:
    with both(folder, "labels") as databases:
        for name, database in databases:
            year.fill(database)
            with database.write() as connection:
                connection.execute(text(_NAME if database.dialect == "sqlite" else _NAME_POSTGRESQL))
            yield from _measured(name, database)


def _measured(name: str, database: Database) -> Iterator[Measured]:
    what = f"{year.LIFETIMES:,} lifetimes, {name}"
    yield Measured(f"Spend by label over a year from charges, {what}", "ms", [_took(database, _by_label)])
    passes = list(_rolled_up(database))
    yield Measured(f"Rolling {MOST_DAYS} days up by a label, a pass, {what}", "ms", passes)
    for which, one, other in (
        ("by label / by preset", _by_label, _by_preset),
        ("of one value / of one preset, by owner", _of_value, _of_preset),
    ):
        pairs = [(_took(database, one), _took(database, other)) for _ in range(_ROUNDS)]
        yield Measured(f"Spend {which.split(' / ')[0]} over a year, {what}", "ms", [pair[0] for pair in pairs])
        yield Measured(f"Spend {which} over a year, {what}", "ratio", [pair[0] / pair[1] for pair in pairs])


def _rolled_up(database: Database) -> Iterator[float]:
    while True:
        begun = time.perf_counter()
        if not roll_up(database, [_LABEL], year.NOW):
            return
        yield (time.perf_counter() - begun) * 1000


def _took(database: Database, read: Callable[[Connection, Accrual], int]) -> float:
    """Measures a reading after everything changed: nothing that was remembered is good."""
    with database.write() as connection:
        connection.execute(update(changes).values(number=changes.c.number + 1))
    begun = time.perf_counter()
    with database.read() as connection:
        count = read(connection, accrual_at(connection, year.NOW))
    took = time.perf_counter() - begun
    assert count
    return took * 1000


def _by_label(connection: Connection, accrual: Accrual) -> int:
    rows, _ = spend_by_label(connection, accrual, _FIRST, year.LAST, _LABEL, Scope())
    return len(rows)


def _by_preset(connection: Connection, accrual: Accrual) -> int:
    return len(spend(connection, accrual, _FIRST, year.LAST, [Grouping.PRESET]).rows)


def _of_value(connection: Connection, accrual: Accrual) -> int:
    scope = Scope(label=LabelFilter(_LABEL, "e-7"))
    return len(spend(connection, accrual, _FIRST, year.LAST, [Grouping.OWNER], scope).rows)


def _of_preset(connection: Connection, accrual: Accrual) -> int:
    return len(spend(connection, accrual, _FIRST, year.LAST, [Grouping.OWNER], Scope(preset="preset-1")).rows)
