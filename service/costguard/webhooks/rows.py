"""Rows of receivers: each one's position in the events."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, delete, func, insert, select, update

from costguard.db.tables import events, webhooks
from costguard.db.types import storable
from costguard.events import stream
from costguard.model.delivery.webhook import Webhook

MOST_COUNTED = 10_000
_MOST_READ = 100_000  # events that are searched: a receiver of few kinds may be millions behind


@dataclass(frozen=True, slots=True)
class ReceiverPosition:
    """`event_id` is the last event that was accepted or skipped; `tries` are the failed ones of the next event."""

    name: str
    event_id: int
    tries: int
    try_after: datetime | None
    accepted_at: datetime | None
    error: str


@dataclass(frozen=True, slots=True)
class WebhookBacklog:
    """Events that a receiver has not accepted yet: how many, up to a limit, and since when."""

    count: int
    since: datetime | None


def places(connection: Connection) -> dict[str, ReceiverPosition]:
    return {
        row.name: ReceiverPosition(row.name, row.event_id, row.tries, row.try_after, row.accepted_at, row.error)
        for row in connection.execute(select(webhooks).order_by(webhooks.c.name))
    }


def settle(connection: Connection, names: Collection[str]) -> None:
    """New receivers start with events from now on; those no longer in the settings are forgotten."""
    stored = set(places(connection))
    if gone := stored - set(names):
        connection.execute(delete(webhooks).where(webhooks.c.name.in_(gone)))
    if new := set(names) - stored:
        latest = stream.latest_id(connection)
        connection.execute(insert(webhooks), [{"name": name, "event_id": latest} for name in sorted(new)])


def accepted(connection: Connection, name: str, event_id: int, now: datetime) -> None:
    """The receiver has all events up to this one."""
    _change(connection, name, event_id=event_id, tries=0, try_after=None, accepted_at=now, error="")


def passed_over(connection: Connection, name: str, event_id: int) -> None:
    """There is nothing for the receiver up to this event."""
    _change(connection, name, event_id=event_id)


def refused(connection: Connection, name: str, event_id: int, tries: int, try_after: datetime, error: str) -> None:
    """It has all events up to this one, and refused the next."""
    _change(connection, name, event_id=event_id, tries=tries, try_after=try_after, error=storable(error))


def waiting(connection: Connection, webhook: Webhook, event_id: int) -> WebhookBacklog:
    conditions = stream.matching(event_id, webhook.kinds, webhook.projects)
    first = select(events.c.id, events.c.recorded_at).where(*conditions, events.c.id <= event_id + _MOST_READ)
    waiting_events = first.order_by(events.c.id).limit(MOST_COUNTED).subquery()
    count = connection.execute(select(func.count()).select_from(waiting_events)).scalar_one()
    since: datetime | None = connection.scalar(
        select(waiting_events.c.recorded_at).order_by(waiting_events.c.id).limit(1)
    )
    return WebhookBacklog(count, since)


def _change(connection: Connection, name: str, **values: object) -> None:
    connection.execute(update(webhooks).where(webhooks.c.name == name).values(values))
