"""Cloud Monitoring: simulated measurements of VMs, aligned and reduced by `projects.timeSeries.list`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

from starlette.routing import Route

from costguard_sandbox.gce.cloud import Cloud
from costguard_sandbox.gce.errors import bad_argument, bad_value, never_written
from costguard_sandbox.gce.filters import BadFilter, compile_filter
from costguard_sandbox.gce.responses import BadPageToken, page_token_at, position_of
from costguard_sandbox.gce.routes.call import ApiCall, compute
from costguard_sandbox.gce.routes.metrics import (
    METRICS,
    MINUTE,
    OF_VERTEX,
    SM_V1,
    SM_V2,
    VISIBLE_AFTER,
    WRITES,
    MetricType,
    Points,
    Series,
    series_of,
    series_of_vertex,
)

# https://cloud.google.com/monitoring/api/ref_v3/rest/v3/projects.alertPolicies#Aligner
_FIT = {
    "GAUGE": ("ALIGN_MAX", "ALIGN_MIN", "ALIGN_MEAN", "ALIGN_SUM"),
    "DELTA": ("ALIGN_DELTA", "ALIGN_RATE", "ALIGN_SUM"),
}
_MOST_POINTS = 100_000
_METRIC = re.compile(r'\bmetric\.type\s*=\s*"([^"]*)"')
_PERIOD = re.compile(r"(\d{1,9})(?:\.0*)?s")


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
    return any(load in WRITES[metric.name] for vm in vms if vm.shape.gpu_count for _, load in vm.loads)


def _chosen(
    call: ApiCall, metric: MetricType, wanted: str, begin: datetime, end: datetime, aggregation: Aggregation
) -> list[Aligned]:
    try:
        keep = compile_filter(wanted.replace(".label.", ".labels."))
    except BadFilter as wrong:
        raise bad_value("filter", wanted, str(wrong)) from None
    vms = [vm for vm in call.cloud.every_vm() if vm.project == call.project]
    things = [thing for thing in call.cloud.vertex.ever if thing.project == call.project]
    written = series_of_vertex(things, metric) if metric.name in OF_VERTEX else series_of(vms, metric)
    stored = [
        one
        for one in written
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
