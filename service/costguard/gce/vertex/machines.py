"""Reads what machines a resource of Vertex AI has: their type, their number, and how they are sold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from costguard.gce.fields import moment, number, word
from costguard.gce.machine_types import by_rule
from costguard.model.instance import AttachedDisk, ProvisioningModel, Shape
from costguard.model.managed.machines import UNKNOWN_TYPE, ManagedMachines, Seller

# Vertex AI names GPUs as Compute Engine does, in capitals: NVIDIA_TESLA_T4, NVIDIA_H100_MEGA_80GB.
_GPU = "NVIDIA_"
# Of aiplatform.v1 in Google's API discovery (revision 20261106), DiskSpec: "For non-A3U machines, the default value is
# pd-ssd, for A3U machines, the default value is hyperdisk-balanced", and "default is 100GB".
_DISK_GIB = 100
# The same, Scheduling.strategy: LOW_COST is "low cost by making potential use of spot resources", and deprecated.
_STRATEGIES = {
    "SPOT": ProvisioningModel.SPOT,
    "LOW_COST": ProvisioningModel.SPOT,
    "FLEX_START": ProvisioningModel.FLEX_START,
}


def model_of_strategy(strategy: Any) -> ProvisioningModel:
    return _STRATEGIES.get(strategy, ProvisioningModel.STANDARD)


def count_of(value: Any) -> int:
    """A number that the API writes as text or number; 0 where there is none. Raises Garbled."""
    return number(value or 0)


def shape_of(
    seller: Seller, spec: Mapping[str, Any], count: int, model: ProvisioningModel, disk: Mapping[str, Any] | None = None
) -> Shape:
    """The shape of all `count` machines of one spec together. `disk`: the spec of boot disks that the service bills.

    Spot, flex-start and a reservation that is named are billed by Compute Engine with a fee (Google's page of prices of
    Vertex AI, "custom-trained models"). Machines that may use any reservation that fits are taken for bought on demand.
    """
    machine_type = word(spec.get("machineType") or UNKNOWN_TYPE)
    reserved = (spec.get("reservationAffinity") or {}).get("reservationAffinityType") == "SPECIFIC_RESERVATION"
    gib, kind = 0, ""
    if disk is not None:
        gib = count_of(disk.get("bootDiskSizeGb")) or _DISK_GIB
        default = "hyperdisk-balanced" if machine_type.startswith("a3-ultragpu") else "pd-ssd"
        kind = word(disk.get("bootDiskType") or default)
    pays_fee = model is not ProvisioningModel.STANDARD or reserved
    written = str(ManagedMachines(seller, machine_type, count, pays_fee, gib, kind))
    machine = by_rule(machine_type)
    if machine is None:
        return Shape(written, 0, 0, *_gpus(spec, count))
    gpu_type, gpus = (machine.gpu_type, machine.gpu_count * count) if machine.gpu_type else _gpus(spec, count)
    return Shape(
        written, machine.vcpus * count, machine.memory_mib * count, gpu_type, gpus, machine.local_ssd_gib * count
    )


def disks_of_runtime(raw: Mapping[str, Any]) -> tuple[AttachedDisk, ...]:
    """Returns the disks of a runtime of Colab Enterprise. They bill from its creation until it is deleted.

    "You are also charged for boot disk and data disk storage", also "while runtimes are shut down"; "runtimes always
    include a 100 GiB SSD persistent disk in addition to the data disk" (docs.cloud.google.com/colab/docs/runtimes).
    A data disk of which nothing is said is 100 GB of pd-standard (PersistentDiskSpec of aiplatform.v1). Raises Garbled.
    """
    spec, created_at = raw.get("dataPersistentDiskSpec") or {}, moment(raw["createTime"])
    gib, kind = count_of(spec.get("diskSizeGb")) or _DISK_GIB, word(spec.get("diskType") or "pd-standard")
    mark = Seller.COLAB.mark
    return (
        AttachedDisk("boot disk", _DISK_GIB, f"{mark}-pd-ssd", created_at, boot=True, auto_delete=True),
        AttachedDisk("data disk", gib, f"{mark}-{kind}", created_at, auto_delete=True),
    )


def idle_shutdown_of(raw: Mapping[str, Any]) -> str:
    """Returns the seconds without activity after which Colab stops a runtime: `10800`; `off`; "" where it is not known.

    NotebookIdleShutdownConfig of aiplatform.v1: a duration such as `10800s`, 10 minutes to a day.
    """
    config = raw.get("idleShutdownConfig") or {}
    if config.get("idleShutdownDisabled") is True:
        return "off"
    seconds = str(config.get("idleTimeout") or "").removesuffix("s").partition(".")[0]
    return seconds if seconds.isdecimal() else ""


def _gpus(spec: Mapping[str, Any], count: int) -> tuple[str | None, int]:
    kind = spec.get("acceleratorType")
    per_machine = count_of(spec.get("acceleratorCount"))
    if not kind or not word(kind).startswith(_GPU) or not per_machine:
        return None, 0
    return kind.lower().replace("_", "-"), per_machine * count
