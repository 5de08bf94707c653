"""The task that takes audit entries off their subscription: pull, write them into the ledger, acknowledge.

It runs next to the passes and never waits for one. A message is acknowledged after the commit: what a crash or a lost
lease leaves behind comes again, and writing it again changes nothing. Events are hints, so no failure here is one of
a pass: the next listing shows what an event would have said.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Protocol

import orjson
import structlog

from costguard.db.lease import Lease
from costguard.errors import CloudError, LeaseLost, StoreError
from costguard.model.backoff import Backoff
from costguard.model.observation import FeedMessage
from costguard.model.ports import Clock, Feed

log = structlog.get_logger(__name__)

FEED = "events"  # the name of the side task
_WAIT = timedelta(seconds=1)  # for messages, in one pull
_TURN_S = 5.0  # a turn gives its place back after this, and the next one follows at once
_APART_S = 0.5  # between the starts of two small batches: many events share a transaction
_SMALL = 200  # messages; a larger batch says that more are waiting
_SLOW_S = 4.0  # of a batch; the next ones are held longer than the shortest deadline of a subscription, 10 s
_HELD_FOR = timedelta(minutes=2)
_WAKES_APART_S = 5.0
_MEASURED_EVERY_S = 60.0  # Google counts what is unread as often
_MEASURED_AGAIN_S = 600.0  # where Cloud Monitoring does not answer
_BACKOFF = Backoff(timedelta(seconds=1), timedelta(minutes=1), factor=2)
# What ends a VM without a request of anybody's: a job on it is to be taken up elsewhere at once.
_URGENT = (
    "compute.instances.preempted",
    "compute.instances.hostError",
    "compute.instances.terminateOnHostMaintenance",
)

Entry = Mapping[str, Any]
Record = Callable[[Sequence[Entry], Lease], object]
"""Writes entries in one transaction and returns its report. Idempotent. Raises LeaseLost and StoreError."""
Publish = Callable[[Sequence[tuple[bytes, Mapping[str, str]]]], object]


class FeedSigns(Protocol):
    """Notes what came by the subscription, and sends what shows that it flows. Called by the one thread that pulls."""

    def beat(self, publish: Publish, now: datetime) -> None:
        """Publishes a heartbeat where one is due. Raises nothing of Pub/Sub's."""

    def pulled(self, messages: Sequence[FeedMessage], now: datetime) -> Sequence[int]:
        """Notes an answered pull. Returns the places of the messages that may hold entries."""
        ...

    def failed(self, error: CloudError) -> None: ...

    def measured(self, unread: int | None, oldest_at: datetime | None, now: datetime) -> None:
        """Notes how many messages Google holds, and since when the oldest; None: not known."""

    def written(self, report: object, messages: Sequence[FeedMessage], now: datetime, lease: Lease) -> None:
        """Notes that the entries of messages are in the ledger. `report` is what `Record` returned."""


class NoFeedSigns:
    """Takes every message for an entry, and notes nothing."""

    def beat(self, publish: Publish, now: datetime) -> None:
        """Sends nothing."""

    def pulled(self, messages: Sequence[FeedMessage], now: datetime) -> Sequence[int]:
        del now
        return range(len(messages))

    def failed(self, error: CloudError) -> None:
        """Notes nothing."""

    def measured(self, unread: int | None, oldest_at: datetime | None, now: datetime) -> None:
        """Notes nothing."""

    def written(self, report: object, messages: Sequence[FeedMessage], now: datetime, lease: Lease) -> None:
        """Notes nothing."""


@dataclass(frozen=True, slots=True)
class FeedState:
    """The counts of this process, and its last trouble; "" where the last pull was answered."""

    pulled_at: datetime | None = None
    recorded: int = 0  # entries, doubled ones each time
    foreign: int = 0  # messages that hold no JSON object
    set_aside: int = 0  # entries that could not be written for what they hold
    trouble: str = ""


