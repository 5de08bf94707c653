"""Utilisation from Cloud Monitoring: one request for each metric and page, not for each VM."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from urllib.parse import quote

from costguard.errors import BadAnswer, CloudError, CredentialsRefused, NotFound, PermissionDenied
from costguard.gce.errors import MONITORING, NoAnswer
from costguard.gce.fields import UNREADABLE, Garbled, moment, short, word
from costguard.gce.pages import pages_of
from costguard.gce.session import Deadline, Http
from costguard.model.moments import z_text
from costguard.model.utilisation import Metric, Sample, Series, Usage

_MOST = 10**14  # of a rate or a share: 100 terabytes a second, which scaled is a number of 64 bits still
_FIELDS = "timeSeries(metric/labels,resource/labels,points(interval/endTime,value)),nextPageToken,executionErrors"


@dataclass(frozen=True, slots=True)
class _Asked:
    """The way in which a metric is requested; `scale` makes basis points of it."""

    type: str
    period_s: int
    aligner: str
    reducer: str
    scale: int
    also_by: str = ""
    resource: str = "gce_instance"
    vm_label: str = "instance_id"  # of the resource: the VM's id; "": `also_by` begins with it, before a hyphen
    only: str = ""  # restricts the series further
    is_optional: bool = False  # a metric that Google knows in a project only after its first point
    collection: str = ""  # of Vertex AI: begins what the series are of, as `measured_as` has it
    part: str = ""  # of an endpoint: the label that says which deployed model


# The highest value of a period, so that no burst of work is averaged away. Reduced to one series a VM or GPU:
# a VM behind a load balancer has two of network bytes, and a restarted one may have got another GPU.
_BY_GPU = "metric.labels.gpu_number"
_ASKED: Mapping[Metric, tuple[_Asked, ...]] = {
    Metric.GPU: (_Asked("agent.googleapis.com/gpu/utilization", 60, "ALIGN_MAX", "REDUCE_MAX", 100, _BY_GPU),),
    Metric.CPU: (_Asked("compute.googleapis.com/instance/cpu/utilization", 300, "ALIGN_MAX", "REDUCE_MAX", 10_000),),
    Metric.RECEIVED: (
        _Asked("compute.googleapis.com/instance/network/received_bytes_count", 300, "ALIGN_RATE", "REDUCE_SUM", 1),
    ),
    Metric.SENT: (
        _Asked("compute.googleapis.com/instance/network/sent_bytes_count", 300, "ALIGN_RATE", "REDUCE_SUM", 1),
    ),
    # DCGM_FI_PROF_SM_ACTIVE, from 0 to 1, as versions 1 and 2 of the Ops Agent's DCGM receiver name it; none on P4 and
    # P100. https://docs.cloud.google.com/monitoring/api/metrics_opsagent#opsagent-dcgm, and by the agent's own
    # integration test in GoogleCloudPlatform/ops-agent, third_party_apps_test/applications/dcgm/metadata.yaml.
    Metric.SM: tuple(
        _Asked(f"workload.googleapis.com/{name}", 60, "ALIGN_MAX", "REDUCE_MAX", 10_000, _BY_GPU, is_optional=True)
        for name in ("dcgm.gpu.profiling.sm_utilization", "gpu.dcgm.sm.utilization")
    ),
    # Written in percent for workers, labelled resource_container, location and worker_id. No page promises that the id
    # of a worker is its VM's, nor which TPU node has it (a public rule about idle TPU nodes rests on the same gap): a
    # series of another id is of no VM, and changes nothing. TPUs of GKE's nodes have a metric of their own, of each
    # chip whether a pod has it or not. Its accelerator_id is the VM's id, a hyphen and the chip's number, as captured
    # from GKE's device plugin (dynolog's tpumon and Ray's reporter agent have such lines).
    Metric.TPU: (
        _Asked(
            "tpu.googleapis.com/accelerator/duty_cycle",
            60,
            "ALIGN_MAX",
            "REDUCE_MAX",
            100,
            "metric.labels.accelerator_id",
            "tpu.googleapis.com/GceTpuWorker",
            "worker_id",
            is_optional=True,
        ),
        _Asked(
            "kubernetes.io/node/accelerator/duty_cycle",
            60,
            "ALIGN_MAX",
            "REDUCE_MAX",
            100,
            "metric.labels.accelerator_id",
            "k8s_node",
            "",
            'metric.labels.make = "cloud-tpu"',
            is_optional=True,
        ),
    ),
}
# The `aiplatform` and `ml` metrics in Google's list (cloud.google.com/monitoring/api/metrics_gcp_a_b and ..._i_o), as
# read in 2026: sampled every minute, visible after two to six, in fractions of one. Of a deployed model per replica, of
# a custom job per machine, by the job's own number (Vertex AI's "Monitoring metrics" sends there for custom training).
# Requests are counted where there are any. Of Colab Enterprise, persistent resources and the machines that deployed
# models share, the list of monitored resources has none, or nothing that counts requests.
_ENDPOINT, _PREDICTION = "aiplatform.googleapis.com/Endpoint", "aiplatform.googleapis.com/prediction/online"
_MODEL, _REPLICA = "metric.labels.deployed_model_id", "metric.labels.replica_id"


def _of_model(name: str, aligner: str, reducer: str, scale: int, by: str = "", period_s: int = 60) -> _Asked:
    return _Asked(
        *(f"{_PREDICTION}/{name}", period_s, aligner, reducer, scale, by, _ENDPOINT, "endpoint_id"),
        is_optional=True,
        collection="endpoints",
        part=_MODEL,
    )


_ASKED_OF_VERTEX: Mapping[Metric, tuple[_Asked, ...]] = {
    Metric.GPU: (
        _of_model("accelerator/duty_cycle", "ALIGN_MAX", "REDUCE_MAX", 10_000, _REPLICA),
        _Asked(
            "ml.googleapis.com/training/accelerator/utilization",
            60,
            "ALIGN_MAX",
            "REDUCE_MAX",
            10_000,
            "resource.labels.task_name",
            "cloudml_job",
            "job_id",
            is_optional=True,
            collection="customJobs",
        ),
    ),
    Metric.CPU: (_of_model("cpu/utilization", "ALIGN_MAX", "REDUCE_MAX", 10_000, period_s=300),),
    Metric.RECEIVED: (_of_model("network/received_bytes_count", "ALIGN_RATE", "REDUCE_SUM", 1, period_s=300),),
    Metric.SENT: (_of_model("network/sent_bytes_count", "ALIGN_RATE", "REDUCE_SUM", 1, period_s=300),),
    Metric.REQUESTS: (
        _of_model("response_count", "ALIGN_DELTA", "REDUCE_SUM", 1),
        _of_model("private/response_count", "ALIGN_DELTA", "REDUCE_SUM", 1),
    ),
}
# The answers for a type that no VM of the project has ever written: 404 `Cannot find metric(s) that match type = ...`,
# or 400 (prometheus-community/stackdriver_exporter#28).
_NEVER_WRITTEN = "The provided filter doesn't refer to any known metric"

_Points = dict[tuple[str, str], dict[datetime, int]]


def read_usage(http: Http, project: str, since: datetime, until: datetime, deadline: Deadline) -> Usage:
    """All metrics of a project. What concerns every request is asked once and told of all metrics."""
    series: dict[tuple[str, Metric], tuple[Series, ...]] = {}
    unread: dict[Metric, str] = {}
    lost = ""
    for metric, queries in _ASKED.items():
        if lost:
            unread[metric] = lost
            continue
        points: _Points = {}
        try:
            for query in queries:
                _read(http, project, query, since, until, deadline, points)
        except CloudError as error:
            unread[metric] = str(error)
            if isinstance(error, PermissionDenied | CredentialsRefused | NotFound | NoAnswer):
                lost = str(error)
            continue
        series.update(_series(metric, points))
    return Usage(project, series, unread)


def with_vertex_usage(http: Http, usage: Usage, since: datetime, until: datetime, deadline: Deadline) -> Usage:
    """Adds the metrics of deployed models and custom jobs to a project's usage; the first that fails ends it."""
    series = dict(usage.series)
    try:
        for metric, queries in _ASKED_OF_VERTEX.items():
            points: _Points = {}
            for query in queries:
                _read(http, usage.project, query, since, until, deadline, points)
            series.update(_series(metric, points))
    except CloudError as error:
        return replace(usage, vertex_unread=str(error))
    return replace(usage, series=series)


