"""Reads, with one cheap query, whether anything on the pages may have changed."""

from __future__ import annotations

from sqlalchemy import func, select

from costguard.db.tables import changes, events
from costguard.db.transaction import Database

_STATE = select(
    select(func.sum(changes.c.number)).scalar_subquery().label("changes"),
    select(func.max(events.c.id)).scalar_subquery().label("events"),
)


def state(database: Database) -> tuple[int, int]:
    """Equal while no table whose changes are counted was changed, and no event was added. Raises StoreError."""
    with database.read() as connection:
        row = connection.execute(_STATE).one()
    return int(row.changes or 0), int(row.events or 0)
