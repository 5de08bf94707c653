"""The disks of all projects: made, attached, detached and deleted, by themselves or with their VM."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

from costguard_sandbox.gce.disk_checks import read_attach, read_disk, refuse_in_use
from costguard_sandbox.gce.errors import Refused, already_exists, invalid, invalid_usage, not_found
from costguard_sandbox.gce.guests import Guests
from costguard_sandbox.gce.lifecycle import Lifecycle
from costguard_sandbox.gce.making import Maker
from costguard_sandbox.gce.operations import Failure, Operation
from costguard_sandbox.gce.quotas import Usage
from costguard_sandbox.gce.requests import Requests
from costguard_sandbox.gce.timeline import Timeline
from costguard_sandbox.gce.vm import VM, Attachment, Disk, DiskStatus, Status

_MOST_DISKS = 128


class Storage:
    """`changed` is called after every change of a disk, with the VM whose answer it changes, if there is one."""

    def __init__(
        self,
        timeline: Timeline,
        lifecycle: Lifecycle,
        requests: Requests,
        maker: Maker,
        usage: Usage,
        guests: Guests,
        settled: Callable[[], AbstractContextManager[object]],
        changed: Callable[[VM | None], None],
    ) -> None:
        self._timeline = timeline
        self._lifecycle = lifecycle
        self._requests = requests
        self._make = maker
        self._usage = usage
        self._guests = guests
        self._settled = settled
        self._changed = changed
        self.live: dict[tuple[str, str, str], Disk] = {}
        self.ever: list[Disk] = []

    def of(self, project: str) -> list[Disk]:
        """The project's disks that exist, by zone and name."""
        with self._settled():
            found = [disk for (owner, _, _), disk in self.live.items() if owner == project]
            return sorted(found, key=lambda disk: (disk.zone, disk.name))

    def find(self, project: str, zone: str, name: str) -> Disk:
        """By name or numeric id. Raises Refused (404) when there is none."""
        with self._settled():
            if disk := self.live.get((project, zone, name)):
                return disk
            for disk in self.live.values() if name.isdecimal() else ():
                if (disk.project, disk.zone, disk.id) == (project, zone, int(name)):
                    return disk
        raise not_found(f"projects/{project}/zones/{zone}/disks/{name}")

    # What users ask for.

    def insert(self, project: str, zone: str, body: Mapping[str, Any], user: str, request_id: str = "") -> Operation:
        """The disk is CREATING until the operation is done."""
        with self._settled():
            if earlier := self._requests.earlier(project, request_id):
                return earlier
            wanted = read_disk(body)
            if (project, zone, wanted.name) in self.live:
                raise already_exists(f"projects/{project}/zones/{zone}/disks/{wanted.name}")
            disk = self._make.disk(project, zone, wanted, self._timeline.now)
            disk.labels, disk.description = dict(body.get("labels") or {}), str(body.get("description") or "")
            disk.status = DiskStatus.CREATING
            self._add(disk)
            operation = self._requests.begin("insert", disk.target, user, request_id)
            self._lifecycle.carry_out(operation, "disk", lambda: self._show(disk, DiskStatus.READY))
            return operation

    def delete(self, project: str, zone: str, name: str, user: str, request_id: str = "") -> Operation:
        """Raises Refused while a VM, running or stopped, holds the disk."""
        with self._settled():
            if earlier := self._requests.earlier(project, request_id):
                return earlier
            disk = self.find(project, zone, name)
            refuse_in_use(disk)
            self._show(disk, DiskStatus.DELETING)
            operation = self._requests.begin("delete", disk.target, user, request_id)
            self._lifecycle.carry_out(operation, "disk", lambda: self._remove(disk))
            return operation

    def attach(self, vm: VM, body: Mapping[str, Any], user: str, request_id: str = "") -> Operation:
        """What the disk is attached to already is found out by the operation, as with Google, not by the request."""
        with self._settled():
            if earlier := self._requests.earlier(vm.project, request_id):
                return earlier
            wanted = read_attach(vm, body)
            disk = self.find(vm.project, vm.zone, wanted.source)
            if len(vm.attachments) >= _MOST_DISKS:
                raise invalid("resource.disks", str(len(vm.attachments) + 1), f"At most {_MOST_DISKS} disks.")
            operation = self._requests.begin("attachDisk", vm.target, user, request_id)

            def attached() -> Failure | None:
                try:
                    refuse_in_use(disk, wanted.given.get("mode"))
                except Refused as refused:
                    return Failure("RESOURCE_IN_USE_BY_ANOTHER_RESOURCE", refused.message, refused.code)
                if gone := _gone(vm, disk):
                    return gone
                held = self._make.attachment(vm, disk, wanted)
                vm.hold(held, self._timeline.now)
                self._guests.attach(vm, held)
                self._changed(vm)
                return None

            self._lifecycle.carry_out(operation, "attach", attached)
            return operation

    def detach(self, vm: VM, device_name: str, user: str, request_id: str = "") -> Operation:
        with self._settled():
            if earlier := self._requests.earlier(vm.project, request_id):
                return earlier
            held = device(vm, device_name)
            if held.boot and vm.status is not Status.TERMINATED:
                raise invalid_usage("To detach the boot disk, the instance must be in TERMINATED state.")
            operation = self._requests.begin("detachDisk", vm.target, user, request_id)

            def detached() -> Failure | None:
                if held not in vm.attachments or vm.status is Status.DELETED:
                    return None
                self._guests.detach(vm, held)
                vm.let_go(held, self._timeline.now)
                self._changed(vm)
                return None

            self._lifecycle.carry_out(operation, "detach", detached)
            return operation

    # What happens to disks with their VM.

    def adopt(self, vm: VM) -> None:
        """The VM is made, and so are those of its disks that were not there before."""
        vm.take_all(self._timeline.now)
        for disk in vm.disks:
            if (disk.project, disk.zone, disk.name) not in self.live:
                self._add(disk)

    def release(self, vm: VM) -> None:
        """The VM is deleted: disks that are to go with it are gone, the others are free."""
        for held in vm.attachments:
            if held.disk is not None:
                self._guests.detach(vm, held)
                vm.end_use(held.disk, self._timeline.now)
                if held.auto_delete and not held.disk.users:
                    self._remove(held.disk)

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


def device(vm: VM, name: str) -> Attachment:
    """The VM's disk of that device name. Raises Refused when there is none."""
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
