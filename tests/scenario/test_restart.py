"""A restart of the guard over a fleet that has not changed writes little into the database."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
from tests.forked_guard import start
from tests.scenario.fleet import body, price_list
from tests.waiting import PATIENCE_S, until

from costguard.clock import SystemClock
from costguard_sandbox.clock import ManualClock
from costguard_sandbox.server import running
from costguard_sandbox.world import World

COSTGUARD = Path(sys.executable).with_name("costguard")
ZONE = "us-central1-a"
VMS = 12


@pytest.fixture
def settings(tmp_path: Path) -> Iterator[Path]:
    """The settings of a guard over twelve VMs that have run for an hour; what changes by itself is not measured."""
    now = SystemClock().now()
    clock = ManualClock(now - timedelta(hours=1))
    world = World(clock, projects=["acme-training"])
    world.prices = price_list()
    for number in range(VMS):
        machine = ("a2-highgpu-1g", "g2-standard-8", "n2-standard-4")[number % 3]
        world.insert("acme-training", ZONE, body(f"vm-{number}", ZONE, machine, labels={"owner": "ana"}))
    clock.move_to(now - timedelta(minutes=10))
    with running(world) as url:
        path = tmp_path / "costguard.toml"
        path.write_text(
            f"""
[watch]
projects = ["acme-training"]
every = "10s"
[database]
url = "sqlite:///{tmp_path}/costguard.db"
[server]
listen = "127.0.0.1:0"
[compute]
endpoint = "{url}"
[prices]
endpoint = "{url}"
[idle]
enabled = false
[presets.large]
limit = "8h"
[presets.large.match]
gpu_types = ["nvidia-tesla-a100", "nvidia-a100-80gb", "nvidia-h100-80gb", "nvidia-l4", "nvidia-tesla-t4"]
"""
        )
        yield path


def _pass(settings: Path) -> None:
    """Runs one pass by a Python of its own, which orders its sets by another seed than a server's."""
    done = subprocess.run(
        [COSTGUARD, "pass", "--config", settings],
        env={**os.environ, "PYTHONHASHSEED": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def _serve_for_a_pass(settings: Path) -> None:
    """A server by the seed of the process that it is a fork of, ended as soon as it has recorded a look."""
    log = settings.with_name("serve.log")
    process = start(["serve", "--config", str(settings)], os.environ, log, log)
    try:
        until(lambda: process.poll() is not None or "UPDATE projects" in _written(settings.with_name("costguard.db")))
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=PATIENCE_S) == 0, log.read_text()
    finally:
        process.kill()


_WHATEVER_THE_FLEET_DOES = {"installation", "leases", "project_leases", "replicas", "hourly_counts"}


def _count_writes(database: Path) -> None:
    """Have SQLite itself count, by triggers of this test, each row that is inserted, updated or deleted."""
    with closing(sqlite3.connect(database)) as connection, connection:
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        connection.execute("CREATE TABLE written (name TEXT)")
        for table in tables:
            for event in ("INSERT", "UPDATE", "DELETE"):
                connection.execute(
                    f"CREATE TRIGGER test_{event}_{table} AFTER {event} ON {table} "
                    f"BEGIN INSERT INTO written VALUES ('{event} {table}'); END"
                )


def _written(database: Path) -> list[str]:
    with closing(sqlite3.connect(database)) as connection:
        return [name for (name,) in connection.execute("SELECT name FROM written")]


def _forget_writes(database: Path) -> None:
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("DELETE FROM written")


def test_restart_over_an_unchanged_fleet_writes_at_most_five_rows(settings: Path, sqlite_url: str) -> None:
    """The number does not depend on the process's hash seed, nor "unchanged" on the order in which a set is written
    out.

    The mark is not counted, which the guard counts on every three seconds whatever the fleet does. Neither are leases,
    which it renews as often, nor its hourly counts of requests.
    """
    database = Path(sqlite_url.removeprefix("sqlite:///"))
    assert database == settings.with_name("costguard.db")
    _count_writes(database)
    _serve_for_a_pass(settings)  # a server's first start reads the price catalogue and makes its signing key
    _forget_writes(database)
    for restart in (_pass, _serve_for_a_pass):
        restart(settings)
        written = [name for name in _written(database) if name.partition(" ")[2] not in _WHATEVER_THE_FLEET_DOES]
        assert "UPDATE projects" in written, "the restarted guard did not record its look"
        assert len(written) <= 5, f"{restart.__name__} wrote {written}"
        _forget_writes(database)
