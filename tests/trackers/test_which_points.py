"""Points are logged by one process, until a moment."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import delete
from tests.trackers.mlflow_server import MlflowFront
from tests.trackers.test_points import MINUTE, TrackedWorld, tracked_world

from costguard.db import tables
from costguard.db.lease import Hold, acquire
from costguard.trackers.delivery import GIVE_UP


@pytest.fixture
def tracked(sqlite_url: str, server: MlflowFront) -> Iterator[TrackedWorld]:
    with tracked_world(sqlite_url, server) as here:
        yield here


def test_a_cost_that_is_not_whole_is_not_logged(tracked: TrackedWorld) -> None:
    """The price of its GPU is not known, so neither is what the job costs."""
    with tracked.world.database.write() as connection:
        connection.execute(delete(tables.prices).where(tables.prices.c.resource.like("gpu:%")))
    name = tracked.launch(1)
    tracked.world.clock.advance(MINUTE)
    tracked.look()
    tracked.world.beat(name, step=1)
    tracked.deliver()
    assert tracked.shown()["preemptions"] == 0
    assert tracked.costs() == []


def test_vm_that_no_look_has_shown_does_not_cost_nothing(tracked: TrackedWorld) -> None:
    """Neither while its job runs nor after its end: a cost is logged once the ledger has the VM."""
    name = "cg-j1-1"
    tracked.look()
    tracked.world.until_up(name)
    tracked.world.start(name)
    tracked.world.beat(name, step=1)
    tracked.deliver()
    assert tracked.costs() == []
    tracked.world.exit(name)
    for _ in range(20):
        tracked.world.step(30)
    tracked.deliver()
    assert tracked.world.cloud.there() == []
    assert tracked.costs() == []
    tracked.look()
    tracked.deliver()
    assert tracked.costs()[-1] > 0


def test_a_process_that_stood_still_logs_nothing(tracked: TrackedWorld) -> None:
    """Another process may have taken over between its last write and the request, and logs the points itself."""
    tracked.beat(tracked.launch(1), 1)
    lease = acquire(tracked.world.database, "daemon", "one", timedelta(minutes=1))
    assert lease is not None
    assert tracked.trackers is not None
    elapsed = iter([940.0, 1000.0])
    tracked.trackers.deliver(replace(lease, hold=Hold(1000.0, timedelta(minutes=1), lambda: next(elapsed))))
    assert tracked.server.paths == []
    tracked.trackers.deliver(lease)
    assert len(tracked.costs()) == 2


def test_the_last_point_waits_for_the_final_cost(tracked: TrackedWorld) -> None:
    """The VM is gone at Google, and the ledger has not seen it yet."""
    name = tracked.launch(1)
    tracked.beat(name, 10)
    tracked.world.exit(name)
    for _ in range(20):
        tracked.world.step(30)
    tracked.deliver()
    assert tracked.world.cloud.there() == []
    assert tracked.stored().ended_at is None
    tracked.look()
    tracked.deliver()
    assert tracked.stored().ended_at is not None


def test_points_younger_than_thirty_days_are_kept(tracked: TrackedWorld) -> None:
    """The older points alone are given up among those that wait for the same tracker."""
    name = tracked.launch(1)
    tracked.server.trouble = 503
    tracked.beat(name, 1)
    tracked.world.clock.advance(GIVE_UP / 2)
    tracked.world.beat(name, step=2)
    tracked.world.clock.advance(GIVE_UP / 2 + 20 * MINUTE)
    tracked.deliver()
    assert (tracked.points(), tracked.stored().waiting) == (1, 1)
