"""Utilisation from Cloud Monitoring: one request for each metric and page, not for each VM."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import quote

from costguard.errors import BadAnswer, CloudError, CredentialsRefused, NotFound, PermissionDenied
from costguard.gce.errors import MONITORING, NoAnswer
from costguard.gce.fields import Garbled, moment, short
from costguard.gce.session import Deadline, Http
from costguard.model.utilisation import Metric, Sample, Series, Usage

_MOST_PAGES = 200
_FIELDS = (
    "timeSeries(metric/labels,resource/labels/instance_id,points(interval/endTime,value)),nextPageToken,executionErrors"
)


@dataclass(frozen=True, slots=True)
class _Asked:
    """How a metric is asked for; `scale` makes basis points of it."""

    type: str
    period_s: int
    aligner: str
    reducer: str
    scale: int
    also_by: str = ""


# The highest value of a period, so that no burst of work is averaged away. Reduced to one series a VM or GPU:
# a VM behind a load balancer has two of network bytes, and a restarted one may have got another GPU.
_ASKED: Mapping[Metric, _Asked] = {
    Metric.GPU: _Asked(
        "agent.googleapis.com/gpu/utilization", 60, "ALIGN_MAX", "REDUCE_MAX", 100, "metric.labels.gpu_number"
    ),
    Metric.CPU: _Asked("compute.googleapis.com/instance/cpu/utilization", 300, "ALIGN_MAX", "REDUCE_MAX", 10_000),
    Metric.RECEIVED: _Asked(
        "compute.googleapis.com/instance/network/received_bytes_count", 300, "ALIGN_RATE", "REDUCE_SUM", 1
    ),
    Metric.SENT: _Asked("compute.googleapis.com/instance/network/sent_bytes_count", 300, "ALIGN_RATE", "REDUCE_SUM", 1),
}

_Points = dict[tuple[str, str], dict[datetime, int]]


def read_usage(http: Http, project: str, since: datetime, until: datetime, deadline: Deadline) -> Usage:
    """All metrics of a project. What concerns every request is asked once and told of all metrics."""
    series: dict[tuple[str, Metric], tuple[Series, ...]] = {}
    unread: dict[Metric, str] = {}
    lost = ""
    for metric, query in _ASKED.items():
        if lost:
            unread[metric] = lost
            continue
        try:
            points = _read(http, project, query, since, until, deadline)
        except CloudError as error:
            unread[metric] = str(error)
            if isinstance(error, PermissionDenied | CredentialsRefused | NotFound | NoAnswer):
                lost = str(error)
            continue
        by_vm: dict[str, list[Series]] = {}
        for (gce_id, _), values in sorted(points.items()):
            by_vm.setdefault(gce_id, []).append(tuple(Sample(at, values[at]) for at in sorted(values)))
        series.update({(gce_id, metric): tuple(samples) for gce_id, samples in by_vm.items()})
    return Usage(project, series, unread)


def _read(http: Http, project: str, query: _Asked, since: datetime, until: datetime, deadline: Deadline) -> _Points:
    what = f"Reading {query.type}"
    params: dict[str, str | list[str]] = {
        "filter": f'metric.type = "{query.type}" AND resource.type = "gce_instance"',
        "interval.startTime": _text(since),
        "interval.endTime": _text(until),
        "aggregation.alignmentPeriod": f"{query.period_s}s",
        "aggregation.perSeriesAligner": query.aligner,
        "aggregation.crossSeriesReducer": query.reducer,
        "aggregation.groupByFields": [label for label in ("resource.labels.instance_id", query.also_by) if label],
        "prettyPrint": "false",
        "fields": _FIELDS,
    }
    points_by_vm: _Points = {}
    for _ in range(_MOST_PAGES):
        answer = http.get_json(
            f"/v3/projects/{quote(project, safe=':')}/timeSeries",
            params,
            project=project,
            what=what,
            deadline=deadline,
            service=MONITORING,
        )
        if answer.get("executionErrors"):
            raise BadAnswer(
                f"{what} of project {project}: Cloud Monitoring could not read all of it.",
                "It is tried again at the next measurement.",
            )
        try:
            for one in answer.get("timeSeries") or ():
                _add(points_by_vm, one, query)
        except (KeyError, TypeError, AttributeError, Garbled) as error:
            raise BadAnswer(f"{what} of project {project}: the answer holds what is no series ({error}).") from error
        token = answer.get("nextPageToken")
        if not token:
            return points_by_vm
        if not isinstance(token, str) or token == params.get("pageToken"):
            raise BadAnswer(f"{what} of project {project}: the list does not go on after a page.")
        params["pageToken"] = token
    raise BadAnswer(f"{what} of project {project}: the list has no end; it was left after {_MOST_PAGES} pages.")


def _add(points_by_vm: _Points, series: Mapping[str, Any], query: _Asked) -> None:
    """A series may go on on the next page: its points are gathered by what it is of."""
    gce_id = series["resource"]["labels"]["instance_id"]
    number = (series.get("metric") or {}).get("labels", {}).get("gpu_number", "")
    points = points_by_vm.setdefault((gce_id, number), {})
    for point in series.get("points") or ():
        points[moment(point["interval"]["endTime"])] = _value(point["value"], query.scale)


def _value(value: Mapping[str, Any], scale: int) -> int:
    (given,) = value.values() if len(value) == 1 else (None,)
    try:
        number = float(given)  # type: ignore[arg-type]  # what is no number raises
    except (TypeError, ValueError):
        raise Garbled(f"{short(given)} stands where a number belongs") from None
    if not math.isfinite(number) or number < 0 or isinstance(given, bool):
        raise Garbled(f"{short(given)} stands where a share or a rate belongs")
    # Upwards: what is just under a threshold must not fall further under it.
    return math.ceil(number * scale)


def _text(at: datetime) -> str:
    return at.isoformat().replace("+00:00", "Z")
