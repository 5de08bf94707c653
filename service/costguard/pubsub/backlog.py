"""Reads from Cloud Monitoring how many messages a subscription holds, and how old the oldest is.

Both are written once a minute and shown up to 240 s later (docs.cloud.google.com/monitoring/api/metrics_gcp_p_z). A
subscription without messages has points of 0; one that is new, or is not there, has none.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote

from costguard.errors import BadAnswer
from costguard.gce.errors import MONITORING
from costguard.gce.fields import UNREADABLE, moment, number
from costguard.gce.session import Deadline, Http
from costguard.model.moments import z_text
from costguard.model.observation import FeedBacklog

_UNREAD = "pubsub.googleapis.com/subscription/num_undelivered_messages"
_OLDEST = "pubsub.googleapis.com/subscription/oldest_unacked_message_age"  # in seconds
_LOOKED_BACK = timedelta(minutes=10)
_FIELDS = "timeSeries(points(interval/endTime,value))"


def read_backlog(http: Http, subscription: str, now: datetime, deadline: Deadline) -> FeedBacklog:
    """Reads the newest point of each. `subscription` is `projects/P/subscriptions/S`. Raises CloudError."""
    unread, measured_at = _newest(http, subscription, _UNREAD, now, deadline)
    seconds, _ = _newest(http, subscription, _OLDEST, now, deadline)
    oldest = None if seconds is None or unread == 0 else timedelta(seconds=seconds)
    return FeedBacklog(unread, oldest, measured_at)


def _newest(
    http: Http, subscription: str, metric: str, now: datetime, deadline: Deadline
) -> tuple[int | None, datetime | None]:
    _, project, _, name = subscription.split("/")
    what = f"Reading {metric} of subscription {name}"
    params = {
        "filter": f'metric.type = "{metric}" AND resource.labels.subscription_id = "{name}"',
        "interval.startTime": z_text(now - _LOOKED_BACK),
        "interval.endTime": z_text(now),
        "fields": _FIELDS,
        "prettyPrint": "false",
    }
    path = f"/v3/projects/{quote(project, safe=':')}/timeSeries"
    answer = http.get_json(path, params, project=project, what=what, deadline=deadline, service=MONITORING)
    try:
        points = [_point(point) for series in answer.get("timeSeries") or () for point in series.get("points") or ()]
    except UNREADABLE as error:
        raise BadAnswer(f"{what}: the answer holds what is no series ({error!r}).") from error
    if not points:
        return None, None
    at, value = max(points)
    return value, at


def _point(point: Mapping[str, Any]) -> tuple[datetime, int]:
    return moment(point["interval"]["endTime"]), number(point["value"]["int64Value"])
