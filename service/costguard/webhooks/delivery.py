"""Delivery of events to webhooks: each receiver gets every event at least once, in order, on its own thread."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Protocol

import structlog
from sqlalchemy import Connection

from costguard.db import lease
from costguard.db.lease import Lease
from costguard.db.transaction import Database
from costguard.errors import LeaseLost, Missing, WebhookError
from costguard.events import stream
from costguard.events.audit_log import StoredEvent
from costguard.isolation import Isolated
from costguard.model.delivery.webhook import Webhook, WebhookResponse, WebhookState
from costguard.model.event import new_event
from costguard.model.ports import Clock
from costguard.webhooks import rows
from costguard.webhooks import signature as policy

log = structlog.get_logger(__name__)

_BATCH = 100  # events read at a time
_COMMIT_EVERY_S = 1.0  # events accepted since then are sent again after a crash
_SKIPPED = 500  # events that a receiver does not want, after which its position is stored


class Poster(Protocol):
    """Posts one message to an address. Raises WebhookError."""

    def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> WebhookResponse: ...


class Delivery:
    """Delivery to one receiver, in the order of recording. One thread at a time uses it.

    `count` receives the result of each message: "accepted", "refused" or "unreachable".
    """

    def __init__(
        self,
        database: Database,
        poster: Poster,
        clock: Clock,
        receiver: Webhook,
        count: Callable[[str, str], None] = lambda _name, _outcome: None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._poster = poster
        self._clock = clock
        self.receiver = receiver
        self._count = count
        self._monotonic = monotonic
        self.is_gone = False  # it answered 410: only a restart brings new settings
        self.seen = 0  # up to this event nothing is left to send; the stored position may be behind

    def run(self, fence: Lease | None = None, stop: threading.Event | None = None) -> None:
        """Sends all that waits, until an event is refused. Raises LeaseLost and other StoreErrors."""
        while (stop is None or not stop.is_set()) and self._send_batch(fence, stop):
            pass

    def send_test(self) -> WebhookResponse:
        """Sends a test message that is no event. Raises WebhookError."""
        now = self._clock.now()
        name = self.receiver.name
        event = new_event("WebhookTest", now, f"A test of the webhook {name}.", name, now.isoformat())
        return self._post(StoredEvent(0, now, event), now)

    def _send_batch(self, fence: Lease | None, stop: threading.Event | None) -> bool:
        """Sends a batch, and says whether there may be more to send at once."""
        receiver = self.receiver
        with self._database.read() as connection:
            if fence is not None:
                lease.check_still_held(connection, fence)
            place = rows.places(connection)[receiver.name]
            start = done = max(place.event_id, self.seen)
            batch = stream.after(connection, done, _BATCH, kinds=receiver.kinds, projects=receiver.projects)
            is_full = len(batch) == _BATCH
            through = batch[-1].id if is_full else stream.latest_id(connection)
        written_s = self._monotonic()
        for stored in batch:
            # A process that stood still leaves the rest to the one that took over.
            if (stop is not None and stop.is_set()) or not (fence is None or fence.is_certain):
                if done > start:
                    self._accept(done, fence)
                return False
            answer, error = self._try(stored)
            if error:
                # The events between the two are for other receivers.
                self._refuse(stored.id - 1, 1 if done > start else place.tries + 1, answer, error, fence)
                return False
            done = stored.id
            if self._monotonic() - written_s >= _COMMIT_EVERY_S:
                self._accept(done, fence)
                written_s = self._monotonic()
        if batch:
            self._accept(through, fence)
        elif through - place.event_id >= _SKIPPED:
            with self._database.write(fence) as connection:
                rows.passed_over(connection, receiver.name, through)
        self.seen = through
        return is_full

    def _try(self, stored: StoredEvent) -> tuple[WebhookResponse | None, str]:
        """The response, and why the event has to be sent again; "" when it was accepted."""
        try:
            answer = self._post(stored, self._clock.now())
        except Exception as error:  # after any failure the next try must wait
            if not isinstance(error, WebhookError):
                log.exception("webhook_not_posted", webhook=self.receiver.name)
            self._count(self.receiver.name, "unreachable")
            return None, str(error) or type(error).__name__
        self._count(self.receiver.name, "accepted" if answer.is_accepted else "refused")
        return answer, "" if answer.is_accepted else policy.refusal(answer)

    def _post(self, stored: StoredEvent, now: datetime) -> WebhookResponse:
        content = policy.body(stored.event, stored.id, stored.recorded_at)
        headers = policy.headers(self.receiver, policy.message_id(stored.event), content, now)
        return self._poster.post(self.receiver.url, content, headers)

    def _accept(self, event_id: int, fence: Lease | None) -> None:
        with self._database.write(fence) as connection:
            rows.accepted(connection, self.receiver.name, event_id, self._clock.now())

    def _refuse(
        self, event_id: int, tries: int, answer: WebhookResponse | None, error: str, fence: Lease | None
    ) -> None:
        if answer is not None and answer.is_gone:
            self.is_gone = True
        wait = policy.wait(tries, answer)
        log.warning(
            "webhook_refused", webhook=self.receiver.name, tries=tries, wait_s=wait.total_seconds(), error=error
        )
        with self._database.write(fence) as connection:
            rows.refused(connection, self.receiver.name, event_id, tries, self._clock.now() + wait, error)


_LAST_WORDS_S = 1.0  # for the threads to store what was accepted


class Webhooks:
    """All receivers, each on its own thread while events wait: a slow one holds up no other.

    A receiver that answers 410 gets nothing until the process restarts.
    """

    def __init__(
        self,
        database: Database,
        poster: Poster,
        clock: Clock,
        receivers: Sequence[Webhook],
        count: Callable[[str, str], None] = lambda _name, _outcome: None,
    ) -> None:
        self._database = database
        self._clock = clock
        self._deliveries = {receiver.name: Delivery(database, poster, clock, receiver, count) for receiver in receivers}
        self._threads: dict[str, threading.Thread] = {}

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._deliveries)

    def run(self, fence: Lease, stop: threading.Event) -> None:
        """Starts a thread for each receiver that events wait for, and returns at once. Raises LeaseLost."""
        for name, delivery in self._due(fence).items():
            if name not in self._threads or not self._threads[name].is_alive():
                self._threads[name] = threading.Thread(
                    target=_take_turn, args=(delivery, fence, stop), name=f"webhook-{name}", daemon=True
                )
                self._threads[name].start()

    def deliver(self, fence: Lease) -> None:
        """Delivers to one receiver after the other, to the end. Raises LeaseLost."""
        for delivery in self._due(fence).values():
            delivery.run(fence)

    def _due(self, fence: Lease) -> dict[str, Delivery]:
        now = self._clock.now()
        with self._database.read() as connection:
            lease.check_still_held(connection, fence)
            places, latest = rows.places(connection), stream.latest_id(connection)
        if places.keys() != self._deliveries.keys():
            with self._database.write(fence) as connection:
                rows.settle(connection, self.names)
                places = rows.places(connection)
        return {
            name: delivery
            for name, delivery in self._deliveries.items()
            if not delivery.is_gone
            and max(places[name].event_id, delivery.seen) < latest
            and (places[name].try_after or now) <= now
        }

    def close(self) -> None:
        """Gives the threads a moment. What they cannot store is sent again by the next process."""
        until = time.monotonic() + _LAST_WORDS_S
        for thread in self._threads.values():
            thread.join(max(0.0, until - time.monotonic()))

    def states(self, connection: Connection) -> list[WebhookState]:
        return states(connection, [delivery.receiver for delivery in self._deliveries.values()])

    def send_test(self, name: str) -> WebhookResponse:
        """Sends a test message that is no event. Raises Missing and WebhookError."""
        if name not in self._deliveries:
            names = ", ".join(sorted(self._deliveries)) or "there are none"
            raise Missing(
                f"There is no webhook {name} in the settings (known: {names}).",
                f"Name one of them, or add a section [webhooks.{name}] and restart Costguard.",
            )
        return self._deliveries[name].send_test()


def states(connection: Connection, receivers: Sequence[Webhook]) -> list[WebhookState]:
    """Each receiver's backlog and last error, as any process can read them."""
    by_name = {receiver.name: receiver for receiver in receivers}
    webhook_states = []
    for name, place in rows.places(connection).items():
        if name in by_name:
            left = rows.waiting(connection, by_name[name], place.event_id)
            webhook_states.append(WebhookState(name, left.count, left.since, place.error, place.accepted_at))
    return webhook_states


def _take_turn(delivery: Delivery, fence: Lease, stop: threading.Event) -> None:
    try:
        # What was not stored as accepted is sent again by a later turn.
        with Isolated("webhook_turn_failed", passing=LeaseLost, webhook=delivery.receiver.name):
            delivery.run(fence, stop)
    except LeaseLost:
        log.warning("webhook_turn_ended", webhook=delivery.receiver.name, why="another daemon took over")
