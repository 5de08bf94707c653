"""Lives at their worst, seen through answers of which any part may be lost: exact once all could be read."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import func, select
from tests.accrued import assert_totals_hold
from tests.scenario.books import assert_consistent, estimates, total_spend
from tests.scenario.direct import DirectCloud, DirectPrices
from tests.scenario.fleet import HOUR, MINUTE, PROJECTS, TPUS, Life
from tests.within import charge_due

from costguard.access.rules import Rules
from costguard.daemon.looker import LookPace
from costguard.daemon.reconcile import Reconciler
from costguard.db.tables import charges, instances, lifetimes
from costguard.db.transaction import Database
from costguard.ledger.observe import Belonging
from costguard.ledger.owner import OwnerRules
from costguard.ledger.price_refresh import refresh
from costguard_sandbox.clock import ManualClock
from costguard_sandbox.gce.meter import bills
from costguard_sandbox.gce.vm import Status
from costguard_sandbox.world import World

START = datetime(2026, 10, 30, 17, tzinfo=UTC)  # the clocks of Google's own zone go back on 1 November
CENT = 10_000_000


class _WorldClock:
    def __init__(self, world: World) -> None:
        self._world = world

    def now(self) -> datetime:
        return self._world.now


class _HardLife(Life):
    """A life with events too early, too late, twice, or in vain."""

    def _something(self) -> None:
        acts = (self._restart_at_once, self._fall_at_once, self._suspend_and, self._strike_while_up_and_down)
        if self._chance.random() < 0.5:
            super()._something()
        else:
            self._chance.choice(acts)()

    def _soon(self, seconds: float, verb: str, project: str, zone: str, name: str) -> None:
        self._world.at(
            self._world.timeline.now + timedelta(seconds=seconds),
            lambda: self._try(verb, lambda: self._world.request(verb, project, zone, name, self._person())),
        )

    def _restart_at_once(self) -> None:
        if (vm := self._pick(Status.RUNNING)) is not None:
            for seconds, verb in ((0, "stop"), (20, "start"), (65, "start"), (90, "start"), (200, "start")):
                self._soon(seconds, verb, vm.project, vm.zone, vm.name)

    def _fall_at_once(self) -> None:
        if (vm := self._pick(Status.RUNNING)) is not None:
            self._try("fall", lambda: self._world.trigger("guest-shutdown", vm.project, vm.name))
            for seconds in range(3, 40, 3):
                self._soon(seconds, "start", vm.project, vm.zone, vm.name)

    def _suspend_and(self) -> None:
        if (vm := self._pick(Status.RUNNING)) is not None:
            self._soon(0, "suspend", vm.project, vm.zone, vm.name)
            verb = self._chance.choice(("resume", "stop", "delete", "start"))
            self._soon(self._chance.choice((10, 80, 5000)), verb, vm.project, vm.zone, vm.name)

    def _strike_while_up_and_down(self) -> None:
        self._create()
        for status in (Status.STAGING, Status.PROVISIONING, Status.REPAIRING):
            if (vm := self._pick(status)) is not None:
                event = self._chance.choice(("preempt", "host-error", "guest-shutdown"))
                self._try(event, lambda: self._world.trigger(event, vm.project, vm.name))  # noqa: B023 - run at once
                return


_TPUS_IN_EACH_WAY = {("ct6e", "FLEX_START"), ("ct6e", "SPOT"), ("ct5lp", "STANDARD")}


class _HardLifeWithTpus(_HardLife):
    """Most of its VMs have TPUs: on demand, as Spot and by flex-start."""

    machines = (*TPUS, *TPUS, *TPUS, *_HardLife.machines)


@pytest.mark.parametrize(
    ("life", "seed", "step"),
    [
        (_HardLife, 2, 9 * MINUTE),
        (_HardLife, 3, 40 * MINUTE),
        (_HardLife, 5, 5 * HOUR),
        (_HardLife, 9, 12 * HOUR),
        (_HardLifeWithTpus, 7, 12 * HOUR),
    ],
)
def test_a_hard_life_is_accounted_for_exactly(
    sqlite_database: Database, life: type[_HardLife], seed: int, step: timedelta
) -> None:
    """Spend equals the meter for open VMs too, nothing is an estimate, and nothing that runs is taken for ended.

    In that of seed 9 the first look misses the operations that tell of the runs before. The last is a month with TPUs.
    """
    world, chance = World(ManualClock(START), projects=PROJECTS, seed=seed), random.Random(seed)
    span = 60 * step
    life(world, seed, 5).plan(START, START + span, every=span / 50)
    cloud, source, clock = DirectCloud(world, chance, 0.06), DirectPrices(world), _WorldClock(world)
    source.hidden = {"gpu:nvidia-l4", "disk:pd-ssd", "tpu:ct5lp"}
    refresh(sqlite_database, source, world.now)
    for number in range(60):
        world.advance(step * chance.uniform(0.1, 1.9))
        domain = "example.com" if number < 35 else "example.org"  # whose VMs they are changes on the way
        guard = Reconciler(
            sqlite_database,
            cloud,
            clock,
            lambda: PROJECTS,
            Rules({}),
            Belonging((), OwnerRules(domain=domain)),
            LookPace(1),
        )
        guard.run()
        if number == 45:
            source.hidden = set()
            refresh(sqlite_database, source, world.now)
        if number % 15 == 0:
            with sqlite_database.read() as connection:
                assert_consistent(connection)
                assert_totals_hold(connection, world.now)
    cloud.loss = 0
    world.advance(3 * HOUR)
    guard.run()
    with sqlite_database.write() as connection:
        assert charge_due(connection, world.now).charges == 0
        assert_consistent(connection)
        assert estimates(connection) == 0
        seen = set(connection.execute(select(instances.c.gce_id).where(instances.c.vcpus > 0)).scalars())
        spent = total_spend(connection, START.date(), world.now)
        opened = connection.execute(select(func.count()).where(lifetimes.c.ended_at.is_(None))).scalar_one()
        assert connection.execute(select(func.count()).select_from(charges)).scalar_one() > 0
    seen_vms = [vm for vm in world.every_vm() if str(vm.id) in seen]
    metered = sum(bill.nanos for bill in bills(seen_vms, world.prices, world.now))
    assert abs(spent - metered) < CENT // 2
    ways = {(vm.shape.gpu_type, vm.scheduling["provisioningModel"]) for vm in seen_vms}
    assert (ways >= _TPUS_IN_EACH_WAY) == (life is _HardLifeWithTpus)
    assert opened == sum(vm.status is Status.RUNNING for vm in world.every_vm())
