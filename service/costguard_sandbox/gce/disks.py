"""The disks of all projects: created, attached, detached and deleted, on their own or with their VM."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from costguard_sandbox.gce.catalogue import disks
from costguard_sandbox.gce.checks import check_disk_is_free, check_image, check_labels, check_name, whole_number
from costguard_sandbox.gce.errors import Refused, already_exists, bad_request, invalid, invalid_usage, not_found
from costguard_sandbox.gce.guests import Guests
from costguard_sandbox.gce.insertion import Factory, WantedDisk, attachment
from costguard_sandbox.gce.lifecycle import Lifecycle
from costguard_sandbox.gce.operations import Failure, Operation, OperationLog
from costguard_sandbox.gce.quotas import Usage
from costguard_sandbox.gce.render import last_part
from costguard_sandbox.gce.timeline import Timeline
from costguard_sandbox.gce.vm import VM, Attachment, Disk, DiskStatus, Status

_MOST_DISKS = 128


def read_disk(body: Mapping[str, Any]) -> WantedDisk:
    """The body of `disks.insert`. Without a size, a disk is as large as its image, or as its type's default."""
    name = str(body.get("name") or "")
    check_name("resource.name", name)
    for source in ("sourceSnapshot", "sourceDisk", "sourceInstantSnapshot", "sourceStorageObject"):
        if body.get(source):
            raise bad_request(f"The simulated cloud makes disks empty or from an image; it has no {source}.")
    check_labels(body.get("labels") or {})
    kind = last_part(str(body.get("type") or "pd-standard"))
    offered = disks.find_disk_type(kind)
    if offered is None or not offered.is_persistent:
        raise invalid("resource.type", body.get("type"), "The referenced diskType resource cannot be found.")
    image = str(body.get("sourceImage") or "")
    given = body.get("sizeGb")
    size = whole_number("resource.sizeGb", given) if given else None
    check_image("resource", "sizeGb", image, size)
    if size is not None and not offered.smallest_gib <= size <= offered.largest_gib:
        sizes = f"Must be from {offered.smallest_gib} to {offered.largest_gib} GB for {kind}."
        raise invalid("resource.sizeGb", size, sizes)
    smallest = disks.smallest_disk_gib(image) if image else None
    return WantedDisk(name, size_gib=size or smallest or offered.default_gib, disk_type=kind, source_image=image)


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
        given=dict(body),
        source=last_part(source),
    )


