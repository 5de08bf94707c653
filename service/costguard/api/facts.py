"""Facts: what happened, who did it and why."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query as Parameter
from pydantic import Field

from costguard.api import cursors
from costguard.api.deps import Given
from costguard.api.fields import Moment, Out, Query, Text, When
from costguard.api.route import routes
from costguard.store import facts as stored_facts
from costguard.store.facts import StoredFact

router = routes("facts")


class Fact(Out):
    id: int
    kind: str = Field(examples=["LifetimeStarted"])
    occurred_at: Moment
    recorded_at: Moment
    text: str = Field(description="One sentence for people.")
    project: str
    gce_id: str
    name: str
    actor: str
    data: dict[str, Any]


class Facts(Out):
    as_of: Moment
    facts: list[Fact]
    next_cursor: str | None


class FactQuery(Query):
    since: When | None = None
    until: When | None = None
    kind: Text | None = None
    project: Text | None = None
    gce_id: Text | None = None
    limit: int = Field(100, ge=1, le=1000)
    cursor: Text | None = None


@router.get("/facts", summary="What happened, the latest first", operation_id="listFacts")
def facts(deps: Given, query: Annotated[FactQuery, Parameter()]) -> Facts:
    """The audit log: facts are appended once and never changed."""
    before = None if query.cursor is None else int(cursors.decode(query.cursor, "facts", (int,))[0])
    with deps.database.read() as connection:
        found = stored_facts.read(
            connection,
            since=query.since,
            until=query.until,
            kind=query.kind,
            project=query.project,
            gce_id=query.gce_id,
            before_id=before,
            limit=query.limit + 1,
        )
    page = found[: query.limit]
    return Facts(
        as_of=deps.clock.now(),
        facts=[_fact(stored) for stored in page],
        next_cursor=cursors.encode("facts", page[-1].id) if len(found) > query.limit else None,
    )


def _fact(stored: StoredFact) -> Fact:
    fact = stored.fact
    return Fact(
        id=stored.id,
        kind=fact.kind,
        occurred_at=fact.occurred_at,
        recorded_at=stored.recorded_at,
        text=fact.text,
        project=fact.project,
        gce_id=fact.gce_id,
        name=fact.name,
        actor=fact.actor,
        data=dict(fact.data),
    )
