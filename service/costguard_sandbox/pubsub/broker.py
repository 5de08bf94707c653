"""Topics, subscriptions and their messages.

Rules: https://docs.cloud.google.com/pubsub/docs/subscription-properties. A message that was pulled is held until
the deadline; unless it is acknowledged by then, it comes again. A pull gives at most 100
(measured on Google's emulator).
"""

from __future__ import annotations

import base64
import threading
from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from costguard_sandbox.clock import WorldClock, zulu

MOST_OF_A_PULL = 100
_SHORTEST_S, _LONGEST_S = 10, 600  # of an ack deadline
_COUNTED_BACK = timedelta(minutes=30)  # how long ago the number of unread messages is still known
_RETENTION = timedelta(days=7)


class PubsubRefused(Exception):
    """A request that is answered with an error, in the form of Google's newer APIs."""

    def __init__(self, code: int, status: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.status = status
        self.message = message


def missing(name: str) -> PubsubRefused:
    return PubsubRefused(404, "NOT_FOUND", f"Resource not found (resource={name.rpartition('/')[2]}).")


@dataclass(frozen=True, slots=True)
class Published:
    """A message of a topic, as the API shows it."""

    id: str
    data: bytes
    attributes: Mapping[str, str]
    published_at: datetime

    def shown(self) -> dict[str, Any]:
        """Shows two fields in both spellings, as recorded envelopes have them."""
        at = zulu(self.published_at)
        both = {"messageId": self.id, "message_id": self.id, "publishTime": at, "publish_time": at}
        attributes = {"attributes": dict(self.attributes)} if self.attributes else {}
        return {"data": base64.b64encode(self.data).decode(), **attributes, **both}


@dataclass(slots=True, eq=False)
class _Held:
    """A message in a subscription's backlog."""

    message: Published
    until: datetime | None = None  # when it comes again; None: nobody has it
    attempts: int = 0
    ack_id: str = ""


@dataclass(slots=True, eq=False)
class Subscription:
    """`backlog` holds what is not acknowledged, oldest first, by message id."""

    name: str
    topic: str
    ack_deadline_s: int
    made_at: datetime
    acknowledged: deque[tuple[datetime, datetime]] = field(
        default_factory=deque
    )  # published, and acknowledged, of late
    backlog: OrderedDict[str, _Held] = field(default_factory=OrderedDict)
    by_ack_id: dict[str, _Held] = field(default_factory=dict)

    def shown(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "topic": self.topic,
            "pushConfig": {},
            "ackDeadlineSeconds": self.ack_deadline_s,
            "messageRetentionDuration": "604800s",
            "expirationPolicy": {},
            "state": "ACTIVE",
        }


class Broker:
    """All topics and subscriptions. Thread-safe."""

    def __init__(self, clock: WorldClock) -> None:
        self.clock = clock
        self.topics: dict[str, list[Subscription]] = {}
        self.subscriptions: dict[str, Subscription] = {}
        self.pulls = 0  # requests, for tests
        self._lock = threading.Lock()
        self._last_id = 0

    def add_topic(self, name: str) -> None:
        with self._lock:
            if name in self.topics:
                raise PubsubRefused(409, "ALREADY_EXISTS", f"Resource already exists in the project (resource={name}).")
            self.topics[name] = []

    def remove_topic(self, name: str) -> None:
        """Removes a topic. Its subscriptions stay, with what is unread, and name it `_deleted-topic_`."""
        with self._lock:
            if name not in self.topics:
                raise missing(name)
            for subscription in self.topics.pop(name):
                subscription.topic = "_deleted-topic_"

    def add_subscription(self, name: str, topic: str, ack_deadline_s: int = 10) -> Subscription:
        with self._lock:
            if topic not in self.topics:
                raise missing(topic)
            if name in self.subscriptions:
                raise PubsubRefused(409, "ALREADY_EXISTS", f"Resource already exists in the project (resource={name}).")
            if not _SHORTEST_S <= ack_deadline_s <= _LONGEST_S:
                words = f"Invalid ack deadline given: {ack_deadline_s}. It must be from {_SHORTEST_S} to {_LONGEST_S}."
                raise PubsubRefused(400, "INVALID_ARGUMENT", words)
            made = self.subscriptions[name] = Subscription(name, topic, ack_deadline_s, self.clock.now())
            self.topics[topic].append(made)
            return made

    def remove_subscription(self, name: str) -> None:
        with self._lock:
            gone = self._subscription(name)
            del self.subscriptions[name]
            if gone.topic in self.topics:
                self.topics[gone.topic].remove(gone)

    def publish(
        self, topic: str, messages: Sequence[tuple[bytes, Mapping[str, str]]], at: datetime | None = None
    ) -> list[str]:
        """Returns the ids of the messages. `at` is when they are published; None: now."""
        with self._lock:
            if topic not in self.topics:
                raise missing(topic)
            ids = []
            for data, attributes in messages:
                self._last_id += 1
                made = Published(str(10**15 + self._last_id), data, dict(attributes), at or self.clock.now())
                for subscription in self.topics[topic]:
                    subscription.backlog[made.id] = _Held(made)
                ids.append(made.id)
            return ids

    def subscription(self, name: str) -> Subscription:
        """Raises PubsubRefused (404) where there is none."""
        with self._lock:
            return self._subscription(name)

    def _subscription(self, name: str) -> Subscription:
        if name not in self.subscriptions:
            raise missing(name)
        return self.subscriptions[name]

    def pull(self, name: str, most: int) -> list[dict[str, Any]]:
        """Hands out what nobody holds, oldest first."""
        if most <= 0:
            words = f"The value for max_messages is too small. You passed {most}, but the minimum value is 1."
            raise PubsubRefused(400, "INVALID_ARGUMENT", words)
        with self._lock:
            now, subscription = self.clock.now(), self._subscription(name)
            self.pulls += 1
            received: list[dict[str, Any]] = []
            expired = []
            for held in subscription.backlog.values():
                if len(received) >= min(most, MOST_OF_A_PULL):
                    break
                if now - held.message.published_at > _RETENTION:
                    expired.append(held)
                elif held.until is None or held.until <= now:
                    received.append(self._hand_out(subscription, held, now))
            for held in expired:
                _drop(subscription, held)
            return received

    def _hand_out(self, subscription: Subscription, held: _Held, now: datetime) -> dict[str, Any]:
        subscription.by_ack_id.pop(held.ack_id, None)
        held.attempts += 1
        held.ack_id = f"{subscription.name.rpartition('/')[2]}:{held.message.id}:{held.attempts}"
        held.until = now + timedelta(seconds=subscription.ack_deadline_s)
        subscription.by_ack_id[held.ack_id] = held
        return {"ackId": held.ack_id, "message": held.message.shown()}

    def acknowledge(self, name: str, ack_ids: Sequence[str]) -> None:
        """An id whose deadline has passed may count still, or not: here it does until the message is pulled again."""
        with self._lock:
            subscription = self._subscription(name)
            for ack_id in ack_ids:
                if (held := subscription.by_ack_id.get(ack_id)) is not None:
                    _drop(subscription, held)
                    self._remember(subscription, held)

    def _remember(self, subscription: Subscription, held: _Held) -> None:
        now, past = self.clock.now(), subscription.acknowledged
        past.append((held.message.published_at, now))
        while past[0][1] < now - _COUNTED_BACK:
            past.popleft()

    def modify_deadline(self, name: str, ack_ids: Sequence[str], seconds: int) -> None:
        if not 0 <= seconds <= _LONGEST_S:
            words = f"Invalid ack deadline given: {seconds}. It must be from 0 to {_LONGEST_S}."
            raise PubsubRefused(400, "INVALID_ARGUMENT", words)
        with self._lock:
            subscription = self._subscription(name)
            for ack_id in ack_ids:
                if (held := subscription.by_ack_id.get(ack_id)) is not None:
                    held.until = self.clock.now() + timedelta(seconds=seconds) if seconds else None

    def unread(self, name: str) -> tuple[int, timedelta]:
        """The number of messages that are not acknowledged, and the age of the oldest."""
        with self._lock:
            backlog = self._subscription(name).backlog
            oldest = min((held.message.published_at for held in backlog.values()), default=None)
            return len(backlog), timedelta(0) if oldest is None else max(timedelta(0), self.clock.now() - oldest)

    def unread_at(self, name: str, at: datetime) -> tuple[int, timedelta]:
        """The same at an earlier moment, of the last half hour."""
        with self._lock:
            subscription = self._subscription(name)
            published = [held.message.published_at for held in subscription.backlog.values()]
            published += [came_at for came_at, gone_at in subscription.acknowledged if gone_at > at]
            published = [came_at for came_at in published if came_at <= at]
            return len(published), at - min(published, default=at)


def _drop(subscription: Subscription, held: _Held) -> None:
    subscription.by_ack_id.pop(held.ack_id, None)
    subscription.backlog.pop(held.message.id, None)
