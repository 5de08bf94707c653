"""Whether the process lives, and whether what it says can be trusted."""

from __future__ import annotations

from datetime import timedelta
from http import HTTPStatus
from typing import Literal

from fastapi import APIRouter, Request, Response
from pydantic import Field

from costguard.api import mapping, schemas
from costguard.api.deps import Given
from costguard.api.fields import Moment, Out
from costguard.daemon.health import ProjectState, Verdict, health
from costguard.db.health_rows import Holder
from costguard.model.access import Permission, Principal

router = APIRouter(tags=["health"])

_SECOND = timedelta(seconds=1)


class Alive(Out):
    status: Literal["alive"] = "alive"


class Lease(Out):
    name: str
    holder: str
    is_held: bool = Field(description="False: it has expired, and nobody acts.")
    expires_at: Moment


class ProjectHealth(Out):
    project: str
    last_complete_at: Moment | None
    age_seconds: int | None
    is_stale: bool
    is_unread: bool = Field(description="The last look read nothing of it; `unread` says why and what helps.")


class Ready(Out):
    """What strangers are told."""

    status: Verdict = Field(
        description="degraded: it answers, but not all of what it shows is fresh or complete; see `warnings`."
    )


class ReadyInFull(Ready):
    """What those are told who may read."""

    as_of: Moment
    version: str
    reasons: list[str] = Field(description="Why it is not ready.")
    warnings: list[str] = Field(description="What is not as it should be, though it can answer.")
    is_acting: bool = Field(description="Whether this replica's daemon holds the lease, by the database.")
    last_pass_at: Moment | None
    leases: list[Lease]
    projects: list[ProjectHealth]
    unread: list[schemas.Unread]
    prices_age_seconds: int | None
    slack_refused: dict[str, int] = Field(
        description="How often something that came from Slack was refused since this process began, by reason."
    )
    slack_waiting: int = Field(description="Messages that wait to be sent. None is lost.")
    slack_waiting_since: Moment | None = Field(description="Since when the oldest of them waits.")


Readiness = ReadyInFull | Ready


@router.get("/healthz", summary="Whether the process lives", operation_id="getLiveness")
async def healthz() -> Alive:
    """Answers while the process does; it asks neither the database nor Google, and tells nothing else."""
    return Alive()


@router.get(
    "/readyz",
    summary="Whether its answers can be trusted",
    operation_id="getReadiness",
    responses={503: {"model": Readiness}},
)
def readyz(deps: Given, request: Request, response: Response) -> Readiness:
    """The verdict alone, unless a token or a session with the permission read is shown: then why.

    503 when the database cannot be read, nobody acts, nothing was ever seen, or there are no prices.

    A database that does not answer within two seconds counts as one that cannot be read, and nobody as acting.
    One project that cannot be read leaves it ready, and degraded: the others still answer. So does Slack's trouble.
    """
    found = health(deps)
    if found.verdict is Verdict.NOT_READY:
        response.status_code = HTTPStatus.SERVICE_UNAVAILABLE
    who = request.state.principal
    if not (isinstance(who, Principal) and who.may(Permission.READ)):
        return Ready(status=found.verdict)
    return ReadyInFull(
        status=found.verdict,
        as_of=found.as_of,
        version=deps.version,
        reasons=list(found.reasons),
        warnings=list(found.warnings),
        is_acting=found.is_acting,
        last_pass_at=found.daemon.last_pass_at,
        leases=[_lease(holder) for holder in found.holders],
        projects=[_project(state) for state in found.projects],
        unread=mapping.unread([state.look for state in found.projects]),
        prices_age_seconds=None if found.prices_age is None else found.prices_age // _SECOND,
        slack_refused=dict(found.slack_refused),
        slack_waiting=found.slack.waiting,
        slack_waiting_since=found.slack.waiting_since,
    )


def _lease(holder: Holder) -> Lease:
    lease = holder.lease
    return Lease(name=lease.name, holder=lease.holder, is_held=holder.is_held, expires_at=lease.expires_at)


def _project(state: ProjectState) -> ProjectHealth:
    return ProjectHealth(
        project=state.look.project,
        last_complete_at=state.look.last_complete_at,
        age_seconds=None if state.age is None else state.age // _SECOND,
        is_stale=state.is_stale,
        is_unread=state.look.is_unread,
    )
