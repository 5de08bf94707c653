"""The output of jobs: its end as it was reported last, and the whole of it as it is stored."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from fastapi import Query as Parameter
from pydantic import Field
from starlette.responses import StreamingResponse

from costguard.api.deps import Given
from costguard.api.fields import AsOf, Moment, Query, Text
from costguard.api.job_id import JobId
from costguard.api.route import NOT_FOUND, problem, routes
from costguard.errors import CheckpointError, Unavailable
from costguard.jobs.listing.output import MOST_LINES, whole_text
from costguard.jobs.listing.output_source import opened, output_page, output_source
from costguard.model.attempt import Attempt

router = routes("jobs")

_LOGS = "/var/log/costguard"
_UNREAD = problem("The storage of the output cannot be read.")

_ATTEMPT = Field(None, ge=1, le=1_000_000, description="The attempt's number; default: the latest that reported.")


class OutputQuery(Query):
    attempt: int | None = _ATTEMPT
    begin: Text | None = Field(
        None,
        description="`start`, or a `next` of an earlier answer: reads the stored output from there on. By default the "
        "end of the output is returned as the VM reported it last.",
    )
    search: Text | None = Field(
        None, description="Reads the stored output, and returns only lines in which this regular expression matches."
    )
    lines: int = Field(1_000, ge=1, le=MOST_LINES, description="The most lines of the stored output to return.")


class TextQuery(Query):
    attempt: int | None = _ATTEMPT


class OutputResponse(AsOf):
    """The output of an attempt's command, as a terminal would show it."""

    job: str
    attempt: int | None = Field(description="The attempt's number; null: no agent has reported yet.")
    heard_at: Moment | None
    output: str
    log: str = Field(description="The file on the VM with the whole output.")
    stored: str = Field(description="The address of the whole stored output; empty: it is not stored.")
    stored_at: Moment | None = Field(
        default=None,
        description="The time at which the newest part was stored, with `begin` or `search`; null: none is yet.",
    )
    next: str | None = Field(
        default=None, description="The `begin` of the next request, now or later, with `begin` or `search`."
    )
    is_end: bool | None = Field(default=None, description="True: all stored output was read, with `begin` or `search`.")


@router.get(
    "/jobs/{job_id}/output",
    summary="Get a job's output",
    operation_id="getOutput",
    responses={**NOT_FOUND, 503: _UNREAD},
)
def output(deps: Given, job_id: JobId, query: Annotated[OutputQuery, Parameter()]) -> OutputResponse:
    """Returns the end of the output, which is kept with the attempt, or the stored output, which is some 30 seconds
    behind.
    """
    wanted = output_source(deps.database, deps.rules.jobs.logs, job_id, query.attempt)
    attempt, folder = wanted.attempt, wanted.folder
    answer = OutputResponse(
        as_of=deps.clock.now(),
        job=job_id,
        attempt=None if attempt is None else attempt.number,
        heard_at=None if attempt is None else attempt.agent.at,
        output="" if attempt is None else attempt.agent.output,
        log="" if attempt is None or _is_gone(attempt) else f"{_LOGS}/{attempt.name}.{max(attempt.agent.run, 1)}.log",
        stored=folder,
    )
    if query.begin is None and query.search is None:
        return answer
    page = output_page(opened(wanted, deps.output), query.begin or "", query.search or "", query.lines)
    text = "".join(f"{line}\n" for line in page.lines)
    more = {"output": text, "stored_at": page.stored_at, "next": str(page.next), "is_end": page.is_end}
    return answer.model_copy(update=more)


@router.get(
    "/jobs/{job_id}/output/text",
    summary="Download a job's whole output",
    operation_id="downloadOutput",
    response_class=StreamingResponse,
    responses={200: {"description": "The text.", "content": {"text/plain": {}}}, **NOT_FOUND, 503: _UNREAD},
)
def output_text(deps: Given, job_id: JobId, query: Annotated[TextQuery, Parameter()]) -> StreamingResponse:
    """Returns the whole stored output of one attempt."""
    wanted = output_source(deps.database, deps.rules.jobs.logs, job_id, query.attempt)
    lines = whole_text(opened(wanted, deps.output))
    try:
        first = next(lines, "")
    except CheckpointError as error:
        raise Unavailable(error.message, error.what_next) from error
    name = wanted.attempt.name if wanted.attempt is not None else job_id
    headers = {"Content-Disposition": f'attachment; filename="{name}.log"', "X-Content-Type-Options": "nosniff"}
    return StreamingResponse(_text(first, lines), media_type="text/plain; charset=utf-8", headers=headers)


def _text(first: str, lines: Iterator[str]) -> Iterator[str]:
    """Yields the lines. A later failure can only be said in the text."""
    yield first
    try:
        yield from lines
    except CheckpointError as error:
        yield f"[costguard: the rest cannot be read: {error.message}]\n"


def _is_gone(attempt: Attempt) -> bool:
    """Says whether its VM was deleted, or will be at once."""
    return attempt.gone_at is not None or attempt.delete_asked_at is not None
