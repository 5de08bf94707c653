"""Replicas of a guard as people run them: `costguard serve` in processes of their own, on one database."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx2
from sqlalchemy import func, select
from tests.forked_guard import ForkedGuard, start
from tests.scenario.fleet import body, price_list
from tests.waiting import until

from costguard.clock import SystemClock
from costguard.db import health_rows
from costguard.db.tables import instances, projects
from costguard.db.transaction import Database
from costguard_sandbox.clock import ManualClock
from costguard_sandbox.world import World

COSTGUARD = Path(sys.executable).with_name("costguard")
PROJECT = "acme-training"
ZONE = "us-central1-a"
_SETTINGS = """
[watch]
projects = ["{project}"]
every = "10s"
[database]
url = "{database}"
[server]
listen = "127.0.0.1:0"
[compute]
endpoint = "{cloud}"
[prices]
endpoint = "{cloud}"
[idle]
enabled = false
"""


_TOKEN = "a-token-for-the-tests"
_SHOWN = {"Authorization": f"Bearer {_TOKEN}"}  # strangers see the verdict alone


@dataclass(frozen=True, slots=True)
class Readiness:
    """An answer of /readyz, and how long it took."""

    status: int
    body: dict[str, Any]
    seconds: float

    @property
    def is_acting(self) -> bool:
        return bool(self.body["is_acting"])


@dataclass(slots=True)
class Replica:
    process: ForkedGuard | subprocess.Popen[str]
    url: str
    log: Path
    client: httpx2.Client = field(default_factory=lambda: httpx2.Client(timeout=60, headers=_SHOWN))

    def ready(self) -> Readiness:
        began = time.monotonic()
        answer = self.client.get(f"{self.url}/readyz")
        return Readiness(answer.status_code, answer.json(), time.monotonic() - began)

    @property
    def acts(self) -> bool:
        """Says whether it acts by its own report; False where it does not answer."""
        try:
            return self.ready().is_acting
        except httpx2.HTTPError:
            return False

    @property
    def is_running(self) -> bool:
        return self.process.poll() is None

    def end(self) -> None:
        self.client.close()
        self.process.kill()
        self.process.wait()
        if isinstance(self.process, subprocess.Popen) and self.process.stdout is not None:
            self.process.stdout.close()


@contextmanager
def replica(folder: Path, name: str, cloud: str, database: str) -> Iterator[Replica]:
    """Starts a replica that listens; it is killed at the end of the block, if it still runs."""
    settings, log, out = (folder / f"{name}.{kind}" for kind in ("toml", "log", "out"))
    settings.write_text(_SETTINGS.format(project=PROJECT, database=database, cloud=cloud), "utf-8")
    environ = {**os.environ, "COSTGUARD_TOKEN": _TOKEN}
    process = start(["serve", "--json", "--config", str(settings)], environ, out, log)
    until(lambda: process.poll() is not None or (out.exists() and out.read_text("utf-8").endswith("\n")))
    guard = _listening(process, name, out.read_text("utf-8"), log)
    try:
        yield guard
    finally:
        guard.end()


def started(folder: Path, name: str, settings: str, **environ: str) -> Replica:
    """Starts a replica by these settings, and returns once it listens. Its log goes on where an earlier one ended.

    Unlike that of `replica`, it is the command, in an interpreter of its own.
    """
    path, log = folder / f"{name}.toml", folder / f"{name}.log"
    path.write_text(settings, "utf-8")
    with log.open("a") as lines:
        process = subprocess.Popen(
            [COSTGUARD, "serve", "--json", "--config", path],
            stdout=subprocess.PIPE,
            stderr=lines,
            text=True,
            env={**os.environ, "COSTGUARD_TOKEN": _TOKEN, **environ},
        )
    assert process.stdout
    first = process.stdout.readline()
    if not first:
        process.stdout.close()
    return _listening(process, name, first, log)


def _listening(process: ForkedGuard | subprocess.Popen[str], name: str, first: str, log: Path) -> Replica:
    if not first:
        raise AssertionError(f"{name} ended with {process.wait()}: {log.read_text()}")
    return Replica(process, json.loads(first)["url"], log)


def small_world(vms: int = 3) -> World:
    """A project with a few VMs that have run for an hour, by a clock that is moved to now."""
    now = SystemClock().now()
    clock = ManualClock(now - timedelta(hours=1))
    world = World(clock, projects=[PROJECT])
    world.prices = price_list()
    for number in range(vms):
        add_vm(world, f"vm-{number}")
    clock.move_to(now - timedelta(minutes=1))
    return world


def add_vm(world: World, name: str) -> None:
    world.insert(PROJECT, ZONE, body(name, ZONE, "n2-standard-4", labels={"owner": "ana"}))


def holder(database: Database) -> str | None:
    """Returns the lease's holder by the database itself; None where it expired."""
    with database.read() as connection:
        return next((row.lease.holder for row in health_rows.holders(connection) if row.is_held), None)


def vms_known(database: Database) -> int:
    with database.read() as connection:
        return int(connection.execute(select(func.count()).select_from(instances)).scalar_one())


def last_look(database: Database) -> object:
    """Returns when a pass last read the project whole; None before the first."""
    with database.read() as connection:
        return connection.scalar(select(func.max(projects.c.last_complete_at)))