class FeedTask:
    """`wake` is called sparingly where a VM ended that a job may have run on. `pause(stop, seconds)` waits."""

    def __init__(
        self,
        feed: Feed,
        record: Record,
        clock: Clock,
        signs: FeedSigns | None = None,
        wake: Callable[[], object] = lambda: None,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        pause: Callable[[threading.Event, float], object] = threading.Event.wait,
    ) -> None:
        self._feed = feed
        self._record = record
        self._clock = clock
        self._signs = signs or NoFeedSigns()
        self.wake = wake
        self._monotonic = monotonic
        self._pause = pause
        self._failures = 0
        self._not_before_s = float("-inf")
        self._took_s = 0.0  # the last batch
        self._woke_s = float("-inf")
        self._measures_at_s = float("-inf")
        self.state = FeedState()

    def run(self, lease: Lease, stop: threading.Event) -> None:
        """Takes one turn: batches until none comes, or the turn is over. Raises LeaseLost and StoreError."""
        began_s = self._monotonic()
        self._measure()
        while not stop.is_set() and lease.is_certain and self._monotonic() - began_s < _TURN_S:
            batch_s = self._monotonic()
            messages = self._pulled()
            if not messages:
                return
            self._take(messages, lease)
            self._took_s = self._monotonic() - batch_s
            if len(messages) < _SMALL and self._took_s < _APART_S:
                self._pause(stop, _APART_S - self._took_s)

    def _measure(self) -> None:
        """Reads how many messages are unread, once in a while. Nothing rests on it but what people see."""
        if self._monotonic() < self._measures_at_s:
            return
        now, again_s = self._clock.now(), _MEASURED_EVERY_S
        try:
            backlog = self._feed.backlog(now)
        except CloudError:
            self._signs.measured(None, None, now)
            again_s = _MEASURED_AGAIN_S
        else:
            oldest_at = None if backlog.oldest is None else (backlog.measured_at or now) - backlog.oldest
            self._signs.measured(backlog.unread, oldest_at, now)
        self._measures_at_s = self._monotonic() + again_s

    def _pulled(self) -> Sequence[FeedMessage]:
        """Returns what came; nothing where Pub/Sub does not answer, which is asked again later and later."""
        if self._monotonic() < self._not_before_s:
            return ()
        try:
            self._signs.beat(self._feed.publish, self._clock.now())
            messages = self._feed.pull(_WAIT)
        except CloudError as error:
            self._failed(error)
            return ()
        if self.state.trouble:
            log.info("events_pulled_again", after=self.state.trouble)
        self._failures = 0
        self.state = replace(self.state, pulled_at=self._clock.now(), trouble="")
        if not messages:
            self._signs.pulled((), self._clock.now())  # no messages are an answer, too
        return messages

    def _take(self, messages: Sequence[FeedMessage], lease: Lease) -> None:
        ids = [message.ack_id for message in messages]
        places = self._signs.pulled(messages, self._clock.now())
        of_entries = [messages[place] for place in places]
        read = [(message, entry_in(message)) for message in of_entries]
        kept = [(message, entry) for message, entry in read if entry is not None]
        entries = [entry for _, entry in kept]
        self.state = replace(self.state, foreign=self.state.foreign + len(read) - len(kept))
        try:
            if self._took_s > _SLOW_S:
                with suppress(CloudError):
                    self._feed.hold(ids, _HELD_FOR)
            if entries:
                for report, number in self._written(entries, lease):
                    self.state = replace(self.state, recorded=self.state.recorded + number)
                    self._signs.written(report, [message for message, _ in kept], self._clock.now(), lease)
        except LeaseLost:
            with suppress(CloudError):
                self._feed.hold(ids, timedelta(0))  # the one who has the lease now gets them at once
            raise
        except StoreError:
            self._not_before_s = self._monotonic() + _BACKOFF.after(1, jitter=1.0).total_seconds()
            raise
        try:
            self._feed.acknowledge(ids)
        except CloudError as error:
            self._failed(error)  # they come again, and change nothing
        if any(_is_urgent(entry) for entry in entries):
            self._wake_sparingly()

    def _written(self, entries: Sequence[Entry], lease: Lease) -> Iterator[tuple[object, int]]:
        """Writes all at once. Where an entry is in the way of the others, each is written for itself."""
        try:
            yield self._record(entries, lease), len(entries)
            return
        except StoreError:
            raise
        except Exception:
            log.exception("events_not_written_together", entries=len(entries))
        for entry in entries:
            try:
                report = self._record([entry], lease)
            except StoreError:
                raise
            except Exception as error:  # it would fail again, and for ever
                self.state = replace(self.state, set_aside=self.state.set_aside + 1)
                log.error("event_set_aside", error=str(error), insert_id=str(entry.get("insertId", ""))[:100])
            else:
                yield report, 1

    def _failed(self, error: CloudError) -> None:
        self._failures += 1
        pause_s = max(_BACKOFF.after(self._failures, jitter=1.0).total_seconds(), error.retry_after)
        self._not_before_s = self._monotonic() + pause_s
        if str(error) != self.state.trouble:
            log.warning("events_not_pulled", error=str(error))
        self.state = replace(self.state, trouble=str(error))
        self._signs.failed(error)

    def _wake_sparingly(self) -> None:
        now_s = self._monotonic()
        if now_s - self._woke_s >= _WAKES_APART_S:
            self._woke_s = now_s
            self.wake()


def entry_in(message: FeedMessage) -> Entry | None:
    """The log entry that a message holds; None for what is no JSON object."""
    try:
        entry = orjson.loads(message.data)
    except orjson.JSONDecodeError:
        return None
    return entry if isinstance(entry, dict) else None


def _is_urgent(entry: Entry) -> bool:
    payload = entry.get("protoPayload")
    return isinstance(payload, dict) and payload.get("methodName") in _URGENT
