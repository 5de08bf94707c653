"""What Cloud Monitoring has measured of the VMs: one value a minute while a VM runs, by its load."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from costguard_sandbox.gce.vm import VM, Load

GPU = "agent.googleapis.com/gpu/utilization"
CPU = "compute.googleapis.com/instance/cpu/utilization"
RECEIVED = "compute.googleapis.com/instance/network/received_bytes_count"
SENT = "compute.googleapis.com/instance/network/sent_bytes_count"

MINUTE = timedelta(minutes=1)
# A measurement can be read some minutes after it was made (Google says: up to 240 s).
VISIBLE_AFTER = timedelta(minutes=3)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class MetricType:
    """Its kind, and the lowest and highest value of a minute, by what the guest does."""

    kind: str
    value_type: str
    unit: str
    busy: tuple[float, float]
    idle: tuple[float, float]


METRICS: Mapping[str, MetricType] = {
    GPU: MetricType("GAUGE", "DOUBLE", "%", (78, 99), (0, 1)),
    CPU: MetricType("GAUGE", "DOUBLE", "10^2.%", (0.3, 0.6), (0.002, 0.012)),
    RECEIVED: MetricType("DELTA", "INT64", "By", (60e6, 300e6), (9e3, 60e3)),
    SENT: MetricType("DELTA", "INT64", "By", (5e6, 20e6), (6e3, 40e3)),
}


@dataclass(frozen=True, slots=True)
class Series:
    """One stored series of one VM; its points are made when they are asked for."""

    metric: str
    metric_labels: Mapping[str, str]
    resource_labels: Mapping[str, str]
    vm: VM
    salt: str

    def points(self, after: datetime, until: datetime) -> Iterator[tuple[datetime, float]]:
        """Each minute in (after, until] for which the VM ran, the oldest first."""
        for run in self.vm.runs:
            begun = max(after, run.began + MINUTE - timedelta(microseconds=1))
            ended = until if run.ended is None else min(until, run.ended)
            minute = _EPOCH + ((begun - _EPOCH) // MINUTE + 1) * MINUTE
            while minute <= ended:
                load = self.vm.load_at(minute - MINUTE)
                if self.metric != GPU or load is not Load.NO_AGENT:
                    yield minute, self._value(minute, load)
                minute += MINUTE

    def _value(self, minute: datetime, load: Load) -> float:
        of = METRICS[self.metric]
        low, high = of.busy if load is Load.BUSY else of.idle
        drawn = zlib.crc32(f"{self.vm.id}:{self.metric}:{self.salt}:{minute.isoformat()}".encode()) / 0xFFFFFFFF
        value = low + (high - low) * drawn
        return float(int(value)) if of.value_type == "INT64" else value


def series_of(vms: Sequence[VM], metric: str) -> Iterator[Series]:
    """The series that the metric has of these VMs; GPUs have one each."""
    for vm in vms:
        resource = {"project_id": vm.project, "instance_id": str(vm.id), "zone": vm.zone}
        if metric != GPU:
            labels = {"instance_name": vm.name}
            if metric != CPU:
                labels["loadbalanced"] = "false"
            yield Series(metric, labels, resource, vm, "")
            continue
        for number in range(vm.shape.gpu_count):
            uuid = f"GPU-{zlib.crc32(f'{vm.id}/{number}'.encode()):08x}-0000-4000-8000-{vm.id % 16**12:012x}"
            labels = {"model": vm.shape.gpu_type, "gpu_number": str(number), "uuid": uuid}
            yield Series(metric, labels, resource, vm, str(number))
