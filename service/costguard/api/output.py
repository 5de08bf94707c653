"""The output of jobs: its end as it was reported last, and the whole of it as it is stored."""

from __future__ import annotations

from collections.abc import Iterator
from http import HTTPStatus
from typing import Annotated, NamedTuple

from fastapi import Path
from fastapi import Query as Parameter
from pydantic import Field
from starlette.responses import StreamingResponse

from costguard.api.deps import Deps, Given
from costguard.api.fields import Moment, Out, Query, Text
from costguard.api.route import routes
from costguard.errors import CheckpointError, Missing, Unavailable
from costguard.jobs import attempts as stored_attempts
from costguard.jobs import job_rows, listing
from costguard.jobs import output as stored
from costguard.jobs.output import MOST_LINES, OutputPage
from costguard.model.attempt import Attempt
from costguard.model.job import Job
from costguard.model.log_pattern import LogPattern
from costguard.model.output import OutputPlace, output_folder
from costguard.model.ports import Archives
from costguard.web.problems import NOT_FOUND, ProblemError, problem

router = routes("jobs")

_LOGS = "/var/log/costguard"
_UNREAD = problem("The place where it is stored cannot be read.")

JobId = Annotated[Text, Path(description="Such as j7k2m9q4.")]
_ATTEMPT = Field(None, ge=1, le=1_000_000, description="Default: the latest that reported.")


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
    lines: int = Field(1_000, ge=1, le=MOST_LINES, description="At most so many lines of the stored output.")


class TextQuery(Query):
    attempt: int | None = _ATTEMPT


class OutputResponse(Out):
    """What an attempt's command printed, as a terminal would show it."""

    as_of: Moment
    job: str
    attempt: int | None = Field(description="null: no agent has reported yet.")
    heard_at: Moment | None
    output: str
    log: str = Field(description="The file on the VM with the whole output.")
    stored: str = Field(description="Where the whole output is stored; empty: nowhere.")
    stored_at: Moment | None = Field(
        default=None, description="With `begin` or `search`: when the newest part was stored; null: none is yet."
    )
    next: str | None = Field(
        default=None, description="With `begin` or `search`: the `begin` with which the output goes on, now or later."
    )
    is_end: bool | None = Field(default=None, description="With `begin` or `search`: all that is stored was read.")


class _Wanted(NamedTuple):
    job: Job
    attempt: Attempt | None  # None: no agent has reported yet
    folder: str


@router.get(
    "/jobs/{job_id}/output",
    summary="Get a job's output",
    operation_id="getOutput",
    responses={**NOT_FOUND, 503: _UNREAD},
)
def output(deps: Given, job_id: JobId, query: Annotated[OutputQuery, Parameter()]) -> OutputResponse:
    """The end of it is kept with the attempt. The whole is stored in pieces, some 30 seconds behind.

    An answer is bounded: repeat with `begin` set to `next` until `is_end` is true, or, to follow, while the job runs.
    """
    wanted = _wanted(deps, job_id, query.attempt)
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
    page = _page(_store(deps, wanted), query)
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
    """Everything that is stored of one attempt."""
    wanted = _wanted(deps, job_id, query.attempt)
    lines = stored.whole_text(_store(deps, wanted))
    try:
        first = next(lines, "")
    except CheckpointError as error:
        raise Unavailable(error.message, error.what_next) from error
    name = wanted.attempt.name if wanted.attempt is not None else job_id
    headers = {"Content-Disposition": f'attachment; filename="{name}.log"', "X-Content-Type-Options": "nosniff"}
    return StreamingResponse(_text(first, lines), media_type="text/plain; charset=utf-8", headers=headers)


def _text(first: str, lines: Iterator[str]) -> Iterator[str]:
    """What fails later can only be said in the text."""
    yield first
    try:
        yield from lines
    except CheckpointError as error:
        yield f"[costguard: the rest cannot be read: {error.message}]\n"


def _wanted(deps: Deps, job_id: str, number: int | None) -> _Wanted:
    with deps.database.read() as connection:
        job = job_rows.read(connection, job_id)
        if job is None:
            raise Missing(f"There is no job {job_id!r}.", "GET /api/v1/jobs lists all jobs.")
        tried = stored_attempts.of_jobs(connection, [job_id]).get(job_id, [])
        if number is None:
            wanted = listing.heard_last(tried)
        else:
            wanted = next((attempt for attempt in tried if attempt.number == number), None)
            if wanted is None:
                raise ProblemError(
                    HTTPStatus.NOT_FOUND,
                    f"Job {job_id} has no attempt {number}.",
                    f"It has {len(tried)} so far: GET /api/v1/jobs/{job_id}/attempts.",
                )
        attempt = None if wanted is None else stored_attempts.read(connection, wanted.id)
    folder = "" if attempt is None else output_folder(job.spec, attempt.name, deps.rules.jobs.logs)
    return _Wanted(job, attempt, folder)


def _store(deps: Deps, wanted: _Wanted) -> Archives:
    if wanted.attempt is None:
        raise Missing(f"Job {wanted.job.id} has not reported yet.", "Its output is stored once its command prints.")
    if not wanted.folder or deps.output is None:
        raise Missing(
            f"The whole output of job {wanted.job.id} is stored nowhere.",
            "Jobs with checkpoints in a bucket store it there; for others set [jobs] logs to a bucket's folder.",
        )
    return deps.output(wanted.folder)


def _page(store: Archives, query: OutputQuery) -> OutputPage:
    try:
        begins = OutputPlace(1, 0) if query.begin in (None, "start") else OutputPlace.parse(query.begin or "")
    except ValueError as wrong:
        raise ProblemError(
            HTTPStatus.UNPROCESSABLE_ENTITY, f"begin: {wrong}.", "Write start, or the next of an earlier answer."
        ) from None
    try:
        pattern = LogPattern(query.search) if query.search else None
    except ValueError as wrong:
        raise ProblemError(
            HTTPStatus.UNPROCESSABLE_ENTITY,
            f"search: {query.search!r} is no regular expression that can be used ({wrong}).",
            "Write one without lookaround and back references, such as (?i)error.",
        ) from None
    try:
        return stored.page(store, begins, query.lines, pattern)
    except CheckpointError as error:
        raise Unavailable(error.message, error.what_next) from error


def _is_gone(attempt: Attempt) -> bool:
    """Its VM was deleted, or will be at once."""
    return attempt.gone_at is not None or attempt.delete_asked_at is not None
