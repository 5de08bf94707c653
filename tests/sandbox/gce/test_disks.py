"""Disks by themselves: made, attached, detached, attached elsewhere and deleted, with Google's refusals."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import httpx2
import pytest
from tests.sandbox.vms import MINUTE, PROJECT, ZONE, body, new_world, up

from costguard_sandbox.gce.changes import disk_auto_delete
from costguard_sandbox.gce.errors import Refused
from costguard_sandbox.gce.meter.bill import bill
from costguard_sandbox.gce.render import disk_resource, instance_resource
from costguard_sandbox.gce.vm import VM, Disk
from costguard_sandbox.server import running
from costguard_sandbox.world import World

ANA = "ana@example.com"
PLACE = f"projects/{PROJECT}/zones/{ZONE}"


@pytest.fixture
def world() -> World:
    return new_world()


def made(world: World, name: str = "data", **more: Any) -> Disk:
    """A disk of 100 GiB that is READY."""
    world.storage.insert(PROJECT, ZONE, {"name": name, "sizeGb": "100", "type": "pd-ssd", **more}, ANA)
    world.advance(MINUTE)
    return world.storage.find(PROJECT, ZONE, name)


def attached(world: World, vm: VM, name: str = "data", **more: Any) -> dict[str, Any]:
    """The operation that attached the disk, when it is over."""
    operation = world.storage.attach(vm, {"source": f"{PLACE}/disks/{name}", **more}, ANA)
    world.advance(MINUTE)
    return operation.resource()


def detached(world: World, vm: VM, device: str) -> dict[str, Any]:
    operation = world.storage.detach(vm, device, ANA)
    world.advance(MINUTE)
    return operation.resource()


def shown_disks(world: World, vm: VM) -> list[tuple[str, int, bool]]:
    rows = instance_resource(world.links, vm)["disks"]
    return [(row["deviceName"], row["index"], row["boot"]) for row in rows]


def test_disk_is_created_and_then_ready(world: World) -> None:
    """It shows CREATING until its operation, of type insert and on the disk, is done."""
    operation = world.storage.insert(PROJECT, ZONE, {"name": "data", "labels": {"team": "vision"}}, ANA)
    disk = world.storage.find(PROJECT, ZONE, "data")
    assert disk_resource(world.links, disk)["status"] == "CREATING"
    world.advance(MINUTE)
    shown = disk_resource(world.links, disk)
    assert (shown["status"], shown["labels"]) == ("READY", {"team": "vision"})
    assert "users" not in shown
    assert (operation.kind, operation.status, operation.target_id) == ("insert", "DONE", disk.id)
    assert world.storage.find(PROJECT, ZONE, str(disk.id)) is disk
    assert operation.target_link == shown["selfLink"]


@pytest.mark.parametrize(
    ("body", "size", "kind"),
    [
        ({}, "500", "pd-standard"),
        ({"type": f"zones/{ZONE}/diskTypes/pd-ssd"}, "100", "pd-ssd"),
        ({"sourceImage": "projects/debian-cloud/global/images/family/debian-12"}, "10", "pd-standard"),
        ({"sizeGb": "42", "type": "pd-balanced"}, "42", "pd-balanced"),
    ],
)
def test_disk_size_defaults_to_its_image_or_its_type(world: World, body: Any, size: str, kind: str) -> None:
    """`disks.insert`: an empty 500 GB data disk where nothing is said; the types' defaults are libcloud's recording."""
    shown = disk_resource(world.links, made(world, **{"sizeGb": None, "type": None, **body}))
    assert shown["sizeGb"] == size
    assert shown["type"].endswith(f"/diskTypes/{kind}")


@pytest.mark.parametrize(
    ("body", "reason", "message"),
    [
        ({"name": "Data"}, "invalid", "Must be a match of regex"),
        ({"type": "pd-gigantic"}, "invalid", "The referenced diskType resource cannot be found."),
        ({"type": "local-ssd"}, "invalid", "The referenced diskType resource cannot be found."),
        ({"sizeGb": "5"}, "invalid", "Must be from 10 to 65536 GB for pd-standard."),
        ({"sizeGb": "x"}, "invalid", "Must be a whole number."),
        ({"sourceSnapshot": "global/snapshots/s"}, "badRequest", "it has no sourceSnapshot"),
        (
            {"sizeGb": "20", "sourceImage": "projects/deeplearning-platform-release/global/images/family/common-cu124"},
            "badRequest",
            "Requested disk size cannot be smaller than the image size (50 GB)",
        ),
    ],
)
def test_disk_that_cannot_be_is_refused(world: World, body: Any, reason: str, message: str) -> None:
    """The refusal comes at once, with nothing made and no operation."""
    with pytest.raises(Refused) as refused:
        world.storage.insert(PROJECT, ZONE, {"name": "data", **body}, ANA)
    assert message in refused.value.message
    assert (refused.value.code, refused.value.reason) == (400, reason)
    assert (world.disks(PROJECT), list(world.operations.of(PROJECT))) == ([], [])


def test_attached_disk_names_its_user_and_the_vm_names_the_disk(world: World) -> None:
    """Attaching takes effect as its operation ends; the device is called by its index where it has no name."""
    vm, disk = up(world), made(world)
    operation = world.storage.attach(vm, {"source": f"{PLACE}/disks/data", "autoDelete": True}, ANA)
    assert disk.users == []
    world.advance(MINUTE)
    assert (operation.kind, operation.failure, operation.target_id) == ("attachDisk", None, vm.id)
    assert shown_disks(world, vm) == [("persistent-disk-0", 0, True), ("persistent-disk-1", 1, False)]
    shown = disk_resource(world.links, disk)
    assert shown["users"] == [f"{world.links}/{PLACE}/instances/vm"]
    assert shown["lastAttachTimestamp"] > shown["creationTimestamp"]


def test_attached_disk_cannot_be_deleted(world: World) -> None:
    """Google's words as hashicorp/terraform-provider-google issue 2078 quotes them; a stopped VM holds it as well."""
    vm, disk = up(world), made(world)
    attached(world, vm)
    for stop in (False, True):
        if stop:
            world.stop(PROJECT, "vm")
            world.advance(3 * MINUTE)
        with pytest.raises(Refused) as refused:
            world.storage.delete(PROJECT, ZONE, "data", ANA)
        assert (refused.value.code, refused.value.reason) == (400, "resourceInUseByAnotherResource")
        assert refused.value.message == (
            f"The disk resource '{PLACE}/disks/data' is already being used by '{PLACE}/instances/vm'"
        )
    assert disk in world.disks(PROJECT)