@dataclass(eq=False)
class Storage:
    """Every disk of the cloud. `changed` is called after each change, with the VM that shows it, if any."""

    _timeline: Timeline
    _lifecycle: Lifecycle
    _operations: OperationLog
    _factory: Factory
    _usage: Usage
    _guests: Guests
    _settled: Callable[[], AbstractContextManager[object]]
    _changed: Callable[[VM | None], None]
    live: dict[tuple[str, str, str], Disk] = field(default_factory=dict, init=False)
    ever: list[Disk] = field(default_factory=list, init=False)

    def of(self, project: str) -> list[Disk]:
        """The project's disks that exist, by zone and name."""
        with self._settled():
            disks = [disk for (owner, _, _), disk in self.live.items() if owner == project]
            return sorted(disks, key=lambda disk: (disk.zone, disk.name))

    def find(self, project: str, zone: str, name: str) -> Disk:
        """Finds a disk by name or numeric id. Raises Refused (404) when there is none."""
        with self._settled():
            if disk := self.live.get((project, zone, name)):
                return disk
            for disk in self.live.values() if name.isdecimal() else ():
                if (disk.project, disk.zone, disk.id) == (project, zone, int(name)):
                    return disk
        raise not_found(f"projects/{project}/zones/{zone}/disks/{name}")

    # Requests of users.

    def insert(self, project: str, zone: str, body: Mapping[str, Any], user: str, request_id: str = "") -> Operation:
        """The disk is CREATING until the operation is done."""
        with self._settled():
            if operation := self._operations.repeated(project, request_id):
                return operation
            wanted = read_disk(body)
            if (project, zone, wanted.name) in self.live:
                raise already_exists(f"projects/{project}/zones/{zone}/disks/{wanted.name}")
            disk = self._factory.disk(project, zone, wanted, self._timeline.now)
            disk.labels, disk.description = dict(body.get("labels") or {}), str(body.get("description") or "")
            disk.status = DiskStatus.CREATING
            self._add(disk)
            operation = self._operations.begin("insert", disk.target, user, request_id)
            self._lifecycle.carry_out(operation, "disk", lambda: self._show(disk, DiskStatus.READY))
            return operation

    def delete(self, project: str, zone: str, name: str, user: str, request_id: str = "") -> Operation:
        """Raises Refused while the disk is attached to a VM, running or stopped."""
        with self._settled():
            if operation := self._operations.repeated(project, request_id):
                return operation
            disk = self.find(project, zone, name)
            check_disk_is_free(disk)
            self._show(disk, DiskStatus.DELETING)
            operation = self._operations.begin("delete", disk.target, user, request_id)
            self._lifecycle.carry_out(operation, "disk", lambda: self._remove(disk))
            return operation

    def attach(self, vm: VM, body: Mapping[str, Any], user: str, request_id: str = "") -> Operation:
        """Attaches a disk. As at Google, not the request but its operation fails when the disk is in use."""
        with self._settled():
            if operation := self._operations.repeated(vm.project, request_id):
                return operation
            wanted = read_attach(vm, body)
            disk = self.find(vm.project, vm.zone, wanted.source)
            if len(vm.attachments) >= _MOST_DISKS:
                raise invalid("resource.disks", str(len(vm.attachments) + 1), f"At most {_MOST_DISKS} disks.")
            operation = self._operations.begin("attachDisk", vm.target, user, request_id)

            def attached() -> Failure | None:
                try:
                    check_disk_is_free(disk, wanted.given.get("mode"))
                except Refused as refused:
                    return Failure("RESOURCE_IN_USE_BY_ANOTHER_RESOURCE", refused.message, refused.code)
                if gone := _gone(vm, disk):
                    return gone
                taken = {held.index for held in vm.attachments}
                held = attachment(disk, next(index for index in count() if index not in taken), wanted)
                vm.attach(held, self._timeline.now)
                self._guests.attach(vm, held)
                self._changed(vm)
                return None

            self._lifecycle.carry_out(operation, "attach", attached)
            return operation

    def detach(self, vm: VM, device_name: str, user: str, request_id: str = "") -> Operation:
        with self._settled():
            if operation := self._operations.repeated(vm.project, request_id):
                return operation
            held = find_device(vm, device_name)
            if held.boot and vm.status is not Status.TERMINATED:
                raise invalid_usage("To detach the boot disk, the instance must be in TERMINATED state.")
            operation = self._operations.begin("detachDisk", vm.target, user, request_id)

            def detached() -> Failure | None:
                if held not in vm.attachments or vm.status is Status.DELETED:
                    return None
                self._guests.detach(vm, held)
                vm.detach(held, self._timeline.now)
                self._changed(vm)
                return None

            self._lifecycle.carry_out(operation, "detach", detached)
            return operation

    # With the VM.

    def adopt(self, vm: VM) -> None:
        """The VM was created, and its new disks with it."""
        vm.attach_all(self._timeline.now)
        for disk in vm.disks:
            if (disk.project, disk.zone, disk.name) not in self.live:
                self._add(disk)

    def release(self, vm: VM) -> None:
        """The VM was deleted, and its auto-delete disks with it; the others are free."""
        for held in vm.attachments:
            if held.disk is not None:
                self._guests.detach(vm, held)
                vm.release(held.disk, self._timeline.now)
                if held.auto_delete and not held.disk.users:
                    self._remove(held.disk)

    def renew_boot_disk(self, vm: VM) -> None:
        """A managed group recreates the VM: its boot disk is made again from the image, unless it is to be kept."""
        held = next((one for one in vm.attachments if one.boot), None)
        if held is None or held.disk is None or not held.auto_delete:
            return
        old, now = held.disk, self._timeline.now
        wanted = WantedDisk(old.name, size_gib=old.size_gib, disk_type=old.disk_type)
        fresh = replace(held, disk=self._factory.disk(vm.project, vm.zone, wanted, now))
        assert fresh.disk is not None
        fresh.disk.source_image, fresh.disk.licenses = old.source_image, old.licenses
        self._guests.detach(vm, held)
        vm.detach(held, now)
        self._remove(old)
        self._add(fresh.disk)
        vm.attach(fresh, now)
        self._guests.attach(vm, fresh)
        self._changed(vm)

    def _add(self, disk: Disk) -> None:
        self.live[disk.project, disk.zone, disk.name] = disk
        self.ever.append(disk)
        self._usage.follow_disk(disk)
        self._changed(None)

    def _remove(self, disk: Disk) -> None:
        del self.live[disk.project, disk.zone, disk.name]
        disk.deleted_at = self._timeline.now
        self._usage.follow_disk(disk)
        self._guests.erase(disk)
        self._changed(None)

    def _show(self, disk: Disk, status: DiskStatus) -> None:
        disk.status = status
        self._changed(None)


def find_device(vm: VM, name: str) -> Attachment:
    """The VM's disk with this device name. Raises Refused when there is none."""
    for held in vm.attachments:
        if held.device_name == name:
            return held
    # As quoted in fog/fog-google issue 166.
    raise Refused(400, "invalid", f"No attached disk found with device name '{name}'")


def _gone(vm: VM, disk: Disk) -> Failure | None:
    for target, is_gone in ((vm.target, vm.status is Status.DELETED), (disk.target, disk.deleted_at is not None)):
        if is_gone:
            return Failure("RESOURCE_NOT_FOUND", f"The resource '{target.resource}' was not found", 404)
    if disk.status is not DiskStatus.READY:
        return Failure("RESOURCE_NOT_READY", f"The resource '{disk.target.resource}' is not ready", 400)
    return None