def _series(metric: Metric, points: _Points) -> dict[tuple[str, Metric], tuple[Series, ...]]:
    by_vm: dict[str, list[Series]] = {}
    for (gce_id, _), values in sorted(points.items()):
        by_vm.setdefault(gce_id, []).append(tuple(Sample(at, values[at]) for at in sorted(values)))
    return {(gce_id, metric): tuple(samples) for gce_id, samples in by_vm.items()}


def _read(
    http: Http, project: str, query: _Asked, since: datetime, until: datetime, deadline: Deadline, points: _Points
) -> None:
    """Adds the query's points to `points`."""
    what = f"Reading {query.type}"
    wanted = (f'metric.type = "{query.type}"', f'resource.type = "{query.resource}"')
    by_vm = f"resource.labels.{query.vm_label}" if query.vm_label else ""
    params: dict[str, str | list[str]] = {
        "filter": " AND ".join(filter(None, (*wanted, query.only))),
        "interval.startTime": z_text(since),
        "interval.endTime": z_text(until),
        "aggregation.alignmentPeriod": f"{query.period_s}s",
        "aggregation.perSeriesAligner": query.aligner,
        "aggregation.crossSeriesReducer": query.reducer,
        "aggregation.groupByFields": [one for one in (by_vm, query.part, query.also_by) if one],
        "prettyPrint": "false",
        "fields": _FIELDS,
    }
    path = f"/v3/projects/{quote(project, safe=':')}/timeSeries"
    pages = pages_of(http, path, params, project=project, what=what, deadline=deadline, service=MONITORING)
    try:
        for answer in pages:
            _add_page(points, answer, query, f"{what} of project {project}")
    except CloudError as error:
        if not query.is_optional or not (isinstance(error, NotFound) or _NEVER_WRITTEN in str(error)):
            raise


