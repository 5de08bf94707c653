"""Recording a look that shows nothing new, and a whole pass in which nothing happened."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, event
from tests.benchmarks.databases import both
from tests.benchmarks.look import NOW
from tests.benchmarks.measure import Measured
from tests.benchmarks.served import PROJECT
from tests.fakes import HandClock

from costguard.access.rules import Rules
from costguard.daemon.reconcile import Reconciler
from costguard.db import lease as leases
from costguard.db.transaction import Database
from costguard.gce.client import ComputeCloud
from costguard.gce.prices import snapshot_prices
from costguard.ledger import price_refresh
from costguard.ledger.observe import Belonging
from costguard.ledger.record import record
from costguard.settings import validate

_ROUNDS = 7
_MOST_WRITES = 5


def recording(url: str, count: int, folder: Path) -> Iterator[Measured]:
    """Looks, recordings and whole passes by turns, in one process, on each database."""
    with both(folder, "recording") as databases:
        for name, database in databases:
            yield from _recording(url, count, name, database)


def _recording(url: str, count: int, name: str, database: Database) -> Iterator[Measured]:
    clock = HandClock(NOW)
    cloud = ComputeCloud(url, clock)
    settings = validate({"watch": {"projects": [PROJECT]}, "owners": {"domain": "example.com"}}, {}, Path("none"))
    presets = settings.preset_list()
    belonging = Belonging(presets, settings.owners.rules)
    reconciler = Reconciler(
        database, cloud, clock, lambda: [PROJECT], Rules({preset.name: preset for preset in presets}), belonging
    )
    price_refresh.seed_snapshot(database, snapshot_prices(), NOW)
    fence = leases.acquire(database, "daemon", "benchmark", timedelta(hours=1))
    assert fence is not None
    first = reconciler.run(fence)
    assert first.recorded[0].new_or_changed == count

    writes, ratios, seconds, passes = [], [], [], []
    for _ in range(_ROUNDS):
        clock.advance(timedelta(minutes=1))
        begun = time.perf_counter()
        seen = cloud.observe(PROJECT, clock.now())
        observed = time.perf_counter()
        with _row_writes() as counted:
            done = record(database, cloud, seen, belonging, fence)
        recorded = time.perf_counter()
        assert (done.seen, done.new_or_changed, done.missing) == (count, 0, 0)
        clock.advance(timedelta(seconds=30))
        before_pass = time.perf_counter()
        report = reconciler.run(fence)
        passes.append(time.perf_counter() - before_pass)
        assert report.charged is not None
        assert report.charged.charges == 0
        writes.append(float(counted[0]))
        seconds.append(recorded - observed)
        ratios.append((recorded - observed) / (observed - begun))
    cloud.close()
    what = f"Recording {count:,} unchanged VMs, {name}"
    yield Measured(f"{what}: row writes", "rows", writes, _MOST_WRITES)
    yield Measured(f"{what} / observing them", "ratio", ratios, 1.0)
    yield Measured(what, "s", seconds)
    yield Measured(f"A whole pass over {count:,} unchanged VMs, {name}", "s", passes)


@contextmanager
def _row_writes() -> Iterator[list[int]]:
    """The rows that statements of all engines inserted, changed or deleted within the block."""
    counted = [0]

    def after(_connection: Any, cursor: Any, statement: str, *_rest: Any) -> None:
        if statement.lstrip()[:6].upper() in {"INSERT", "UPDATE", "DELETE"}:
            assert cursor.rowcount >= 0
            counted[0] += cursor.rowcount

    event.listen(Engine, "after_cursor_execute", after)
    try:
        yield counted
    finally:
        event.remove(Engine, "after_cursor_execute", after)
