"""Events: the audit log as a list, as CSV, and as a stream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from http import HTTPStatus
from typing import Annotated, Any, Literal

from fastapi import Depends, Header, Request, Response
from fastapi import Query as Parameter
from fastapi.sse import EventSourceResponse, ServerSentEvent
from pydantic import Field
from starlette.concurrency import run_in_threadpool

from costguard.api import cursors
from costguard.api.deps import Deps, Given
from costguard.api.fields import AsOf, Moment, Out, Query, Text, Texts, When, read_from
from costguard.api.job_id import named_job
from costguard.api.route import CSV, routes, wants_csv
from costguard.events import csv_events, search, stream
from costguard.events.audit_log import StoredEvent
from costguard.events.open_streams import TooManyStreams
from costguard.events.search import EventFilters
from costguard.model.access import Permission, Principal
from costguard.web.authentication import credentials
from costguard.web.permissions import Asker
from costguard.web.problems import ProblemError

router = routes("events")

_AT_ONCE = 100
_RETRY_MS = 2000  # how soon a client that lost the connection should reconnect

_STREAMED: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Server-sent events: `id` is the event's id, `event` its kind, and `data` the event as the list "
        "of events has it. Comments keep the connection open while nothing happens.",
    }
}


class EventOut(Out):
    id: int = Field(description="The event's id, which grows in the order of recording.")
    kind: str = read_from("event.kind", examples=["LifetimeStarted"])
    occurred_at: Moment = read_from("event.occurred_at")
    recorded_at: Moment
    text: str = read_from("event.text", description="A sentence for people.")
    project: str = read_from("event.project")
    gce_id: str = read_from("event.gce_id")
    name: str = read_from("event.name")
    actor: str = read_from("event.actor", description="The actor's address; empty or `system` where it was no person.")
    data: Mapping[str, Any] = read_from(
        "event.data", description="Details for programs. Their fields depend on the kind."
    )


class EventsResponse(AsOf):
    events: list[EventOut]
    searched_to: Moment | None = Field(
        description=(
            "The time back to which a search with few matches got; `next_cursor` continues it. null: the page "
            "is full, or this is the end."
        )
    )
    next_cursor: str | None = Field(description="The `cursor` of the next page; null: this was the last page.")


class EventQuery(Query):
    since: When | None = None
    until: When | None = None
    kind: Text | None = None
    project: Text | None = None
    gce_id: Text | None = None
    job: Text | None = Field(None, description="A job, by its id or name.")
    who: Text | None = Field(None, description="A part of the actor.", examples=["ana@"])
    words: Text | None = Field(None, description="A part of the text or of the resource's name.")
    sort: Literal["newest", "oldest"] = Field(
        "newest", description="The first moment; events are found by when they happened."
    )
    limit: int = Field(100, ge=1, le=1000)
    cursor: Text | None = None
    format: Literal["json", "csv"] | None = Field(
        None, description="The format; default: by the Accept header, else json."
    )


class StreamQuery(Query):
    kind: Texts = Field(default_factory=list, description="The kind; repeat it for several kinds.")
    project: Texts = Field(default_factory=list)
    after: int | None = Field(
        None, ge=0, lt=2**63, description="The id of the event to start after; default: starts with the next event."
    )


@router.get("/events", summary="List events", operation_id="listEvents", response_model=EventsResponse, responses=CSV)
def events(deps: Given, query: Annotated[EventQuery, Parameter()], request: Request) -> Any:
    """Lists the audit log. Events are appended once and never changed. As CSV, `Link` leads to the next page."""
    order = f"events {query.sort}"
    last = None if query.cursor is None else int(cursors.decode(query.cursor, order, (int,))[0])
    filters = EventFilters(
        since=query.since,
        until=query.until,
        kind=query.kind or "",
        gce_id=query.gce_id or "",
        project=query.project or "",
        job=_job_of(deps, query.job),
        who=query.who or "",
        words=query.words or "",
    )
    with deps.database.read() as connection:
        result = search.search(connection, filters, last, query.limit, oldest_first=query.sort == "oldest")
    more = None if result.next_id is None else cursors.encode(order, result.next_id)
    if wants_csv(request, query.format):
        headers = {"Content-Disposition": 'attachment; filename="costguard-events.csv"'}
        if more is not None:
            headers["Link"] = f'<{request.url.include_query_params(cursor=more)}>; rel="next"'
        text = csv_events.event_head() + csv_events.event_lines(result.events)
        return Response(text, media_type="text/csv; charset=utf-8", headers=headers)
    return EventsResponse(
        as_of=deps.clock.now(),
        events=[EventOut.model_validate(stored) for stored in result.events],
        searched_to=result.looked_to,
        next_cursor=more,
    )


def _job_of(deps: Deps, named: str | None) -> str:
    with deps.database.read() as connection:
        return named_job(connection, named) or ""


async def _place(deps: Given, asker: Asker) -> AsyncIterator[None]:
    """A place among the open streams, held for as long as this one runs."""
    try:
        with deps.streams.one_more(asker.key):
            yield
    except TooManyStreams:
        raise ProblemError(
            HTTPStatus.TOO_MANY_REQUESTS,
            f"A token or session may have {deps.streams.most} open streams, and the server {deps.streams.most_in_all}. "
            "That limit is reached.",
            "Close a stream. One stream can cover several kinds and projects.",
            kind="too-many-streams",
        ) from None


def _begin(
    deps: Given,
    query: Annotated[StreamQuery, Parameter()],
    last: Annotated[
        int | None,
        Header(
            alias="Last-Event-ID",
            ge=0,
            lt=2**63,
            description="The id of the last event, as browsers send it; wins over `after`.",
        ),
    ] = None,
) -> int:
    """The id of the event before the stream, read before the response begins: what is recorded later follows."""
    given = last if last is not None else query.after
    return given if given is not None else _latest(deps)


@router.get(
    "/events/stream",
    summary="Stream events as they are recorded",
    operation_id="streamEvents",
    response_class=EventSourceResponse,
    responses=_STREAMED,
    dependencies=[Depends(_place)],
)
async def stream_events(
    deps: Given,
    request: Request,
    query: Annotated[StreamQuery, Parameter()],
    begin: Annotated[int, Depends(_begin)],
) -> AsyncIterator[ServerSentEvent]:
    """No event is missed after the response began, nor by a client that reconnects with the id of its last event.

    The stream ends when the server stops, and within a minute after the token is revoked.
    """
    yield ServerSentEvent(comment="events", retry=_RETRY_MS)
    loop, checked_at, after = asyncio.get_running_loop(), asyncio.get_running_loop().time(), begin
    while not deps.is_stopping():
        if loop.time() - checked_at > deps.streams.ask_again_after:
            if not await run_in_threadpool(_may_listen, deps, request):
                return
            checked_at = loop.time()
        if await deps.streams.latest(lambda: run_in_threadpool(_latest, deps)) > after:
            events, after = await run_in_threadpool(_read, deps, query, after)
            for stored in events:
                yield ServerSentEvent(id=str(stored.id), event=stored.event.kind, data=EventOut.model_validate(stored))
        else:
            await asyncio.sleep(deps.streams.every)


def _latest(deps: Deps) -> int:
    with deps.database.read() as connection:
        return stream.latest_id(connection)


def _read(deps: Deps, query: StreamQuery, after: int) -> tuple[list[StoredEvent], int]:
    """The new events, and the id after which to continue."""
    with deps.database.read() as connection:
        events = stream.after(connection, after, _AT_ONCE, kinds=query.kind, projects=query.project)
        return events, events[-1].id if len(events) == _AT_ONCE else stream.latest_id(connection)


def _may_listen(deps: Deps, request: Request) -> bool:
    who = deps.authenticator.who(credentials(request.headers, deps.is_https))
    return isinstance(who, Principal) and who.may(Permission.READ)
