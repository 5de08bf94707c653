"""Machine types and accelerator types, by zone.

Shapes are Google's: "GPU machine types" of AI Hypercomputer (A3, A4, A4X), "VM instance pricing" (A2, G2, G4, C4), and
names and zones were compared with skypilot-catalog v8 gcp/vms.csv @ 006059e, which is made from machineTypes.list.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from costguard_sandbox.gce.catalogue.regions import ZONES

_EPOCH = "1969-12-31T16:00:00.000-08:00"
_LOCAL_SSD_GIB = 375


_EVERY_MODEL = ("STANDARD", "SPOT", "FLEX_START", "RESERVATION_BOUND")


_A100, _A100_80, _L4 = "nvidia-tesla-a100", "nvidia-a100-80gb", "nvidia-l4"
_H100, _H100_MEGA, _H200 = "nvidia-h100-80gb", "nvidia-h100-mega-80gb", "nvidia-h200-141gb"
_B200, _GB200, _RTX_PRO = "nvidia-b200", "nvidia-gb200", "nvidia-rtx-pro-6000"
_V5E, _V5P, _V6E, _TPU7X = "ct5lp", "ct5p", "ct6e", "tpu7x"
TPUS = (_V5E, _V5P, _V6E, _TPU7X)
"""Accelerator types that are TPUs: v5e, v5p, v6e and TPU7x, as Compute Engine names them."""
# "GPU machine types": a3-highgpu-1g, -2g and -4g "you must create ... by using Spot VMs or Flex-start VMs".
_SMALL_A3 = ("SPOT", "FLEX_START")
# The same page: A3 Ultra and A4 by reservation, Spot, Flex-start or a resize request, so never on demand.
_NOT_ON_DEMAND = ("SPOT", "FLEX_START", "RESERVATION_BOUND")
# The same page: for A4X "you must reserve capacity"; "Spot VMs" lists it among what Spot does not support.
_RESERVED = ("RESERVATION_BOUND",)
# name -> (description, maximum cards per VM, zones), as Google lists them.
_ACCELERATORS: Mapping[str, tuple[str, int, str]] = {
    "nvidia-tesla-p100": (
        "NVIDIA Tesla P100",
        4,
        "us-central1-c us-central1-f us-east1-b us-east1-c us-west1-a us-west1-b europe-west1-b europe-west1-d "
        "europe-west4-a asia-east1-a asia-east1-c",
    ),
    "nvidia-tesla-p4": (
        "NVIDIA Tesla P4",
        4,
        "us-central1-a us-central1-c us-east4-a us-east4-b us-east4-c us-west2-b us-west2-c europe-west4-b "
        "europe-west4-c asia-southeast1-b asia-southeast1-c australia-southeast1-a australia-southeast1-b "
        "northamerica-northeast1-a northamerica-northeast1-b northamerica-northeast1-c",
    ),
    "nvidia-tesla-t4": (
        "NVIDIA T4",
        4,
        "us-central1-a us-central1-b us-central1-c us-central1-f us-east1-b us-east1-c us-east1-d us-east4-a "
        "us-east4-b us-east4-c us-west1-a us-west1-b us-west2-b us-west2-c us-west4-a us-west4-b europe-west1-b "
        "europe-west1-c europe-west1-d europe-west2-a europe-west2-b europe-west3-b europe-west4-a europe-west4-b "
        "europe-west4-c asia-east1-a asia-east1-b asia-east1-c asia-east2-a asia-east2-c asia-northeast1-a "
        "asia-northeast1-c asia-northeast3-b asia-northeast3-c asia-south1-a asia-south1-b asia-southeast1-a "
        "asia-southeast1-b asia-southeast1-c australia-southeast1-a australia-southeast1-c me-west1-b me-west1-c "
        "northamerica-northeast1-c southamerica-east1-a southamerica-east1-c",
    ),
    _L4: (
        "NVIDIA L4",
        8,
        "us-central1-a us-central1-b us-central1-c us-east1-b us-east1-c us-east1-d us-east4-a us-east4-c us-west1-a "
        "us-west1-b us-west1-c us-west4-a us-west4-c europe-west1-b europe-west1-c europe-west2-a europe-west2-b "
        "europe-west3-a europe-west3-b europe-west4-a europe-west4-b europe-west4-c europe-west6-b asia-east1-a "
        "asia-east1-b asia-east1-c asia-northeast1-a asia-northeast1-c asia-northeast3-a asia-northeast3-b "
        "asia-south1-a asia-south1-b asia-southeast1-a asia-southeast1-b asia-southeast1-c",
    ),
    "nvidia-tesla-v100": (
        "NVIDIA V100",
        8,
        "us-central1-a us-central1-b us-central1-c us-central1-f us-east1-c us-west1-a us-west1-b europe-west4-a "
        "europe-west4-b europe-west4-c asia-east1-c",
    ),
    _A100: (
        "NVIDIA A100 40GB",
        16,
        "us-central1-a us-central1-b us-central1-c us-central1-f us-east1-b us-west1-b us-west3-b us-west4-b "
        "europe-west4-a europe-west4-b asia-northeast1-a asia-northeast1-c asia-northeast3-a asia-northeast3-b "
        "asia-southeast1-b asia-southeast1-c me-west1-b me-west1-c",
    ),
    _A100_80: (
        "NVIDIA A100 80GB",
        8,
        "us-central1-a us-central1-c us-east4-c us-east5-a us-east5-b europe-west4-a asia-southeast1-c",
    ),
    _H100: (
        "NVIDIA H100 80GB",
        8,
        "us-central1-a us-central1-b us-central1-c us-east4-a us-east4-b us-east4-c us-east5-a us-west1-a us-west1-b "
        "us-west4-a europe-west1-b europe-west1-c europe-west4-b europe-west4-c asia-northeast1-b asia-southeast1-b "
        "asia-southeast1-c asia-south2-b europe-west3-a europe-west3-c asia-east1-c",
    ),
    _H100_MEGA: (
        "NVIDIA H100 80GB Mega",
        8,
        "us-central1-a us-central1-b us-central1-c us-east4-a us-east4-b us-east4-c us-east5-a us-west1-a us-west1-b "
        "us-west4-a europe-west1-b europe-west1-c europe-west3-c europe-west4-b europe-west4-c europe-north1-c "
        "asia-east1-c asia-northeast1-b asia-southeast1-b asia-southeast1-c australia-southeast1-c",
    ),
    _H200: (
        "NVIDIA H200 141GB",
        8,
        "us-central1-b us-east4-b us-east5-a us-south1-b us-west1-c europe-west1-b europe-west4-a asia-south1-b "
        "asia-south2-c",
    ),
    _B200: (
        "NVIDIA B200",
        8,
        "us-central1-b us-east1-b us-east4-b us-south1-b us-west2-c us-west3-b us-west3-c europe-north1-b "
        "europe-west4-b asia-northeast1-b asia-southeast1-b",
    ),
    # us-east1-d: a recorded reservation of a4x-highgpu-4g; the rest as Google names them for G4.
    _GB200: ("NVIDIA GB200", 4, "us-central1-a us-east1-d"),
    _RTX_PRO: (
        "NVIDIA RTX PRO 6000",
        8,
        "us-central1-b us-east1-b us-west1-c us-east4-b europe-west1-b europe-west4-c asia-south2-a asia-southeast1-b",
    ),
    # "TPU regions and zones"; Google describes these types by their names.
    _V5E: (_V5E, 8, "us-central1-a us-west4-a us-west4-b us-east5-b europe-west4-b"),
    _V5P: (_V5P, 4, "us-central1-a us-east5-a europe-west4-b"),
    _V6E: (_V6E, 8, "us-central1-b us-east1-d us-east5-a us-east5-b europe-west4-a asia-northeast1-b"),
    _TPU7X: (_TPU7X, 4, "us-central1-c"),
}
ACCELERATOR_TYPES: Mapping[str, tuple[str, ...]] = {
    zone: tuple(sorted(name for name, (_, _, zones) in _ACCELERATORS.items() if zone in zones.split()))
    for zone in ZONES
}
"""The accelerator types of each zone."""
_GPU_FRACTIONS = {"g4-standard-6": "1/8", "g4-standard-12": "1/4", "g4-standard-24": "1/2"}
_CUSTOM = re.compile(r"(?:(n1|n2|n2d|e2)-)?custom-(\d+)-(\d+)(-ext)?")
# E2 shared-core, custom: two vCPUs for the guest and from 1, 2 or 4 GiB up to twice that, in steps of 256 MiB.
_CUSTOM_SHARED = re.compile(r"e2-custom-(micro|small|medium)-(\d+)")
_LEAST_MIB = {"micro": 1024, "small": 2048, "medium": 4096}
_SHARED_CORE = re.compile(r"f1-micro|g1-small|e2-(custom-)?(micro|small|medium)(-\d+)?")


@dataclass(frozen=True, slots=True)
class MachineType:
    """A machine type. Only accelerator-optimized types have built-in `accelerators`."""

    name: str
    vcpus: int
    memory_mb: int
    accelerators: tuple[tuple[str, int], ...] = ()
    local_ssd_gib: int = 0
    """Bundled local SSD, without disks that a VM attaches itself."""
    models: tuple[str, ...] = _EVERY_MODEL
    """The provisioning models in which Google sells it."""


def _series(pattern: str, mb_per_vcpu: int, sizes: str) -> list[MachineType]:
    return [MachineType(pattern.format(size), int(size), int(size) * mb_per_vcpu) for size in sizes.split()]


def _sizes(pattern: str, sizes: str) -> list[MachineType]:
    """Sizes as vCPUs:GiB, where memory is not proportional to vCPUs."""
    pairs = (size.split(":") for size in sizes.split())
    return [MachineType(pattern.format(vcpus), int(vcpus), int(gib) * 1024) for vcpus, gib in pairs]


def _gpu(
    name: str,
    vcpus: int,
    memory_gib: int,
    accelerator: str,
    count: int,
    local_ssds: int = 0,
    models: tuple[str, ...] = _EVERY_MODEL,
) -> MachineType:
    return MachineType(name, vcpus, memory_gib * 1024, ((accelerator, count),), local_ssds * _LOCAL_SSD_GIB, models)


MACHINE_TYPES: Mapping[str, MachineType] = {
    machine.name: machine
    for machine in [
        MachineType("f1-micro", 1, 614),
        MachineType("g1-small", 1, 1740),
        *_series("n1-standard-{}", 3840, "1 2 4 8 16 32 64 96"),
        *_series("n1-highmem-{}", 6656, "2 4 8 16 32 64 96"),
        *_series("n1-highcpu-{}", 922, "2 4 8 16 32 64 96"),
        MachineType("e2-micro", 2, 1024),
        MachineType("e2-small", 2, 2048),
        MachineType("e2-medium", 2, 4096),
        *_series("e2-standard-{}", 4096, "2 4 8 16 32"),
        *_series("e2-highmem-{}", 8192, "2 4 8 16"),
        *_series("e2-highcpu-{}", 1024, "2 4 8 16 32"),
        *_series("n2-standard-{}", 4096, "2 4 8 16 32 48 64 80 96 128"),
        *_series("n2-highmem-{}", 8192, "2 4 8 16 32 48 64 80"),
        *_series("n2-highcpu-{}", 1024, "2 4 8 16 32 48 64 80 96"),
        *_series("n2d-standard-{}", 4096, "2 4 8 16 32 48 64 80 96 128 224"),
        *_series("n2d-highmem-{}", 8192, "2 4 8 16 32 48 64 80 96"),
        *_series("c2-standard-{}", 4096, "4 8 16 30 60"),
        *_series("c3-standard-{}", 4096, "4 8 22 44 88 176"),
        *_sizes("c4-standard-{}", "2:7 4:15 8:30 16:60 24:90 32:120 48:180 96:360 144:540 192:720 288:1080"),
        *_sizes("c4-highmem-{}", "2:15 4:31 8:62 16:124 24:186 32:248 48:372 96:744 144:1116 192:1488 288:2232"),
        *_series("c4-highcpu-{}", 2048, "2 4 8 16 24 32 48 96 144 192 288"),
        *_series("t2d-standard-{}", 4096, "1 2 4 8 16 32 48 60"),
        _gpu("a2-highgpu-1g", 12, 85, _A100, 1),
        _gpu("a2-highgpu-2g", 24, 170, _A100, 2),
        _gpu("a2-highgpu-4g", 48, 340, _A100, 4),
        _gpu("a2-highgpu-8g", 96, 680, _A100, 8),
        _gpu("a2-megagpu-16g", 96, 1360, _A100, 16),
        _gpu("a2-ultragpu-1g", 12, 170, _A100_80, 1, 1),
        _gpu("a2-ultragpu-2g", 24, 340, _A100_80, 2, 2),
        _gpu("a2-ultragpu-4g", 48, 680, _A100_80, 4, 4),
        _gpu("a2-ultragpu-8g", 96, 1360, _A100_80, 8, 8),
        _gpu("a3-highgpu-1g", 26, 234, _H100, 1, 2, _SMALL_A3),
        _gpu("a3-highgpu-2g", 52, 468, _H100, 2, 4, _SMALL_A3),
        _gpu("a3-highgpu-4g", 104, 936, _H100, 4, 8, _SMALL_A3),
        _gpu("a3-highgpu-8g", 208, 1872, _H100, 8, 16),
        _gpu("a3-edgegpu-8g", 208, 1872, _H100, 8, 16),
        _gpu("a3-edgegpu-8g-nolssd", 208, 1872, _H100, 8),
        _gpu("a3-megagpu-8g", 208, 1872, _H100_MEGA, 8, 16),
        _gpu("a3-ultragpu-8g", 224, 2952, _H200, 8, 32, _NOT_ON_DEMAND),
        _gpu("a3-ultragpu-8g-nolssd", 224, 2952, _H200, 8, 0, _NOT_ON_DEMAND),
        _gpu("a4-highgpu-8g", 224, 3968, _B200, 8, 32, _NOT_ON_DEMAND),
        _gpu("a4x-highgpu-4g", 140, 884, _GB200, 4, 32, _RESERVED),
        _gpu("g2-standard-4", 4, 16, _L4, 1),
        _gpu("g2-standard-8", 8, 32, _L4, 1),
        _gpu("g2-standard-12", 12, 48, _L4, 1),
        _gpu("g2-standard-16", 16, 64, _L4, 1),
        _gpu("g2-standard-24", 24, 96, _L4, 2),
        _gpu("g2-standard-32", 32, 128, _L4, 1),
        _gpu("g2-standard-48", 48, 192, _L4, 4),
        _gpu("g2-standard-96", 96, 384, _L4, 8),
        # An eighth, a quarter and half of a GPU: machineTypes.list gives them a count of 1 all the same.
        _gpu("g4-standard-6", 6, 22, _RTX_PRO, 1),
        _gpu("g4-standard-12", 12, 45, _RTX_PRO, 1),
        _gpu("g4-standard-24", 24, 90, _RTX_PRO, 1),
        _gpu("g4-standard-48", 48, 180, _RTX_PRO, 1),
        _gpu("g4-standard-96", 96, 360, _RTX_PRO, 2),
        _gpu("g4-standard-192", 192, 720, _RTX_PRO, 4),
        _gpu("g4-standard-384", 384, 1440, _RTX_PRO, 8),
        # "TPU machines", of 26 August 2026; v5e as machineTypes.list has it.
        _gpu("ct5lp-hightpu-1t", 24, 48, _V5E, 1),
        _gpu("ct5lp-hightpu-4t", 112, 192, _V5E, 4),
        _gpu("ct5lp-hightpu-8t", 224, 384, _V5E, 8),
        _gpu("ct5p-hightpu-4t", 208, 448, _V5P, 4),
        _gpu("ct6e-standard-1t", 44, 176, _V6E, 1),
        _gpu("ct6e-standard-4t", 180, 720, _V6E, 4),
        _gpu("ct6e-standard-8t", 360, 1440, _V6E, 8),
        _gpu("tpu7x-standard-4t", 224, 960, _TPU7X, 4),
    ]
}


def find(zone: str, name: str) -> MachineType | None:
    """The machine type with this name in this zone; custom types are computed from their name.

    None for an unknown name, or built-in GPUs that the zone lacks.
    """
    machine = MACHINE_TYPES.get(name)
    if machine is None:
        return _custom(name) if zone in ACCELERATOR_TYPES else None
    offered = ACCELERATOR_TYPES.get(zone)
    if offered is None or any(accelerator not in offered for accelerator, _ in machine.accelerators):
        return None
    return machine


def offered(zone: str) -> list[MachineType]:
    """`machineTypes.list`: every predefined type of the zone."""
    return [machine for name, machine in MACHINE_TYPES.items() if find(zone, name)]


def machine_type_resource(base_url: str, project: str, zone: str, machine: MachineType) -> dict[str, Any]:
    """`machineTypes.get`; built-in GPUs are in `accelerators`, which N1 types lack."""
    resource: dict[str, Any] = {
        "architecture": "ARM64" if machine.name.startswith("a4x-") else "X86_64",
        "creationTimestamp": _EPOCH,
        "description": _description(machine),
        "guestCpus": machine.vcpus,
        "id": str(1_000_000 + int.from_bytes(machine.name.encode()) % 9_000_000),
        "imageSpaceGb": 0,
        "isSharedCpu": _SHARED_CORE.fullmatch(machine.name) is not None,
        "kind": "compute#machineType",
        "maximumPersistentDisks": 128,
        "maximumPersistentDisksSizeGb": "263168",
        "memoryMb": machine.memory_mb,
        "name": machine.name,
        "selfLink": f"{base_url}/compute/v1/projects/{project}/zones/{zone}/machineTypes/{machine.name}",
        "zone": zone,
    }
    if machine.accelerators:
        resource["accelerators"] = [
            {"guestAcceleratorCount": count, "guestAcceleratorType": name} for name, count in machine.accelerators
        ]
    if machine.local_ssd_gib:
        resource["bundledLocalSsds"] = {
            "defaultInterface": "NVME",
            "partitionCount": machine.local_ssd_gib // (3000 if machine.name.startswith("a4x-") else _LOCAL_SSD_GIB),
        }
    return resource


def accelerator_type_resource(base_url: str, project: str, zone: str, name: str) -> dict[str, Any]:
    """`acceleratorTypes.get`. Raises KeyError for an unknown type."""
    title, most, _ = _ACCELERATORS[name]
    root = f"{base_url}/compute/v1/projects/{project}/zones/{zone}"
    return {
        "creationTimestamp": _EPOCH,
        "description": title,
        "id": str(10_001 + list(_ACCELERATORS).index(name)),
        "kind": "compute#acceleratorType",
        "maximumCardsPerInstance": most,
        "name": name,
        "selfLink": f"{root}/acceleratorTypes/{name}",
        "zone": root,
    }


def _custom(name: str) -> MachineType | None:
    match = _CUSTOM.fullmatch(name)
    if match is None:
        return _custom_shared(name)
    vcpus, memory_mb = int(match[2]), int(match[3])
    # Google takes one vCPU or an even number, and memory in steps of 256 MB.
    if vcpus < 1 or (vcpus > 1 and vcpus % 2) or memory_mb < 256 or memory_mb % 256:
        return None
    return MachineType(name, vcpus, memory_mb)


def _custom_shared(name: str) -> MachineType | None:
    match = _CUSTOM_SHARED.fullmatch(name)
    if match is None:
        return None
    least, memory_mb = _LEAST_MIB[match[1]], int(match[2])
    return MachineType(name, 2, memory_mb) if least <= memory_mb <= 2 * least and memory_mb % 256 == 0 else None


def _description(machine: MachineType) -> str:
    memory = f"{machine.memory_mb / 1024:.2f}".rstrip("0").rstrip(".")
    size = f"{machine.vcpus} vCPU{'s' if machine.vcpus > 1 else ''}, {memory} GB RAM"
    if fraction := _GPU_FRACTIONS.get(machine.name):
        return f"Graphics Optimized: {fraction} NVIDIA RTX PRO 6000 GPU, {size}"
    for name, count in machine.accelerators:
        if name in TPUS:
            return f"Accelerator Optimized: {count} {name} TPU chip{'s' if count > 1 else ''}, {size}"
        return f"Accelerator Optimized: {count} {_ACCELERATORS[name][0]} GPU{'s' if count > 1 else ''}, {size}"
    return size
