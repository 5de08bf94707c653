"""Reading what digests and notices tell of, and what became of the messages."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Row, func, select

from costguard.db.bulk import chunks
from costguard.db.tables import facts, instances, keeps, messages
from costguard.model.fact import Fact
from costguard.model.instance import InstanceKey

_LATE = timedelta(days=2)  # what a fact tells of may have happened some time before it was recorded


@dataclass(frozen=True, slots=True)
class KeptRow:
    key: InstanceKey
    name: str
    by: str
    at: datetime
    until: datetime
    reason: str


@dataclass(frozen=True, slots=True)
class MessageFilters:
    subject: str | None = None
    gce_id: str | None = None
    status: str | None = None
    kind: str | None = None


@dataclass(frozen=True, slots=True)
class MessageRow:
    """A message with its VM's name, which is "" for one that is about no VM."""

    id: int
    key: str
    kind: str
    status: str
    subject: str
    project: str
    gce_id: str
    name: str
    cycle: int
    stage: int
    target: str
    address: str
    intended_at: datetime
    try_after: datetime
    attempts: int
    accepted_at: datetime | None
    error: str


def messages_page(
    connection: Connection, filters: MessageFilters, before_id: int | None, limit: int
) -> list[MessageRow]:
    """Those that were intended last, first; `before_id` goes on after a page."""
    own = [messages.c[name] for name in MessageRow.__slots__ if name in messages.c]
    vm = [func.coalesce(instances.c[name], "").label(name) for name in ("project", "gce_id", "name")]
    query = select(*own, *vm).join_from(messages, instances, instances.c.id == messages.c.instance_id, isouter=True)
    wanted = (
        (messages.c.subject, filters.subject),
        (instances.c.gce_id, filters.gce_id),
        (messages.c.status, filters.status),
        (messages.c.kind, filters.kind),
    )
    query = query.where(*(column == value for column, value in wanted if value is not None))
    if before_id is not None:
        query = query.where(messages.c.id < before_id)
    rows = connection.execute(query.order_by(messages.c.id.desc()).limit(limit))
    return [MessageRow(**row._mapping) for row in rows]


def known(connection: Connection, keys: Collection[str]) -> set[str]:
    """Those of these messages that were intended, whatever became of them."""
    return {
        key
        for chunk in chunks(keys)
        for key in connection.execute(select(messages.c.key).where(messages.c.key.in_(chunk))).scalars()
    }


def recorded_since(connection: Connection, kinds: Collection[str], since: datetime) -> list[tuple[datetime, Fact]]:
    """Facts of these kinds with when they were recorded, the oldest first."""
    of = facts.c
    query = select(facts).where(of.kind.in_(kinds), of.occurred_at >= since - _LATE, of.recorded_at >= since)
    return [(row.recorded_at, _fact(row)) for row in connection.execute(query.order_by(of.id))]


def facts_by_key(connection: Connection, keys: Collection[str]) -> list[Fact]:
    """In the order in which they were recorded."""
    query = select(facts).where(facts.c.key.in_(list(keys))).order_by(facts.c.id)
    return [_fact(row) for row in connection.execute(query)]


def kept_between(connection: Connection, since: datetime, until: datetime) -> list[KeptRow]:
    """Keeps that were given in [since, until), the latest first."""
    of = keeps.c
    query = (
        select(instances.c.project, instances.c.gce_id, instances.c.name, of.by, of.at, of.until, of.reason)
        .join_from(keeps, instances, instances.c.id == of.instance_id)
        .where(of.at >= since, of.at < until)
        .order_by(of.at.desc(), of.id.desc())
    )
    return [
        KeptRow(InstanceKey(row.project, row.gce_id), row.name, row.by, row.at, row.until, row.reason)
        for row in connection.execute(query)
    ]


def _fact(row: Row[Any]) -> Fact:
    return Fact(
        key=row.key,
        kind=row.kind,
        occurred_at=row.occurred_at,
        text=row.text,
        project=row.project,
        gce_id=row.gce_id,
        name=row.name,
        actor=row.actor,
        data=row.data,
    )
