"""Measured utilisation, and what it says about idleness."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

WHOLE_BP = 10_000  # basis points of all
_MICROSECOND = timedelta(microseconds=1)


class Metric(StrEnum):
    GPU = "gpu"  # basis points of each GPU's time in which some kernel ran; measured by the Ops Agent alone
    SM = "sm"  # basis points of each GPU's multiprocessors that worked; where DCGM or our agent reads them
    POWER = "power"  # basis points of the most power over idle that was seen of each GPU; our agent alone reads it
    TPU = "tpu"  # basis points of each TPU chip's time in which it worked: its duty cycle
    CPU = "cpu"  # basis points of all vCPUs; measured from outside
    REQUESTS = "requests"  # that a deployed model of Vertex AI answered
    RECEIVED = "received"  # bytes a second
    SENT = "sent"


@dataclass(frozen=True, slots=True)
class Sample:
    """A metric's value over the minutes that end at `at`."""

    at: datetime
    value: int


Series = tuple[Sample, ...]  # the oldest first


@dataclass(frozen=True, slots=True)
class Usage:
    """The series of one project's VMs; a metric in `unread` could not be read, in a sentence.

    No series means not measured, which is not idle. Those of resources of Vertex AI are by `measured_as` of their ids,
    and `vertex_unread` says why they could not all be read.
    """

    project: str
    series: Mapping[tuple[str, Metric], tuple[Series, ...]] = field(default_factory=dict)
    unread: Mapping[Metric, str] = field(default_factory=dict)
    vertex_unread: str = ""

    def of(self, gce_id: str, metric: Metric) -> tuple[Series, ...]:
        """Returns the series of a metric: one of each GPU or TPU chip, and at most one of the other metrics."""
        return self.series.get((gce_id, metric), ())


@dataclass(frozen=True, slots=True)
class IdleRule:
    """Idle is what stays under the threshold for the whole window. Thresholds are basis points."""

    gpu_below: int
    cpu_below: int
    window: timedelta
    sm_below: int = 500


class IdleState(StrEnum):
    BUSY = "busy"
    IDLE = "idle"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Evidence:
    """The idle state of a VM, with its evidence.

    `is_weak`, of a VM with GPUs: idle by CPU and network alone, or busy by them or by utilisation alone, which one busy
    multiprocessor fills. `gpu_mean` and `gpu_max` are those of TPU chips where a VM has them.
    """

    state: IdleState
    since: datetime
    sentence: str
    is_weak: bool = False
    gpu_mean: int | None = None
    gpu_max: int | None = None
    cpu_max: int | None = None
    sm_mean: int | None = None
    sm_max: int | None = None


@dataclass(frozen=True, slots=True)
class GpuUse:
    """The time of all GPUs of a fleet's running VMs, the part whose utilisation is known, and what of it was used."""

    gpu_time: timedelta
    known_time: timedelta
    used_time: timedelta

    @property
    def used_bp(self) -> int | None:
        """Returns the mean utilisation of the known part, in basis points; None where nothing of it is known."""
        if not self.known_time:
            return None
        return WHOLE_BP * (self.used_time // _MICROSECOND) // (self.known_time // _MICROSECOND)

    @property
    def known_percent(self) -> int | None:
        """Returns the known share of the GPU time, cut off; None where no GPU ran."""
        return 100 * (self.known_time // _MICROSECOND) // (self.gpu_time // _MICROSECOND) if self.gpu_time else None
