"""Searches the audit log by actor, job and words, in the order of time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, Connection, and_, false, func, or_, select

from costguard.db.tables import events
from costguard.events.audit_log import StoredEvent, stored

WINDOW = 10_000  # events that one search looks at where it cannot go by an index: some 20 ms


@dataclass(frozen=True, slots=True)
class EventFilters:
    """The filters of a search, from `since` on and before `until`; "" filters nothing.

    `who` and `words` may stand anywhere in theirs.
    """

    since: datetime | None = None
    until: datetime | None = None
    kind: str = ""
    gce_id: str = ""
    project: str = ""
    job: str = ""
    who: str = ""
    words: str = ""

    @property
    def is_windowed(self) -> bool:
        return bool(self.project or self.job or self.who or self.words)


@dataclass(frozen=True, slots=True)
class Found:
    """`next_id` is where to go on, None at the end. `looked_to`: as far as was looked, where fewer were found
    than might be there."""

    events: list[StoredEvent]
    next_id: int | None
    looked_to: datetime | None = None


def search(
    connection: Connection,
    filters: EventFilters,
    last_id: int | None,
    limit: int,
    window: int = WINDOW,
    *,
    oldest_first: bool = False,
) -> Found:
    """Searches for at most `limit` events, the newest first by default.

    `last_id` is the `next_id` of the search before.
    """
    ordered = [column.asc() if oldest_first else column.desc() for column in (events.c.occurred_at, events.c.id)]
    by_index = [*_by_index(filters), *_beyond(connection, last_id, oldest_first)]
    conditions, end = [*by_index, *_by_looking(filters)], None
    if filters.is_windowed:
        looked = select(events.c.occurred_at, events.c.id).where(and_(True, *by_index)).order_by(*ordered)
        end = connection.execute(looked.offset(window - 1).limit(1)).one_or_none()
    if end is not None:
        conditions += _side(end.occurred_at, end.id, not oldest_first, inclusive=True)
    query = select(events).where(and_(True, *conditions)).order_by(*ordered).limit(limit + 1)
    page = [stored(row) for row in connection.execute(query)]
    if len(page) > limit:
        return Found(page[:limit], page[limit - 1].id)
    return Found(page, end.id if end is not None else None, end.occurred_at if end is not None else None)


def kinds(connection: Connection) -> list[str]:
    """Lists the kinds of stored events by name: from one to the next in the index, and not through every event."""
    first = select(func.min(events.c.kind).label("kind")).cte("kinds", recursive=True)
    following = select(func.min(events.c.kind)).where(events.c.kind > first.c.kind).scalar_subquery()
    steps = first.union_all(select(following).where(first.c.kind.is_not(None)))
    return list(connection.scalars(select(steps.c.kind).where(steps.c.kind.is_not(None))))


def _by_index(filters: EventFilters) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = []
    if filters.since is not None:
        conditions.append(events.c.occurred_at >= filters.since)
    if filters.until is not None:
        conditions.append(events.c.occurred_at < filters.until)
    if filters.kind:
        conditions.append(events.c.kind == filters.kind)
    if filters.gce_id:
        conditions.append(events.c.gce_id == filters.gce_id)
    return conditions


def _by_looking(filters: EventFilters) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = []
    if filters.project:
        conditions.append(events.c.project == filters.project)
    if filters.job:
        conditions.append(events.c.data["job"].as_string() == filters.job)
    if filters.who:
        conditions.append(events.c.actor.icontains(filters.who, autoescape=True))
    if filters.words:
        is_named = events.c.name.icontains(filters.words, autoescape=True)
        conditions.append(or_(events.c.text.icontains(filters.words, autoescape=True), is_named))
    return conditions


def _beyond(connection: Connection, last_id: int | None, later: bool) -> list[ColumnElement[bool]]:
    if last_id is None:
        return []
    last = connection.execute(select(events.c.occurred_at, events.c.id).where(events.c.id == last_id)).one_or_none()
    return [] if last is None else _side(last.occurred_at, last.id, later)


def _side(moment: datetime, last_id: int, later: bool, *, inclusive: bool = False) -> list[ColumnElement[bool]]:
    """Returns the conditions for events before or after this one. An index uses the bound on the time alone."""
    at, event_id = events.c.occurred_at, events.c.id
    same = event_id == last_id if inclusive else false()
    if later:
        return [at >= moment, or_(at > moment, event_id > last_id, same)]
    return [at <= moment, or_(at < moment, event_id < last_id, same)]
