"""Limits on what is in use at once: their use, and the jobs that wait for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from costguard.api.deps import Given
from costguard.api.fields import AmountsAsOf, Moment, Out, Usd, one_of, read_from
from costguard.api.route import routes
from costguard.jobs.listing.limits import limit_uses
from costguard.model.budget import LimitPart

router = routes("jobs")


class InUseOut(Out):
    vms: int
    gpus: int
    dollars_per_hour: Usd = read_from("rate", description="The hourly cost, without VMs whose price is not known.")
    unpriced: int = Field(description="The number of VMs whose price is not known.")


class LimitUserOut(Out):
    job: str = Field(description="The job's id; empty: VMs that no job launched.")
    title: str
    owner: str = read_from("by.owner")
    project: str = read_from("by.project")
    preset: str = read_from("by.preset")
    used: InUseOut = read_from("amount")
    ends_at: Moment | None = Field(description="The expected end of the job; null: not known.")


class QueuedJobOut(Out):
    job: str
    title: str
    owner: str
    priority: int
    since: Moment = Field(description="The time since when it has waited.")
    place: int = Field(description="The place in line, from 1; 0: the job exceeds the limit even alone.")
    needs: InUseOut
    starts_at: Moment | None = read_from("start.at", description="The expected start; null: not known.")
    why: str = Field(description="The reason in one sentence: the limit, those ahead, and the expected start.")


class LimitOut(Out):
    """A limit, or its part for one value of `for_each`."""

    name: str = read_from("limit.name")
    for_each: Annotated[str, one_of(LimitPart)] | None = read_from(
        "limit.for_each",
        description="The part of which each value, such as each owner, has this limit; null: all share it.",
    )
    value: str = Field(description="The owner, team, project or preset of this part; empty without `for_each`.")
    project: str | None = read_from("limit.scope.project")
    preset: str | None = read_from("limit.scope.preset")
    owner: str | None = read_from("limit.scope.owner")
    team: str | None = read_from("limit.scope.team")
    vms: int | None = read_from("limit.vms", description="The most VMs at once; null: any number.")
    gpus: int | None = read_from("limit.gpus", description="The most GPUs at once; null: any number.")
    dollars_per_hour: Usd | None = read_from(
        "limit.dollars_per_hour", description="The most dollars an hour at once; null: any amount."
    )
    counts_others: bool = read_from("limit.counts_others", description="Whether VMs that no job launched count, too.")
    used: InUseOut
    users: Sequence[LimitUserOut] = Field(description="The users of the limit, the one with the most first.")
    waiting: Sequence[QueuedJobOut] = Field(description="The jobs that wait for it, in the order in which they start.")


class LimitsResponse(AmountsAsOf):
    limits: list[LimitOut]


@router.get("/limits", summary="List limits and their queues", operation_id="listLimits")
def limits(deps: Given) -> LimitsResponse:
    """Lists the limits on VMs, GPUs and dollars an hour at once: their use, who uses them, and who waits for them."""
    now = deps.clock.now()
    with deps.database.read() as connection:
        listed = limit_uses(connection, deps.rules, now)
    return LimitsResponse(as_of=now, limits=[LimitOut.read(one) for one in listed])
