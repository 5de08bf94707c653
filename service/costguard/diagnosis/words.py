"""Verdicts in plain words. Pure."""

from __future__ import annotations

from costguard.diagnosis import bounds
from costguard.diagnosis.bounds import BoundVerdict, Number

_HEADLINES = {
    bounds.INPUT: "its input",
    bounds.HOST: "its host code",
    bounds.INPUT_OR_HOST: "its input or its host code",
    bounds.COMMUNICATION: "communication",
    bounds.CHECKPOINT: "saving checkpoints",
    bounds.EVALUATION: "evaluation",
    bounds.MEMORY_CAPACITY: "the GPU's memory capacity",
    bounds.MEMORY_BANDWIDTH: "the GPU's memory bandwidth",
    bounds.THROTTLED: "a GPU that is slowed down",
    bounds.COMPUTE: "the GPU's computing",
    bounds.GPU: "the GPU",
    bounds.UNKNOWN: "unknown",
}
_CAUSES = {
    bounds.STORAGE: "slow storage",
    bounds.PROCESSORS: "too few processors",
    bounds.WORKERS: "too few loader workers",
    bounds.NETWORK: "the network",
    bounds.PYTHON: "work between steps",
    bounds.LAUNCHES: "small kernels",
    bounds.TENSOR: "tensor cores in use",
    bounds.FP32: "without tensor cores",
    bounds.UNDERFILLED: "kernels too small to fill it",
    bounds.MIXED: "tensor cores in part",
    bounds.HEAT: "heat",
    bounds.POWER: "power",
}


def headline(verdict: BoundVerdict) -> str:
    """`its input (too few loader workers)`, after "bound by"; `unknown`."""
    bound = _HEADLINES.get(verdict.bound, verdict.bound)
    return bound if verdict.cause is None else f"{bound} ({_CAUSES.get(verdict.cause, verdict.cause)})"


def number_text(number: Number) -> str:
    """`without a kernel 63 %`."""
    return f"{number.name} {value_text(number)}"


def value_text(number: Number) -> str:
    if number.unit == "share":
        return f"{number.value:.0%}"
    if number.unit == "bytes_per_s":
        return f"{number.value / 1e6:,.0f} MB/s" if number.value >= 1e6 else f"{number.value / 1e3:,.0f} kB/s"
    return f"{number.value:.1f}" if number.unit == "cores" else f"{number.value:,.0f}"
