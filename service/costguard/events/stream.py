"""Events in the order in which they were recorded, for readers that continue where they left off.

Reading on from an id misses nothing: writers take turns (db/transaction.py), so anyone who took a lower id has
committed it, or given it up, before anybody takes a higher one. On PostgreSQL a sequence alone would not promise it.
"""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import ColumnElement, Connection, func, select

from costguard.db.tables import events
from costguard.events.audit_log import StoredEvent, stored


def after(
    connection: Connection,
    event_id: int,
    limit: int,
    *,
    kinds: Collection[str] = (),
    projects: Collection[str] = (),
    gce_id: str | None = None,
) -> list[StoredEvent]:
    """Reads at most `limit` events that were recorded after `event_id`, the oldest first; no kinds, or projects: all of
    them.

    Fewer than `limit`: all other events up to this transaction's `latest_id` were filtered out.
    """
    conditions = matching(event_id, kinds, projects)
    if gce_id is not None:
        conditions.append(events.c.gce_id == gce_id)
    rows = connection.execute(select(events).where(*conditions).order_by(events.c.id).limit(limit))
    return [stored(row) for row in rows]


def matching(event_id: int, kinds: Collection[str], projects: Collection[str]) -> list[ColumnElement[bool]]:
    """Recorded after this one, of these kinds, in these projects."""
    conditions: list[ColumnElement[bool]] = [events.c.id > event_id]
    if kinds:
        conditions.append(events.c.kind.in_(sorted(kinds)))
    if projects:
        conditions.append(events.c.project.in_(sorted(projects)))
    return conditions


def latest_id(connection: Connection) -> int:
    """Returns the id of the event that was recorded last; 0 before the first."""
    latest: int = connection.execute(select(func.coalesce(func.max(events.c.id), 0))).scalar_one()
    return latest
