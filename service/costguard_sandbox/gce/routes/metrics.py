"""The simulated measurements of VMs: which metrics there are, and the series of each."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from costguard_sandbox.gce.catalogue.machine_types import TPUS
from costguard_sandbox.gce.catalogue.regions import project_number
from costguard_sandbox.gce.vertex import ManagedThing
from costguard_sandbox.gce.vm import VM, Load

GPU = "agent.googleapis.com/gpu/utilization"
CPU = "compute.googleapis.com/instance/cpu/utilization"
RECEIVED = "compute.googleapis.com/instance/network/received_bytes_count"
SENT = "compute.googleapis.com/instance/network/sent_bytes_count"
# What the Ops Agent's DCGM receiver writes, in its two versions:
# https://docs.cloud.google.com/monitoring/agent/ops-agent/third-party-nvidia
SM_V1 = "workload.googleapis.com/dcgm.gpu.profiling.sm_utilization"
SM_V2 = "workload.googleapis.com/gpu.dcgm.sm.utilization"
# Of TPUs: monitored resource tpu.googleapis.com/GceTpuWorker, in percent, one series a chip.
TPU = "tpu.googleapis.com/accelerator/duty_cycle"
# Of TPUs of GKE nodes: one series a chip, whose accelerator_id is the VM's id, a hyphen and the chip's number, as GKE's
# TPU device plugin writes it (a golden file of its output in facebookincubator/dynolog; ray's reporter agent).
GKE_TPU = "kubernetes.io/node/accelerator/duty_cycle"
# Of Vertex AI (its list of metrics, 2026): of replicas of deployed models and machines of custom jobs, each minute.
# Requests are written where there are any.
MODEL_GPU = "aiplatform.googleapis.com/prediction/online/accelerator/duty_cycle"
MODEL_CPU = "aiplatform.googleapis.com/prediction/online/cpu/utilization"
MODEL_RECEIVED = "aiplatform.googleapis.com/prediction/online/network/received_bytes_count"
MODEL_SENT = "aiplatform.googleapis.com/prediction/online/network/sent_bytes_count"
RESPONSES = "aiplatform.googleapis.com/prediction/online/response_count"
PRIVATE_RESPONSES = "aiplatform.googleapis.com/prediction/online/private/response_count"
JOB_GPU = "ml.googleapis.com/training/accelerator/utilization"
_OF_MODELS = (MODEL_GPU, MODEL_CPU, MODEL_RECEIVED, MODEL_SENT, RESPONSES)
OF_VERTEX = (*_OF_MODELS, PRIVATE_RESPONSES, JOB_GPU)
_RESOURCES = {TPU: "tpu.googleapis.com/GceTpuWorker", GKE_TPU: "k8s_node", JOB_GPU: "cloudml_job"}
_RESOURCES |= dict.fromkeys((*_OF_MODELS, PRIVATE_RESPONSES), "aiplatform.googleapis.com/Endpoint")
_BUSY = (Load.BUSY, Load.BUSY_DCGM)
_LOADS = tuple(Load)
_SPINS = (Load.SPIN, Load.SPIN_DCGM)
_AGENT = tuple(set(Load) - {Load.NO_AGENT})
WRITES: dict[str, tuple[Load, ...]] = {
    SM_V1: (Load.BUSY_DCGM,),
    SM_V2: (Load.SPIN_DCGM,),
    RESPONSES: _BUSY,
    PRIVATE_RESPONSES: (),
}
WRITES |= dict.fromkeys((GPU, TPU, GKE_TPU), _AGENT)
# "Profiling metrics are not collected from NVIDIA GPU models P100 and P4" (same page).
_NO_PROFILING = ("nvidia-tesla-p100", "nvidia-tesla-p4")

MINUTE = timedelta(minutes=1)
# When a measurement becomes readable (Google: after up to 240 s).
VISIBLE_AFTER = timedelta(minutes=3)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


Points = dict[datetime, float]


@dataclass(frozen=True, slots=True)
class MetricType:
    """A metric; `busy` and `idle` are the (lowest, highest) values of a minute under that load."""

    name: str
    kind: str
    value_type: str
    unit: str
    busy: tuple[float, float]
    idle: tuple[float, float]
    spin: tuple[float, float] | None = None  # None: as idle

    @property
    def is_of_gpus(self) -> bool:
        return self.name in (GPU, SM_V1, SM_V2)

    @property
    def resource(self) -> str:
        return _RESOURCES.get(self.name, "gce_instance")

    def range(self, load: Load) -> tuple[float, float]:
        if load in _SPINS:
            return self.spin or self.idle
        return self.busy if load in _BUSY else self.idle


METRICS: Mapping[str, MetricType] = {
    GPU: MetricType(GPU, "GAUGE", "DOUBLE", "%", (78, 99), (0, 1), spin=(100, 100)),
    # One of the 40 multiprocessors of a T4; a fraction, averaged over all of them.
    SM_V1: MetricType(SM_V1, "GAUGE", "DOUBLE", "1", (0.3, 0.7), (0, 0.001), spin=(0.024, 0.025)),
    SM_V2: MetricType(SM_V2, "GAUGE", "DOUBLE", "1", (0.3, 0.7), (0, 0.001), spin=(0.024, 0.025)),
    TPU: MetricType(TPU, "GAUGE", "DOUBLE", "%", (70, 98), (0, 1)),
    GKE_TPU: MetricType(GKE_TPU, "GAUGE", "INT64", "%", (70, 98), (0, 1)),
    CPU: MetricType(CPU, "GAUGE", "DOUBLE", "10^2.%", (0.3, 0.6), (0.002, 0.012)),
    RECEIVED: MetricType(RECEIVED, "DELTA", "INT64", "By", (60e6, 300e6), (9e3, 60e3)),
    MODEL_GPU: MetricType(MODEL_GPU, "GAUGE", "DOUBLE", "10^2.%", (0.4, 0.9), (0, 0.01)),
    MODEL_CPU: MetricType(MODEL_CPU, "GAUGE", "DOUBLE", "10^2.%", (0.3, 0.6), (0.002, 0.012)),
    MODEL_RECEIVED: MetricType(MODEL_RECEIVED, "DELTA", "INT64", "By", (1e6, 3e6), (9e3, 60e3)),
    MODEL_SENT: MetricType(MODEL_SENT, "DELTA", "INT64", "By", (1e6, 3e6), (6e3, 40e3)),
    RESPONSES: MetricType(RESPONSES, "DELTA", "INT64", "1", (1, 9), (0, 0)),
    PRIVATE_RESPONSES: MetricType(PRIVATE_RESPONSES, "DELTA", "INT64", "1", (1, 9), (0, 0)),
    JOB_GPU: MetricType(JOB_GPU, "GAUGE", "DOUBLE", "10^2.%", (0.7, 0.99), (0, 0.01)),
    SENT: MetricType(SENT, "DELTA", "INT64", "By", (5e6, 20e6), (6e3, 40e3)),
}


@dataclass(frozen=True, slots=True)
class Series:
    """A stored series of a VM, with one point for each minute in which the VM ran."""

    metric: MetricType
    metric_labels: Mapping[str, str]
    resource_labels: Mapping[str, str]
    vm: VM | ManagedThing
    salt: str

    def points(self, after: datetime, until: datetime) -> Iterator[tuple[datetime, float]]:
        """(minute, value) in (after, until], oldest first."""
        writes = WRITES.get(self.metric.name, _LOADS)
        ranges = {load: self.metric.range(load) for load in writes}
        # A whole history of many VMs is read at once, so what their minutes have in common is worked out once.
        salted = zlib.crc32(f"{self.vm.id}:{self.metric.name}:{self.salt}:".encode())
        is_whole = self.metric.value_type == "INT64"
        for run in self.vm.runs:
            begun = max(after, run.began + MINUTE - timedelta(microseconds=1))
            ended = until if run.ended is None else min(until, run.ended)
            for first, last, load in self._loads(_number(begun) + 1, _number(ended)):
                if load not in ranges:
                    continue
                low, high = ranges[load]
                for number in range(first, last + 1):
                    minute, text = _minute(number)
                    value = low + (high - low) * (zlib.crc32(text, salted) / 0xFFFFFFFF)
                    yield minute, float(int(value)) if is_whole else value

    def _loads(self, first: int, last: int) -> Iterator[tuple[int, int, Load]]:
        """The minutes from the first to the last, cut where the load may change; each has the load at its beginning."""
        changes = {1 - (_EPOCH - since) // MINUTE for since, _ in self.vm.loads}
        cuts = sorted({first, *(number for number in changes if first < number <= last)})
        for begins, after in zip(cuts, [*cuts[1:], last + 1], strict=True):
            if begins < after:
                yield begins, after - 1, self.vm.load_at(_minute(begins - 1)[0])


def _number(moment: datetime) -> int:
    """Returns the number of the minute that it is in."""
    return (moment - _EPOCH) // MINUTE


@lru_cache(maxsize=50_000)
def _minute(number: int) -> tuple[datetime, bytes]:
    """When it begins, also as text."""
    moment = _EPOCH + number * MINUTE
    return moment, moment.isoformat().encode()


def series_of(vms: Sequence[VM], metric: MetricType) -> Iterator[Series]:
    """The metric's series of these VMs, one for each VM or GPU."""
    for vm in vms:
        resource = {"project_id": vm.project, "instance_id": str(vm.id), "zone": vm.zone}
        if metric.name in _RESOURCES:
            yield from _chips(vm, metric)
            continue
        if metric.is_of_gpus and vm.shape.gpu_type in TPUS:
            continue
        if not metric.is_of_gpus:
            labels = {"instance_name": vm.name}
            if metric.name != CPU:
                labels["loadbalanced"] = "false"
            yield Series(metric, labels, resource, vm, "")
            continue
        if metric.name in (SM_V1, SM_V2) and vm.shape.gpu_type in _NO_PROFILING:
            continue
        for number in range(vm.shape.gpu_count):
            uuid = f"GPU-{zlib.crc32(f'{vm.id}/{number}'.encode()):08x}-0000-4000-8000-{vm.id % 16**12:012x}"
            labels = {"model": vm.shape.gpu_type, "gpu_number": str(number), "uuid": uuid}
            yield Series(metric, labels, resource, vm, str(number))


