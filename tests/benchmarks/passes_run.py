"""Runs a first pass over a served fleet in one process, then passes over the unchanged fleet, and measures them."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, TypedDict

from sqlalchemy import Engine, event
from tests.benchmarks.look import NOW
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
from costguard.settings import validate
from costguard.spend.budgets import BudgetWatch

_LATER = 3


class Passes(TypedDict):
    """Seconds of each pass by the clock on the wall and of CPU, the first pass first; memory in MB."""

    wall: list[float]
    cpu: list[float]
    longest_write: list[float]  # the longest transaction that wrote, of each pass
    peak_mb: float


def passes(url: str, count: int, database_url: str) -> Passes:
    """Runs passes in a fresh process, so that its peak of memory is that of the passes."""
    command = [sys.executable, "-m", "tests.benchmarks.passes_run", url, str(count), database_url]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    figures: Passes = json.loads(done.stdout)
    return figures


def _main(url: str, count: int, database_url: str) -> None:
    gc.set_threshold(10_000, 10, 10)  # as every command does
    with closing(Database.open(database_url)) as database:
        print(json.dumps(_measured(url, count, database)))


def _measured(url: str, count: int, database: Database) -> Passes:
    clock = HandClock(NOW)
    with closing(ComputeCloud(url, clock)) as cloud:
        settings = validate({"watch": {"projects": [PROJECT]}, "owners": {"domain": "example.com"}}, {}, Path("none"))
        presets = settings.preset_list()
        rules = Rules({preset.name: preset for preset in presets})
        belonging = Belonging(presets, settings.owners.rules)
        reconciler = Reconciler(database, cloud, clock, lambda: [PROJECT], rules, belonging)
        budgets = BudgetWatch(database, clock, [])
        price_refresh.seed_snapshot(database, snapshot_prices(), NOW)
        fence = leases.acquire(database, "daemon", "benchmark", timedelta(hours=1))
        assert fence is not None
        figures = Passes(wall=[], cpu=[], longest_write=[], peak_mb=0)
        for number in range(1 + _LATER):
            wall, cpu = time.perf_counter(), time.process_time()
            with _writes() as writes:
                report = reconciler.run(fence)
                budgets.look(fence)
            figures["wall"].append(time.perf_counter() - wall)
            figures["cpu"].append(time.process_time() - cpu)
            figures["longest_write"].append(max(writes, default=0.0))
            recorded = report.recorded[0]
            assert not recorded.error, recorded.error
            assert (recorded.seen, recorded.new_or_changed) == (count, 0 if number else count)
            assert len(report.plan.decisions) == count
            clock.advance(timedelta(minutes=1))
    figures["peak_mb"] = _peak_mb()
    return figures


@contextmanager
def _writes() -> Iterator[list[float]]:
    """Seconds of every transaction of the block that took its turn to write, from that turn to its end."""
    seconds: list[float] = []
    began: dict[Any, float] = {}

    def after(connection: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        if statement == "BEGIN IMMEDIATE" or "pg_advisory_xact_lock" in statement:
            began[connection.connection.dbapi_connection] = time.perf_counter()

    def ended(dbapi_connection: Any, *_rest: Any) -> None:
        if (since := began.pop(dbapi_connection, None)) is not None:
            seconds.append(time.perf_counter() - since)

    event.listen(Engine, "after_cursor_execute", after)
    event.listen(Engine, "checkin", ended)
    try:
        yield seconds
    finally:
        event.remove(Engine, "after_cursor_execute", after)
        event.remove(Engine, "checkin", ended)


def _peak_mb() -> float:
    status = Path("/proc/self/status").read_text(encoding="ascii")
    line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


if __name__ == "__main__":
    _main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
