"""VMs with the same GPUs and more vCPUs than a recipe's. Pure."""

from __future__ import annotations

import re
from dataclasses import replace

from costguard.model.instance import Shape

# vCPUs of the types with so many L4: cloud.google.com/compute/docs/accelerator-optimized-machines, G2 standard types.
_G2 = {1: (4, 8, 12, 16, 32), 2: (24,), 4: (48,), 8: (96,)}
_N1 = (1, 2, 4, 8, 16, 32, 64, 96)
# The most vCPUs of an N1 VM for each attached GPU: cloud.google.com/compute/docs/gpus, "N1 machine series". In some
# zones Google allows more for some of them; these are the figures that hold in all.
_MOST_FOR_EACH = {
    "nvidia-tesla-k80": 8,
    "nvidia-tesla-v100": 12,
    "nvidia-tesla-p100": 16,
    "nvidia-tesla-p4": 24,
    "nvidia-tesla-t4": 24,
}
_TYPE = re.compile(r"(n1-standard|n1-highmem|g2-standard)-[0-9]+")


def next_larger(shape: Shape) -> Shape | None:
    """The next type of the same series with the same GPUs; None where there is none, or where none is known.

    A2, A3, A4 and G4 types have as many vCPUs as belong to their GPUs.
    """
    match = _TYPE.fullmatch(shape.machine_type)
    if match is None or not shape.gpu_type or not shape.vcpus:
        return None
    if match[1] == "g2-standard":
        sizes = _G2.get(shape.gpu_count, ())
    else:
        most = _MOST_FOR_EACH.get(shape.gpu_type, 0) * shape.gpu_count
        sizes = tuple(size for size in _N1 if size <= most)
    vcpus = next((size for size in sizes if size > shape.vcpus), None)
    if vcpus is None:
        return None
    memory_mib = shape.memory_mib * vcpus // shape.vcpus
    return replace(shape, machine_type=f"{match[1]}-{vcpus}", vcpus=vcpus, memory_mib=memory_mib)
