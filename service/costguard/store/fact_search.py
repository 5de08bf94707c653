"""Looking through the facts, the newest first, by what no index holds as well: who, which job, which words."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, Connection, and_, func, or_, select

from costguard.store.facts import StoredFact, stored
from costguard.store.tables import facts

WINDOW = 10_000  # facts that one search looks at where it cannot go by an index: some 20 ms


@dataclass(frozen=True, slots=True)
class FactFilters:
    """From `since` on and before `until`; "" asks for nothing. `who` and `words` may stand anywhere in theirs."""

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
    """`next_id` is where to go on, None at the end. `looked_to`: as far back as was looked, where fewer were found
    than might be there."""

    facts: list[StoredFact]
    next_id: int | None
    looked_to: datetime | None = None


def search(
    connection: Connection, filters: FactFilters, before_id: int | None, limit: int, window: int = WINDOW
) -> Found:
    """At most `limit` of them. `before_id` is the `next_id` of the search before."""
    ordered = (facts.c.occurred_at.desc(), facts.c.id.desc())
    by_index = _by_index(connection, filters, before_id)
    conditions, end = [*by_index, *_by_looking(filters)], None
    if filters.is_windowed:
        looked = select(facts.c.occurred_at, facts.c.id).where(and_(True, *by_index)).order_by(*ordered)
        end = connection.execute(looked.offset(window - 1).limit(1)).one_or_none()
    if end is not None:
        conditions.append(_is_not_before(end.occurred_at, end.id))
    query = select(facts).where(and_(True, *conditions)).order_by(*ordered).limit(limit + 1)
    found = [stored(row) for row in connection.execute(query)]
    if len(found) > limit:
        return Found(found[:limit], found[limit - 1].id)
    return Found(found, end.id if end is not None else None, end.occurred_at if end is not None else None)


def kinds(connection: Connection) -> list[str]:
    """Of facts that there are, by name: from one to the next in the index, and not through every fact."""
    first = select(func.min(facts.c.kind).label("kind")).cte("kinds", recursive=True)
    following = select(func.min(facts.c.kind)).where(facts.c.kind > first.c.kind).scalar_subquery()
    steps = first.union_all(select(following).where(first.c.kind.is_not(None)))
    return list(connection.scalars(select(steps.c.kind).where(steps.c.kind.is_not(None))))


def _by_index(connection: Connection, filters: FactFilters, before_id: int | None) -> list[ColumnElement[bool]]:
    found: list[ColumnElement[bool]] = []
    if filters.since is not None:
        found.append(facts.c.occurred_at >= filters.since)
    if filters.until is not None:
        found.append(facts.c.occurred_at < filters.until)
    if filters.kind:
        found.append(facts.c.kind == filters.kind)
    if filters.gce_id:
        found.append(facts.c.gce_id == filters.gce_id)
    if before_id is not None:
        last = connection.execute(select(facts.c.occurred_at, facts.c.id).where(facts.c.id == before_id)).one_or_none()
        if last is not None:
            found.append(facts.c.occurred_at <= last.occurred_at)
            found.append(or_(facts.c.occurred_at < last.occurred_at, facts.c.id < last.id))
    return found


def _by_looking(filters: FactFilters) -> list[ColumnElement[bool]]:
    found: list[ColumnElement[bool]] = []
    if filters.project:
        found.append(facts.c.project == filters.project)
    if filters.job:
        found.append(facts.c.data["job"].as_string() == filters.job)
    if filters.who:
        found.append(facts.c.actor.icontains(filters.who, autoescape=True))
    if filters.words:
        is_named = facts.c.name.icontains(filters.words, autoescape=True)
        found.append(or_(facts.c.text.icontains(filters.words, autoescape=True), is_named))
    return found


def _is_not_before(moment: datetime, fact_id: int) -> ColumnElement[bool]:
    is_later = or_(facts.c.occurred_at > moment, facts.c.id >= fact_id)
    return and_(facts.c.occurred_at >= moment, is_later)
