"""Receives the reports of attempts' agents, and hands out what VMs may fetch from the guard."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request, Response
from fastapi.responses import FileResponse
from fastapi.routing import APIRoute
from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    TypeAdapter,
    ValidationError,
)
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Receive, Scope, Send

from costguard.api.deps import Deps, Given
from costguard.api.fields import Out
from costguard.api.route import RESPONSES, problem
from costguard.errors import CostguardError, Forbidden
from costguard.jobs.reports.agent_events import AgentEvent, AgentEvents, AgentReport, EventsAnswer
from costguard.jobs.reports.batches import Batches
from costguard.model.vm_tool import PY_SPY, RCLONE
from costguard.web.authentication import bearer, with_headers
from costguard.web.problems import FieldError, ProblemError, problem_of

MOST_BYTES = 1 << 20
MOST_EVENTS = 200
_SMALL = 64 << 10
_MOST_DIGITS = 10
_MOST_SHOWN = 10

_BODIES: dict[int | str, dict[str, Any]] = {
    400: problem("The body was cut off."),
    413: problem("The body is too large."),
}
router = APIRouter(prefix="/api/v1", tags=["agents"], responses={**RESPONSES, **_BODIES})


def _of_a_vm(moment: datetime) -> datetime:
    """A VM may boot with the clock at 1970: its time is accepted all the same."""
    if not 1970 <= moment.year <= 2999:
        raise ValueError("a time between 1970 and 2999")
    return moment.astimezone(UTC)


VmTime = Annotated[AwareDatetime, AfterValidator(_of_a_vm)]


class AgentEventBody(BaseModel):
    """An event, as the agent's PROTOCOL.md describes it. Further parts depend on its kind."""

    model_config = ConfigDict(extra="allow", frozen=True)
    seq: int = Field(
        strict=True,
        ge=1,
        lt=2**63,
        description="The event's number, which grows across restarts of the agent and of the VM.",
    )
    kind: Annotated[str, StringConstraints(max_length=50)] = Field(
        description="The kind: boot, start, heartbeat, notice, stopping or exit; others are ignored.",
        examples=["heartbeat"],
    )
    at: VmTime = Field(description="The time by the VM's clock.")


class AgentEventsBody(BaseModel):
    events: list[AgentEventBody] = Field(
        max_length=MOST_EVENTS, description="Events in any order; events that were reported before change nothing."
    )
    sent_at: VmTime | None = Field(
        None, description="The time by the VM's clock, which may be wrong; default: the latest `at`."
    )


class GoResponse(Out):
    resume_from: str = Field(description="The checkpoint to begin with; empty: the beginning.")
    step: int | None = Field(description="The checkpoint's step; null: not known.")
    arguments: Sequence[str] = Field(description="The arguments added to the command.")
    round: int | None = Field(description="The round that begins; null in a job of one VM.")
    addresses: Sequence[str] = Field(
        description="The internal address of each VM of the round, by its place; empty in a job of one VM."
    )
    secret: str = Field(description="The secret that the VMs of the job share in this round; empty in a job of one VM.")
    rank: int | None = Field(description="This VM's place among the addresses, from 0; null in a job of one VM.")
    vms: Sequence[str] = Field(description="The name of each VM of the round, by its place; empty in a job of one VM.")


class RoundResponse(Out):
    round: int = Field(description="The number of the round.")


class RegroupResponse(RoundResponse):
    publishes: bool | None = Field(
        description="Whether this VM publishes what is whole of earlier rounds; null: the first node does."
    )


class AgentEventsResponse(Out):
    cancel: bool = Field(description="True: the agent must notify the command and end it.")
    accepted_through: int = Field(description="Every event up to this number is stored.")
    why: str = Field(
        description="`hang`: the command is cancelled to be restarted; `flat`: its metric stands still, and its result "
        "is published; else empty."
    )
    drill: int | None = Field(description="The preemption drill that the agent is to hold; null: none.")
    save_every_s: float | None = Field(description="The interval for saves, in seconds; null: not asked, or unknown.")
    go: GoResponse | None = Field(
        description="The start of the command on a VM that stands by; null: it does not start yet."
    )
    regroup: RegroupResponse | None = Field(
        description="The round that a VM of several is to get ready for, ending the present one; null: none."
    )
    save: RoundResponse | None = Field(
        description="The round in which the command is to save once, for another VM is about to go; null: none."
    )


_BODY = TypeAdapter(AgentEventsBody)


def _described() -> dict[str, Any]:
    """The body for OpenAPI: it is read by hand, so that its size is known before it is parsed."""
    schema = AgentEventsBody.model_json_schema()
    schema["properties"]["events"]["items"] = schema.pop("$defs")[AgentEventBody.__name__]
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


Name = Annotated[str, Path(max_length=101, description="The name of the attempt and of its VM.")]


@router.post(
    "/attempts/{attempt}/events",
    summary="Report events of an attempt",
    operation_id="reportAgentEvents",
    openapi_extra=_described(),
    response_model=AgentEventsResponse,
)
async def report_events(attempt: Name, request: Request, deps: Given) -> Response:
    """Stores new events and answers whether the command must stop. Only the attempt's own token is accepted."""
    agent_events = allowed_agent(deps.agent_events, attempt, request)
    body = await _body(request)
    # A thread costs more than it takes to read a heartbeat, and less than it takes to read hours of them.
    read = _parsed(attempt, body) if len(body) <= _SMALL else await run_in_threadpool(_parsed, attempt, body)
    answer = await _batches(request, agent_events).one(read, len(body))
    if isinstance(answer, Forbidden):
        raise _refused(answer)
    return Response(AgentEventsResponse.read(answer).model_dump_json(), media_type="application/json")


