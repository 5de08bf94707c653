"""Heartbeats go out, come back and are stored; how late events were is counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import orjson
import pytest
from sqlalchemy import insert
from tests.builders import at
from tests.fakes import HandClock

from costguard.daemon import feed_state, hourly_counts
from costguard.daemon.feed_watch import (
    BYTES,
    MESSAGES,
    PULLS,
    FeedWatch,
    Lateness,
    bucket_of,
    late_at,
    moments_of,
    size_of,
)
from costguard.daemon.listings import RHYTHM, ListingReason
from costguard.db.tables import feed_wire
from costguard.db.transaction import Database
from costguard.errors import CloudUnavailable, PermissionDenied
from costguard.ledger.feed.record import FeedRecorded

NOON = at("12:00")
SECOND = timedelta(seconds=1)
NAME = "projects/ops/subscriptions/costguard-events"


@dataclass
class Sent:
    """A message of the subscription."""

    data: bytes = b"{}"
    published_at: datetime | None = NOON
    attributes: Mapping[str, str] = field(default_factory=dict)


class Topic:
    """Keeps what was published; refuses where told."""

    def __init__(self) -> None:
        self.messages: list[Sent] = []
        self.tries = 0
        self.trouble: Exception | None = None

    def publish(self, messages: Sequence[tuple[bytes, Mapping[str, str]]]) -> None:
        self.tries += 1
        if self.trouble is not None:
            raise self.trouble
        self.messages += [Sent(data, NOON, attributes) for data, attributes in messages]


def of_report(report: object, _messages: object) -> list[tuple[datetime, datetime | None]]:
    assert isinstance(report, list)
    return report


def watch(database: Database, name: str = NAME, late: list[Lateness] | None = None) -> FeedWatch:
    return FeedWatch(database, HandClock(NOON), name, of_report, late=(late if late is not None else []).append)


def stored(database: Database, now: datetime) -> tuple[feed_state.Subscription | None, bool]:
    with database.read() as connection:
        streams = feed_state.streams(connection)
        return feed_state.subscription(connection), streams.doubt("lab", now) is not ListingReason.SILENT


def test_heartbeat_goes_out_every_thirty_seconds_and_comes_back(database: Database) -> None:
    """Until one is back the subscription is silent, and again ninety seconds after the last that came back."""
    topic, pulling = Topic(), watch(database)
    pulling.beat(topic.publish, NOON)
    pulling.beat(topic.publish, NOON + 29 * SECOND)
    assert len(topic.messages) == 1
    pulling.pulled([], NOON + SECOND)
    assert stored(database, NOON + SECOND)[1] is False
    assert pulling.pulled(topic.messages, NOON + 10 * SECOND) == []
    subscription, is_alive = stored(database, NOON + 90 * SECOND)
    assert subscription is not None
    assert (subscription.wire.heard_at, subscription.wire.sent_at, is_alive) == (NOON, NOON, True)
    assert stored(database, NOON + 91 * SECOND)[1] is False
    pulling.beat(topic.publish, NOON + 30 * SECOND)
    assert [one.attributes["sent_at"] for one in topic.messages] == [
        "2026-11-02T12:00:00+00:00",
        "2026-11-02T12:00:30+00:00",
    ]


def test_heartbeat_of_another_guard_says_nothing(sqlite_database: Database) -> None:
    """Two guards at one topic hear each other, and their clocks may differ."""
    topic, other, pulling = Topic(), watch(sqlite_database, "projects/x/subscriptions/other"), watch(sqlite_database)
    other.beat(topic.publish, NOON)
    torn = Sent(attributes={"costguard-heartbeat": NAME, "sent_at": "noon"})
    naive = Sent(attributes={"costguard-heartbeat": NAME, "sent_at": "2026-11-02T12:00:00"})
    assert pulling.pulled([*topic.messages, torn, naive], NOON) == []
    assert pulling.wire.heard_at is None


def test_late_heartbeat_does_not_undo_a_newer_one(sqlite_database: Database) -> None:
    """Pub/Sub keeps no order."""
    topic, pulling = Topic(), watch(sqlite_database)
    for seconds in (0, 30):
        pulling.beat(topic.publish, NOON + seconds * SECOND)
    pulling.pulled(topic.messages[::-1], NOON + 31 * SECOND)
    assert pulling.wire.heard_at == NOON + 30 * SECOND


def test_where_heartbeats_are_refused_messages_stand_for_them(sqlite_database: Database) -> None:
    """The right to publish is missing: it is asked for again every ten minutes, not every thirty seconds."""
    topic, pulling = Topic(), watch(sqlite_database)
    topic.trouble = PermissionDenied("no pubsub.topics.publish")
    pulling.beat(topic.publish, NOON)
    pulling.beat(topic.publish, NOON + 31 * SECOND)
    assert topic.tries == 1
    assert pulling.pulled([Sent()], NOON + 31 * SECOND) == [0]
    subscription, is_alive = stored(sqlite_database, NOON + 60 * SECOND)
    assert subscription is not None
    assert (subscription.wire.can_publish, is_alive) == (False, True)
    topic.trouble = None
    pulling.beat(topic.publish, NOON + timedelta(minutes=10))
    assert (topic.tries, pulling.wire.can_publish) == (2, True)


def test_heartbeat_that_could_not_be_sent_is_sent_at_its_next_time(sqlite_database: Database) -> None:
    """A topic that does not answer once is no topic that refuses."""
    topic, pulling = Topic(), watch(sqlite_database)
    topic.trouble = CloudUnavailable("no answer")
    pulling.beat(topic.publish, NOON)
    topic.trouble = None
    pulling.beat(topic.publish, NOON + 30 * SECOND)
    assert (topic.tries, pulling.wire.sent_at, pulling.wire.can_publish) == (2, NOON + 30 * SECOND, True)


def test_restart_keeps_what_is_stored(sqlite_database: Database) -> None:
    """A new process that has heard nothing yet leaves the last heartbeat; it grows old by itself."""
    topic, before = Topic(), watch(sqlite_database)
    before.beat(topic.publish, NOON)
    before.pulled(topic.messages, NOON)
    watch(sqlite_database).pulled([], NOON + 20 * SECOND)
    subscription, is_alive = stored(sqlite_database, NOON + 20 * SECOND)
    assert subscription is not None
    assert (subscription.wire.heard_at, subscription.wire.pulled_at, is_alive) == (NOON, NOON + 20 * SECOND, True)


def test_failed_pull_is_stored_with_its_words(sqlite_database: Database) -> None:
    """The words stay until a pull is answered."""
    pulling = watch(sqlite_database)
    pulling.failed(CloudUnavailable("Pub/Sub does not answer."))
    assert stored(sqlite_database, NOON)[0].error == "Pub/Sub does not answer."  # type: ignore[union-attr]
    pulling.pulled([], NOON + 6 * SECOND)
    assert stored(sqlite_database, NOON)[0].error == ""  # type: ignore[union-attr]


def test_hundreds_of_pulls_a_second_are_one_write_in_five_seconds(sqlite_database: Database) -> None:
    """Their counts are whole all the same, once the next is stored."""
    pulling = watch(sqlite_database)
    for number in range(100):
        pulling.pulled([Sent(b"x" * 100)], NOON + number * SECOND / 20)
    with sqlite_database.read() as connection:
        assert hourly_counts.between(connection, NOON, NOON + SECOND)[MESSAGES] == 1
    pulling.pulled([], NOON + 5 * SECOND)
    with sqlite_database.read() as connection:
        counts = hourly_counts.between(connection, NOON, NOON + SECOND)
    assert counts == {MESSAGES: 100, PULLS: 101, BYTES: 100 * (100 + 20 + 16)}


def test_size_of_a_message_is_what_google_bills() -> None:
    """Body, keys and values of attributes, 20 bytes for the timestamp, and the message's id."""
    assert size_of(Sent(b"12345", NOON, {"kéy": "value"})) == 5 + 4 + 5 + 20 + 16


