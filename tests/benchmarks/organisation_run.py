"""Runs passes over a served organisation in one process, and measures them and a raw fetch of the same bytes."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, TypedDict

from sqlalchemy import Engine, event
from tests.benchmarks.look import NOW
from tests.benchmarks.memory import peak_mb
from tests.benchmarks.organisation_served import project_of
from tests.fakes import HandClock

from costguard.access.rules import Rules
from costguard.daemon.looker import LookPace
from costguard.daemon.reconcile import PassReport, Reconciler
from costguard.db import lease as leases
from costguard.db.transaction import Database
from costguard.gce.client import ComputeCloud
from costguard.gce.prices import snapshot_prices
from costguard.ledger import price_refresh
from costguard.ledger.observe import Belonging
from costguard.settings import validate
from costguard.spend.budgets import BudgetWatch

_LATER = 4
_LIMIT = timedelta(days=18)  # of the VMs, which are 0 to 19 days old, one in twenty is over it
_PARALLEL = 8


class Run(TypedDict):
    """Seconds of each pass by the clock on the wall and of CPU, the first pass first; memory in MB."""

    wall: list[float]
    cpu: list[float]
    fetch: list[float]  # seconds of a raw fetch of the lists that a later pass asks for
    statements: list[int]  # of each pass
    vms: int  # seen by the first pass
    late: list[int]  # projects that each pass did not wait for
    peak_mb: float


def runs(url: str, projects: int, vms: int, answering_from: int, database_url: str) -> Run:
    """Runs passes in a fresh process, so that its peak of memory is that of the passes."""
    command = [sys.executable, "-m", "tests.benchmarks.organisation_run", url]
    command += [*map(str, (projects, vms, answering_from)), database_url]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    figures: Run = json.loads(done.stdout.splitlines()[-1])  # late projects are logged before it
    return figures


def _main(url: str, projects: int, vms: int, answering_from: int, database_url: str) -> None:
    gc.set_threshold(10_000, 10, 10)  # as every command does
    with closing(Database.open(database_url)) as database:
        run = _measured(url, projects, vms * (projects - answering_from), database)
    run["peak_mb"] = peak_mb()
    run["fetch"] = [_fetched(url, range(answering_from, projects)) for _ in range(3)]
    print(json.dumps(run), flush=True)
    os._exit(0)  # looks that hang would keep the process for minutes


def _measured(url: str, count: int, expected: int, database: Database) -> Run:
    clock = HandClock(NOW)
    projects = [project_of(number) for number in range(count)]
    run = Run(wall=[], cpu=[], fetch=[], statements=[], vms=0, late=[], peak_mb=0)
    with closing(ComputeCloud(url, clock)) as cloud:
        settings = validate({"watch": {"projects": projects}, "owners": {"domain": "example.com"}}, {}, Path("none"))
        presets = [replace(preset, limit=_LIMIT) for preset in settings.preset_list()]
        rules = Rules({preset.name: preset for preset in presets})
        belonging = Belonging(tuple(presets), settings.owners.rules)
        reconciler = Reconciler(database, cloud, clock, lambda: projects, rules, belonging, LookPace(_PARALLEL))
        budgets = BudgetWatch(database, clock, [])
        price_refresh.seed_snapshot(database, snapshot_prices(), NOW)
        fence = leases.acquire(database, "daemon", "benchmark", timedelta(hours=1))
        assert fence is not None
        for number in range(1 + _LATER):
            wall, cpu = time.perf_counter(), time.process_time()
            with _statements() as counted:
                report = reconciler.run(fence, repeated=True)
                budgets.look(fence)
            run["wall"].append(time.perf_counter() - wall)
            run["cpu"].append(time.process_time() - cpu)
            run["statements"].append(counted[0])
            run["late"].append(count - len(report.recorded))
            run["vms"] = _checked(report, expected, is_first=number == 0)
            clock.advance(timedelta(minutes=1))
    return run


def _checked(report: PassReport, expected: int, *, is_first: bool) -> int:
    assert not any(one.error for one in report.recorded), [one.error for one in report.recorded if one.error]
    seen = sum(one.seen for one in report.recorded)
    assert (seen, sum(one.new_or_changed for one in report.recorded)) == (expected, expected if is_first else 0)
    return seen


def _fetched(url: str, numbers: range) -> float:
    """Seconds to fetch, without a look at them, the two lists of each project that a later pass asks for."""
    import httpx2

    fields = {"instances": "items/*/instances(id,metadata/fingerprint)", "operations": "items/*/operations(id)"}

    def fetch(number: int) -> int:
        size = 0
        for collection, wanted in fields.items():
            path = f"{url}/compute/v1/projects/{project_of(number)}/aggregated/{collection}"
            size += len(client.get(path, params={"maxResults": "500", "fields": wanted}).content)
        return size

    began = time.perf_counter()
    with httpx2.Client() as client, ThreadPoolExecutor(_PARALLEL) as pool:
        assert sum(pool.map(fetch, numbers)) > 0
    return time.perf_counter() - began


@contextmanager
def _statements() -> Iterator[list[int]]:
    """Counts the statements that are sent to the database within the block, one for all rows of an executemany."""
    counted = [0]

    def after(*_event: Any) -> None:
        counted[0] += 1

    event.listen(Engine, "after_cursor_execute", after)
    try:
        yield counted
    finally:
        event.remove(Engine, "after_cursor_execute", after)


if __name__ == "__main__":
    _main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), sys.argv[5])
