"""Cloud Monitoring's counts of unread messages, by `projects.timeSeries.list`.

Rules: https://docs.cloud.google.com/monitoring/api/metrics_gcp_p_z. `subscription/num_undelivered_messages` and
`subscription/oldest_unacked_message_age` are gauges of 64 bits of `pubsub_subscription`, sampled every 60 s and visible
up to 240 s later; here they are visible after 240 s. A subscription without messages has points of 0.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from costguard_sandbox.clock import zulu
from costguard_sandbox.gce.cloud import Cloud
from costguard_sandbox.gce.errors import Refused, bad_argument, bad_value
from costguard_sandbox.gce.filters import BadFilter, compile_filter
from costguard_sandbox.gce.routes.call import refusal
from costguard_sandbox.pubsub.broker import Broker, Subscription

UNREAD = "pubsub.googleapis.com/subscription/num_undelivered_messages"
OLDEST = "pubsub.googleapis.com/subscription/oldest_unacked_message_age"
VISIBLE_AFTER = timedelta(seconds=240)
_MINUTE = timedelta(minutes=1)
_METRIC = re.compile(r'\bmetric\.type\s*=\s*"([^"]*)"')


def in_front_of(others: Route, broker: Broker, cloud: Cloud) -> Route:
    """Makes a route of `timeSeries` that answers for subscriptions, of any project, and leaves the rest to another."""

    async def endpoint(request: Request) -> Response:
        metric = _METRIC.search(request.query_params.get("filter", ""))
        if metric is None or metric[1] not in (UNREAD, OLDEST):
            rest: Response = await others.endpoint(request)
            return rest
        project = request.path_params["project"]
        try:
            with cloud.settled():
                cloud.faults.refuse(project, "GET", request.url.path, cloud.timeline.now)
                if not cloud.rights.may(project, "monitoring.timeSeries.list"):
                    text = "Permission monitoring.timeSeries.list denied (or the resource may not exist)."
                    raise Refused(403, "", text, status="PERMISSION_DENIED")
                answer = _series(broker, project, metric[1], request, cloud.timeline.now)
            return Response(orjson.dumps(answer), media_type="application/json; charset=UTF-8")
        except Refused as refused:
            return refusal(refused)

    return Route(others.path, endpoint, methods=["GET"])


def _series(broker: Broker, project: str, metric: str, request: Request, now: datetime) -> dict[str, Any]:
    wanted = request.query_params["filter"]
    try:
        keep = compile_filter(wanted.replace(".label.", ".labels."))
    except BadFilter as wrong:
        raise bad_value("filter", wanted, str(wrong)) from None
    start, end = (_moment(request, f"interval.{name}Time") for name in ("start", "end"))
    series = []
    for name, subscription in sorted(broker.subscriptions.items()):
        _, owner, _, own = name.split("/")
        resource = {"type": "pubsub_subscription", "labels": {"project_id": owner, "subscription_id": own}}
        if owner != project or not keep({"metric": {"type": metric, "labels": {}}, "resource": resource}):
            continue
        points = list(_points(broker, subscription, metric, start, min(end, now - VISIBLE_AFTER)))
        if points:
            more = {"metricKind": "GAUGE", "valueType": "INT64", "points": points[::-1]}
            series.append({"metric": {"type": metric, "labels": {}}, "resource": resource, **more})
    return {"timeSeries": series} if series else {}


def _points(
    broker: Broker, subscription: Subscription, metric: str, start: datetime, end: datetime
) -> Iterator[dict[str, Any]]:
    at = max(start, subscription.made_at).replace(second=0, microsecond=0) + _MINUTE
    while at <= end:
        unread, oldest = broker.unread_at(subscription.name, at)
        value = unread if metric == UNREAD else int(oldest.total_seconds())
        yield {"interval": {"startTime": zulu(at), "endTime": zulu(at)}, "value": {"int64Value": str(value)}}
        at += _MINUTE


def _moment(request: Request, key: str) -> datetime:
    given = request.query_params.get(key, "")
    try:
        moment = datetime.fromisoformat(given)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise bad_argument(f"Field {key} had an invalid value: {given!r} is no time.")
    return moment
