"""New VMs, disks and operations, each with an id that nothing else has."""

from __future__ import annotations

import random
from collections.abc import Mapping
from datetime import datetime
from itertools import count

from costguard_sandbox.gce.catalogue import images
from costguard_sandbox.gce.catalogue.places import default_service_account
from costguard_sandbox.gce.disk_checks import refuse_in_use
from costguard_sandbox.gce.errors import already_exists, not_found
from costguard_sandbox.gce.insertion import WantedDisk, WantedVM
from costguard_sandbox.gce.operations import Operation, Target
from costguard_sandbox.gce.vm import VM, Attachment, Disk

Disks = Mapping[tuple[str, str, str], Disk]


class Maker:
    """Ids depend on the seed and on how many were given out before."""

    def __init__(self, seed: int, base_url: str) -> None:
        self._random = random.Random(f"{seed}/ids")
        self._base_url = base_url
        self._links = f"{base_url}/compute/v1"

    def vm(self, project: str, zone: str, wanted: WantedVM, now: datetime, disks: Disks) -> VM:
        """A VM that is not yet part of anything. Raises Refused when one of its disks cannot be had."""
        for account in wanted.given.get("serviceAccounts") or ():
            if account.get("email") == "default":
                account["email"] = default_service_account(project)
        attachments = tuple(
            self._attachment(project, zone, index, disk, now, disks) for index, disk in enumerate(wanted.disks)
        )
        number = self._random.randrange(2**16)
        return VM(
            id=self._id(),
            project=project,
            zone=zone,
            name=wanted.name,
            shape=wanted.shape,
            given=wanted.given,
            attachments=attachments,
            created_at=now,
            cpu_platform="Intel Skylake" if wanted.shape.family == "n1" else "Intel Cascade Lake",
            network_ip=f"10.128.{number >> 8}.{number & 255}",
            nat_ip=f"203.0.113.{number & 255}",
        )

    def operation(
        self,
        kind: str,
        target: Target,
        user: str,
        now: datetime,
        *,
        request_id: str = "",
        status_message: str = "",
        prefix: str = "operation",
    ) -> Operation:
        bits = self._random.getrandbits(116)
        ms = int(now.timestamp() * 1000)
        return Operation(
            id=self._id(),
            name=f"{prefix}-{ms}-{bits >> 64:013x}-{bits >> 32 & 0xFFFFFFFF:08x}-{bits & 0xFFFFFFFF:08x}",
            project=target.project,
            scope=target.scope,
            kind=kind,
            target_link=f"{self._links}/{target.resource}",
            target_id=target.id,
            user=user,
            insert_time=now,
            ends_at=now,
            base=self._links,
            request_id=request_id,
            status_message=status_message,
        )

    def system_event(self, kind: str, target: Target, now: datetime, text: str) -> Operation:
        """Over as it appears. A managed group's repairs are named repair- and have no user."""
        user, prefix = ("", "repair") if kind.startswith("repair.") else ("system", "systemevent")
        event = self.operation(f"compute.instances.{kind}", target, user, now, status_message=text, prefix=prefix)
        event.finish(now)
        return event

    def attachment(self, vm: VM, disk: Disk, wanted: WantedDisk) -> Attachment:
        """At the lowest index that is free; without a name of its own the device is called by it."""
        taken = {held.index for held in vm.attachments}
        index = next(number for number in count() if number not in taken)
        return Attachment(
            disk=disk,
            index=index,
            device_name=wanted.device_name or f"persistent-disk-{index}",
            boot=wanted.boot,
            auto_delete=wanted.auto_delete,
            size_gib=disk.size_gib,
            given=wanted.given,
        )

    def _id(self) -> int:
        return self._random.randrange(10**17, 2**63)

    def _attachment(
        self, project: str, zone: str, index: int, wanted: WantedDisk, now: datetime, disks: Disks
    ) -> Attachment:
        made: Disk | None = None
        if wanted.source:
            made = disks.get((project, zone, wanted.source))
            if made is None:
                raise not_found(f"projects/{project}/zones/{zone}/disks/{wanted.source}")
            refuse_in_use(made, wanted.given.get("mode"))
        elif not wanted.scratch:
            if (project, zone, wanted.name) in disks:
                raise already_exists(f"projects/{project}/zones/{zone}/disks/{wanted.name}")
            made = self.disk(project, zone, wanted, now)
        return Attachment(
            disk=made,
            index=index,
            device_name=wanted.device_name,
            boot=wanted.boot,
            auto_delete=wanted.auto_delete,
            size_gib=made.size_gib if made else wanted.size_gib,
            given=wanted.given,
        )

    def disk(self, project: str, zone: str, wanted: WantedDisk, now: datetime) -> Disk:
        """A disk that is not yet part of anything."""
        image = images.image_of(self._base_url, wanted.source_image) if wanted.source_image else None
        return Disk(
            id=self._id(),
            project=project,
            zone=zone,
            name=wanted.name,
            size_gib=wanted.size_gib,
            disk_type=wanted.disk_type,
            created_at=now,
            source_image=image["selfLink"] if image else wanted.source_image,
            licenses=tuple(image.get("licenses", ())) if image else (),
        )
