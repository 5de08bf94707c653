"""Reads the body of an insert, fills in Google's defaults and makes the VM with its disks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import orjson

from costguard_sandbox.gce.buying import check_affinity, check_flex_start
from costguard_sandbox.gce.catalogue import disks, machine_types
from costguard_sandbox.gce.catalogue.regions import default_service_account
from costguard_sandbox.gce.checks import (
    check_accelerator,
    check_body,
    check_choices,
    check_disk_is_free,
    check_disk_params,
    check_labels,
    check_model,
    check_name,
    check_preemption_notice,
    check_stop_action,
    whole_number,
)
from costguard_sandbox.gce.errors import already_exists, bad_request, invalid, not_found
from costguard_sandbox.gce.operations import Ids
from costguard_sandbox.gce.render import last_part
from costguard_sandbox.gce.vm import VM, Attachment, Disk, Shape

_N1_GPUS = frozenset(
    {"nvidia-tesla-t4", "nvidia-tesla-v100", "nvidia-tesla-p100", "nvidia-tesla-p4", "nvidia-tesla-k80"}
)
_GIB_PER_SCRATCH_DISK = 375


Disks = Mapping[tuple[str, str, str], Disk]


@dataclass(frozen=True, slots=True)
class WantedDisk:
    """A disk as requested. `source` names a disk that exists already; otherwise one is made."""

    name: str
    device_name: str = ""
    boot: bool = False
    auto_delete: bool = False
    size_gib: int = 0
    disk_type: str = ""
    source_image: str = ""
    given: Mapping[str, Any] = field(default_factory=dict)
    source: str = ""
    scratch: bool = False


@dataclass(frozen=True, slots=True)
class WantedVM:
    name: str
    shape: Shape
    disks: tuple[WantedDisk, ...]
    given: dict[str, Any]


def read_insert(zone: str, body: Mapping[str, Any], project: str = "-") -> WantedVM:
    """The VM that the body requests. Raises Refused as Compute Engine would, with nothing made."""
    try:
        return _read(project, zone, body)
    except (AttributeError, TypeError, ValueError) as wrong:
        raise bad_request(f"Invalid JSON payload received: {wrong}") from None


def _read(project: str, zone: str, body: Mapping[str, Any]) -> WantedVM:
    name = str(body.get("name", ""))
    check_name("resource.name", name)
    check_body(zone, body)
    shape, accelerators = read_shape(project, zone, body)
    given: dict[str, Any] = orjson.loads(orjson.dumps(dict(body)))  # a copy, faster than deepcopy
    if accelerators:
        given["guestAccelerators"] = accelerators
    given["scheduling"] = read_scheduling(body.get("scheduling") or {}, has_gpu=shape.gpu_count > 0)
    check_flex_start(body, shape.machine_type)
    check_affinity(body)
    check_stop_action(body.get("scheduling") or {}, has_local_ssds=shape.local_ssd_gib > 0)
    check_labels(body.get("labels") or {})
    wanted = tuple(_disk(name, index, disk) for index, disk in enumerate(body.get("disks") or ()))
    if not wanted:
        raise invalid("resource.disks", "[]", "At least one disk is required: a boot disk.")
    return WantedVM(name, shape, wanted, given)


def read_shape(project: str, zone: str, body: Mapping[str, Any]) -> tuple[Shape, list[dict[str, Any]]]:
    """The requested machine type and accelerators."""
    machine_name = last_part(str(body.get("machineType", "")))
    machine = machine_types.find(zone, machine_name)
    if machine is None:
        raise invalid("resource.machineType", body.get("machineType", ""), "The referenced resource does not exist.")
    check_model(body.get("scheduling") or {}, machine.models)
    accelerators = _accelerators(body)
    if not accelerators:
        accelerators = [{"acceleratorType": kind, "acceleratorCount": count} for kind, count in machine.accelerators]
    gpu_type, gpu_count = "", 0
    if accelerators:
        gpu_type, gpu_count = str(accelerators[0]["acceleratorType"]), int(accelerators[0]["acceleratorCount"])
        check_accelerator(project, zone, gpu_type, gpu_count)
        attachable = machine_name.startswith(("n1-", "custom-")) and gpu_type in _N1_GPUS
        if not attachable and (gpu_type, gpu_count) not in machine.accelerators:
            raise bad_request(f"[{gpu_type}, {machine_name}] features are not compatible for creating instance.")
    scratch = sum(1 for disk in body.get("disks") or () if disk.get("type") == "SCRATCH") * _GIB_PER_SCRATCH_DISK
    first = machine_name.split("-", 1)[0]
    shape = Shape(
        machine_type=machine_name,
        family="n1" if first in {"custom", "f1", "g1"} else first,
        vcpus=machine.vcpus,
        memory_mb=machine.memory_mb,
        gpu_type=gpu_type,
        gpu_count=gpu_count,
        local_ssd_gib=machine.local_ssd_gib + scratch,
    )
    return shape, accelerators


def _accelerators(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [
        {"acceleratorType": last_part(str(one.get("acceleratorType", ""))), "acceleratorCount": count}
        for one in body.get("guestAccelerators") or ()
        if (count := int(one.get("acceleratorCount", 0)))
    ]


def read_scheduling(given: Mapping[str, Any], *, has_gpu: bool) -> dict[str, Any]:
    """The scheduling block with Google's defaults filled in."""
    check_choices(given)
    spot = given.get("provisioningModel") == "SPOT" or bool(given.get("preemptible"))
    if spot and given.get("automaticRestart"):
        raise bad_request("Scheduling must have preemptible be false when AutomaticRestart is true.")
    maintenance = given.get("onHostMaintenance") or ("TERMINATE" if spot else "MIGRATE")
    if spot and maintenance == "MIGRATE":
        raise bad_request("Scheduling must have preemptible be false when OnHostMaintenance isn't TERMINATE.")
    if has_gpu and maintenance != "TERMINATE":
        raise bad_request("Instances with guest accelerators do not support live migration.")
    legacy = spot and given.get("provisioningModel") != "SPOT"
    limited = bool(given.get("maxRunDuration") or given.get("terminationTime"))
    if limited and legacy:
        raise bad_request("Max run duration is not supported for preemptible instances; use the SPOT model.")
    _check_run_limit(given.get("maxRunDuration"))
    check_preemption_notice(given.get("preemptionNoticeDuration"), spot=given.get("provisioningModel") == "SPOT")
    scheduling = dict(given)
    scheduling["onHostMaintenance"] = maintenance
    scheduling["automaticRestart"] = bool(given.get("automaticRestart", not spot))
    scheduling["preemptible"] = spot
    scheduling["provisioningModel"] = given.get("provisioningModel") or "STANDARD"
    if given.get("maxRunDuration"):
        scheduling["maxRunDuration"] = duration(given["maxRunDuration"])
    if given.get("preemptionNoticeDuration"):
        scheduling["preemptionNoticeDuration"] = duration(given["preemptionNoticeDuration"])
    if (limited or given.get("provisioningModel") == "SPOT") and not given.get("instanceTerminationAction"):
        scheduling["instanceTerminationAction"] = "STOP"
    return scheduling


