"""Facts as they are recorded, told to whoever listens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import Depends, Header, Request
from fastapi import Query as Parameter
from fastapi.sse import EventSourceResponse, ServerSentEvent
from pydantic import Field
from starlette.concurrency import run_in_threadpool

from costguard.api.deps import Deps, Given
from costguard.api.facts import told
from costguard.api.fields import Query, Texts
from costguard.api.route import routes
from costguard.events import stream as fact_stream
from costguard.events.facts import StoredFact
from costguard.model.access import Permission, Principal
from costguard.web.door import credentials
from costguard.web.problems import ProblemError
from costguard.web.streams import TooManyStreams
from costguard.web.who import Asker

router = routes("facts")

_AT_ONCE = 100
_RETRY_MS = 2000  # how soon a listener that lost the connection should come again

_EVENTS: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Server-sent events: `id` is the fact's id, `event` its kind, `data` the fact as the list of "
        "facts has it. Comments come while nothing happens.",
    }
}


class StreamQuery(Query):
    kind: Texts = Field(default_factory=list, description="Several let any of them through.")
    project: Texts = Field(default_factory=list)
    after: int | None = Field(
        None, ge=0, lt=2**63, description="Facts recorded after the one with this id; default: from now on."
    )


async def _place(deps: Given, asker: Asker) -> AsyncIterator[None]:
    """Held for as long as the stream goes on."""
    try:
        with deps.streams.one_more(asker.key):
            yield
    except TooManyStreams:
        raise ProblemError(
            HTTPStatus.TOO_MANY_REQUESTS,
            f"A token or session may have {deps.streams.most} streams open, all together {deps.streams.most_in_all}: "
            "there are as many.",
            "Close one of them: a stream can be narrowed to several kinds and projects.",
            kind="too-many-streams",
        ) from None


@router.get(
    "/facts/stream",
    summary="Facts as they are recorded",
    operation_id="streamFacts",
    response_class=EventSourceResponse,
    responses=_EVENTS,
    dependencies=[Depends(_place)],
)
async def stream(
    deps: Given,
    request: Request,
    query: Annotated[StreamQuery, Parameter()],
    last: Annotated[
        int | None,
        Header(
            alias="Last-Event-ID", ge=0, lt=2**63, description="Where to go on, as browsers send it; wins over `after`."
        ),
    ] = None,
) -> AsyncIterator[ServerSentEvent]:
    """Nothing is missed: who comes again with the id of the last event that they got is told all since.

    It ends when the server stops, and within a minute once the token is revoked.
    """
    yield ServerSentEvent(comment="facts", retry=_RETRY_MS)
    loop, asked_at = asyncio.get_running_loop(), asyncio.get_running_loop().time()
    given = last if last is not None else query.after
    after = given if given is not None else await run_in_threadpool(_latest, deps)
    while not deps.is_stopping():
        if loop.time() - asked_at > deps.streams.ask_again_after:
            if not await run_in_threadpool(_may_listen, deps, request):
                return
            asked_at = loop.time()
        if await deps.streams.latest(lambda: run_in_threadpool(_latest, deps)) > after:
            found, after = await run_in_threadpool(_read, deps, query, after)
            for stored in found:
                yield ServerSentEvent(id=str(stored.id), event=stored.fact.kind, data=told(stored))
        else:
            await asyncio.sleep(deps.streams.every)


def _latest(deps: Deps) -> int:
    with deps.database.read() as connection:
        return fact_stream.latest_id(connection)


def _read(deps: Deps, query: StreamQuery, after: int) -> tuple[list[StoredFact], int]:
    """What is new, and after which fact to go on."""
    with deps.database.read() as connection:
        found = fact_stream.after(connection, after, _AT_ONCE, kinds=query.kind, projects=query.project)
        return found, found[-1].id if len(found) == _AT_ONCE else fact_stream.latest_id(connection)


def _may_listen(deps: Deps, request: Request) -> bool:
    who = deps.door.who(credentials(request.headers, deps.is_https))
    return isinstance(who, Principal) and who.may(Permission.READ)
