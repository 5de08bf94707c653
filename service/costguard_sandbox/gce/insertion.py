"""From the body of an insert to a VM: what is checked at once, and what is filled in."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from costguard_sandbox.gce.catalogue import images, machine_types
from costguard_sandbox.gce.checks import (
    check_accelerator,
    check_body,
    check_choices,
    check_disk,
    check_metadata,
    check_model,
    check_stop_action,
)
from costguard_sandbox.gce.errors import bad_request, invalid
from costguard_sandbox.gce.render import last_part
from costguard_sandbox.gce.vm import Shape

NAME = re.compile(r"[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?")
_LABEL = re.compile(r"[a-z0-9_-]{0,63}")
_N1_GPUS = frozenset(
    {"nvidia-tesla-t4", "nvidia-tesla-v100", "nvidia-tesla-p100", "nvidia-tesla-p4", "nvidia-tesla-k80"}
)
_GIB_PER_SCRATCH_DISK = 375


@dataclass(frozen=True, slots=True)
class WantedDisk:
    """`source` names a disk that exists already; otherwise one is made."""

    name: str
    device_name: str
    boot: bool
    auto_delete: bool
    size_gib: int
    disk_type: str
    source_image: str
    given: Mapping[str, Any]
    source: str = ""
    scratch: bool = False


@dataclass(frozen=True, slots=True)
class WantedVM:
    name: str
    shape: Shape
    disks: tuple[WantedDisk, ...]
    given: dict[str, Any]


def read_insert(zone: str, body: Mapping[str, Any], project: str = "-") -> WantedVM:
    """What the body asks for. Raises Refused as Compute Engine would, with nothing made."""
    try:
        return _read(project, zone, body)
    except (AttributeError, TypeError, ValueError) as wrong:
        raise bad_request(f"Invalid JSON payload received: {wrong}") from None


def _read(project: str, zone: str, body: Mapping[str, Any]) -> WantedVM:
    name = str(body.get("name", ""))
    if not NAME.fullmatch(name):
        raise invalid("resource.name", name, f"Must be a match of regex '{NAME.pattern}'")
    check_body(zone, body)
    shape, accelerators = read_shape(project, zone, body)
    given: dict[str, Any] = orjson.loads(orjson.dumps(dict(body)))  # a copy; a quicker one than deepcopy's
    if accelerators:
        given["guestAccelerators"] = accelerators
    given["scheduling"] = read_scheduling(body.get("scheduling") or {}, has_gpu=shape.gpu_count > 0)
    check_stop_action(body.get("scheduling") or {}, has_local_ssds=shape.local_ssd_gib > 0)
    check_labels(body.get("labels") or {})
    disks = tuple(_disk(name, index, disk) for index, disk in enumerate(body.get("disks") or ()))
    if not disks:
        raise invalid("resource.disks", "[]", "At least one disk is required: a boot disk.")
    return WantedVM(name, shape, disks, given)


def read_shape(project: str, zone: str, body: Mapping[str, Any]) -> tuple[Shape, list[dict[str, Any]]]:
    """The machine that the body asks for, and its accelerators."""
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
    scheduling = dict(given)
    scheduling["onHostMaintenance"] = maintenance
    scheduling["automaticRestart"] = bool(given.get("automaticRestart", not spot))
    scheduling["preemptible"] = spot
    scheduling["provisioningModel"] = given.get("provisioningModel") or "STANDARD"
    if given.get("maxRunDuration"):
        limit = given["maxRunDuration"]
        scheduling["maxRunDuration"] = {"seconds": str(limit.get("seconds", 0)), "nanos": int(limit.get("nanos", 0))}
    if (limited or given.get("provisioningModel") == "SPOT") and not given.get("instanceTerminationAction"):
        scheduling["instanceTerminationAction"] = "STOP"
    return scheduling


def _check_run_limit(limit: Mapping[str, Any] | None) -> None:
    if not limit:
        return
    try:
        seconds = int(limit.get("seconds", 0))
    except ValueError:
        raise invalid("scheduling.maxRunDuration.seconds", limit["seconds"], "Must be a whole number.") from None
    if not 30 <= seconds <= 120 * 86_400:
        raise invalid("scheduling.maxRunDuration.seconds", seconds, "Must be between 30 seconds and 120 days.")


def check_labels(labels: Mapping[str, Any]) -> None:
    for key, value in labels.items():
        if not key or not key[0].isalpha() or not _LABEL.fullmatch(key) or not _LABEL.fullmatch(str(value)):
            raise invalid(
                "resource.labels",
                f"{key}={value}",
                "Only hyphens (-), underscores (_), lowercase characters, and numbers are allowed. "
                "Keys must start with a lowercase character, and neither may be longer than 63.",
            )


def _disk(vm_name: str, index: int, given: Mapping[str, Any]) -> WantedDisk:
    wanted: Mapping[str, Any] = given.get("initializeParams") or {}
    scratch = given.get("type") == "SCRATCH"
    size = wanted.get("diskSizeGb") or given.get("diskSizeGb") or (_GIB_PER_SCRATCH_DISK if scratch else 10)
    try:
        size_gib = int(size)
    except ValueError:
        raise invalid("resource.disks.diskSizeGb", size, "Must be a whole number.") from None
    if size_gib < 1:
        raise invalid("resource.disks.diskSizeGb", size, "Must be at least 1.")
    image, asked = str(wanted.get("sourceImage") or ""), "diskSizeGb" in wanted
    check_disk(index, str(wanted.get("diskType") or ""), image, size_gib if asked else None)
    if not asked and not scratch:
        size_gib = max(size_gib, images.smallest_disk_gib(image) or size_gib)
    boot = bool(given.get("boot", index == 0))
    return WantedDisk(
        name=str(wanted.get("diskName") or (vm_name if boot else f"{vm_name}-{index}")),
        device_name=str(given.get("deviceName") or f"persistent-disk-{index}"),
        boot=boot,
        auto_delete=bool(given.get("autoDelete", False)),
        size_gib=size_gib,
        disk_type=last_part(str(wanted.get("diskType") or "pd-standard")),
        source_image=image,
        given={key: value for key, value in given.items() if key != "initializeParams"},
        source=last_part(str(given.get("source") or "")),
        scratch=scratch,
    )


def merged_metadata(items: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Metadata items, checked."""
    check_metadata(items)
    return [dict(item) for item in items]
