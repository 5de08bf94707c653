"""The parts that a VM bills while it runs: which SKUs, and how much of each."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction

from costguard_sandbox.gce.vm import Shape


@dataclass(frozen=True, slots=True)
class Part:
    """`quantity` is in vCPUs, GiB or GPUs; `minute` says whether a short run pays for a whole minute of it."""

    resource: str
    quantity: Fraction
    minute: bool = True


# Google, VM instance pricing, "N1 shared-core machine types": one price an hour, cores and memory inside.
# Cloud Billing Catalog: "Micro Instance with burstable CPU" and "Small Instance with 1 VCPU".
_WHOLE_PRICE = frozenset({"f1-micro", "g1-small"})

# Google, VM instance pricing, "E2 shared-core machine types": "totaling 25% CPU time and effectively consuming
# 0.25 cores", 50 % and 0.50, 100 % and 1.0. Recorded: rows G-res2 show a guest of two vCPUs with 3,600
# core-seconds an hour. For the custom forms no page says so; the one published quote fits the same parts.
_E2_SHARED: Mapping[str, Fraction] = {"micro": Fraction(1, 4), "small": Fraction(1, 2), "medium": Fraction(1)}
_E2_NAME = re.compile(r"e2-(custom-)?(micro|small|medium)(-\d+)?")

# Google, VM instance pricing, "N1 extended custom memory" and its like: what a custom VM has above so many GiB for each
# vCPU is charged at a price of its own. Its machine type ends in -ext.
_ORDINARY_GIB_PER_VCPU: Mapping[str, Fraction] = {"n1": Fraction(13, 2), "n2": Fraction(8), "n2d": Fraction(8)}

# Google, VM instance pricing: memory is counted in gigabytes of 2^30 bytes; machine types give it in MiB.
_MIB_PER_GIB = 1024


# Cloud Billing Catalog: A3 Mega and A3 Ultra have core and memory SKUs of their own ("A3Plus", "A3Ultra").
_SERIES = (("a3-megagpu-", "a3plus"), ("a3-ultragpu-", "a3ultra"))

# Cloud Billing Catalog of 2026: "A4 Nvidia B200 (1 gpu slice)" is the only SKU that A4 has. On Google's page a Spot
# a4-highgpu-8g with its 12,000 GiB of local SSD costs eight times one of them: it covers everything.
_GPU_COVERS_ALL = frozenset({"nvidia-b200", "nvidia-gb200"})

# Cloud Billing Catalog of 2026: "1/8 vGPU no lssd" covers cores, memory and GPU of a g4-standard-6.
_EIGHTHS: Mapping[str, int] = {"g4-standard-6": 1, "g4-standard-12": 2, "g4-standard-24": 4}


def parts_of(shape: Shape) -> Iterator[Part]:
    """Cores, memory, GPUs and local SSD of a VM that runs.

    Google, VM instance pricing, "Resource-based pricing": each vCPU and each GB of memory is billed by itself; a GPU
    adds to that ("GPU options"), built in or attached.
    """
    if shape.machine_type in _EIGHTHS:
        yield Part(f"slice:{shape.gpu_type}", Fraction(_EIGHTHS[shape.machine_type]))
        return
    if shape.gpu_type in _GPU_COVERS_ALL:
        yield Part(f"gpu:{shape.gpu_type}", Fraction(shape.gpu_count))
        return
    if shape.machine_type in _WHOLE_PRICE:
        yield Part(f"shared:{shape.machine_type}", Fraction(1))
    else:
        series = _series(shape)
        yield Part(f"{series}:core", _billed_vcpus(shape))
        ordinary = min(gibibytes_of_memory(shape), _most_ordinary_memory(shape))
        yield Part(f"{series}:ram", ordinary)
        if extended := gibibytes_of_memory(shape) - ordinary:
            yield Part(f"{series}-extended:ram", extended)
    if shape.gpu_count:
        yield Part(f"gpu:{shape.gpu_type}", Fraction(shape.gpu_count))
    if shape.local_ssd_gib:
        # The minute holds for "vCPUs, GPUs, and GB of memory" (billing model); local SSD is a disk-related charge,
        # "prorated based on a granularity of seconds" (disk and image pricing).
        yield Part("local-ssd", Fraction(shape.local_ssd_gib), minute=False)


def gibibytes_of_memory(shape: Shape) -> Fraction:
    return Fraction(shape.memory_mb, _MIB_PER_GIB)


def _most_ordinary_memory(shape: Shape) -> Fraction:
    """GiB at the ordinary price of custom memory; all there is where the type has no extended memory."""
    most = _ORDINARY_GIB_PER_VCPU.get(shape.family) if shape.machine_type.endswith("-ext") else None
    return gibibytes_of_memory(shape) if most is None else most * shape.vcpus


def _billed_vcpus(shape: Shape) -> Fraction:
    shared = _E2_NAME.fullmatch(shape.machine_type)
    return _E2_SHARED[shared[2]] if shared else Fraction(shape.vcpus)


def _series(shape: Shape) -> str:
    """Whose cores and memory are billed. Custom types have SKUs of their own; E2's are 5 % dearer on Google's page."""
    if "custom-" in shape.machine_type:
        return f"{shape.family}-custom"
    return next((series for prefix, series in _SERIES if shape.machine_type.startswith(prefix)), shape.family)
