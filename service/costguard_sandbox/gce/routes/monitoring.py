"""Cloud Monitoring: simulated measurements of VMs, aligned and reduced by `projects.timeSeries.list`."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

from starlette.routing import Route

from costguard_sandbox.gce.catalogue.machine_types import TPUS
from costguard_sandbox.gce.cloud import Cloud
from costguard_sandbox.gce.errors import bad_argument, bad_value, never_written
from costguard_sandbox.gce.filters import BadFilter, compile_filter
from costguard_sandbox.gce.responses import BadPageToken, page_token_at, position_of
from costguard_sandbox.gce.routes.call import ApiCall, compute
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
_BUSY = (Load.BUSY, Load.BUSY_DCGM)
_LOADS = tuple(Load)
_SPINS = (Load.SPIN, Load.SPIN_DCGM)
_AGENT = tuple(set(Load) - {Load.NO_AGENT})
_WRITES = {SM_V1: (Load.BUSY_DCGM,), SM_V2: (Load.SPIN_DCGM,), GPU: _AGENT, TPU: _AGENT}
# "Profiling metrics are not collected from NVIDIA GPU models P100 and P4" (same page).
_NO_PROFILING = ("nvidia-tesla-p100", "nvidia-tesla-p4")

MINUTE = timedelta(minutes=1)
# When a measurement becomes readable (Google: after up to 240 s).
VISIBLE_AFTER = timedelta(minutes=3)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


Points = dict[datetime, float]
# https://cloud.google.com/monitoring/api/ref_v3/rest/v3/projects.alertPolicies#Aligner
_FIT = {
    "GAUGE": ("ALIGN_MAX", "ALIGN_MIN", "ALIGN_MEAN", "ALIGN_SUM"),
    "DELTA": ("ALIGN_DELTA", "ALIGN_RATE", "ALIGN_SUM"),
}
_MOST_POINTS = 100_000
_METRIC = re.compile(r'\bmetric\.type\s*=\s*"([^"]*)"')
_PERIOD = re.compile(r"(\d{1,9})(?:\.0*)?s")


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
        return "tpu.googleapis.com/GceTpuWorker" if self.name == TPU else "gce_instance"

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
    CPU: MetricType(CPU, "GAUGE", "DOUBLE", "10^2.%", (0.3, 0.6), (0.002, 0.012)),
    RECEIVED: MetricType(RECEIVED, "DELTA", "INT64", "By", (60e6, 300e6), (9e3, 60e3)),
    SENT: MetricType(SENT, "DELTA", "INT64", "By", (5e6, 20e6), (6e3, 40e3)),
}


@dataclass(frozen=True, slots=True)
class Series:
    """A stored series of a VM, with one point for each minute in which the VM ran."""

    metric: MetricType
    metric_labels: Mapping[str, str]
    resource_labels: Mapping[str, str]
    vm: VM
    salt: str

    def points(self, after: datetime, until: datetime) -> Iterator[tuple[datetime, float]]:
        """(minute, value) in (after, until], oldest first."""
        writes = _WRITES.get(self.metric.name, _LOADS)
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
        if metric.name == TPU or (metric.is_of_gpus and vm.shape.gpu_type in TPUS):
            worker = {"project_id": vm.project, "location": vm.zone, "worker_id": str(vm.id)}
            chips = vm.shape.gpu_count if metric.name == TPU and vm.shape.gpu_type in TPUS else 0
            for chip in map(str, range(chips)):
                yield Series(metric, {"accelerator_id": chip}, worker, vm, chip)
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


_STATISTICS: Mapping[str, Callable[[Sequence[float]], float]] = {
    "MAX": max,
    "MIN": min,
    "SUM": sum,
    "MEAN": lambda values: sum(values) / len(values),
}
_REDUCERS = {f"REDUCE_{name}": statistic for name, statistic in _STATISTICS.items()}
_ALIGNERS = {f"ALIGN_{name}": statistic for name, statistic in _STATISTICS.items()}
_ALIGNERS |= {"ALIGN_DELTA": sum, "ALIGN_RATE": sum}  # a rate is then divided by its period


@dataclass(frozen=True, slots=True)
class Aggregation:
    """The query's `aggregation` parameters."""

    period: timedelta | None = None
    aligner: str = "ALIGN_NONE"
    reducer: str = "REDUCE_NONE"
    group_by: tuple[str, ...] = ()  # `resource.labels.instance_id`, `metric.labels.gpu_number`


@dataclass(slots=True)
class Aligned:
    """A series of the answer; points by the ends of their periods."""

    metric_labels: dict[str, str]
    resource_labels: dict[str, str]
    points: Points = field(default_factory=dict)


