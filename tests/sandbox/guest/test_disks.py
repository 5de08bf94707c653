"""Disks of VMs that run: what is written on one is there wherever the disk is attached next."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.sandbox.guest.served_vms import ServedVMs, served_vms
from tests.sandbox.vms import MINUTE, PROJECT, ZONE

from costguard_sandbox.gce.vm import VM

ANA = "ana@example.com"
WAITS = "echo ready >$say; while :; do sleep 0.05; done"


@pytest.fixture
def hasty(tmp_path: Path) -> Iterator[ServedVMs]:
    with served_vms(tmp_path, grace_s=0.5) as made:
        yield made


def attach(made: ServedVMs, vm: VM, disk: str = "data", **more: object) -> None:
    made.world.storage.attach(vm, {"source": f"zones/{ZONE}/disks/{disk}", **more}, ANA)
    made.world.advance(MINUTE)


def stop(made: ServedVMs, vm: VM) -> None:
    made.world.stop(PROJECT, vm.name)
    made.world.advance(3 * MINUTE)
    made.wait_until_gone(vm)
    made.world.advance(MINUTE)


def test_data_disk_moves_between_running_vms(hasty: ServedVMs) -> None:
    """It lies under mnt/disks/DEVICE_NAME of the VM that has it, and of no other."""
    world = hasty.world
    world.storage.insert(PROJECT, ZONE, {"name": "data"}, ANA)
    world.advance(MINUTE)
    first, second = hasty.boot(WAITS, "first"), hasty.boot(WAITS, "second")
    assert {hasty.hear(), hasty.hear()} == {"ready"}
    attach(hasty, first, deviceName="checkpoints")
    (hasty.disk(first) / "mnt/disks/checkpoints/step-40").write_text("saved")
    world.storage.detach(first, "checkpoints", ANA)
    world.advance(MINUTE)
    assert not (hasty.disk(first) / "mnt/disks/checkpoints").exists()
    attach(hasty, second, deviceName="old")
    assert (hasty.disk(second) / "mnt/disks/old/step-40").read_text() == "saved"


def test_boot_disk_of_a_stopped_vm_is_data_of_another(hasty: ServedVMs) -> None:
    """A job's save on its own VM's disk is read where the disk is attached next, also from a startup script."""
    first = hasty.boot("echo saved >checkpoint; echo $(pwd) >$say; while :; do sleep 0.05; done", "first")
    home = hasty.hear()
    stop(hasty, first)
    hasty.world.storage.detach(first, "persistent-disk-0", ANA)
    hasty.world.advance(MINUTE)
    disks = [
        {"boot": True, "autoDelete": True, "initializeParams": {"diskSizeGb": "50"}},
        {"source": f"zones/{ZONE}/disks/first", "deviceName": "rescued", "autoDelete": True},
    ]
    second = hasty.boot(f"cat mnt/disks/rescued/checkpoint >$say; {WAITS}", "second", disks=disks)
    assert [hasty.hear(), hasty.hear()] == ["saved", "ready"]
    stop(hasty, second)
    hasty.world.delete(PROJECT, "second")
    hasty.world.advance(3 * MINUTE)
    assert not Path(home).exists()
    assert hasty.world.disks(PROJECT) == []


def test_kept_boot_disk_boots_another_vm(hasty: ServedVMs) -> None:
    """The VM is deleted, its disk is not: the next VM boots from it and goes on in the same directory."""
    kept = [{"boot": True, "autoDelete": False, "initializeParams": {"diskSizeGb": "50"}}]
    first = hasty.boot(f"echo saved >checkpoint; {WAITS}", "first", disks=kept)
    assert hasty.hear() == "ready"
    stop(hasty, first)
    hasty.world.delete(PROJECT, "first")
    hasty.world.advance(3 * MINUTE)
    again = [{"boot": True, "autoDelete": True, "source": f"zones/{ZONE}/disks/first"}]
    second = hasty.boot(f"cat checkpoint >$say; {WAITS}", "second", disks=again)
    assert [hasty.hear(), hasty.hear()] == ["saved", "ready"]
    assert hasty.disk(second) == hasty.disk(first)


def test_device_name_cannot_lead_out_of_the_vm(hasty: ServedVMs) -> None:
    """A name that is no file's name is attached, and mounted nowhere."""
    vm = hasty.boot(WAITS)
    assert hasty.hear() == "ready"
    hasty.world.storage.insert(PROJECT, ZONE, {"name": "data"}, ANA)
    hasty.world.advance(MINUTE)
    attach(hasty, vm, deviceName="../../../escaped")
    assert len(vm.disks) == 2
    assert not list(hasty.folder.rglob("escaped"))
