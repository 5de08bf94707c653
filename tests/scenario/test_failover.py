"""Two real guards on one database: the one that acts is killed or frozen, and the other acts in its place.

How long that takes, tests/benchmarks/failover.py measures.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest
from sqlalchemy import select
from tests.scenario.replicas import Replica, add_vm, replica, small_world, vms_known
from tests.waiting import freeze

from costguard.db.tables import leases
from costguard.db.transaction import Database
from costguard_sandbox.server import running
from costguard_sandbox.world import World

PATIENCE_S = 120


@dataclass(frozen=True, slots=True)
class Pair:
    world: World
    acting: Replica
    waiting: Replica
    database: Database

    def replaced_by(self, other: Replica) -> None:
        """Waits until the other acts, and a pass of its own saw a VM that was made meanwhile."""
        before = vms_known(self.database)
        add_vm(self.world, f"made-meanwhile-{before}")
        _until(lambda: other.acts and vms_known(self.database) == before + 1)

    def lease(self) -> tuple[object, ...]:
        with self.database.read() as connection:
            return tuple(connection.execute(select(leases.c.holder, leases.c.epoch)).one())


@pytest.fixture
def pair(database_url: str, tmp_path: Path) -> Iterator[Pair]:
    world = small_world()
    with (
        running(world) as cloud,
        closing(Database.open(database_url)) as database,
        replica(tmp_path, "acting", cloud, database_url) as acting,
    ):
        _until(lambda: acting.acts and vms_known(database) == 3)
        with replica(tmp_path, "waiting", cloud, database_url) as waiting:
            _until(lambda: waiting.ready().status == 200)
            yield Pair(world, acting, waiting, database)


def _until(holds: Callable[[], bool]) -> None:
    pause, ends = threading.Event(), time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < ends, f"it did not come about in {PATIENCE_S} s"
        pause.wait(0.2)


@pytest.mark.parametrize("dialect", ["postgresql", pytest.param("sqlite", marks=pytest.mark.long)])
def test_guard_that_freezes_or_is_killed_is_replaced(pair: Pair) -> None:
    """SIGSTOP: the other acts; its web process says so truthfully; thawed, it writes nothing and waits for its turn.

    Then SIGKILL ends the other: nothing is handed over, and the first acts again once the lease has expired.
    """
    freeze(pair.acting.process.pid)
    pair.replaced_by(pair.waiting)
    assert not pair.acting.acts
    before = pair.lease()
    os.kill(pair.acting.process.pid, signal.SIGCONT)
    _until(lambda: "lease_lost" in pair.acting.log.read_text())
    _until(lambda: pair.acting.ready().status == 200)
    assert (pair.acting.acts, pair.waiting.acts) == (False, True)
    assert pair.lease() == before
    assert vms_known(pair.database) == 4
    assert pair.acting.is_running, "its watchdog gave it no second chance"
    pair.waiting.process.kill()
    pair.replaced_by(pair.acting)
