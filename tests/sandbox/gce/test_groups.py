"""VMs of managed instance groups in the simulated cloud: what others stop or delete comes back on a fresh boot disk."""

from __future__ import annotations

from typing import Any

import pytest
from tests.sandbox.gce.conformance.discovery import problems
from tests.sandbox.vms import HOUR, MINUTE, PROJECT, ZONE, new_world, up

from costguard_sandbox.gce.groups import service_agent
from costguard_sandbox.gce.operations import Operation
from costguard_sandbox.gce.vm import VM, Status
from costguard_sandbox.world import World

CREATED_BY = f"projects/1/zones/{ZONE}/instanceGroupManagers/trainers"
OF_A_GROUP: dict[str, Any] = {"metadata": {"items": [{"key": "created-by", "value": CREATED_BY}]}}


def boot_disk(vm: VM) -> int:
    assert vm.boot_disk is not None
    return vm.boot_disk.id


def repairs(world: World) -> list[Operation]:
    return [one for one in world.operations.of(PROJECT) if one.kind.endswith("repair.recreateInstance")]


@pytest.mark.parametrize("verb", ["stop", "suspend"])
def test_a_stop_from_outside_ends_in_a_vm_that_runs_on_a_fresh_boot_disk(verb: str) -> None:
    """The data on its disk is lost, and it bills on."""
    world = new_world()
    vm = up(world, machineType=f"zones/{ZONE}/machineTypes/n2-standard-4", guestAccelerators=[], **OF_A_GROUP)
    before = boot_disk(vm)
    world.request(verb, PROJECT, ZONE, "vm")
    world.advance(10 * MINUTE)
    assert vm.status is Status.RUNNING
    assert boot_disk(vm) != before
    assert [disk.id for disk in world.disks(PROJECT)] == [boot_disk(vm)]
    assert len(vm.runs) == 2
    (repair,) = repairs(world)
    shown = repair.resource()
    assert shown["name"].startswith("repair-")
    assert "expected instance status RUNNING but " in shown["statusMessage"]
    assert problems(shown, "Operation") == []


def test_a_deleted_vm_is_made_again_under_its_name() -> None:
    """The new VM has another id, and comes by no repair."""
    world = new_world()
    vm = up(world, **OF_A_GROUP)
    world.delete(PROJECT, "vm")
    world.advance(10 * MINUTE)
    again = world.instance(PROJECT, "vm")
    assert again.id != vm.id
    assert again.status is Status.RUNNING
    assert repairs(world) == []


@pytest.mark.parametrize(("verb", "status"), [("stop", Status.TERMINATED), ("delete", Status.DELETED)])
def test_what_its_group_stops_or_deletes_stays_so(verb: str, status: Status) -> None:
    """The VM stays so as when the group is resized."""
    world = new_world()
    vm = up(world, **OF_A_GROUP)
    before = boot_disk(vm)
    world.request(verb, PROJECT, ZONE, "vm", service_agent(PROJECT))
    world.advance(HOUR)
    assert vm.status is status
    assert repairs(world) == []
    assert boot_disk(vm) == before


def test_a_vm_of_no_group_stays_stopped() -> None:
    """Nothing repairs it."""
    world = new_world()
    vm = up(world)
    world.stop(PROJECT, "vm")
    world.advance(HOUR)
    assert vm.status is Status.TERMINATED


def test_a_disk_that_the_group_keeps_is_not_made_again() -> None:
    """Stateful groups keep disks; here one that is not deleted with its VM."""
    world = new_world()
    disks = [{"boot": True, "autoDelete": False, "initializeParams": {"diskSizeGb": "100"}}]
    vm = up(world, disks=disks, **OF_A_GROUP)
    before = boot_disk(vm)
    world.stop(PROJECT, "vm")
    world.advance(10 * MINUTE)
    assert vm.status is Status.RUNNING
    assert boot_disk(vm) == before


def test_each_stop_is_repaired_once() -> None:
    """A stop has one repair, however long it takes."""
    world = new_world()
    vm = up(world, **OF_A_GROUP)
    for count in range(1, 4):
        world.stop(PROJECT, "vm")
        world.advance(HOUR)
        assert vm.status is Status.RUNNING
        assert len(repairs(world)) == world.groups.repairs == count
