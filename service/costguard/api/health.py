"""Health: whether the process is alive, whether its answers can be trusted, and what the set-up needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Literal

from fastapi import APIRouter, Request, Response
from pydantic import Field

from costguard.api.deps import Given
from costguard.api.fields import Moment, Out, Seconds, Usd, read_from
from costguard.api.route import routes
from costguard.api.vm_parts import UnreadOut, unread_parts
from costguard.daemon.health import Verdict, health
from costguard.daemon.listings import ListingReason
from costguard.daemon.project_counts import counts_of
from costguard.doctor.finding import CheckState, Topic, worst
from costguard.model.access import Permission, Principal

router = APIRouter(tags=["health"])
setup_router = routes("health")


class AliveResponse(Out):
    status: Literal["alive"] = "alive"


class LeaseOut(Out):
    name: str = read_from("lease.name")
    holder: str = read_from("lease.holder")
    is_held: bool = Field(description="False: it has expired, and no daemon acts.")
    expires_at: Moment = read_from("lease.expires_at")


class ProjectHealthOut(Out):
    project: str = read_from("look.project")
    last_complete_at: Moment | None = read_from("look.last_complete_at")
    age_seconds: Seconds | None = read_from("age")
    is_stale: bool
    doubt: ListingReason | None = Field(
        description="The reason why every pass lists the project; null: its events come, and it is listed in turn."
    )
    is_unread: bool = read_from(
        "look.is_unread", description="True: the last read failed completely; `unread` has the reason and the fix."
    )
    holder: str | None = Field(description="The replica that watches it; null: none does at the moment.")
    held_since: Moment | None = Field(description="The time since when that replica has watched it.")


class FeedOut(Out):
    """The subscription that events come through."""

    subscription: str = read_from("subscription.name")
    is_alive: bool = Field(description="Whether messages published to its topic arrive soon.")
    heartbeat_age_seconds: Seconds | None = read_from(
        "heartbeat_age", description="The time since the newest heartbeat that came back was sent."
    )
    last_message_at: Moment | None = read_from("subscription.wire.message_at")
    messages_unread: int | None = read_from(
        "subscription.unread", description="Messages that Pub/Sub holds; null where that is not known."
    )
    oldest_unread_seconds: Seconds | None = read_from("unread_age")
    entries: int = Field(description="All audit entries that arrived, including repeats.")
    doubled: int = Field(description="Audit entries that arrived more than once.")
    missed: int = Field(description="Operations that a listing showed and whose entry had not come.")
    events: int = Field(description="Events that were recorded in the last whole hour.")
    late_half_seconds: int | None = Field(
        description="Half of these events were in the ledger within so many seconds; null: later than 15 minutes."
    )
    late_most_seconds: int | None = Field(description="The same for 95 of 100.")
    month_cost: Usd | None = Field(
        description="Pub/Sub's price of a month at the last day's volume, beyond what is free."
    )
    error: str = read_from("subscription.error", description="The answer of Pub/Sub to the last pull, if it failed.")


class ListingsOut(Out):
    """The cost of listings, and the replicas that make them."""

    oldest_age_seconds: Seconds | None = read_from("oldest", description="The age of the oldest whole listing.")
    requests_per_hour: int | None = Field(
        description="Requests to Google's lists in the last whole hour; null while no whole hour was counted."
    )
    requests_per_hour_in_every_pass: int | None = Field(
        description="The same if every pass listed every project, as it does without events."
    )
    holders: Mapping[str, int] = Field(description="The number of projects that each replica watches.")
    unheld: int = Field(description="Projects that no replica watches at this moment.")


class ProjectCountsOut(Out):
    """The projects by the outcome of their last look; each is counted once."""

    watched: int
    completely_read: int = Field(description="Projects that were read completely, and lately.")
    partly_read: int = Field(description="Projects of which the last look missed a zone or a list; see `unread`.")
    late: int = Field(description="Projects that were not read completely for too long, though Google refuses nothing.")
    not_read: int = Field(description="Projects of which the last look read nothing; see `unread`.")
    oldest_age_seconds: Seconds | None = read_from("oldest_age", description="The age of the oldest complete read.")


class ReadyResponse(Out):
    """The response for anonymous callers."""

    status: Verdict = Field(
        description="degraded: it answers, but not everything is up to date or complete; see `warnings`."
    )


class ReadyDetailResponse(ReadyResponse):
    """The response for callers with the permission read."""

    status: Verdict = read_from(
        "verdict", description="degraded: it answers, but not everything is up to date or complete; see `warnings`."
    )
    as_of: Moment
    version: str
    reasons: Sequence[str] = Field(description="The reasons why it is not ready.")
    warnings: Sequence[str] = Field(description="Problems that need attention although it can answer.")
    is_acting: bool = Field(description="Whether this replica's daemon holds the lease, by the database.")
    last_pass_at: Moment | None = read_from("daemon.last_pass_at")
    leases: Sequence[LeaseOut] = read_from("holders")
    project_counts: ProjectCountsOut
    projects: Sequence[ProjectHealthOut]
    unread: list[UnreadOut]
    feed: FeedOut | None = read_from(
        "watch.feed", description="The subscription that events come through; null: none are pulled."
    )
    listings: ListingsOut = read_from("watch")
    prices_age_seconds: Seconds | None = read_from("prices_age")
    slack_refused: Mapping[str, int] = Field(
        description="Requests from Slack that were refused since this process started, by reason."
    )
    slack_waiting: int = read_from("slack.waiting", description="Messages that are waiting to be sent. None is lost.")
    slack_waiting_since: Moment | None = read_from(
        "slack.waiting_since", description="The time since which the oldest of them has been waiting."
    )


Readiness = ReadyDetailResponse | ReadyResponse


@router.get("/healthz", summary="Check that the process is alive", operation_id="getLiveness")
async def healthz() -> AliveResponse:
    """Answers while the process does, without the database or Google."""
    return AliveResponse()


@router.get(
    "/readyz",
    summary="Check that its answers can be trusted",
    operation_id="getReadiness",
    responses={503: {"model": Readiness}},
)
def readyz(deps: Given, request: Request, response: Response) -> Readiness:
    """The verdict alone, unless the caller has the permission read: then also the reasons.

    503 when the database cannot be read, no daemon acts, nothing was ever seen, or there are no prices.

    A database that does not answer within two seconds counts as unreadable, and no daemon as acting.
    One project that cannot be read leaves it ready but degraded, because the others still answer. So do problems
    with Slack.
    """
    report = health(deps)
    if report.verdict is Verdict.NOT_READY:
        response.status_code = HTTPStatus.SERVICE_UNAVAILABLE
    who = request.state.principal
    if not (isinstance(who, Principal) and who.may(Permission.READ)):
        return ReadyResponse(status=report.verdict)
    unread = unread_parts([state.look for state in report.projects])
    counts = ProjectCountsOut.read(counts_of(report.projects))
    return ReadyDetailResponse.read(report, version=deps.version, unread=unread, project_counts=counts)


class FindingOut(Out):
    topic: Topic
    name: str = Field(description="The stable name, such as `compute.disks.list`.")
    where: str = Field(description="The project, bucket or channel; empty: it concerns all.")
    state: CheckState
    sentence: str
    command: str = Field(
        description="The command or advice that mends it or finds it out; empty: nothing is to be done."
    )


class SetupOut(Out):
    """The findings of a check. Without any, the check has not ended, or this server makes none."""

    as_of: Moment | None
    state: CheckState | None = Field(description="The worst state of all findings; null: nothing is known yet.")
    findings: Sequence[FindingOut]


@setup_router.get("/doctor", summary="Read what the set-up needs", operation_id="getSetup")
def setup(deps: Given) -> SetupOut:
    """Reads what was checked of Google, Slack and the server's own computer when the server started.

    `unknown` is what could not be asked. `costguard doctor`, where the server runs, asks again.
    """
    report = deps.setup()
    if report is None:
        return SetupOut(as_of=None, state=None, findings=[])
    findings = [FindingOut.read(one) for one in report.findings]
    return SetupOut(as_of=report.as_of, state=worst(report.findings), findings=findings)
