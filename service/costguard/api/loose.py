"""Loose things: what bills and nothing uses. Costguard removes nothing of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

from fastapi import Query as Parameter
from pydantic import Field

from costguard.api.deps import Given
from costguard.api.fields import CURRENCY, Amount, AsOf, Moment, Out, Query, Text, Usd, one_of, read_from
from costguard.api.route import routes
from costguard.errors import Unavailable
from costguard.model.observation import LooseKind
from costguard.spend.loose.report import METHOD, UnknownWhy, prices_of

router = routes("spend")


class LooseOut(Out):
    kind: Annotated[str, one_of(LooseKind)] = read_from("thing.kind")
    project: str = read_from("thing.project")
    scope: str = read_from("thing.scope", description="zones/NAME, regions/NAME or global.")
    name: str = read_from("thing.name")
    what: str = read_from("thing.what", description="The type and size, for people.")
    owner: str = Field(description="The owner by its labels; empty: none is named.")
    labels: Mapping[str, str] = read_from("thing.labels")
    created_at: Moment = read_from("thing.created_at")
    since: Moment = Field(description="The time since which nothing uses it, as far as Google says, else its creation.")
    monthly: Usd | None = Field(description="The cost of a month at list prices; null: no price is known.")
    hourly: Usd | None = Field(
        description="The cost an hour of the unused part of a reservation; null: no price is known, or it is none."
    )
    ends_at: Moment | None = read_from(
        "thing.ends_at", description="The time at which Google deletes a reservation; null: it has no such time."
    )
    command: str = Field(
        description="The command that removes it, for a person to run; empty: a reservation of calendar mode, which "
        "is sold for a whole period. Costguard removes nothing."
    )


class UnreadListOut(Out):
    project: str
    kind: Annotated[str, one_of(LooseKind)]
    reason: str = Field(description="The reason why the list could not be read. What is in it is unknown.")
    permission: str = Field(description="The permission that reading it takes.")


class UnknownProjectOut(Out):
    """A project of which nothing is known now: it is in no amount."""

    project: str
    why: UnknownWhy = Field(
        description="`refused`: Google refused its lists; `late`: it did not answer; `not_asked`: it was not asked yet."
    )
    reason: str = Field(description="The reason in a sentence; empty: Google was not asked yet.")
    tried_at: Moment | None = Field(description="The time at which Google was last asked.")
    read_at: Moment | None = Field(
        description="The time of its last answer, whose things are listed still; null: none are."
    )


class PlannedOut(Out):
    """A future reservation: it bills from its start, used or not."""

    project: str
    scope: str = Field(description="zones/NAME.")
    name: str
    what: str = Field(description="The number and type of its VMs.", examples=["8 a3-megagpu-8g"])
    is_calendar: bool = Field(description="True: it was booked in calendar mode; false: through an account team.")
    procurement: str = read_from(
        "state", description="Google's procurement status, in lower case.", examples=["fulfilled"]
    )
    starts_at: Moment
    ends_at: Moment | None = Field(description="The end of its period; null: it has none.")
    reservation_ends_at: Moment | None = Field(
        description="The time at which Google deletes the reservations that it made; null: it has no such time."
    )


class LooseResponse(AsOf):
    oldest_at: Moment | None = Field(
        description="The time at which Google was asked for the oldest answer in it; null: no project has answered. "
        "Each project is asked once an hour."
    )
    projects: int = Field(description="The number of watched projects, including unknown ones.")
    unknown: Sequence[UnknownProjectOut] = Field(description="The projects of which nothing is known now.")
    currency: str = CURRENCY
    monthly: Amount = Field(description="The sum; not complete where something has no price, or was not read.")
    things: Sequence[LooseOut] = Field(description="The things, those without a price first, then the dearest.")
    unpriced: int
    cluster_disks: int = Field(description="Unattached disks that a cluster's volumes may need: they are not loose.")
    unread: Sequence[UnreadListOut] = Field(
        description="Lists that could not be read, of projects that answered otherwise."
    )
    unused_reservations: Amount = Field(description="The cost an hour of reserved VMs that nobody uses.")
    planned: Sequence[PlannedOut] = Field(description="Future reservations that are not over, by start.")
    method: str = METHOD


class LooseQuery(Query):
    project: Text | None = None
    fresh: bool = Field(
        default=False,
        description="Whether Google is asked now. The answer waits for it for twenty seconds at most; what has not "
        "come by then is reported as it is remembered. What was read within the last thirty seconds is not read again.",
    )


@router.get("/loose", summary="List unused things that bill or hold quota", operation_id="listLoose")
def loose(deps: Given, query: Annotated[LooseQuery, Parameter()]) -> LooseResponse:
    """Lists disks, addresses, snapshots, images and reservations that nothing uses, and queued resources of TPUs that
    are dead, with the command that removes each. All is as the projects last answered.
    """
    if deps.loose is None:
        raise Unavailable("This server cannot ask Google what is loose.", "Ask one that watches projects.")
    if query.fresh:
        deps.loose.refresh(query.project)
    report = deps.loose.report(prices_of(deps.database), query.project)
    return LooseResponse(
        as_of=report.as_of,
        oldest_at=report.oldest_at,
        projects=report.projects,
        unknown=[UnknownProjectOut.read(one) for one in report.unknown],
        monthly=Amount.read(report.total),
        things=[LooseOut.read(item) for item in report.items],
        unpriced=report.unpriced,
        cluster_disks=report.cluster_disks,
        unread=[UnreadListOut.read(one) for one in report.unread],
        unused_reservations=Amount.read(report.unused_burn),
        planned=[PlannedOut.read(plan) for plan in report.planned],
    )