def test_lateness_of_events_is_counted_by_bucket(sqlite_database: Database) -> None:
    """Two events three seconds late and one an hour late: half within 5 s, 95 % above all bounds."""
    late: list[Lateness] = []
    pulling = watch(sqlite_database, late=late)
    moments = [(NOON - 3 * SECOND, NOON - 2 * SECOND), (NOON - 3 * SECOND, None), (NOON - timedelta(hours=1), NOON)]
    pulling.written(moments, [], NOON)
    pulling.pulled([], NOON)
    assert late == [Lateness(3, 2), Lateness(3, None), Lateness(3600, 0)]
    with sqlite_database.read() as connection:
        counts = hourly_counts.between(connection, NOON, NOON + SECOND)
    assert (counts["event_to_ledger/5"], counts["event_to_ledger/inf"]) == (2, 1)
    assert (late_at(counts, 0.5), late_at(counts, 0.95)) == (5, None)


@pytest.mark.parametrize(("seconds", "bucket"), [(0, "1"), (1, "1"), (1.001, "2"), (900, "900"), (900.5, "inf")])
def test_bucket_holds_its_bound(seconds: float, bucket: str) -> None:
    """A second is within a second; a bit more is not."""
    assert bucket_of(seconds) == bucket


def test_share_of_no_events_is_not_known() -> None:
    """The share of 95 of 100 ends with the bucket of the 95th."""
    assert late_at({}, 0.95) is None
    assert late_at({"event_to_ledger/1": 95, "event_to_ledger/60": 5}, 0.95) == 1
    assert late_at({"event_to_ledger/1": 94, "event_to_ledger/60": 6}, 0.95) == 60