def _chips(vm: VM, metric: MetricType) -> Iterator[Series]:
    """A series for each TPU chip, of a GKE node under GKE's metric alone."""
    labels = vm.given.get("labels") or {}
    if vm.shape.gpu_type not in TPUS or ("goog-gke-node" in labels) != (metric.name == GKE_TPU):
        return
    worker = {"project_id": vm.project, "location": vm.zone, "worker_id": str(vm.id)}
    cluster = labels.get("goog-k8s-cluster-name", "")
    node = {"project_id": vm.project, "location": vm.zone, "cluster_name": cluster, "node_name": vm.name}
    for chip in map(str, range(vm.shape.gpu_count)):
        if metric.name == TPU:
            yield Series(metric, {"accelerator_id": chip}, worker, vm, chip)
        else:
            named = {"accelerator_id": f"{vm.id}-{chip}", "make": "cloud-tpu", "model": vm.shape.gpu_type}
            yield Series(metric, named, node, vm, chip)


def series_of_vertex(things: Sequence[ManagedThing], metric: MetricType) -> Iterator[Series]:
    """The metric's series of what Vertex AI runs: one for each replica of a model, or machine of a job."""
    for thing in things:
        machines = thing.machines[0] if thing.machines else None
        if machines is None:
            continue
        with_gpu = bool(machines.gpus)
        if thing.collection == "endpoints" and metric.name in _OF_MODELS and (with_gpu or metric.name != MODEL_GPU):
            where = {"resource_container": str(project_number(thing.project)), "location": thing.region}
            resource = {"project_id": thing.project, **where, "endpoint_id": thing.id}
            labels = {"deployed_model_id": thing.part, "spot": "False"}
            for number in map(str, range(1 if metric.name == RESPONSES else machines.number)):
                replica = {} if metric.name == RESPONSES else {"replica_id": f"replica-{number}"}
                yield Series(metric, {**labels, **replica}, resource, thing, number)
        if thing.collection == "customJobs" and metric.name == JOB_GPU and with_gpu:
            for number in map(str, range(machines.number)):
                resource = {"project_id": thing.project, "job_id": thing.id, "task_name": f"workerpool0-{number}"}
                yield Series(metric, {}, resource, thing, number)
