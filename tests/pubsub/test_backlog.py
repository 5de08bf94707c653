"""The number of unread messages, from answers in the form of Cloud Monitoring's discovery document."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.gce.server import Answer, Asked, google_error, json_answer, serving

from costguard.errors import BadAnswer, PermissionDenied
from costguard.model.observation import FeedBacklog
from costguard.pubsub.client import SubscriptionFeed

NOW = datetime(2026, 11, 20, 9, 10, tzinfo=UTC)
SUBSCRIPTION = "projects/acme-events/subscriptions/costguard"


def series(*points: tuple[str, str]) -> Mapping[str, Any]:
    """Int64 values are texts in JSON."""
    return {
        "timeSeries": [
            {"points": [{"interval": {"endTime": at}, "value": {"int64Value": value}} for at, value in points]}
        ]
    }


def read(unread: Any, oldest: Any) -> tuple[FeedBacklog, list[Asked]]:
    def answer(request: Asked) -> Answer:
        given = unread if "num_undelivered" in request.query["filter"] else oldest
        return given if isinstance(given, Answer) else json_answer(given)

    with (
        serving(answer) as server,
        closing(SubscriptionFeed(SUBSCRIPTION, endpoint=server.url, wait=lambda _: True)) as feed,
    ):
        return feed.backlog(NOW), server.requests


def test_the_newest_point_counts() -> None:
    """The last one of several points is taken, whatever their order; its moment says how old the number is."""
    backlog, requests = read(
        series(("2026-11-20T09:05:00Z", "9"), ("2026-11-20T09:07:00Z", "42"), ("2026-11-20T09:06:00Z", "7")),
        series(("2026-11-20T09:07:00Z", "95")),
    )
    assert backlog == FeedBacklog(42, timedelta(seconds=95), datetime(2026, 11, 20, 9, 7, tzinfo=UTC))
    for request in requests:
        assert request.path == "/v3/projects/acme-events/timeSeries"
        assert 'resource.labels.subscription_id = "costguard"' in request.query["filter"]
        assert request.query["interval.endTime"] == "2026-11-20T09:10:00Z"


def test_no_point_is_unknown_and_not_none_unread() -> None:
    """A new subscription has no points yet: nothing is known of it."""
    assert read({}, {})[0] == FeedBacklog(None, None, None)


def test_without_messages_the_oldest_has_no_age() -> None:
    """Google goes on to write an age of 0."""
    zero = series(("2026-11-20T09:07:00Z", "0"))
    assert read(zero, zero)[0] == FeedBacklog(0, None, datetime(2026, 11, 20, 9, 7, tzinfo=UTC))


def test_a_refusal_names_the_right_that_lacks() -> None:
    """Cloud Monitoring's refusal is passed on, with what mends it."""
    refused = google_error(
        403, "forbidden", "Permission monitoring.timeSeries.list denied (or the resource may not exist)."
    )
    with pytest.raises(PermissionDenied, match="acme-events"):
        read(refused, refused)


@pytest.mark.parametrize(
    "answer",
    [
        {"timeSeries": 7},
        series(("soon", "1")),
        series(("2026-11-20T09:07:00Z", "many")),
        series(("2026-11-20T09:07:00Z", "-5")),
        series(("2026-11-20T09:07:00Z", "1" + "0" * 30)),
    ],
)
def test_an_answer_that_is_no_series_is_refused(answer: Any) -> None:
    """Nonsense is no number of messages."""
    with pytest.raises(BadAnswer):
        read(answer, answer)
