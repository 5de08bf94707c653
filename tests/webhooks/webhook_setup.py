"""Webhooks over a real database, with a clock moved by hand."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Row, select
from tests.fakes import HandClock
from tests.webhooks.receiver import SECRET

from costguard.db import lease, tables
from costguard.db.lease import Lease
from costguard.db.transaction import Database
from costguard.events import audit_log
from costguard.model.delivery.webhook import Webhook, WebhookResponse, WebhookState
from costguard.model.event import Event
from costguard.settings.webhooks import decoded
from costguard.webhooks import rows
from costguard.webhooks.delivery import Delivery, Poster, Webhooks

T0 = datetime(2026, 11, 20, 12, tzinfo=UTC)
TTL = timedelta(minutes=1)


def webhook(url: str = "http://127.0.0.1:9/", name: str = "pager", **given: Any) -> Webhook:
    return Webhook(name, url, **{"secrets": decoded(SECRET), **given})


def event(name: str, kind: str = "LifetimeStarted", project: str = "lab") -> Event:
    return Event(f"{kind}:{project}:{name}", kind, T0, f"{name} started.", project, "77", name, data={"zone": "z"})


class FakePoster:
    """Receivers in memory; `then` is done after each message was taken, before its answer is heard of."""

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.then: Callable[[], object] = lambda: None
        self.trouble: Exception | None = None

    def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> WebhookResponse:
        if self.trouble is not None:
            raise self.trouble
        self.ids.append(headers["webhook-id"])
        self.then()
        return WebhookResponse(200)


class WebhookSetup:
    """`pager` is a webhook that began before the first event."""

    def __init__(self, database: Database, poster: Poster, *receivers: Webhook) -> None:
        self.database, self.poster, self.clock = database, poster, HandClock(T0)
        self.receivers = receivers or (webhook(),)
        with database.write() as connection:
            rows.settle(connection, [receiver.name for receiver in self.receivers])

    def record(self, *names: str, **given: str) -> None:
        with self.database.write() as connection:
            audit_log.append(connection, [event(name, **given) for name in names], self.clock.now())

    def delivery(self, name: str = "pager", database: Database | None = None) -> Delivery:
        """Makes a delivery as a process that just began has it."""
        [receiver] = [receiver for receiver in self.receivers if receiver.name == name]
        return Delivery(database or self.database, self.poster, self.clock, receiver)

    def webhooks(self, report: Callable[[str, str], None] = lambda _name, _outcome: None) -> Webhooks:
        return Webhooks(self.database, self.poster, self.clock, self.receivers, report)

    def lease(self) -> Lease:
        held = lease.acquire(self.database, "daemon", "one", TTL)
        assert held is not None
        return held

    def troubled(self) -> list[WebhookState]:
        """Returns the troubled receivers as any process can tell."""
        with self.database.read() as connection:
            return [state for state in self.webhooks().states(connection) if state.error]

    def stored(self, name: str = "pager") -> Row[Any]:
        with self.database.read() as connection:
            return connection.execute(select(tables.webhooks).where(tables.webhooks.c.name == name)).one()


def ended(threads: str = "webhook-") -> None:
    """Waits until no webhook sends any more."""
    for thread in threading.enumerate():
        if thread.name.startswith(threads):
            with suppress(RuntimeError):
                thread.join(30)
