"""The values of a verdict on a run: its kinds, its causes, and the numbers that it rests on. Pure."""

from __future__ import annotations

from typing import NamedTuple

INPUT, HOST, INPUT_OR_HOST = "input", "host", "input or host"
COMMUNICATION, CHECKPOINT, EVALUATION = "communication", "checkpoint", "evaluation"
MEMORY_CAPACITY, MEMORY_BANDWIDTH, THROTTLED = "memory capacity", "memory bandwidth", "throttled"
COMPUTE, GPU, NOT_COMPUTING, UNKNOWN = "compute", "gpu", "not computing", "unknown"
BOUNDS = (
    *(INPUT, HOST, INPUT_OR_HOST, COMMUNICATION, CHECKPOINT, EVALUATION, MEMORY_CAPACITY, MEMORY_BANDWIDTH),
    *(THROTTLED, COMPUTE, GPU, NOT_COMPUTING, UNKNOWN),
)
WAITS = frozenset({INPUT, HOST, INPUT_OR_HOST, COMMUNICATION, CHECKPOINT, EVALUATION})  # of these the GPU waits

# Causes: of input, of host, of compute, of throttled.
STORAGE, PROCESSORS, WORKERS, NETWORK = "storage", "processors", "workers", "network"
PYTHON, LAUNCHES = "python", "launches"
TENSOR, FP32, UNDERFILLED, MIXED = "tensor cores", "no tensor cores", "small kernels", "mixed"
HEAT, POWER = "heat", "power"


class Number(NamedTuple):
    """A number that a verdict rests on."""

    name: str
    value: float
    unit: str  # share, cores, count, bytes_per_s, looks


class BoundVerdict(NamedTuple):
    """`share` is of the time that the bound costs, or in which it held; `why` says what is missing or seen."""

    bound: str
    cause: str | None
    share: float | None
    numbers: tuple[Number, ...]
    why: str


def some(*numbers: Number | None) -> tuple[Number, ...]:
    return tuple(one for one in numbers if one is not None)