def _add_page(points: _Points, answer: Mapping[str, Any], query: _Asked, what: str) -> None:
    if answer.get("executionErrors"):
        raise BadAnswer(
            f"{what}: Cloud Monitoring could not read all of it.",
            "It is tried again at the next measurement.",
        )
    try:
        for one in answer.get("timeSeries") or ():
            _add(points, one, query)
    except UNREADABLE as error:
        raise BadAnswer(f"{what}: the answer holds what is no series ({error}).") from error


def _add(points_by_vm: _Points, series: Mapping[str, Any], query: _Asked) -> None:
    """A series may go on on the next page: its points are gathered by what it is of."""
    number = _label(series, query.also_by)
    gce_id = series["resource"]["labels"][query.vm_label] if query.vm_label else number.rpartition("-")[0]
    if not gce_id:
        return
    gce_id = word(gce_id)
    if query.collection:
        gce_id = "/".join(filter(None, (query.collection, gce_id, _label(series, query.part))))
    points = points_by_vm.setdefault((gce_id, number), {})
    for point in series.get("points") or ():
        at, value = moment(point["interval"]["endTime"]), _value(point["value"], query.scale)
        points[at] = max(value, points.get(at, value))


def _label(series: Mapping[str, Any], path: str) -> str:
    """Returns the label that a path such as `metric.labels.gpu_number` names; "" where the series has none."""
    where, _, label = path.partition(".labels.")
    value: str = ((series.get(where) or {}).get("labels") or {}).get(label, "")
    return value


def _value(value: Mapping[str, Any], scale: int) -> int:
    (given,) = value.values() if len(value) == 1 else (None,)
    try:
        number = float(given)  # type: ignore[arg-type]  # what is no number raises
    except UNREADABLE:
        raise Garbled(f"{short(given)} stands where a number belongs") from None
    if not 0 <= number <= _MOST or isinstance(given, bool):
        raise Garbled(f"{short(given)} stands where a share or a rate belongs")
    # Upwards: what is just under a threshold must not fall further under it.
    return math.ceil(number * scale)