def checked(aggregation: Aggregation, metric: MetricType) -> Aggregation:
    """Raises Refused (400) for an aggregation that Cloud Monitoring refuses."""
    aligner, reducer, period = aggregation.aligner, aggregation.reducer, aggregation.period
    if (aligner == "ALIGN_NONE") != (period is None):
        raise bad_value("aggregation.perSeriesAligner", aligner, "It goes together with aggregation.alignmentPeriod.")
    if aligner not in ("ALIGN_NONE", *_ALIGNERS):
        raise bad_value("aggregation.perSeriesAligner", aligner)
    if reducer not in ("REDUCE_NONE", *_REDUCERS):
        raise bad_value("aggregation.crossSeriesReducer", reducer)
    if period is not None and period < timedelta(minutes=1):
        given = f"{period.total_seconds():g}s"
        raise bad_value("aggregation.alignmentPeriod", given, "The period must be at least 60 seconds.")
    if reducer != "REDUCE_NONE" and period is None:
        raise bad_value("aggregation.crossSeriesReducer", reducer, "Series must be aligned before they are reduced.")
    if period is not None and aligner not in _FIT[metric.kind]:
        what = f"kind {metric.kind} and value type {metric.value_type}"
        why = f"The aligner cannot be applied to metrics with {what}."
        raise bad_value("aggregation.perSeriesAligner", aligner, why)
    return aggregation


