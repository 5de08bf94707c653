"""Verdicts in plain words. Pure."""

from __future__ import annotations

from costguard_vm.diagnosis import kinds
from costguard_vm.diagnosis.kinds import BoundVerdict, Number

_HEADLINES = {
    kinds.INPUT: "its input",
    kinds.HOST: "its host code",
    kinds.INPUT_OR_HOST: "its input or its host code",
    kinds.COMMUNICATION: "communication",
    kinds.CHECKPOINT: "saving checkpoints",
    kinds.EVALUATION: "evaluation",
    kinds.MEMORY_CAPACITY: "the GPU's memory capacity",
    kinds.MEMORY_BANDWIDTH: "the GPU's memory bandwidth",
    kinds.THROTTLED: "a GPU that is slowed down",
    kinds.COMPUTE: "the GPU's computing",
    kinds.GPU: "the GPU",
    kinds.NOT_COMPUTING: "kernels that wait or hardly compute",
    kinds.UNKNOWN: "unknown",
}
_CAUSES = {
    kinds.STORAGE: "slow storage",
    kinds.PROCESSORS: "too few processors",
    kinds.WORKERS: "too few loader workers",
    kinds.NETWORK: "the network",
    kinds.PYTHON: "work between steps",
    kinds.LAUNCHES: "small kernels",
    kinds.TENSOR: "tensor cores in use",
    kinds.FP32: "without tensor cores",
    kinds.UNDERFILLED: "kernels too small to fill it",
    kinds.MIXED: "tensor cores in part",
    kinds.HEAT: "heat",
    kinds.POWER: "power",
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