def test_free_disk_is_deleted(world: World) -> None:
    """It shows DELETING, and is gone when its operation is done."""
    disk = made(world)
    operation = world.storage.delete(PROJECT, ZONE, "data", ANA)
    assert disk_resource(world.links, disk)["status"] == "DELETING"
    world.advance(MINUTE)
    assert (operation.kind, operation.is_done, operation.failure) == ("delete", True, None)
    assert (world.disks(PROJECT), world.storage.ever) == ([], [disk])
    with pytest.raises(Refused, match="was not found"):
        world.storage.find(PROJECT, ZONE, "data")


def test_disk_in_use_fails_to_attach_in_its_operation(world: World) -> None:
    """The request is accepted; Kubernetes and BOSH both found this error in the operation, with this code."""
    first, second = up(world, "first"), up(world, "second")
    disk = made(world)
    attached(world, first)
    failed = attached(world, second)
    assert failed["error"]["errors"][0]["code"] == "RESOURCE_IN_USE_BY_ANOTHER_RESOURCE"
    assert failed["httpErrorStatusCode"] == 400
    assert disk.users == [first]


def test_disk_that_all_only_read_is_shared(world: World) -> None:
    """`mode: READ_ONLY` on every VM; one that writes is refused."""
    vms = [up(world, name) for name in ("a", "b", "c")]
    disk = made(world)
    for vm in vms[:2]:
        assert "error" not in attached(world, vm, mode="READ_ONLY")
    assert "error" in attached(world, vms[2], mode="READ_WRITE")
    assert disk.users == vms[:2]


def test_detached_disk_is_free_for_another_vm(world: World) -> None:
    """The times of attaching and detaching are shown, and its index is free again."""
    first, second, disk = up(world, "first"), up(world, "second"), made(world)
    attached(world, first, deviceName="checkpoints")
    operation = detached(world, first, "checkpoints")
    assert (operation["operationType"], "error" in operation) == ("detachDisk", False)
    assert shown_disks(world, first) == [("persistent-disk-0", 0, True)]
    shown = disk_resource(world.links, disk)
    assert "users" not in shown
    assert shown["lastDetachTimestamp"] > shown["lastAttachTimestamp"]
    assert "error" not in attached(world, second)
    assert disk.users == [second]


def test_unknown_device_is_refused(world: World) -> None:
    """The words are those of fog/fog-google issue 166."""
    with pytest.raises(Refused) as refused:
        world.storage.detach(up(world), "nothing", ANA)
    assert refused.value.message == "No attached disk found with device name 'nothing'"


def test_boot_disk_leaves_a_stopped_vm_alone(world: World) -> None:
    """The words and the reason are those of litmuschaos/chaos-charts issue 562."""
    vm = up(world)
    with pytest.raises(Refused) as refused:
        world.storage.detach(vm, "persistent-disk-0", ANA)
    assert refused.value.reason == "invalidResourceUsage"
    assert refused.value.message == (
        "Invalid resource usage: 'To detach the boot disk, the instance must be in TERMINATED state.'."
    )
    world.stop(PROJECT, "vm")
    world.advance(3 * MINUTE)
    assert "error" not in detached(world, vm, "persistent-disk-0")
    assert (vm.boot_disk, vm.disks) == (None, ())


