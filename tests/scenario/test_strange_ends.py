"""Preemptions inside a start, and VMs that their group makes again: from the simulated cloud to the ledger."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest
from tests.fakes import HandClock
from tests.sandbox.vms import SPOT, body

from costguard.access.rules import Rules
from costguard.daemon.reconcile import Reconciler
from costguard.db.transaction import Database
from costguard.gce.client import ComputeCloud
from costguard.ledger import lifetimes
from costguard.ledger.observe import Belonging
from costguard.ledger.owner import OwnerRules
from costguard.model.lifetime import EndReason, Lifetime
from costguard_sandbox.clock import ManualClock
from costguard_sandbox.server import running
from costguard_sandbox.world import World

START = datetime(2026, 11, 20, 20, tzinfo=UTC)
PROJECT = "acme-training"
SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)


class Watch:
    """A guard over one VM of the simulated cloud, which looks every so often while time goes on."""

    def __init__(self, database: Database, world: World, guard: Reconciler, clock: HandClock, every: timedelta) -> None:
        self.world = world
        self._database, self._guard, self._clock, self._every = database, guard, clock, every

    def go_on(self, span: timedelta) -> None:
        end = self.world.now + span
        while self.world.now < end:
            self.world.advance(min(self._every, end - self.world.now))
            self._clock.moment = self.world.now
            self._guard.run()

    def lifetimes(self) -> tuple[Lifetime, ...]:
        with self._database.read() as connection:
            (vm,) = lifetimes.load(connection, PROJECT, list(lifetimes.standings(connection, PROJECT))).values()
        return tuple(sorted(vm.lifetimes, key=lambda life: life.started_at))


@pytest.fixture(params=[5 * SECOND, MINUTE, HOUR], ids=["every 5 s", "every minute", "now and then"])
def watch(request: pytest.FixtureRequest, sqlite_database: Database) -> Iterator[Watch]:
    world, clock = World(ManualClock(START), projects=[PROJECT]), HandClock(START)
    with running(world) as url, closing(ComputeCloud(url, clock, wait=lambda _: False)) as cloud:
        guard = Reconciler(sqlite_database, cloud, clock, lambda: (PROJECT,), Rules({}), Belonging((), OwnerRules()))
        guard.run()
        yield Watch(sqlite_database, world, guard, clock, request.param)


def test_preemption_inside_a_start_ends_it_and_the_stop_after_it_nothing(watch: Watch) -> None:
    """The lifetimes are two, however often the guard looks, the second preempted before it had run."""
    world = watch.world
    world.insert(PROJECT, "us-central1-a", body("vm", **SPOT))
    watch.go_on(6 * MINUTE)
    world.stop(PROJECT, "vm")
    watch.go_on(5 * MINUTE)
    world.trigger_after_notice("preempt-in-start", PROJECT, "vm")
    world.start(PROJECT, "vm")
    watch.go_on(2 * MINUTE)
    world.stop(PROJECT, "vm")  # the scheduler's, next morning
    watch.go_on(8 * MINUTE)
    (event,) = (one for one in world.operations.of(PROJECT) if one.kind == "compute.instances.preempted")
    first, second = watch.lifetimes()
    assert (first.end_reason, first.end_is_estimate) == (EndReason.STOPPED, False)
    assert (second.end_reason, second.end_is_estimate) == (EndReason.PREEMPTED, False)
    assert second.ended_at is not None
    assert second.ran(START) == timedelta()
    assert abs(second.ended_at - event.insert_time) < 30 * SECOND


def test_recreated_vm_ends_one_lifetime_and_begins_another(watch: Watch) -> None:
    """The end is the stop stamp, 54 s after the repair, and the start 66 s after it, however often the guard looks."""
    world = watch.world
    world.insert(PROJECT, "us-central1-a", body("vm"))
    watch.go_on(8 * MINUTE)
    event = world.trigger("recreate", PROJECT, "vm")
    watch.go_on(8 * MINUTE)
    first, second = watch.lifetimes()
    assert (first.ended_at, first.end_reason, first.end_is_estimate) == (
        event.insert_time + 54 * SECOND,
        EndReason.RECREATED,
        False,
    )
    assert second.started_at == event.insert_time + 66 * SECOND
    assert second.ended_at is None
