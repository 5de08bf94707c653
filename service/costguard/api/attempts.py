"""What agents on VMs tell of their attempts, each with a token that opens nothing but this."""

from __future__ import annotations

from datetime import UTC, datetime
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Request
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

from costguard.api.deps import Given
from costguard.api.fields import Out
from costguard.errors import Forbidden
from costguard.jobs.agent_events import AgentEvent, AgentEvents
from costguard.web.door import bearer
from costguard.web.problems import RESPONSES, FieldError, ProblemError, problem

MOST_BYTES = 1 << 20
MOST_EVENTS = 200
_MOST_DIGITS = 10
_MOST_SHOWN = 10

_BODIES: dict[int | str, dict[str, Any]] = {
    400: problem("The body was cut off."),
    413: problem("The body is too large."),
}
router = APIRouter(prefix="/api/v1", tags=["agents"], responses={**RESPONSES, **_BODIES})


def _of_a_vm(moment: datetime) -> datetime:
    """A VM without the time believes that it is 1970: it is understood all the same."""
    if not 1970 <= moment.year <= 2999:
        raise ValueError("a time between 1970 and 2999")
    return moment.astimezone(UTC)


VmTime = Annotated[AwareDatetime, AfterValidator(_of_a_vm)]


class ToldEvent(BaseModel):
    """One thing that happened, as the agent's PROTOCOL.md describes it. What else it holds belongs to its kind."""

    model_config = ConfigDict(extra="allow", frozen=True)
    seq: int = Field(strict=True, ge=1, lt=2**63, description="Grows over restarts of the agent and of the VM.")
    kind: Annotated[str, StringConstraints(max_length=50)] = Field(
        description="boot, start, heartbeat, notice, stopping or exit; others are passed over.", examples=["heartbeat"]
    )
    at: VmTime = Field(description="By the VM's clock.")


class Told(BaseModel):
    events: list[ToldEvent] = Field(max_length=MOST_EVENTS, description="Any order; those told before change nothing.")
    sent_at: VmTime | None = Field(None, description="By the VM's clock, which may be wrong; default: the latest `at`.")


class Heard(Out):
    cancel: bool = Field(description="The command is to get its notice, and to end.")
    accepted_through: int = Field(description="Every event up to this number is kept.")


_TOLD = TypeAdapter(Told)


def _described() -> dict[str, Any]:
    """The body as OpenAPI has it: it is read by hand, so that its size is known before it is parsed."""
    schema = Told.model_json_schema()
    schema["properties"]["events"]["items"] = schema.pop("$defs")[ToldEvent.__name__]
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


Name = Annotated[str, Path(max_length=101, description="The attempt's name, which is its VM's too.")]


async def _events(request: Request, attempt: Name, deps: Given) -> tuple[list[AgentEvent], datetime | None]:
    """Nothing is read of what comes without the attempt's own token, and no more than fits of what comes with it."""
    _allowed(deps.hearing, attempt, request)
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
    return await run_in_threadpool(_parsed, bytes(body))


@router.post(
    "/attempts/{attempt}/events", summary="What an agent tells", operation_id="tellEvents", openapi_extra=_described()
)
def events(
    attempt: Name,
    request: Request,
    deps: Given,
    told: Annotated[tuple[list[AgentEvent], datetime | None], Depends(_events)],
) -> Heard:
    """Keeps what is new, and answers whether the command is to stop. The operator's token does not open this."""
    hearing = _allowed(deps.hearing, attempt, request)
    try:
        answer = hearing.hear(attempt, bearer(request.headers), *told)
    except Forbidden as unknown:
        raise _refused(unknown) from None
    return Heard(cancel=answer.cancel, accepted_through=answer.accepted_through)


def _allowed(hearing: AgentEvents | None, attempt: str, request: Request) -> AgentEvents:
    if hearing is None:
        raise ProblemError(
            HTTPStatus.NOT_FOUND, "No agents are listened to here.", "Set [jobs] guard_url, and restart the server."
        )
    try:
        hearing.check(attempt, bearer(request.headers))
    except Forbidden as unknown:
        raise _refused(unknown) from None
    return hearing


def _refused(unknown: Forbidden) -> ProblemError:
    return ProblemError(HTTPStatus.UNAUTHORIZED, unknown.message, unknown.what_next)


def _parsed(body: bytes) -> tuple[list[AgentEvent], datetime | None]:
    try:
        told = _TOLD.validate_json(body)
    except ValidationError as error:
        wrong = [
            FieldError(where=".".join(["body", *map(str, each["loc"])]), message=each["msg"])
            for each in error.errors(include_url=False, include_context=False, include_input=False)[:_MOST_SHOWN]
        ]
        named = "; ".join(f"{each.where}: {each.message}" for each in wrong)
        raise ProblemError(
            HTTPStatus.UNPROCESSABLE_ENTITY,
            f"The events are not understood: {named}.",
            "Correct what is named in `errors`; GET /openapi.json describes all of it.",
            wrong,
        ) from None
    return [AgentEvent(each.seq, each.kind, each.at, each.model_extra or {}) for each in told.events], told.sent_at


def _too_large() -> ProblemError:
    return ProblemError(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        f"The body is larger than {MOST_BYTES >> 20} MiB.",
        f"Send fewer events at once, at most {MOST_EVENTS}.",
    )