class AgentReports:
    """The middleware that takes agents' reports past all that they do not need: sessions, sharing, the search for a
    route. That is half of what a report costs, and thousands of VMs report every few seconds."""

    def __init__(self, app: ASGIApp, deps: Deps) -> None:
        self._app, self._deps = app, deps

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        match = _REPORTED.fullmatch(scope["path"]) if scope["type"] == "http" and scope["method"] == "POST" else None
        if match is None:
            await self._app(scope, receive, send)
            return
        scope["route"] = _REPORTS  # by which it is timed
        request = Request(scope, receive)
        try:
            response = await report_events(match[1], request, self._deps)
        except (ProblemError, CostguardError) as error:
            response = problem_of(request, error)
        await response(scope, receive, with_headers(send))


_REPORTED = re.compile(r"/api/v1/attempts/([^/]{1,101})/events")
_REPORTS = next(route for route in router.routes if isinstance(route, APIRoute) and route.endpoint is report_events)


async def _body(request: Request) -> bytes:
    """Read only as far as the limit."""
    announced = request.headers.get("content-length", "")
    if len(announced) > _MOST_DIGITS or (announced.isdecimal() and int(announced) > MOST_BYTES):
        raise _too_large()
    body = bytearray()
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > MOST_BYTES:
                raise _too_large()
    except ClientDisconnect:
        raise ProblemError(HTTPStatus.BAD_REQUEST, "The body was cut off.", "Send all of it again.") from None
    return bytes(body)


def _batches(request: Request, agent_events: AgentEvents) -> Batches[AgentReport, EventsAnswer | Forbidden]:
    """Returns the batches of this application.

    Agents report every few seconds, and a transaction for each would keep others waiting.
    """
    state = request.app.state
    batches: Batches[AgentReport, EventsAnswer | Forbidden] | None = getattr(state, "agent_reports", None)
    if batches is None:
        batches = state.agent_reports = Batches(agent_events.hear_all)
    return batches


@router.get("/attempts/{attempt}/rclone", include_in_schema=False)  # for the agent alone: see agent/PROTOCOL.md
def rclone(attempt: Name, request: Request, deps: Given) -> FileResponse:
    """The transfer tool, to a VM that has none. Only the attempt's own token is accepted."""
    allowed_agent(deps.agent_events, attempt, request)
    return _tool(deps, RCLONE)


@router.get("/attempts/{attempt}/py-spy", include_in_schema=False)  # the same
def py_spy(attempt: Name, request: Request, deps: Given) -> FileResponse:
    """The reader of stacks, to a VM that has none. Only the attempt's own token is accepted."""
    allowed_agent(deps.agent_events, attempt, request)
    return _tool(deps, PY_SPY)


def _tool(deps: Deps, name: str) -> FileResponse:
    tool = deps.tools.get(name)
    if tool is None:
        raise ProblemError(
            HTTPStatus.NOT_FOUND,
            f"This server has no {name} for VMs.",
            f"Install the locked requirements next to Costguard, or {name} in the VM's boot image.",
        )
    return FileResponse(tool.path, media_type="application/octet-stream")


def allowed_agent(agent_events: AgentEvents | None, attempt: str, request: Request) -> AgentEvents:
    """Accepts the attempt's own token alone. Raises ProblemError."""
    if agent_events is None:
        raise ProblemError(
            HTTPStatus.NOT_FOUND, "This server does not accept agents.", "Set [jobs] guard_url, and restart the server."
        )
    try:
        agent_events.check(attempt, bearer(request.headers))
    except Forbidden as unknown:
        raise _refused(unknown) from None
    return agent_events


def _refused(unknown: Forbidden) -> ProblemError:
    return ProblemError(HTTPStatus.UNAUTHORIZED, unknown.message, unknown.what_next)


def _parsed(attempt: str, body: bytes) -> AgentReport:
    try:
        report = _BODY.validate_json(body)
    except ValidationError as error:
        errors: Sequence[FieldError] = [
            FieldError(where=".".join(["body", *map(str, wrong["loc"])]), message=wrong["msg"])
            for wrong in error.errors(include_url=False, include_context=False, include_input=False)[:_MOST_SHOWN]
        ]
        named = "; ".join(f"{wrong.where}: {wrong.message}" for wrong in errors)
        raise ProblemError(
            HTTPStatus.UNPROCESSABLE_ENTITY,
            f"The events are not valid: {named}.",
            "Correct the parts named in `errors`; GET /openapi.json describes all of them.",
            errors,
        ) from None
    events = [AgentEvent(event.seq, event.kind, event.at, event.model_extra or {}) for event in report.events]
    return AgentReport(attempt, tuple(events), report.sent_at)


def _too_large() -> ProblemError:
    return ProblemError(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        f"The body is larger than {MOST_BYTES >> 20} MiB.",
        f"Send fewer events per request, at most {MOST_EVENTS}.",
    )
