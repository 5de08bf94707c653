"""The adapter against the simulated cloud, with the faults that it can be given."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.gce.conftest import Waits

from costguard.gce.client import ComputeCloud
from costguard.model.instance import InstanceKey, ProvisioningModel, Status
from costguard.model.observation import Observation, Presence
from costguard_sandbox.clock import ManualClock
from costguard_sandbox.server import running
from costguard_sandbox.world import World

START = datetime(2026, 11, 2, 8, tzinfo=UTC)
ZONE = "us-central1-a"


@dataclass
class Sandbox:
    world: World
    cloud: ComputeCloud
    waits: Waits

    def insert(self, name: str, zone: str = ZONE, **more: Any) -> None:
        body = {
            "name": name,
            "machineType": f"zones/{zone}/machineTypes/n1-standard-4",
            "disks": [
                {"boot": True, "autoDelete": True, "initializeParams": {"diskSizeGb": "50", "sourceImage": "debian-12"}}
            ],
            "networkInterfaces": [{"network": "global/networks/default"}],
            **more,
        }
        self.world.insert("demo", zone, body)

    def look(self, since: datetime | None = None) -> Observation:
        return self.cloud.observe("demo", since)


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    clock = ManualClock(START)
    world, waits = World(clock), Waits()
    with running(world) as url:
        cloud = ComputeCloud(url, clock, wait=waits)
        yield Sandbox(world, cloud, waits)
        cloud.close()


def test_a_vm_from_start_to_stop(sandbox: Sandbox) -> None:
    """Billing begins where the insert operation ends and stops where the stop operation starts."""
    sandbox.insert("t4", scheduling={"provisioningModel": "SPOT", "onHostMaintenance": "TERMINATE"})
    sandbox.world.advance(timedelta(minutes=5))
    sandbox.world.stop("demo", "t4")
    sandbox.world.advance(timedelta(minutes=5))
    look = sandbox.look()
    assert look.unread == ()
    (vm,) = look.instances
    assert vm.status is Status.STOPPED
    assert vm.provisioning_model is ProvisioningModel.SPOT
    assert (vm.shape.vcpus, vm.shape.memory_mib) == (4, 15360)
    assert vm.disks[0].disk_type is not None
    assert vm.disks[0].created_at is not None
    by_kind = {op.kind: op for op in look.operations}
    assert by_kind.keys() == {"insert", "stop"}
    assert vm.last_started_at == by_kind["insert"].ended_at
    assert {op.target_id for op in look.operations} == {vm.key.gce_id}


def test_a_deleted_vm(sandbox: Sandbox) -> None:
    """A VM that was deleted is in no listing, its operation is, and asked for it is gone."""
    sandbox.insert("t4")
    sandbox.world.advance(timedelta(minutes=5))
    (vm,) = sandbox.look().instances
    address = (vm.key, vm.zone, vm.name)
    assert sandbox.cloud.presence(*address) is Presence.THERE
    assert sandbox.cloud.presence(InstanceKey("demo", "1"), vm.zone, vm.name) is Presence.GONE
    sandbox.world.delete("demo", "t4")
    sandbox.world.advance(timedelta(minutes=10))
    look = sandbox.look(START)
    assert look.instances == ()
    assert "delete" in {op.kind for op in look.operations}
    assert sandbox.cloud.presence(*address) is Presence.GONE


def test_an_unreachable_zone(sandbox: Sandbox) -> None:
    """A zone that does not answer is unread for VMs, disks and operations, and the rest is read."""
    sandbox.insert("here")
    sandbox.insert("there", "us-east1-c")
    sandbox.world.advance(timedelta(minutes=5))
    sandbox.world.faults.add("unreachable_zone", zone="us-east1-c")
    look = sandbox.look()
    assert [vm.name for vm in look.instances] == ["here"]
    assert look.unread_zones == {"us-east1-c"}
    assert {part.scope for part in look.unread} == {"us-east1-c", "disks", "operations"}
    assert look.operations_through_at is None


@pytest.mark.parametrize(
    ("kind", "values", "code"),
    [
        ("forbidden", {"project": "demo"}, "permission"),
        ("project_gone", {"project": "demo"}, "not_found"),
        ("unauthenticated", {}, "credentials"),
    ],
)
def test_a_project_that_is_lost(sandbox: Sandbox, kind: str, values: dict[str, Any], code: str) -> None:
    """An error of the whole project is reported once."""
    sandbox.insert("t4")
    sandbox.world.faults.add(kind, **values)
    look = sandbox.look()
    assert [(part.scope, part.code) for part in look.unread] == [("project", code)]
    assert not look.instances_complete


def test_the_rate_limit(sandbox: Sandbox) -> None:
    """A used-up quota is waited for a few times, and then told."""
    sandbox.world.faults.add("rate_limit", limit=0)
    look = sandbox.look()
    assert {part.code for part in look.unread} == {"rate_limit"}
    assert sandbox.waits.seconds


def test_garbage_for_once(sandbox: Sandbox) -> None:
    """A garbled answer makes the look incomplete, and the next look is whole again."""
    sandbox.insert("t4")
    sandbox.world.advance(timedelta(minutes=5))
    sandbox.world.faults.add("garbage", path="aggregated/instances", count=1)
    assert not sandbox.look().instances_complete
    look = sandbox.look()
    assert (look.instances_complete, look.unread, len(look.instances)) == (True, (), 1)