def test_subscription_that_was_pulled_last_counts(sqlite_database: Database) -> None:
    """The settings name another subscription since: the old one's heartbeats say nothing."""
    with sqlite_database.write() as connection:
        row = {"heard_at": NOON, "pulled_at": NOON}
        connection.execute(insert(feed_wire), [{"subscription": "old", **row}])
        connection.execute(insert(feed_wire), [{"subscription": "new", "pulled_at": NOON + SECOND}])
    subscription, is_alive = stored(sqlite_database, NOON)
    assert subscription is not None
    assert (subscription.name, is_alive) == ("new", False)
    assert RHYTHM.alive_within > 2 * RHYTHM.heartbeat


def test_moment_of_a_message_is_that_of_its_event() -> None:
    """An operation's first entry tells when it began, its last one when it was done; noise and torn ones tell none."""
    payload = {
        "@type": "type.googleapis.com/google.cloud.audit.AuditLog",
        "serviceName": "compute.googleapis.com",
        "methodName": "v1.compute.instances.stop",
        "resourceName": "projects/lab/zones/us-central1-a/instances/vm-1",
    }
    entry = {
        "insertId": "a",
        "logName": "projects/lab/logs/cloudaudit.googleapis.com%2Factivity",
        "protoPayload": payload,
        "resource": {
            "type": "gce_instance",
            "labels": {"instance_id": "71", "project_id": "lab", "zone": "us-central1-a"},
        },
        "timestamp": "2026-11-02T11:59:58Z",
        "operation": {"id": "operation-1-2-3-4", "producer": "compute.googleapis.com", "last": True},
    }
    messages = [Sent(orjson.dumps(entry), NOON), Sent(b"{torn", NOON), Sent(b"{}", NOON)]
    first = {**entry, "operation": {**entry["operation"], "first": True, "last": False}}  # type: ignore[dict-item]
    assert list(moments_of(FeedRecorded(entries=3), messages)) == [(at("11:59:58"), NOON)]
    assert list(moments_of(FeedRecorded(entries=1), [Sent(orjson.dumps(first), NOON)])) == [(at("11:59:58"), NOON)]
    assert list(moments_of(FeedRecorded(entries=1, doubled=1), messages)) == []
