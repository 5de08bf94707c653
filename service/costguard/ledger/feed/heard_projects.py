"""Rows of what was heard of each project: how much, how often twice, and what was missed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import Connection, bindparam, select, update

from costguard.db.bulk import chunks
from costguard.db.tables import feed_projects
from costguard.ledger import operations
from costguard.ledger.feed.kinds import FeedKind, kind_of
from costguard.model.observation import SeenOperation

LATEST_ENTRY = timedelta(minutes=3)
"""An entry that is later counts as missed. Recorded delays of Cloud Logging are below 3 s; Pub/Sub comes on top."""


@dataclass(frozen=True, slots=True)
class HeardProject:
    """Holds what the feed has told of a project. `doubled` entries said nothing new."""

    project: str
    first_heard_at: datetime
    heard_at: datetime
    entries: int
    doubled: int
    missed: int = 0
    missed_at: datetime | None = None


def read_all(connection: Connection) -> list[HeardProject]:
    return [HeardProject(**row._mapping) for row in connection.execute(_ALL)]


_ALL = select(feed_projects).order_by(feed_projects.c.project)


def add(connection: Connection, counts: Mapping[str, tuple[int, int]], heard_at: datetime) -> None:
    """Adds the entries of each project, and how many of them said nothing new: two statements, or three."""
    rows = {
        row.project: HeardProject(**row._mapping)
        for some in chunks(set(counts))
        for row in connection.execute(select(feed_projects).where(feed_projects.c.project.in_(some)))
    }
    new = [
        {
            "project": project, "first_heard_at": heard_at, "heard_at": heard_at, "entries": entries,
            "doubled": doubled, "missed": 0, "missed_at": None,
        }
        for project, (entries, doubled) in counts.items()
        if project not in rows
    ]  # fmt: skip
    if new:
        connection.execute(feed_projects.insert(), new)
    more = [
        {
            "of_project": project,
            "new_heard_at": max(heard_at, rows[project].heard_at),
            "new_entries": rows[project].entries + entries,
            "new_doubled": rows[project].doubled + doubled,
        }
        for project, (entries, doubled) in counts.items()
        if project in rows
    ]
    if more:
        connection.execute(_ADD, more)


_ADD = (
    update(feed_projects)
    .where(feed_projects.c.project == bindparam("of_project"))
    .values(heard_at=bindparam("new_heard_at"), entries=bindparam("new_entries"), doubled=bindparam("new_doubled"))
)


def missed_of(connection: Connection, project: str, news: Sequence[SeenOperation], read_at: datetime) -> int:
    """Returns how many operations a list showed first, though their entries are due.

    Only of a project of which something was heard before they began, and of what begins or ends a run: the sink may
    leave other methods out.
    """
    due = [op for op in news if _is_of_a_run(op) and op.inserted_at < read_at - LATEST_ENTRY]
    if not due:
        return 0
    since = connection.scalar(select(feed_projects.c.first_heard_at).where(feed_projects.c.project == project))
    due = [op for op in due if since is not None and op.inserted_at > since]
    return len(due) - len(operations.stored_of(connection, due)) if due else 0


def note_missed(connection: Connection, project: str, missed: int, read_at: datetime) -> None:
    columns = feed_projects.c
    more = update(feed_projects).where(columns.project == project)
    connection.execute(more.values(missed=columns.missed + missed, missed_at=read_at))


def _is_of_a_run(op: SeenOperation) -> bool:
    return op.error_code is None and kind_of(op.kind) not in (FeedKind.NOISE, FeedKind.CHANGED, FeedKind.MIGRATED)
