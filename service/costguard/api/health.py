"""Whether the process lives, and whether what it says can be trusted."""

from __future__ import annotations

from datetime import timedelta
from http import HTTPStatus
from typing import Literal

from fastapi import APIRouter, Response
from pydantic import Field

from costguard.api import mapping, schemas
from costguard.api.deps import Given
from costguard.api.fields import Moment, Out
from costguard.engine.telling.slack_health import SlackHealth, slack_health
from costguard.errors import StoreError
from costguard.store import health as stored
from costguard.store import projects
from costguard.store.health import Holder
from costguard.store.projects import ProjectLook

router = APIRouter(tags=["health"])

_SECOND = timedelta(seconds=1)


class Alive(Out):
    status: Literal["alive"] = "alive"
    version: str


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


class Ready(Out):
    status: Literal["ready", "degraded", "not ready"] = Field(
        description="degraded: it answers, but not all of what it shows is fresh or complete; see `warnings`."
    )
    as_of: Moment
    version: str
    reasons: list[str] = Field(description="Why it is not ready.")
    warnings: list[str] = Field(description="What is not as it should be, though it can answer.")
    is_acting: bool = Field(description="Whether the daemon in this process acts.")
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


@router.get("/healthz", summary="Whether the process lives")
def healthz(deps: Given) -> Alive:
    """Answers while the process does; it asks neither the database nor Google."""
    return Alive(version=deps.version)


@router.get("/readyz", summary="Whether its answers can be trusted", responses={503: {"model": Ready}})
def readyz(deps: Given, response: Response) -> Ready:
    """503 when the database cannot be read, nobody acts, nothing was ever seen, or there are no prices.

    One project that cannot be read leaves it ready, and degraded: the others still answer. So does Slack's trouble.
    """
    ready = _state(deps)
    if ready.reasons:
        response.status_code = HTTPStatus.SERVICE_UNAVAILABLE
    return ready


def _state(deps: Given) -> Ready:
    now, daemon = deps.clock.now(), deps.status()
    holders: list[Holder] = []
    looks: list[ProjectLook] = []
    reasons: list[str] = []
    prices_at, slack = None, SlackHealth()
    try:
        with deps.database.read() as connection:
            holders = stored.holders(connection)
            looks = projects.read_all(connection)
            prices_at = stored.prices_recorded_at(connection)
        slack = slack_health(deps.outbox_trouble(), deps.socket_trouble(), now, deps.stale_after)
    except StoreError as error:
        reasons.append(str(error))
    else:
        if not any(holder.is_held for holder in holders):
            reasons.append(
                f"The daemon cannot work: {daemon.last_error}"
                if daemon.last_error
                else "No daemon holds the lease, so nothing is being watched. Start `costguard serve`."
            )
        if all(look.last_complete_at is None for look in looks):
            reasons.append("No project has been read whole yet. Wait for the first pass, or see `unread`.")
        if prices_at is None:
            reasons.append("No prices are known, so nothing can be priced. See the server's log.")
    health = [_project(look, deps) for look in looks]
    warnings = [f"Project {each.project} was not read whole for too long." for each in health if each.is_stale]
    warnings += [f"{look.project}, {part.scope}: {part.reason}" for look in looks for part in look.unread]
    if daemon.last_error:
        warnings.append(f"The last pass failed: {daemon.last_error}")
    warnings += [f"Slack: {reason}" for reason in slack.reasons]
    if slack.is_late:
        warnings.append(f"{slack.waiting} messages wait for Slack, the oldest since {slack.waiting_since:%H:%M} UTC.")
    return Ready(
        status="not ready" if reasons else "degraded" if warnings else "ready",
        as_of=now,
        version=deps.version,
        reasons=reasons,
        warnings=warnings,
        is_acting=daemon.is_acting,
        last_pass_at=daemon.last_pass_at,
        leases=[
            Lease(
                name=holder.lease.name,
                holder=holder.lease.holder,
                is_held=holder.is_held,
                expires_at=holder.lease.expires_at,
            )
            for holder in holders
        ],
        projects=health,
        unread=mapping.unread(looks),
        prices_age_seconds=None if prices_at is None else max(0, (now - prices_at) // _SECOND),
        slack_refused=dict(deps.slack_refused()),
        slack_waiting=slack.waiting,
        slack_waiting_since=slack.waiting_since,
    )


def _project(look: ProjectLook, deps: Given) -> ProjectHealth:
    age = None if look.last_complete_at is None else max(timedelta(), deps.clock.now() - look.last_complete_at)
    return ProjectHealth(
        project=look.project,
        last_complete_at=look.last_complete_at,
        age_seconds=None if age is None else age // _SECOND,
        is_stale=age is None or age > deps.stale_after,
    )