def aligned(series: Series, aggregation: Aggregation, after: datetime, until: datetime, end: datetime) -> Aligned:
    """The series in equal periods up to `end`; measurements after `until` are not readable yet."""
    answer = Aligned(dict(series.metric_labels), dict(series.resource_labels))
    if aggregation.period is None:
        answer.points = dict(series.points(after, until))
        return answer
    periods: dict[int, list[float]] = {}  # by how many of them come before the end
    for moment, value in series.points(after, until):
        periods.setdefault((end - moment) // aggregation.period, []).append(value)
    align, divisor = _ALIGNERS[aggregation.aligner], 1.0
    if aggregation.aligner == "ALIGN_RATE":
        divisor = aggregation.period.total_seconds()
    answer.points = {end - number * aggregation.period: align(values) / divisor for number, values in periods.items()}
    return answer


def reduced(series: Iterable[Aligned], aggregation: Aggregation) -> list[Aligned]:
    """Reduces series to one per group; of the labels, only those of the group and the project remain."""
    if aggregation.reducer == "REDUCE_NONE":
        return list(series)
    groups: dict[tuple[tuple[str, str], ...], list[Aligned]] = {}
    for one in series:
        groups.setdefault(_group(one, aggregation.group_by), []).append(one)
    reduce = _REDUCERS[aggregation.reducer]
    answers = []
    for group, members in groups.items():
        answer = Aligned({}, {"project_id": members[0].resource_labels["project_id"]})
        for path, value in group:
            labels = answer.metric_labels if path.startswith("metric.") else answer.resource_labels
            labels[path.rsplit(".", 1)[-1]] = value
        moments = sorted({moment for one in members for moment in one.points})
        answer.points = {at: reduce([one.points[at] for one in members if at in one.points]) for at in moments}
        answers.append(answer)
    return answers


def _group(one: Aligned, paths: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    group = []
    for path in paths:
        where, _, label = path.replace(".label.", ".labels.").partition(".labels.")
        labels = {"metric": one.metric_labels, "resource": one.resource_labels}.get(where)
        if labels is None or not label:
            raise bad_value("aggregation.groupByFields", path)
        group.append((path, labels.get(label, "")))
    return tuple(group)


def routes(cloud: Cloud) -> list[Route]:
    return [compute("/projects/{project}/timeSeries", _list, cloud, root="/v3")]


def _list(call: ApiCall) -> Any:
    """Lists one metric's series of a project. Pages are counted in points, so a series can continue on the next."""
    wanted = call.query.get("filter", "")
    match = _METRIC.search(wanted)
    if match is None:
        raise bad_value("filter", wanted, "must specify a restriction on metric.type.")
    metric = METRICS.get(match[1])
    if metric is None:
        raise bad_value("filter", wanted, f'The metric type "{match[1]}" is not known here.')
    end = _moment(call, "interval.endTime")
    begin = _moment(call, "interval.startTime")
    if begin > end:
        raise bad_argument("Field interval had an invalid value: The end time may not precede the start time.")
    aggregation = checked(_aggregation(call), metric)
    if metric.name in (SM_V1, SM_V2) and not _was_written(call, metric):
        raise never_written(metric.name)
    series = _chosen(call, metric, wanted, begin, end, aggregation)
    page, token = _page(call, series)
    answer: dict[str, Any] = {}
    if page:
        answer["timeSeries"] = [_shown(one, points, metric, aggregation) for one, points in page]
    if token:
        answer["nextPageToken"] = token
    answer["unit"] = f"{metric.unit}/s" if aggregation.aligner == "ALIGN_RATE" else metric.unit
    return answer


def _was_written(call: ApiCall, metric: MetricType) -> bool:
    vms = [vm for vm in call.cloud.every_vm() if vm.project == call.project and metric.is_of_gpus]
    return any(load in _WRITES[metric.name] for vm in vms if vm.shape.gpu_count for _, load in vm.loads)


def _chosen(
    call: ApiCall, metric: MetricType, wanted: str, begin: datetime, end: datetime, aggregation: Aggregation
) -> list[Aligned]:
    try:
        keep = compile_filter(wanted.replace(".label.", ".labels."))
    except BadFilter as wrong:
        raise bad_value("filter", wanted, str(wrong)) from None
    vms = [vm for vm in call.cloud.every_vm() if vm.project == call.project]
    stored = [
        one
        for one in series_of(vms, metric)
        if keep(
            {
                "metric": {"type": metric.name, "labels": one.metric_labels},
                "resource": {"type": metric.resource, "labels": one.resource_labels},
            }
        )
    ]
    until = min(end, call.cloud.timeline.now - VISIBLE_AFTER)
    series = [aligned(one, aggregation, begin, until, end) for one in stored]
    return [one for one in reduced(series, aggregation) if one.points]


def _page(call: ApiCall, series: list[Aligned]) -> tuple[list[tuple[Aligned, list[datetime]]], str | None]:
    size = call.query.get("pageSize", "0")
    if not size.isdecimal():
        raise bad_value("pageSize", size)
    most = min(int(size) or _MOST_POINTS, _MOST_POINTS)
    token = call.query.get("pageToken")
    try:
        start = position_of(token) if token else 0
    except BadPageToken:
        raise bad_value("pageToken", str(token)) from None
    call.cloud.faults.refuse_page(call.project, call.path, start // most + 1)
    page, passed = [], 0
    for one in series:
        newest_first = sorted(one.points, reverse=True)
        here = newest_first[max(0, start - passed) : max(0, start + most - passed)]
        if here:
            page.append((one, here))
        passed += len(newest_first)
    return page, page_token_at(start + most) if start + most < passed else None


def _shown(one: Aligned, moments: list[datetime], metric: MetricType, aggregation: Aggregation) -> dict[str, Any]:
    is_whole = (
        metric.value_type == "INT64" and aggregation.aligner != "ALIGN_RATE" and aggregation.reducer != "REDUCE_MEAN"
    )
    is_delta = metric.kind == "DELTA" and aggregation.aligner in ("ALIGN_NONE", "ALIGN_DELTA")
    lasts = (aggregation.period or MINUTE) if is_delta else timedelta(0)
    return {
        "metric": {"labels": one.metric_labels, "type": metric.name},
        "resource": {"type": metric.resource, "labels": one.resource_labels},
        "metricKind": "DELTA" if is_delta else "GAUGE",
        "valueType": "INT64" if is_whole else "DOUBLE",
        "points": [
            {
                "interval": {"startTime": _text(moment - lasts if lasts else moment), "endTime": _text(moment)},
                "value": {"int64Value": str(int(one.points[moment]))}
                if is_whole
                else {"doubleValue": one.points[moment]},
            }
            for moment in moments
        ],
    }


def _aggregation(call: ApiCall) -> Aggregation:
    period = call.query.get("aggregation.alignmentPeriod", "")
    match = _PERIOD.fullmatch(period)
    if period and match is None:
        raise bad_value("aggregation.alignmentPeriod", period)
    return Aggregation(
        None if match is None else timedelta(seconds=int(match[1])),
        call.query.get("aggregation.perSeriesAligner", "ALIGN_NONE"),
        call.query.get("aggregation.crossSeriesReducer", "REDUCE_NONE"),
        tuple(call.query.getlist("aggregation.groupByFields")),
    )


def _moment(call: ApiCall, key: str) -> datetime:
    given = call.query.get(key, "")
    try:
        moment = datetime.fromisoformat(given)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise bad_value(key, given, "expected an RFC 3339 time.")
    return moment


@lru_cache(maxsize=10_000)  # many series have points of the same moments
def _text(moment: datetime) -> str:
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")
