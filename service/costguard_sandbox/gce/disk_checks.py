"""What Compute Engine finds wrong at once with a disk that is to be made, attached or deleted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from costguard_sandbox.gce.catalogue import disk_types, images
from costguard_sandbox.gce.checks import check_image
from costguard_sandbox.gce.errors import Refused, bad_request, invalid
from costguard_sandbox.gce.insertion import NAME, WantedDisk, check_labels
from costguard_sandbox.gce.render import last_part
from costguard_sandbox.gce.vm import VM, Disk

READ_ONLY = "READ_ONLY"


def read_disk(body: Mapping[str, Any]) -> WantedDisk:
    """The body of `disks.insert`. Without a size, a disk is as large as its image, or as its type's default."""
    name = str(body.get("name") or "")
    if not NAME.fullmatch(name):
        raise invalid("resource.name", name, f"Must be a match of regex '{NAME.pattern}'")
    for source in ("sourceSnapshot", "sourceDisk", "sourceInstantSnapshot", "sourceStorageObject"):
        if body.get(source):
            raise bad_request(f"The simulated cloud makes disks empty or from an image; it has no {source}.")
    check_labels(body.get("labels") or {})
    kind = last_part(str(body.get("type") or "pd-standard"))
    offered = disk_types.find(kind)
    if offered is None or not offered.is_persistent:
        raise invalid("resource.type", body.get("type"), "The referenced diskType resource cannot be found.")
    image = str(body.get("sourceImage") or "")
    given = body.get("sizeGb")
    size = _whole("resource.sizeGb", given) if given else None
    check_image("resource", "sizeGb", image, size)
    if size is not None and not offered.smallest_gib <= size <= offered.largest_gib:
        sizes = f"Must be from {offered.smallest_gib} to {offered.largest_gib} GB for {kind}."
        raise invalid("resource.sizeGb", size, sizes)
    smallest = images.smallest_disk_gib(image) if image else None
    return WantedDisk(
        name=name,
        device_name="",
        boot=False,
        auto_delete=False,
        size_gib=size or smallest or offered.default_gib,
        disk_type=kind,
        source_image=image,
        given={},
    )


def read_attach(vm: VM, body: Mapping[str, Any]) -> WantedDisk:
    """The body of `attachDisk`, an AttachedDisk: it names a disk that exists already."""
    if body.get("initializeParams"):
        raise invalid("resource.initializeParams", "", "A disk cannot be created and attached at the same time.")
    source = str(body.get("source") or "")
    if not source:
        raise invalid("resource.source", "", "The URL of the disk to attach is required.")
    if "zones/" in source and f"zones/{vm.zone}/" not in source:
        raise invalid("resource.source", source, f"The disk must be in the instance's zone, {vm.zone}.")
    name = str(body.get("deviceName") or "")
    if name and any(held.device_name == name for held in vm.attachments):
        raise invalid("resource.deviceName", name, "The device name is already used by another disk of the instance.")
    boot = bool(body.get("boot", False))
    if boot and any(held.boot for held in vm.attachments):
        raise invalid("resource.boot", "true", "The instance has a boot disk already.")
    return WantedDisk(
        name=last_part(source),
        device_name=name,
        boot=boot,
        auto_delete=bool(body.get("autoDelete", False)),
        size_gib=0,
        disk_type="",
        source_image="",
        given=dict(body),
        source=last_part(source),
    )


def refuse_in_use(disk: Disk, mode: object = None) -> None:
    """Raises Refused while the disk is attached, but for several VMs that all of them only read it.

    Google's words, as quoted in hashicorp/terraform-provider-google issue 2078.
    """
    held = [one for vm in disk.users for one in vm.attachments if one.disk is disk]
    if mode == READ_ONLY and all(one.given.get("mode") == READ_ONLY for one in held):
        return
    if disk.users:
        text = f"The disk resource '{disk.target.resource}' is already being used by"
        raise Refused(400, "resourceInUseByAnotherResource", f"{text} '{disk.users[0].target.resource}'")


def _whole(field: str, given: object) -> int:
    try:
        size = int(str(given))
    except ValueError:
        raise invalid(field, given, "Must be a whole number.") from None
    if size < 1:
        raise invalid(field, given, "Must be at least 1.")
    return size
