"""Reads in the words of a SKU what part of a VM it bills, or a commitment to which part its fee pays for. Pure.

An export names neither the machine family nor the usage type: only the words do. As the catalogue and recorded rows
print them: "N2 Instance Core running in Americas", "Custom Instance Ram running in Americas" (N1's), "Compute optimized
Core running in Americas" (C2's), "Nvidia Tesla T4 GPU running in Americas", "SSD backed Local Storage".
"""

from __future__ import annotations

import re
from enum import StrEnum
from functools import lru_cache
from typing import Final, NamedTuple


class PartKind(StrEnum):
    """The part of a VM that use is billed for. A fee is of none of them: it has a kind of its own."""

    HOST = "host"  # vCPUs and memory
    GPU = "gpu"  # GPUs and TPU chips, with their share of the VM where one SKU bills both
    SSD = "ssd"  # local SSD, whose SKU names no family
    FEE = "fee"  # of a commitment


class PartOfUse(NamedTuple):
    """`family` is the machine family, such as `n2`; "" where the words name none."""

    kind: PartKind
    family: str


# Sold at other terms, which no commitment takes anything off, or on top of something else.
_OTHER_TERMS: Final = re.compile(
    r"\b(spot|preemptible|dws|calendar|flex|sole tenancy|premium|licensing|virtual workstation|capacity optimized)\b"
)
_FAMILY: Final = r"(?P<family>[a-z]\d+[a-z]?|a3plus|a3ultra)"
_HOST: Final = re.compile(rf"(?:{_FAMILY} )?(?P<rest>[a-z -]*?) ?(?:instance )?(?:core|ram|cpu)\b.*")
_NAMELESS: Final = (("memory-optimized", "m1"), ("compute optimized", "c2"), ("custom", "n1"))
_SLICE: Final = re.compile(rf"{_FAMILY} nvidia g?b\d00 \(1 gpu slice\).*")
_GPU: Final = re.compile(r"(?:nvidia )?(?:tesla )?(?P<name>[a-z]\d+)\b.*\bgpu\b.*")
_RTX: Final = re.compile(r"(?:rtx 6000 96gb|1/8 vgpu)\b.*")
_TPU: Final = re.compile(r"tpu(?P<name>v5e|v5p|v6e|7x)\b.*")
_FAMILY_OF_GPU: Final = {
    **dict.fromkeys(("t4", "v100", "p100", "p4", "k80"), "n1"),
    "l4": "g2",
    "a100": "a2",
    "h100": "a3",
    "h200": "a3",
    "b200": "a4",
    "b300": "a4",
    "gb200": "a4x",
}
_SOLD_AS: Final = {"a3plus": "a3", "a3ultra": "a3"}
_COMMITMENT: Final = re.compile(r"commitment v1: (?P<what>.+?)(?: running)? in .+ for [13] years?")


def part_of_use(words: str) -> PartOfUse | None:
    """Returns the part of a VM that on-demand use is billed for by these words; None for all else, such as Spot."""
    lower = " ".join(words.lower().split())
    if _OTHER_TERMS.search(lower) or lower.startswith("commitment"):
        return None
    return _part(lower)


@lru_cache(maxsize=1024)
def family_of_fee(words: str) -> str:
    """Returns the machine family that a commitment to resources is of; "" for one to spend, and where none is named.

    The vCPUs and memory of a family without a name are N1's.
    """
    match = _COMMITMENT.fullmatch(" ".join(words.lower().split()))
    if match is None:
        return ""
    if match["what"] in ("cpu", "ram"):
        return "n1"
    part = _part(match["what"])
    return "" if part is None else part.family


def _part(lower: str) -> PartOfUse | None:
    if lower.startswith("ssd backed local storage"):
        return PartOfUse(PartKind.SSD, "")
    if slices := _SLICE.fullmatch(lower):
        return PartOfUse(PartKind.GPU, slices["family"])
    if tpu := _TPU.fullmatch(lower):
        return PartOfUse(PartKind.GPU, {"7x": "tpu7x"}.get(tpu["name"], tpu["name"]))
    if _RTX.fullmatch(lower):
        return PartOfUse(PartKind.GPU, "g4")
    if gpu := _GPU.fullmatch(lower):
        return PartOfUse(PartKind.GPU, _FAMILY_OF_GPU.get(gpu["name"], ""))
    if host := _HOST.fullmatch(lower):
        family = host["family"] or next((name for words, name in _NAMELESS if lower.startswith(words)), "")
        return PartOfUse(PartKind.HOST, _SOLD_AS.get(family, family)) if family else None
    return None
