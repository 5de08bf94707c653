"""Watches the subscription that events come through: sends heartbeats, and notes what comes and how late."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Protocol

import orjson
import structlog
from sqlalchemy import Connection

from costguard.daemon import hourly_counts
from costguard.daemon.listings import RHYTHM, FeedWire, Rhythm
from costguard.db.tables import feed_wire
from costguard.db.transaction import Database
from costguard.db.types import storable
from costguard.db.upsert import upsert
from costguard.errors import CloudError, PermissionDenied
from costguard.isolation import Isolated
from costguard.ledger.feed.entry import Phase, read_entry
from costguard.ledger.feed.kinds import FeedKind
from costguard.ledger.feed.record import FeedRecorded
from costguard.model.ports import Clock

HEARTBEAT = "costguard-heartbeat"  # the attribute by which a heartbeat is known; its value is the subscription

MESSAGES, BYTES, PULLS = "feed_messages", "feed_bytes", "feed_pulls"
LATE = "event_to_ledger"  # with the bound of its bucket after a slash: events by how late they were in the ledger
LATE_BUCKETS_S = (1, 2, 5, 10, 20, 30, 60, 120, 300, 900)

_STORED_EVERY = timedelta(seconds=5)  # hundreds of messages a second are not hundreds of writes
_ASKED_AGAIN = timedelta(minutes=10)  # whether heartbeats are allowed by now
_SENT_AT = "sent_at"

log = structlog.get_logger(__name__)

Publish = Callable[[Sequence[tuple[bytes, Mapping[str, str]]]], object]


class Message(Protocol):
    """A message of the subscription."""

    @property
    def data(self) -> bytes: ...
    @property
    def published_at(self) -> datetime | None: ...
    @property
    def attributes(self) -> Mapping[str, str]: ...


@dataclass(frozen=True, slots=True)
class Lateness:
    """The time from an event, and from when its message was published, to its commit in the ledger, in seconds."""

    from_event: float
    from_publish: float | None


Moments = Callable[[object, Sequence[Message]], Iterable[tuple[datetime, datetime | None]]]
"""Gives the moment of each new event among these messages, and when its message was published."""


class FeedWatch:
    """Watches for the one thread that pulls. `late` is called with the lateness of each event that is in the ledger.

    Its own rows are written without a lease: of two guards that pull by mistake, each notes the truth.
    """

    def __init__(
        self,
        database: Database,
        clock: Clock,
        subscription: str,
        moments: Moments | None = None,
        rhythm: Rhythm = RHYTHM,
        late: Callable[[Lateness], object] = lambda _: None,
    ) -> None:
        self._database = database
        self._clock = clock
        self._subscription = subscription
        self._moments = moments or moments_of
        self._rhythm = rhythm
        self._late = late
        self._wire = FeedWire()
        self._tried_at: datetime | None = None
        self._stored_at: datetime | None = None
        self._error = ""
        self._counts: Counter[str] = Counter()
        self._backlog: dict[str, Any] = {}

    @property
    def wire(self) -> FeedWire:
        return self._wire

    def beat(self, publish: Publish, now: datetime) -> None:
        """Sends a heartbeat where one is due. One that fails is sent again at its next time."""
        every = self._rhythm.heartbeat if self._wire.can_publish else _ASKED_AGAIN
        if self._tried_at is not None and timedelta() <= now - self._tried_at < every:
            return
        self._tried_at = now
        try:
            publish([(b"", {HEARTBEAT: self._subscription, _SENT_AT: now.isoformat()})])
        except PermissionDenied as error:
            if self._wire.can_publish:
                log.warning("heartbeat_refused", error=str(error))
            self._wire = replace(self._wire, can_publish=False)
        except CloudError as error:
            log.warning("heartbeat_not_sent", error=str(error))
        else:
            self._wire = replace(self._wire, sent_at=now, can_publish=True)

    def pulled(self, messages: Sequence[Message], now: datetime) -> list[int]:
        """Notes an answered pull, with or without messages. Returns the places of those that are no heartbeats."""
        self._error = ""
        self._wire = replace(self._wire, pulled_at=now)
        self._counts[PULLS] += 1
        others = []
        for place, message in enumerate(messages):
            self._counts[MESSAGES] += 1
            self._counts[BYTES] += size_of(message)
            if HEARTBEAT in message.attributes:
                self._hear(message)
                continue
            others.append(place)
            if message.published_at is not None:
                newest = max(message.published_at, self._wire.message_at or message.published_at)
                self._wire = replace(self._wire, message_at=newest)
        self._store_sparingly(now)
        return others

    def failed(self, error: CloudError) -> None:
        self._error = str(error)
        self._store_sparingly(self._clock.now())

    def measured(self, unread: int | None, oldest_at: datetime | None, now: datetime) -> None:
        """Notes how many messages Google holds, and since when the oldest."""
        self._backlog = {"unread": unread, "oldest_unread_at": oldest_at, "measured_at": now}

    def written(self, report: object, messages: Sequence[Message], now: datetime, lease: object = None) -> None:
        """Notes that the events of messages are in the ledger. `report` is what recording them returned."""
        del lease
        for happened_at, published_at in self._moments(report, messages):
            seconds = max(0.0, (now - happened_at).total_seconds())
            self._counts[f"{LATE}/{bucket_of(seconds)}"] += 1
            since = None if published_at is None else max(0.0, (now - published_at).total_seconds())
            self._late(Lateness(seconds, since))

    def _store_sparingly(self, now: datetime) -> None:
        if self._stored_at is None or not timedelta() <= now - self._stored_at < _STORED_EVERY:
            with Isolated("feed_not_noted", passing=()), self._database.write() as connection:  # it is at the next pull
                self._store(connection, now)

    def _store(self, connection: Connection, now: datetime) -> None:
        row = {
            "subscription": self._subscription,
            "sent_at": self._wire.sent_at,
            "heard_at": self._wire.heard_at,
            "pulled_at": self._wire.pulled_at,
            "message_at": self._wire.message_at,
            "can_publish": self._wire.can_publish,
            "error": storable(self._error),
            **self._backlog,
        }
        # What was measured is written also where it is nothing: no message is the oldest once all are read.
        names = [name for name, value in row.items() if value is not None or name in self._backlog]
        names.remove("subscription")
        upsert(connection, feed_wire, [row], ["subscription"], names)
        hourly_counts.add(connection, self._counts, now)
        self._counts.clear()
        self._stored_at = now

    def _hear(self, message: Message) -> None:
        """A heartbeat of another guard, at the same topic, says nothing of our clock."""
        if message.attributes[HEARTBEAT] != self._subscription:
            return
        try:
            sent_at = datetime.fromisoformat(message.attributes.get(_SENT_AT, ""))
        except ValueError:
            return
        if sent_at.tzinfo is not None:
            self._wire = replace(self._wire, heard_at=max(sent_at, self._wire.heard_at or sent_at))


def moments_of(report: object, messages: Sequence[Message]) -> Iterator[tuple[datetime, datetime | None]]:
    """Yields the moments of a batch in which something was new: an operation begins with its first entry, and is done
    with its last.
    """
    if isinstance(report, FeedRecorded) and report.doubled == report.entries:
        return
    for message in messages:
        try:
            entry = read_entry(orjson.loads(message.data))
        except orjson.JSONDecodeError:
            continue
        if entry is None or entry.kind is FeedKind.NOISE:
            continue
        happened_at = entry.ended_at if entry.phase is Phase.LAST else entry.at
        if happened_at is not None:
            yield happened_at, message.published_at


_ENVELOPE = 20  # bytes that are billed for the timestamp of each message: https://cloud.google.com/pubsub/pricing
_ID = 16  # of Pub/Sub's message ids, in decimal


def size_of(message: Message) -> int:
    """Returns the bytes that Google bills for one message, by its price list, with an id of sixteen digits."""
    return (
        len(message.data)
        + sum(len(key.encode()) + len(value.encode()) for key, value in message.attributes.items())
        + _ENVELOPE
        + _ID
    )


def bucket_of(seconds: float) -> str:
    """The upper bound of the bucket that so many seconds fall into; "inf" above all."""
    place = bisect_left(LATE_BUCKETS_S, seconds)
    return str(LATE_BUCKETS_S[place]) if place < len(LATE_BUCKETS_S) else "inf"


def late_at(counts: Mapping[str, int], share: float) -> int | None:
    """The bound in seconds within which this share of events was in the ledger; None: no event, or above all bounds."""
    total = sum(number for what, number in counts.items() if what.startswith(f"{LATE}/"))
    passed = 0
    for bound in LATE_BUCKETS_S if total else ():
        passed += counts.get(f"{LATE}/{bound}", 0)
        if passed >= share * total:
            return bound
    return None
