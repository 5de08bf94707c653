"""The billed resources of a running VM, and how much of each it uses.

Google's rules, as its catalogue's SKUs show them: most VMs pay for vCPUs, memory, GPUs and local SSD; f1-micro and
g1-small have one price for all (cloud.google.com/compute/vm-instance-pricing#sharedcore); the SKU of a B200 or GB200
("1 gpu slice"), and that of an eighth of an RTX PRO 6000 ("1/8 vGPU"), cover the VM around the GPU, local SSD included
(dstackai/gpuhunt and SpareCores/sc-crawler bill them so, and a4-highgpu-8g has no other SKU). So does the SKU of a TPU
chip: the catalogue has no core or memory of a TPU machine type, and cloud.google.com/compute/docs/tpus/tpu-machines no
local SSD.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Final

from costguard.model.instance import CAPACITY_OPTIMIZED, TPUS, Shape, gpu_words
from costguard.model.managed.machines import ManagedMachines, Seller
from costguard.model.price import FEE, sold_by, without_commitment
from costguard.model.words import count_text

# cloud.google.com/compute/docs/general-purpose-machines: these show two vCPUs and bill a share of one. Of the custom
# ones nothing is published; the shares are those of the predefined ones.
_SHARED_CORE: Final = re.compile(r"e2-(?:custom-)?(micro|small|medium)(?:-\d+)?")
_SHARES: Final = {"micro": Fraction(1, 4), "small": Fraction(1, 2), "medium": Fraction(1)}

_WHOLE_VM: Final = frozenset({"f1-micro", "g1-small"})
_SLICED_FAMILIES: Final = frozenset({"a4", "a4x"})
EIGHTHS_OF_A_GPU: Final = {"g4-standard-6": 1, "g4-standard-12": 2, "g4-standard-24": 4}

# Custom memory above so many GiB a vCPU has a SKU and a price of its own, about twice the other's
# (cloud.google.com/compute/vm-instance-pricing, "N1 extended custom memory" and its like).
_EXTENDED_ABOVE: Final = {"n1": Fraction(13, 2), "n2": Fraction(8), "n2d": Fraction(8)}

_PARTS: Final = {"core": "vCPU", "ram": "memory"}
_ALONE: Final = {
    "local-ssd": "Local SSD",
    "suspended-memory": "Memory of suspended VMs",
    "external-ip": "External address",
    "static-ip": "Static address that nothing uses",
    "snapshot": "Snapshot",
    "image": "Image",
    "external-ip:spot": "External address of a Spot VM",
}

# Families of machine types whose SKUs have another name.
_FAMILIES: Final = (("a3-megagpu-", "a3plus"), ("a3-ultragpu-", "a3ultra"))


@dataclass(frozen=True, slots=True)
class BilledPart:
    """A quantity of one billed resource: vCPUs, GiB of memory or disk, GPUs, or whole VMs."""

    resource: str
    quantity: Fraction
    has_minimum: bool = True  # whether a run of less than a minute pays for the whole minute of it


@lru_cache(maxsize=4096)
def parts_of_shape(shape: Shape) -> tuple[BilledPart, ...]:
    """Returns the billed parts of a running VM of this shape; empty when its machine type is not known."""
    if not shape.is_known:
        return ()
    managed = ManagedMachines.read(shape.machine_type)
    if managed is not None:
        return _of_service(shape, managed)
    whole = _as_a_whole(shape)
    if whole is not None:
        return (whole,)
    family = _price_family(shape)
    shared = _SHARED_CORE.fullmatch(shape.machine_type)
    parts = [
        BilledPart(f"{family}:core", _SHARES[shared[1]] if shared else Fraction(shape.vcpus)),
        *_memory(shape, family),
    ]
    if shape.gpu_type is not None and shape.gpu_count > 0:
        parts.append(BilledPart(f"gpu:{shape.gpu_type}", Fraction(shape.gpu_count)))
    if shape.local_ssd_gib > 0:
        parts.append(BilledPart("local-ssd", Fraction(shape.local_ssd_gib), has_minimum=False))
    return tuple(parts)


def _of_service(shape: Shape, machines: ManagedMachines) -> tuple[BilledPart, ...]:
    """The parts of all machines of a service: by its own SKUs, or by Compute Engine's and a fee for most of them.

    Bills of August 2025 show both (a3-highgpu-8g, custom training and prediction, on demand and flex-start): SKUs of
    the service's own for GPUs, vCPUs and memory, and none for local SSD; with a fee, Compute Engine's four and a fee
    for GPUs, vCPUs and memory; in both the service's own SKU for boot disks of custom training. Of a minimum neither
    these nor Google's page of prices say anything: each second is billed.
    """
    count, mark = machines.count, machines.seller.mark
    one = replace(
        shape,
        machine_type=machines.machine_type,
        vcpus=shape.vcpus // count,
        memory_mib=shape.memory_mib // count,
        gpu_count=shape.gpu_count // count,
        local_ssd_gib=shape.local_ssd_gib // count,
    )
    bare = [BilledPart(part.resource, part.quantity * count, has_minimum=False) for part in parts_of_shape(one)]
    managed = [part for part in bare if part.resource != "local-ssd"]
    parts = [
        *(bare if machines.pays_fee else ()),
        *(replace(part, resource=sold_by(part.resource, mark, is_fee=machines.pays_fee)) for part in managed),
    ]
    if machines.disk_gib:
        resource = f"disk:{mark}-{machines.disk_type}"
        parts.append(BilledPart(resource, Fraction(machines.disk_gib * count), has_minimum=False))
    return tuple(parts)


def _memory(shape: Shape, family: str) -> list[BilledPart]:
    """Extended memory of a family without a known limit is left to a part that has no price."""
    memory = Fraction(shape.memory_mib, 1024)
    if not shape.machine_type.endswith("-ext"):
        return [BilledPart(f"{family}:ram", memory)]
    ordinary = min(memory, _EXTENDED_ABOVE.get(shape.family, Fraction(0)) * shape.vcpus)
    parts = (BilledPart(f"{family}:ram", ordinary), BilledPart(f"{family}-extended:ram", memory - ordinary))
    return [part for part in parts if part.quantity]


def is_billed_as_gpus(shape: Shape) -> bool:
    """Says whether the price of its GPUs covers the whole VM."""
    whole = _as_a_whole(shape)
    return whole is not None and whole.resource.startswith("gpu:")


def _as_a_whole(shape: Shape) -> BilledPart | None:
    """The one part that covers everything; None where a VM is billed by what it is made of.

    A VM of a sliced family without a known GPU is left to the parts, of which none has a price.
    """
    if shape.machine_type in _WHOLE_VM:
        return BilledPart(f"{shape.machine_type}:whole", Fraction(1))
    if shape.gpu_type is None or shape.gpu_count <= 0:
        return None
    if shape.family in _SLICED_FAMILIES or shape.has_tpus:
        sold_as = f"{shape.gpu_type}{CAPACITY_OPTIMIZED if shape.machine_type.endswith(CAPACITY_OPTIMIZED) else ''}"
        return BilledPart(f"gpu:{sold_as}:whole", Fraction(shape.gpu_count))
    eighths = EIGHTHS_OF_A_GPU.get(shape.machine_type)
    return BilledPart(f"gpu:{shape.gpu_type}-1/8:whole", Fraction(eighths)) if eighths else None


def _price_family(shape: Shape) -> str:
    """Custom machine types have SKUs of their own, a little dearer."""
    for prefix, family in _FAMILIES:
        if shape.machine_type.startswith(prefix):
            return family
    return f"{shape.family}-custom" if "custom-" in shape.machine_type else shape.family


def accelerator_kind(resource: str) -> str | None:
    """`GPU` or `TPU`; None for a resource that is no accelerator."""
    family, _, part = without_commitment(resource)[0].partition(":")
    if family != "gpu" or resource.endswith(FEE):
        return None
    return "TPU" if part.partition(":")[0] in TPUS else "GPU"


def resource_words(resource: str) -> str:
    """`T4 GPU`, `v6e TPU chip with its share of the VM`, `N1 vCPU`, `N1 memory`, `f1-micro VM`, `pd-ssd disk`, and
    `N1 vCPU, committed for 1 year`, `A3 vCPU of Vertex training`, `Fee of Vertex training for H100 80GB GPU`
    """
    resource, years = without_commitment(resource)
    if years:
        return f"{resource_words(resource)}, committed for {count_text(years, 'year')}"
    for seller in Seller:
        if seller.mark in resource:
            bare = resource_words(
                resource.removesuffix(FEE).replace(f"{seller.mark}-", "").replace(f":{seller.mark}", "")
            )
            return f"Fee of {seller} for {bare}" if resource.endswith(FEE) else f"{bare} of {seller}"
    family, _, part = resource.partition(":")
    part, _, whole = part.partition(":")
    if family == "gpu":
        kind = "TPU chip" if accelerator_kind(resource) == "TPU" else "GPU"
        return f"{gpu_words(part)} {kind}{' with its share of the VM' if whole else ''}"
    if part == "whole":
        return f"{family} VM"
    if family == "disk":
        return f"{part} disk"
    return f"{family.upper()} {_PARTS[part]}" if part in _PARTS else _ALONE.get(resource, resource)
