"""How far each receiver of facts has come."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, delete, func, insert, select, update

from costguard.db.tables import facts, webhooks
from costguard.db.types import storable
from costguard.events import stream
from costguard.model.webhook import Webhook

MOST_COUNTED = 10_000
_MOST_READ = 100_000  # facts that are looked at for it: a receiver of few kinds may be millions behind


@dataclass(frozen=True, slots=True)
class ReceiverPosition:
    """`fact_id` is the last fact that was accepted, or passed over; `tries` are those of the next one that failed."""

    name: str
    fact_id: int
    tries: int
    try_after: datetime | None
    accepted_at: datetime | None
    error: str


@dataclass(frozen=True, slots=True)
class Waiting:
    """Facts that a receiver has not accepted yet: how many, as far as that is quickly said, and since when."""

    count: int
    since: datetime | None


def places(connection: Connection) -> dict[str, ReceiverPosition]:
    return {
        row.name: ReceiverPosition(row.name, row.fact_id, row.tries, row.try_after, row.accepted_at, row.error)
        for row in connection.execute(select(webhooks).order_by(webhooks.c.name))
    }


def settle(connection: Connection, names: Collection[str]) -> None:
    """New receivers begin with what is recorded from now on; those that are not in the settings are forgotten."""
    known = set(places(connection))
    if gone := known - set(names):
        connection.execute(delete(webhooks).where(webhooks.c.name.in_(gone)))
    if new := set(names) - known:
        latest = stream.latest_id(connection)
        connection.execute(insert(webhooks), [{"name": name, "fact_id": latest} for name in sorted(new)])


def accepted(connection: Connection, name: str, fact_id: int, now: datetime) -> None:
    """The receiver has all facts up to this one."""
    _change(connection, name, fact_id=fact_id, tries=0, try_after=None, accepted_at=now, error="")


def passed_over(connection: Connection, name: str, fact_id: int) -> None:
    """There is nothing for the receiver up to this fact."""
    _change(connection, name, fact_id=fact_id)


def refused(connection: Connection, name: str, fact_id: int, tries: int, try_after: datetime, error: str) -> None:
    """It has all facts up to this one, and did not take the next."""
    _change(connection, name, fact_id=fact_id, tries=tries, try_after=try_after, error=storable(error))


def waiting(connection: Connection, webhook: Webhook, fact_id: int) -> Waiting:
    conditions = stream.matching(fact_id, webhook.kinds, webhook.projects)
    first = select(facts.c.id, facts.c.recorded_at).where(*conditions, facts.c.id <= fact_id + _MOST_READ)
    found = first.order_by(facts.c.id).limit(MOST_COUNTED).subquery()
    count = connection.execute(select(func.count()).select_from(found)).scalar_one()
    since: datetime | None = connection.scalar(select(found.c.recorded_at).order_by(found.c.id).limit(1))
    return Waiting(count, since)


def _change(connection: Connection, name: str, **values: object) -> None:
    connection.execute(update(webhooks).where(webhooks.c.name == name).values(values))
