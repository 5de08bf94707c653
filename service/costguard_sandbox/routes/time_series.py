"""Cloud Monitoring's `projects.timeSeries.list`."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Any

from starlette.routing import Route

from costguard_sandbox.alignment import Aggregation, Aligned, aligned, bad_argument, checked, reduced
from costguard_sandbox.filters import compile_filter
from costguard_sandbox.paging import page_token_at, position_of
from costguard_sandbox.routes.call import Call, compute
from costguard_sandbox.utilisation import METRICS, VISIBLE_AFTER, MetricType, series_of
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
        raise bad_argument('Field filter had an invalid value: must specify a single metric.type = "…".')
    if metric[1] not in METRICS:
        raise bad_argument(f"Field filter had an invalid value of {wanted!r}: Cannot find metric(s) {metric[1]!r}.")
    of = METRICS[metric[1]]
    end = _moment(call, "interval.endTime")
    begin = _moment(call, "interval.startTime")
    if begin > end:
        raise bad_argument("Field interval had an invalid value: the end time may not precede the start time.")
    aggregation = checked(_aggregation(call), metric[1])
    series = _chosen(call, metric[1], wanted, begin, end, aggregation)
    page, token = _page(call, series)
    is_aligned = aggregation.period is not None
    value_type = "DOUBLE" if is_aligned else of.value_type
    answer: dict[str, Any] = {"timeSeries": [_shown(one, points, metric[1], of, value_type) for one, points in page]}
    if not page:
        del answer["timeSeries"]
    if token:
        answer["nextPageToken"] = token
    answer["unit"] = f"{of.unit}/s" if aggregation.aligner == "ALIGN_RATE" else of.unit
    return answer


def _chosen(
    call: Call, metric: str, wanted: str, begin: datetime, end: datetime, aggregation: Aggregation
) -> list[Aligned]:
    keep = compile_filter(wanted.replace(".label.", ".labels."))
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
        raise bad_argument(f"Field pageSize had an invalid value of {size!r}.")
    most = min(int(size) or _MOST_POINTS, _MOST_POINTS)
    token = call.query.get("pageToken")
    start = position_of(token) if token else 0
    call.world.faults.refuse_page(call.project, call.path, start // most + 1)
    page, passed = [], 0
    for one in series:
        newest_first = sorted(one.points, reverse=True)
        here = newest_first[max(0, start - passed) : max(0, start + most - passed)]
        if here:
            page.append((one, here))
        passed += len(newest_first)
    return page, page_token_at(start + most) if start + most < passed else None


def _shown(one: Aligned, moments: list[datetime], metric: str, of: MetricType, value_type: str) -> dict[str, Any]:
    is_delta = of.kind == "DELTA" and value_type == "INT64"
    return {
        "metric": {"labels": one.metric_labels, "type": metric},
        "resource": {"type": "gce_instance", "labels": one.resource_labels},
        "metricKind": "DELTA" if is_delta else "GAUGE",
        "valueType": value_type,
        "points": [
            {
                "interval": {
                    "startTime": _text(moment - timedelta(minutes=1) if is_delta else moment),
                    "endTime": _text(moment),
                },
                "value": {"int64Value": str(int(one.points[moment]))}
                if value_type == "INT64"
                else {"doubleValue": one.points[moment]},
            }
            for moment in moments
        ],
    }


def _aggregation(call: Call) -> Aggregation:
    period = call.query.get("aggregation.alignmentPeriod", "")
    found = _PERIOD.fullmatch(period)
    if period and found is None:
        raise bad_argument(f"Field aggregation.alignmentPeriod had an invalid value of {period!r}.")
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
        raise bad_argument(f"Field {key} had an invalid value of {given!r}: expected an RFC 3339 time.")
    return moment


def _text(moment: datetime) -> str:
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")