def test_vm_without_its_boot_disk_does_not_start(world: World) -> None:
    """Attached again, as a boot disk or by insert for another VM, the disk starts a VM."""
    vm = up(world)
    world.stop(PROJECT, "vm")
    world.advance(3 * MINUTE)
    detached(world, vm, "persistent-disk-0")
    operation = world.start(PROJECT, "vm")
    world.advance(MINUTE)
    assert operation.failure is not None
    assert "boot disk" in operation.failure.message
    attached(world, vm, "vm", boot=True, deviceName="persistent-disk-0")
    operation = world.start(PROJECT, "vm")
    world.advance(MINUTE)
    assert (operation.failure, vm.status) == (None, "RUNNING")


def test_kept_boot_disk_boots_the_next_vm(world: World) -> None:
    """`autoDelete` may be changed on a VM that is there; its disk is then the next VM's."""
    up(world)
    world.change("setDiskAutoDelete", PROJECT, ZONE, "vm", disk_auto_delete("persistent-disk-0", auto_delete=False))
    world.delete(PROJECT, "vm")
    world.advance(5 * MINUTE)
    (disk,) = world.disks(PROJECT)
    following = up(world, "next", disks=[{"boot": True, "source": f"{PLACE}/disks/vm", "autoDelete": True}])
    assert (disk.users, following.boot_disk) == ([following], disk)
    world.delete(PROJECT, "next")
    world.advance(5 * MINUTE)
    assert world.disks(PROJECT) == []


def test_disk_in_use_is_refused_to_a_new_vm(world: World) -> None:
    """An insert finds it at once."""
    up(world)
    with pytest.raises(Refused) as refused:
        world.insert(PROJECT, ZONE, body("next", disks=[{"boot": True, "source": f"{PLACE}/disks/vm"}]))
    assert refused.value.reason == "resourceInUseByAnotherResource"


def test_disk_is_metered_on_a_vm_for_as_long_as_the_vm_has_it(world: World) -> None:
    """An hour on the VM is an hour in its bill, whatever comes after."""
    vm = up(world)
    made(world)
    operation = attached(world, vm)
    assert "error" not in operation
    world.advance(timedelta(hours=1) - MINUTE)
    detached(world, vm, "persistent-disk-1")
    world.advance(timedelta(hours=5))
    (use,) = (use for use in vm.disk_uses if use.disk.name == "data")
    assert use.ended is not None
    seconds = bill(vm, world.prices, world.now).resources["disk:pd-ssd"].seconds
    assert seconds == pytest.approx((use.ended - use.began).total_seconds(), abs=1)
    assert 3590 < seconds < 3620


def test_quota_counts_unattached_disks(world: World) -> None:
    """They count against the region's quota until they are deleted."""
    made(world)
    assert world.usage.of(PROJECT, "us-central1")["SSD_TOTAL_GB"] == 100
    world.storage.delete(PROJECT, ZONE, "data", ANA)
    world.advance(MINUTE)
    assert world.usage.of(PROJECT, "us-central1")["SSD_TOTAL_GB"] == 0


@pytest.fixture
def cloud(world: World) -> Iterator[httpx2.Client]:
    with running(world) as url, httpx2.Client(base_url=f"{url}/compute/v1/{PLACE}", trust_env=False) as client:
        yield client


def test_libcloud_names_the_image_in_the_query(cloud: httpx2.Client, world: World) -> None:
    """libcloud's create_volume: POST zones/Z/disks?sourceImage=URL with name, sizeGb and type in the body."""
    image = "https://www.googleapis.com/compute/v1/projects/debian-cloud/global/images/debian-12-bookworm-v20261110"
    answer = cloud.post("/disks", params={"sourceImage": image}, json={"name": "lc", "sizeGb": "10"})
    assert answer.status_code == 200, answer.text
    assert world.storage.find(PROJECT, ZONE, "lc").source_image.endswith("/debian-12-bookworm-v20261110")


@pytest.mark.parametrize(
    "query", ["", "?deviceName=persistent-disk-0", "?deviceName=persistent-disk-0&autoDelete=maybe"]
)
def test_missing_and_wrong_parameters_are_named(cloud: httpx2.Client, world: World, query: str) -> None:
    """`setDiskAutoDelete` requires both of its parameters."""
    up(world)
    answer = cloud.post(f"/instances/vm/setDiskAutoDelete{query}")
    assert answer.status_code == 400
    assert any(word in answer.json()["error"]["message"] for word in ("deviceName", "autoDelete", "maybe"))
