"""`nvidia-smi` in a VM with simulated GPUs, whose utilisation is not measured."""

from __future__ import annotations

import sys

_NOT_MEASURED = "[N/A]"
GPUS = {  # name, and memory in MiB
    "nvidia-tesla-t4": ("Tesla T4", "15360"),
    "nvidia-tesla-v100": ("Tesla V100-SXM2-16GB", "16384"),
    "nvidia-tesla-p100": ("Tesla P100-PCIE-16GB", "16384"),
    "nvidia-tesla-p4": ("Tesla P4", "7680"),
    "nvidia-l4": ("NVIDIA L4", "23034"),
    "nvidia-tesla-a100": ("NVIDIA A100-SXM4-40GB", "40960"),
    "nvidia-a100-80gb": ("NVIDIA A100-SXM4-80GB", "81920"),
    "nvidia-h100-80gb": ("NVIDIA H100 80GB HBM3", "81559"),
}


def rows(vm: str, kind: str, count: int, fields: list[str]) -> list[str]:
    """Returns one line a GPU, as `--format=csv,noheader,nounits` shows it."""
    name, memory = GPUS.get(kind, (kind, _NOT_MEASURED))
    lines = []
    for index in range(count):
        values = {
            "index": str(index),
            "uuid": f"GPU-{int(vm):016x}-{index}",
            "name": name,
            "memory.total": memory,
        }
        lines.append(", ".join(values.get(field, _NOT_MEASURED) for field in fields))
    return lines


def main() -> int:
    """`nvidia-smi VM KIND COUNT [--query-gpu=FIELDS ...]`"""
    vm, kind, count, *words = sys.argv[1:]
    queries = [word.partition("=")[2] for word in words if word.startswith("--query-gpu=")]
    fields = queries[0].split(",") if queries else ["index", "name", "uuid"]
    sys.stdout.write("".join(f"{row}\n" for row in rows(vm, kind, int(count), fields)))
    return 0
