"""The receivers of facts: each is served beside the others, and what keeps one is told."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

import structlog
from sqlalchemy import Connection

from costguard.db import lease
from costguard.db.lease import Lease
from costguard.db.transaction import Database
from costguard.errors import LeaseLost, WebhookUnknown
from costguard.events import stream
from costguard.model.ports import Clock
from costguard.model.webhook import Answer, Webhook, WebhookState
from costguard.webhooks import rows
from costguard.webhooks.delivery import Delivery, Poster

log = structlog.get_logger(__name__)

_LAST_WORDS_S = 1.0  # how long those who send are given to write down what was accepted


class Webhooks:
    """Each receiver has a thread while it has facts to take: a slow one holds up nobody else.

    One that answers 410 is left alone until the process ends.
    """

    def __init__(
        self,
        database: Database,
        poster: Poster,
        clock: Clock,
        receivers: Sequence[Webhook],
        told: Callable[[str, str], None] = lambda _name, _outcome: None,
    ) -> None:
        self._database = database
        self._clock = clock
        self._deliveries = {each.name: Delivery(database, poster, clock, each, told) for each in receivers}
        self._threads: dict[str, threading.Thread] = {}

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._deliveries)

    def run(self, fence: Lease, stop: threading.Event) -> None:
        """Let every receiver that something waits for have it, and come back at once. Raises LeaseLost."""
        for name, delivery in self._due(fence).items():
            if name not in self._threads or not self._threads[name].is_alive():
                self._threads[name] = threading.Thread(
                    target=_take_turn, args=(delivery, fence, stop), name=f"webhook-{name}", daemon=True
                )
                self._threads[name].start()

    def deliver(self, fence: Lease) -> None:
        """The same for one receiver after the other, and to the end. Raises LeaseLost."""
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
            and max(places[name].fact_id, delivery.seen) < latest
            and (places[name].try_after or now) <= now
        }

    def close(self) -> None:
        """Give those who send a moment. What they cannot write down is sent again by the next process."""
        until = time.monotonic() + _LAST_WORDS_S
        for thread in self._threads.values():
            thread.join(max(0.0, until - time.monotonic()))

    def states(self, connection: Connection) -> list[WebhookState]:
        return states(connection, [each.receiver for each in self._deliveries.values()])

    def send_test(self, name: str) -> Answer:
        """What the receiver answers to a message that is no fact. Raises WebhookUnknown and WebhookUnreachable."""
        if name not in self._deliveries:
            known = ", ".join(sorted(self._deliveries)) or "there are none"
            raise WebhookUnknown(
                f"There is no webhook {name} in the settings (known: {known}).",
                f"Name one of them, or add a section [webhooks.{name}] and restart Costguard.",
            )
        return self._deliveries[name].send_test()


def states(connection: Connection, receivers: Sequence[Webhook]) -> list[WebhookState]:
    """How it stands with each receiver, by what is stored: any process can tell."""
    known = {each.name: each for each in receivers}
    found = []
    for name, place in rows.places(connection).items():
        if name in known:
            left = rows.waiting(connection, known[name], place.fact_id)
            found.append(WebhookState(name, left.count, left.since, place.error, place.accepted_at))
    return found


def _take_turn(delivery: Delivery, fence: Lease, stop: threading.Event) -> None:
    try:
        delivery.run(fence, stop)
    except LeaseLost:
        log.warning("webhook_turn_ended", webhook=delivery.receiver.name, why="another daemon took over")
    except Exception as error:  # what was not written down as accepted is sent again by a later turn
        log.exception("webhook_turn_failed", webhook=delivery.receiver.name, error=str(error))
