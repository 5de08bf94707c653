"""Rows of what was heard of each project: how much, how often twice, and what was missed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import Connection, bindparam, func, select, update

from costguard.db.bulk import chunks
from costguard.db.tables import feed_projects, feed_wire
from costguard.db.upsert import upsert
from costguard.ledger import operations
from costguard.ledger.feed.kinds import FeedKind, kind_of
from costguard.ledger.projects import ProjectLook
from costguard.model.observation import Observation, SeenOperation

LATEST_ENTRY = timedelta(minutes=3)
"""An entry that is later counts as missed. Recorded delays of Cloud Logging are below 3 s; Pub/Sub comes on top."""


@dataclass(frozen=True, slots=True)
class HeardProject:
    """Holds what the feed has told of a project. `doubled` entries said nothing new.

    Of one without entries, a list showed an operation whose entry never came.
    """

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


def missed_of(
    connection: Connection, observation: Observation, news: Sequence[SeenOperation], before: ProjectLook | None
) -> int:
    """Returns how many operations a list showed first, though their entries are due.

    Only of a project of which something was heard before they began, and of what begins or ends a run: the sink may
    leave other methods out. Of a project that was never heard, see `left_out`.
    """
    project, read_at = observation.project, observation.read_at
    if before is not None and (unheard := left_out(connection, [observation], {project: before})):
        return unheard[project]
    due = [op for op in news if _is_of_a_run(op) and op.inserted_at < read_at - LATEST_ENTRY]
    if not due:
        return 0
    since = connection.scalar(select(feed_projects.c.first_heard_at).where(feed_projects.c.project == project))
    due = [op for op in due if since is not None and op.inserted_at > since]
    return len(due) - len(operations.stored_of(connection, due)) if due else 0


def left_out(
    connection: Connection, observations: Iterable[Observation], before: Mapping[str, ProjectLook]
) -> dict[str, int]:
    """Returns the number of operations by project, of those that the sink seems to leave out: these are listed often.

    No entry of such a project ever came, and a list shows operations that began since it is watched and since the
    first entry of any project came, and whose entries are due: heartbeats that were sent minutes after them have come
    back. A project that was found to be left out is not counted again. `before` are the last looks.
    """
    shown = {
        one.project: [op for op in one.operations if _is_of_a_run(op) and op.inserted_at < one.read_at - LATEST_ENTRY]
        for one in observations
        if one.project in before
    }
    names = [project for project, some in shown.items() if some]
    if not names:
        return {}
    since, through = connection.execute(_HEARD).one()
    if since is None or through is None:
        return {}
    heard_names = {
        name
        for some in chunks(set(names))
        for name in connection.scalars(select(feed_projects.c.project).where(feed_projects.c.project.in_(some)))
    }
    missed = {
        name: sum(
            max(since, before[name].first_seen_at) < op.inserted_at < through - LATEST_ENTRY for op in shown[name]
        )
        for name in names
        if name not in heard_names
    }
    return {name: number for name, number in missed.items() if number}


_HEARD = select(
    select(func.min(feed_projects.c.first_heard_at)).where(feed_projects.c.entries > 0).scalar_subquery(),
    select(func.max(func.coalesce(feed_wire.c.heard_at, feed_wire.c.message_at))).scalar_subquery(),
)


def note_missed(connection: Connection, project: str, missed: int, read_at: datetime) -> None:
    """Counts operations whose entries did not come. A project that was never heard has a row without entries then."""
    row = {"first_heard_at": read_at, "heard_at": read_at, "entries": 0, "doubled": 0, "missed": 0, "missed_at": None}
    upsert(connection, feed_projects, [{"project": project, **row}], ("project",), [])
    columns = feed_projects.c
    more = update(feed_projects).where(columns.project == project)
    connection.execute(more.values(missed=columns.missed + missed, missed_at=read_at))


def _is_of_a_run(op: SeenOperation) -> bool:
    return op.error_code is None and kind_of(op.kind) not in (FeedKind.NOISE, FeedKind.CHANGED, FeedKind.MIGRATED)
