"""Flex-start requests that wait, in the ledger: the disk bills and the VM does not, however Google tells it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

import pytest
from tests.sandbox.gce.test_flex_start import flex
from tests.sandbox.vms import HOUR, MINUTE, PROJECT, START, ZONE, new_world

from costguard.gce.convert import Shapes, instance_from
from costguard.gce.disks import disk_details
from costguard.gce.machine_types import MachineShape
from costguard.gce.operations import operation_from
from costguard.ledger.observe import Belonging, KnownFacts, account
from costguard.ledger.owner import OwnerRules
from costguard.model.instance import InstanceKey, ProvisioningModel, SeenInstance, Status
from costguard.model.lifetime import Lifetime, StorageSpan
from costguard.model.observation import SeenOperation
from costguard.model.record import KnownInstance
from costguard_sandbox.gce.render import disk_resource, instance_resource
from costguard_sandbox.gce.vm import VM
from costguard_sandbox.world import World

_A2 = MachineShape(12, 87040, "nvidia-tesla-a100", 1)


@dataclass
class Ledger:
    """A ledger of one VM, which looks at the simulated cloud once a minute and remembers what it recorded."""

    world: World
    vm: VM
    stored: KnownInstance | None = None
    lifetimes: dict[datetime, Lifetime] = field(default_factory=dict)
    storage: dict[tuple[str, datetime], StorageSpan] = field(default_factory=dict)
    statuses: set[Status] = field(default_factory=set)

    def watch(self, until: datetime) -> None:
        while self.world.now < until:
            self.world.advance(MINUTE)
            self.look()

    def look(self) -> None:
        now, key = self.world.now, InstanceKey(PROJECT, str(self.vm.id))
        listed = self._listed()
        if listed is not None:
            self.statuses.add(listed.status)
        facts = KnownFacts(self.stored, listed, self._operations(), now, START - HOUR, absent=listed is None)
        entry = account(key, facts, Belonging((), OwnerRules()))
        if entry is not None:
            self.lifetimes |= {life.started_at: life for life in entry.lifetimes}
            self.storage |= {(span.name, span.started_at): span for span in entry.storage}
            held = tuple(self.lifetimes.values()), tuple(self.storage.values())
            self.stored = KnownInstance(1, entry.record, *held)

    def _listed(self) -> SeenInstance | None:
        if self.vm not in self.world.instances(PROJECT):
            return None
        disks = {
            f"zones/{disk.zone}/disks/{disk.name}": disk_details(disk_resource(self.world.links, disk))
            for disk in self.world.disks(PROJECT)
        }
        shown = instance_resource(self.world.links, self.vm)
        return instance_from(PROJECT, ZONE, shown, disks, Shapes(lambda _zone, _name: _A2))[0]

    def _operations(self) -> list[SeenOperation]:
        with self.world.settled():
            shown = [one.resource() for one in self.world.operations.of(PROJECT)]
        read = [operation_from(PROJECT, one) for one in shown]
        return sorted((one for one in read if one is not None), key=lambda one: one.inserted_at)


def _asked(*, ends_inserts: bool, never: bool = False, seconds: float = 3000) -> Ledger:
    """A request that waits, in a cloud that ends its operation at the grant, or at once."""
    world = new_world()
    world.flex_start.ends_inserts = ends_inserts
    world.faults.add("flex_start", never=never, seconds=0.0 if never else seconds)
    world.insert(PROJECT, ZONE, flex())
    world.advance(timedelta(seconds=5))
    return Ledger(world, world.instance(PROJECT, "vm"))


@pytest.mark.parametrize("ends_inserts", [False, True])
def test_waiting_bills_the_disk_alone(ends_inserts: bool) -> None:
    """Google, "Compute Engine instance lifecycle", "Pricing": CPU from RUNNING on, disks as long as they exist."""
    ledger = _asked(ends_inserts=ends_inserts)
    ledger.watch(START + 45 * MINUTE)
    assert ledger.statuses == {Status.PENDING}
    assert ledger.lifetimes == {}
    (disk,) = ledger.storage.values()
    assert (disk.started_at, disk.ended_at) == (START, None)


@pytest.mark.parametrize("ends_inserts", [False, True])
def test_billing_begins_with_the_grant(ends_inserts: bool) -> None:
    """The one lifetime is the run of the simulated VM, to the second."""
    ledger = _asked(ends_inserts=ends_inserts)
    ledger.watch(START + 2 * HOUR)
    (life,) = ledger.lifetimes.values()
    (run,) = ledger.vm.runs
    assert abs(life.started_at - run.began) < timedelta(seconds=1)
    assert life.ended_at is None
    assert life.provisioning_model is ProvisioningModel.FLEX_START


@pytest.mark.parametrize("ends_inserts", [False, True])
def test_request_that_is_never_granted_costs_its_disk(ends_inserts: bool) -> None:
    """The VM is gone at the end of its wait, was never billed, and its disk ended with it."""
    ledger = _asked(ends_inserts=ends_inserts, never=True)
    ledger.watch(START + 3 * HOUR)
    assert ledger.lifetimes == {}
    assert ledger.stored is not None
    assert ledger.stored.record.gone_at is not None
    (disk,) = ledger.storage.values()
    assert disk.ended_at is not None
    assert START + 2 * HOUR <= disk.ended_at <= START + 2 * HOUR + MINUTE


@pytest.mark.parametrize("ends_inserts", [False, True])
def test_request_that_is_deleted_while_it_waits(ends_inserts: bool) -> None:
    """The delete ends the disk, and there was no run."""
    ledger = _asked(ends_inserts=ends_inserts)
    ledger.watch(START + 10 * MINUTE)
    ledger.world.delete(PROJECT, "vm")
    ledger.watch(START + 2 * HOUR)
    assert ledger.lifetimes == {}
    (disk,) = ledger.storage.values()
    assert disk.ended_at is not None
    assert disk.ended_at < START + 12 * MINUTE
