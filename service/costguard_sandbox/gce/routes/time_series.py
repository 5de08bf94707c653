"""Cloud Monitoring's `projects.timeSeries.list`."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Any

from starlette.routing import Route

from costguard_sandbox.gce.alignment import Aggregation, Aligned, aligned, bad_argument, bad_value, checked, reduced
from costguard_sandbox.gce.filters import BadFilter, compile_filter
from costguard_sandbox.gce.paging import BadPageToken, page_token_at, position_of
from costguard_sandbox.gce.routes.call import Call, compute
from costguard_sandbox.gce.utilisation import METRICS, MINUTE, VISIBLE_AFTER, MetricType, series_of
from costguard_sandbox.world import World

_MOST_POINTS = 100_000
_METRIC = re.compile(r'\bmetric\.type\s*=\s*"([^"]*)"')
_PERIOD = re.compile(r"(\d{1,9})(?:\.0*)?s")


def routes(world: World) -> list[Route]:
    return [compute("/projects/{project}/timeSeries", _list, world, root="/v3")]


def _list(call: Call) -> Any:
    """One metric's series of a project; a page holds so many points, and a series may go on on the next."""
    wanted = call.query.get("filter", "")
    metric = _METRIC.search(wanted)
    if metric is None:
        raise bad_value("filter", wanted, "must specify a restriction on metric.type.")
    if metric[1] not in METRICS:
        raise bad_value("filter", wanted, f'The metric type "{metric[1]}" is not known here.')
    of = METRICS[metric[1]]
    end = _moment(call, "interval.endTime")
    begin = _moment(call, "interval.startTime")
    if begin > end:
        raise bad_argument("Field interval had an invalid value: The end time may not precede the start time.")
    aggregation = checked(_aggregation(call), metric[1])
    series = _chosen(call, metric[1], wanted, begin, end, aggregation)
    page, token = _page(call, series)
    answer: dict[str, Any] = {}
    if page:
        answer["timeSeries"] = [_shown(one, points, metric[1], of, aggregation) for one, points in page]
    if token:
        answer["nextPageToken"] = token
    answer["unit"] = f"{of.unit}/s" if aggregation.aligner == "ALIGN_RATE" else of.unit
    return answer


def _chosen(
    call: Call, metric: str, wanted: str, begin: datetime, end: datetime, aggregation: Aggregation
) -> list[Aligned]:
    try:
        keep = compile_filter(wanted.replace(".label.", ".labels."))
    except BadFilter as wrong:
        raise bad_value("filter", wanted, str(wrong)) from None
    vms = [vm for vm in call.world.every_vm() if vm.project == call.project]
    stored = [
        one
        for one in series_of(vms, metric)
        if keep(
            {
                "metric": {"type": metric, "labels": one.metric_labels},
                "resource": {"type": "gce_instance", "labels": one.resource_labels},
            }
        )
    ]
    until = min(end, call.world.timeline.now - VISIBLE_AFTER)
    found = [aligned(one, aggregation, begin, until, end) for one in stored]
    return [one for one in reduced(found, aggregation) if one.points]


def _page(call: Call, series: list[Aligned]) -> tuple[list[tuple[Aligned, list[datetime]]], str | None]:
    size = call.query.get("pageSize", "0")
    if not size.isdecimal():
        raise bad_value("pageSize", size)
    most = min(int(size) or _MOST_POINTS, _MOST_POINTS)
    token = call.query.get("pageToken")
    try:
        start = position_of(token) if token else 0
    except BadPageToken:
        raise bad_value("pageToken", str(token)) from None
    call.world.faults.refuse_page(call.project, call.path, start // most + 1)
    page, passed = [], 0
    for one in series:
        newest_first = sorted(one.points, reverse=True)
        here = newest_first[max(0, start - passed) : max(0, start + most - passed)]
        if here:
            page.append((one, here))
        passed += len(newest_first)
    return page, page_token_at(start + most) if start + most < passed else None


def _shown(
    one: Aligned, moments: list[datetime], metric: str, of: MetricType, aggregation: Aggregation
) -> dict[str, Any]:
    is_whole = of.value_type == "INT64" and aggregation.aligner != "ALIGN_RATE" and aggregation.reducer != "REDUCE_MEAN"
    is_delta = of.kind == "DELTA" and aggregation.aligner in ("ALIGN_NONE", "ALIGN_DELTA")
    lasts = (aggregation.period or MINUTE) if is_delta else timedelta(0)
    return {
        "metric": {"labels": one.metric_labels, "type": metric},
        "resource": {"type": "gce_instance", "labels": one.resource_labels},
        "metricKind": "DELTA" if is_delta else "GAUGE",
        "valueType": "INT64" if is_whole else "DOUBLE",
        "points": [
            {
                "interval": {"startTime": _text(moment - lasts), "endTime": _text(moment)},
                "value": {"int64Value": str(int(one.points[moment]))}
                if is_whole
                else {"doubleValue": one.points[moment]},
            }
            for moment in moments
        ],
    }


def _aggregation(call: Call) -> Aggregation:
    period = call.query.get("aggregation.alignmentPeriod", "")
    found = _PERIOD.fullmatch(period)
    if period and found is None:
        raise bad_value("aggregation.alignmentPeriod", period)
    return Aggregation(
        None if found is None else timedelta(seconds=int(found[1])),
        call.query.get("aggregation.perSeriesAligner", "ALIGN_NONE"),
        call.query.get("aggregation.crossSeriesReducer", "REDUCE_NONE"),
        tuple(call.query.getlist("aggregation.groupByFields")),
    )


def _moment(call: Call, key: str) -> datetime:
    given = call.query.get(key, "")
    try:
        moment = datetime.fromisoformat(given)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise bad_value(key, given, "expected an RFC 3339 time.")
    return moment


def _text(moment: datetime) -> str:
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")
