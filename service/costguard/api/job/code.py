"""Code of jobs: archives of work directories, uploaded before a launch and fetched by the agents."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from http import HTTPStatus
from itertools import chain
from typing import IO, Annotated, Any

from fastapi import Depends, Path, Request
from pydantic import Field
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect
from starlette.responses import StreamingResponse

from costguard.api.deps import Deps, Given
from costguard.api.fields import Moment, Out, read_from
from costguard.api.job.attempts import Name, allowed_agent
from costguard.api.job.attempts import router as agents_router
from costguard.api.route import NOT_FOUND, problem, routes
from costguard.errors import Unavailable
from costguard.jobs.submit.code import CodeArchives
from costguard.model.access import Permission
from costguard.web.limits import MOST_CODE_BYTES
from costguard.web.permissions import Asker
from costguard.web.problems import ProblemError
from costguard.web.questions import person

__all__ = ["acting_router", "agents_router"]

_ENOUGH = 1 << 20  # bytes that are written to the disk at once
acting_router = routes("jobs", Permission.JOBS)

Sha256 = Annotated[str, Path(pattern=r"^[0-9a-f]{64}$", description="The SHA-256 of the tar inside the archive.")]
_ARCHIVE = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
_UNAVAILABLE = problem("The storage for archives does not answer.")
_NO_PLACE: dict[int | str, dict[str, Any]] = {409: problem("The server has no storage for code, or it is full.")}


class ArchiveOut(Out):
    """An archive that a job may name."""

    sha256: str
    size: int = Field(description="The size of the packed archive in bytes.")
    uploaded_at: Moment = read_from("modified_at")


@acting_router.get(
    "/code/{sha256}",
    summary="Get an archive of code",
    operation_id="getCode",
    responses={**NOT_FOUND, **_NO_PLACE, 503: _UNAVAILABLE},
)
def code(deps: Given, sha256: Sha256) -> ArchiveOut:
    """Says whether the archive must be uploaded before a job can name it.

    An unused archive is deleted after 30 days.
    """
    return ArchiveOut.read(_archives(deps).find(sha256), sha256=sha256)


async def received_archive(request: Request, most: int = MOST_CODE_BYTES) -> AsyncIterator[IO[bytes]]:
    """The body in a temporary file, read only as far as the limit."""
    with tempfile.TemporaryFile(prefix="costguard-code-") as file:
        waiting, size = bytearray(), 0
        try:
            async for chunk in request.stream():
                size += len(chunk)
                if size > most:
                    raise ProblemError(
                        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                        f"The archive is larger than {most >> 20} MiB.",
                        "Leave out what the job does not need; bring data from a bucket.",
                    )
                waiting += chunk
                if len(waiting) >= _ENOUGH:
                    await run_in_threadpool(file.write, waiting)
                    waiting = bytearray()
        except ClientDisconnect:
            raise ProblemError(HTTPStatus.BAD_REQUEST, "The body was cut off.", "Send all of it again.") from None
        await run_in_threadpool(file.write, waiting)
        file.seek(0)
        yield file


async def _received(request: Request, deps: Given, asker: Asker) -> AsyncIterator[IO[bytes]]:
    """Once it is here, its turn to be unpacked and checked: two at a time, one of each person. Raises QueueFull."""
    async for file in received_archive(request):
        if deps.sharing is None:
            yield file
        else:
            async with deps.sharing.archives.turn(person(asker)):
                yield file


Received = Annotated[IO[bytes], Depends(_received)]


@acting_router.put(
    "/code/{sha256}",
    summary="Upload an archive of code",
    operation_id="putCode",
    openapi_extra={"requestBody": {"required": True, "content": _ARCHIVE}},
    responses={
        400: problem("The body was cut off."),
        **_NO_PLACE,
        413: problem("The archive is too large."),
        503: _UNAVAILABLE,
    },
)
def put_code(deps: Given, sha256: Sha256, file: Received) -> ArchiveOut:
    """Uploads a gzipped tar of files and links, without folders, under the SHA-256 of the tar.

    A repeat changes nothing.
    """
    archives = _archives(deps)
    archives.keep(sha256, file)
    return ArchiveOut.read(archives.find(sha256), sha256=sha256)


@agents_router.get(
    "/attempts/{attempt}/code",
    summary="Get the code of an attempt's job",
    operation_id="getAttemptCode",
    response_class=StreamingResponse,
    responses={
        200: {"content": _ARCHIVE},
        **NOT_FOUND,
        **_NO_PLACE,
        503: _UNAVAILABLE,
    },
)
def attempt_code(attempt: Name, request: Request, deps: Given) -> StreamingResponse:
    """Downloads the archive that the job names. Only the attempt's own token is accepted."""
    allowed_agent(deps.agent_events, attempt, request)
    archive = _archives(deps).of_attempt(attempt)
    first = next(archive.content, b"")  # what cannot be read has a status of its own
    headers = {"Content-Length": str(archive.size), "Cache-Control": "no-store"}
    return StreamingResponse(chain([first], archive.content), media_type="application/octet-stream", headers=headers)


def _archives(deps: Deps) -> CodeArchives:
    if deps.code is None:
        raise Unavailable("This server accepts no jobs.", "Ask the one that does.")
    return deps.code
