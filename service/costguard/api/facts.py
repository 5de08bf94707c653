"""Facts: what happened, who did it and why."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import Query as Parameter
from fastapi import Request, Response
from pydantic import Field

from costguard.api import cursors
from costguard.api.deps import Given
from costguard.api.fields import Moment, Out, Query, Text, When
from costguard.api.route import CSV, routes, wants_csv
from costguard.events import search
from costguard.events.facts import StoredFact
from costguard.events.search import FactFilters
from costguard.web import fact_sheet

router = routes("facts")


class Fact(Out):
    id: int = Field(description="In the order of recording.")
    kind: str = Field(examples=["LifetimeStarted"])
    occurred_at: Moment
    recorded_at: Moment
    text: str = Field(description="One sentence for people.")
    project: str
    gce_id: str
    name: str
    actor: str = Field(description="Who did it; empty or system: nobody in person.")
    data: dict[str, Any] = Field(description="What a program may want to know; it depends on the kind.")


class Facts(Out):
    as_of: Moment
    facts: list[Fact]
    looked_to: Moment | None = Field(
        description="null: the page is full, or this is the end. Else it was looked so far and no further: there may "
        "be more, which `next_cursor` finds."
    )
    next_cursor: str | None = Field(description="null: this was the last page.")


class FactQuery(Query):
    since: When | None = None
    until: When | None = None
    kind: Text | None = None
    project: Text | None = None
    gce_id: Text | None = None
    job: Text | None = Field(None, description="The id of a job.")
    who: Text | None = Field(None, description="Part of who did it.", examples=["ana@"])
    words: Text | None = Field(None, description="Part of the text, or of the VM's name.")
    sort: Literal["newest", "oldest"] = Field("newest", description="By when they happened.")
    limit: int = Field(100, ge=1, le=1000)
    cursor: Text | None = None
    format: Literal["json", "csv"] | None = Field(None, description="Default: what Accept asks for, else json.")


@router.get(
    "/facts",
    summary="What happened",
    operation_id="listFacts",
    response_model=Facts,
    responses=CSV,
)
def facts(deps: Given, query: Annotated[FactQuery, Parameter()], request: Request) -> Any:
    """The audit log: facts are appended once and never changed. As CSV, `Link` leads to the next page."""
    order = f"facts {query.sort}"
    last = None if query.cursor is None else int(cursors.decode(query.cursor, order, (int,))[0])
    filters = FactFilters(
        since=query.since,
        until=query.until,
        kind=query.kind or "",
        gce_id=query.gce_id or "",
        project=query.project or "",
        job=query.job or "",
        who=query.who or "",
        words=query.words or "",
    )
    with deps.database.read() as connection:
        found = search.search(connection, filters, last, query.limit, oldest_first=query.sort == "oldest")
    more = None if found.next_id is None else cursors.encode(order, found.next_id)
    if wants_csv(request, query.format):
        headers = {"Content-Disposition": 'attachment; filename="costguard-facts.csv"'}
        if more is not None:
            headers["Link"] = f'<{request.url.include_query_params(cursor=more)}>; rel="next"'
        text = fact_sheet.head() + fact_sheet.lines(found.facts)
        return Response(text, media_type="text/csv; charset=utf-8", headers=headers)
    return Facts(
        as_of=deps.clock.now(),
        facts=[told(stored) for stored in found.facts],
        looked_to=found.looked_to,
        next_cursor=more,
    )


def told(stored: StoredFact) -> Fact:
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
