"""The audit log: events are appended once, and read newest first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, and_, or_, select

from costguard.db.tables import events
from costguard.db.types import storable
from costguard.db.upsert import upsert
from costguard.model.event import Event

_LONGEST_KEY = 500  # PostgreSQL indexes no more than 2,704 bytes, and a character has up to four


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """An event, its place in the record (a cursor for reading on) and when it was recorded."""

    id: int
    recorded_at: datetime
    event: Event


def append(connection: Connection, new: Sequence[Event], recorded_at: datetime) -> int:
    """Appends events, and returns how many were not recorded before; the others change nothing."""
    return upsert(connection, events, [_row(event, recorded_at) for event in new], ["key"], update_columns=[])


def read(
    connection: Connection,
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    kind: str | None = None,
    project: str | None = None,
    gce_id: str | None = None,
    before_id: int | None = None,
    limit: int = 100,
) -> list[StoredEvent]:
    """Reads events from `since` on and before `until`, the newest first.

    `before_id`, the id of the last event that was read, gives the page after it.
    """
    conditions: list[ColumnElement[bool]] = []
    if since is not None:
        conditions.append(events.c.occurred_at >= since)
    if until is not None:
        conditions.append(events.c.occurred_at < until)
    for column, wanted in ((events.c.kind, kind), (events.c.project, project), (events.c.gce_id, gce_id)):
        if wanted is not None:
            conditions.append(column == wanted)
    if before_id is not None:
        last = events.alias("last_read")
        moment = select(last.c.occurred_at).where(last.c.id == before_id).scalar_subquery()
        conditions.append(events.c.occurred_at <= moment)
        conditions.append(or_(events.c.occurred_at < moment, events.c.id < before_id))
    query = select(events).where(and_(True, *conditions))
    rows = connection.execute(query.order_by(events.c.occurred_at.desc(), events.c.id.desc()).limit(limit))
    return [stored(row) for row in rows]


def _row(event: Event, recorded_at: datetime) -> dict[str, Any]:
    return {
        "key": _short(storable(event.key)),
        "kind": storable(event.kind),
        "occurred_at": event.occurred_at,
        "recorded_at": recorded_at,
        "project": storable(event.project),
        "gce_id": storable(event.gce_id),
        "name": storable(event.name),
        "actor": storable(event.actor),
        "text": storable(event.text),
        "data": storable(event.data),
    }


def _short(key: str) -> str:
    """The key, or its beginning and a digest of all of it."""
    if len(key) <= _LONGEST_KEY:
        return key
    return key[: _LONGEST_KEY - 65] + "#" + sha256(key.encode()).hexdigest()


def stored(row: Row[Any]) -> StoredEvent:
    return StoredEvent(
        id=row.id,
        recorded_at=row.recorded_at,
        event=Event(
            key=row.key,
            kind=row.kind,
            occurred_at=row.occurred_at,
            text=row.text,
            project=row.project,
            gce_id=row.gce_id,
            name=row.name,
            actor=row.actor,
            data=row.data,
        ),
    )