def duration(given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a Duration as Google shows it: the seconds are a text (int64)."""
    return {"seconds": str(given.get("seconds", 0)), "nanos": int(given.get("nanos", 0))}


def _check_run_limit(limit: Mapping[str, Any] | None) -> None:
    if not limit:
        return
    try:
        seconds = int(limit.get("seconds", 0))
    except ValueError:
        raise invalid("scheduling.maxRunDuration.seconds", limit["seconds"], "Must be a whole number.") from None
    if not 30 <= seconds <= 120 * 86_400:
        raise invalid("scheduling.maxRunDuration.seconds", seconds, "Must be between 30 seconds and 120 days.")


def _disk(vm_name: str, index: int, given: Mapping[str, Any]) -> WantedDisk:
    wanted: Mapping[str, Any] = given.get("initializeParams") or {}
    scratch = given.get("type") == "SCRATCH"
    size = wanted.get("diskSizeGb") or given.get("diskSizeGb") or (_GIB_PER_SCRATCH_DISK if scratch else 10)
    size_gib = whole_number("resource.disks.diskSizeGb", size)
    image, has_size = str(wanted.get("sourceImage") or ""), "diskSizeGb" in wanted
    check_disk_params(index, str(wanted.get("diskType") or ""), image, size_gib if has_size else None)
    if not has_size and not scratch:
        size_gib = max(size_gib, disks.smallest_disk_gib(image) or size_gib)
    boot = bool(given.get("boot", index == 0))
    return WantedDisk(
        name=str(wanted.get("diskName") or (vm_name if boot else f"{vm_name}-{index}")),
        device_name=str(given.get("deviceName") or ""),
        boot=boot,
        auto_delete=bool(given.get("autoDelete", False)),
        size_gib=size_gib,
        disk_type=last_part(str(wanted.get("diskType") or "pd-standard")),
        source_image=image,
        given={key: value for key, value in given.items() if key != "initializeParams"},
        source=last_part(str(given.get("source") or "")),
        scratch=scratch,
    )


class Factory:
    """New VMs and disks, which belong to nothing yet."""

    def __init__(self, ids: Ids, base_url: str) -> None:
        self._ids = ids
        self._base_url = base_url

    def vm(self, project: str, zone: str, wanted: WantedVM, now: datetime, present: Disks) -> VM:
        """Raises Refused when one of its disks is missing, in use or already present."""
        for account in wanted.given.get("serviceAccounts") or ():
            if account.get("email") == "default":
                account["email"] = default_service_account(project)
        attachments = tuple(
            self._attachment(project, zone, index, disk, now, present) for index, disk in enumerate(wanted.disks)
        )
        number = self._ids.random.randrange(2**16)
        return VM(
            id=self._ids.draw(),
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

    def disk(self, project: str, zone: str, wanted: WantedDisk, now: datetime) -> Disk:
        image = disks.image_of(self._base_url, wanted.source_image) if wanted.source_image else None
        return Disk(
            id=self._ids.draw(),
            project=project,
            zone=zone,
            name=wanted.name,
            size_gib=wanted.size_gib,
            disk_type=wanted.disk_type,
            created_at=now,
            source_image=image["selfLink"] if image else wanted.source_image,
            licenses=tuple(image.get("licenses", ())) if image else (),
        )

    def _attachment(
        self, project: str, zone: str, index: int, wanted: WantedDisk, now: datetime, present: Disks
    ) -> Attachment:
        disk: Disk | None = None
        if wanted.source:
            disk = present.get((project, zone, wanted.source))
            if disk is None:
                raise not_found(f"projects/{project}/zones/{zone}/disks/{wanted.source}")
            check_disk_is_free(disk, wanted.given.get("mode"))
        elif not wanted.scratch:
            if (project, zone, wanted.name) in present:
                raise already_exists(f"projects/{project}/zones/{zone}/disks/{wanted.name}")
            disk = self.disk(project, zone, wanted, now)
        return attachment(disk, index, wanted)


def attachment(disk: Disk | None, index: int, wanted: WantedDisk) -> Attachment:
    """The disk as its VM holds it. Without a device name in the request, the index names it."""
    return Attachment(
        disk=disk,
        index=index,
        device_name=wanted.device_name or f"persistent-disk-{index}",
        boot=wanted.boot,
        auto_delete=wanted.auto_delete,
        size_gib=disk.size_gib if disk else wanted.size_gib,
        given=wanted.given,
    )
