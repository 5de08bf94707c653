"""Savings: what Spot saved, what stops saved, and what keeps cost."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Annotated

from fastapi import Query as Parameter
from pydantic import Field

from costguard.api.deps import Given
from costguard.api.fields import Amount, AmountsAsOf, DaysQuery, Moment, Out, Text, Usd, beginning, read_from
from costguard.api.route import routes
from costguard.api.spend import check_length
from costguard.ledger.accrual import accrual_at
from costguard.model.budget import Scope
from costguard.spend.saved import saved_between
from costguard.spend.savings import KEEP_METHOD, SHADOW_METHOD, STOP_METHOD
from costguard.spend.spot import METHOD

router = routes("spend")


class SpotSavingsOut(Out):
    cost: Usd = Field(description="The bill for what is bought as Spot, GPUs included, without disks.")
    on_demand: Usd = Field(description="The cost of the same use on demand.")
    saved: Usd
    percent: int = Field(description="The saving in percent of the on-demand price, rounded down.")
    unpriced: Sequence[str] = Field(description="Usage without an on-demand price, which is in neither amount.")
    lost_to_preemptions: Usd = Field(description="The cost of work that had to be repeated. It is not subtracted.")
    method: str = METHOD


class StopSavingsOut(Out):
    carried_out: int
    saved: Amount = read_from("by_stops")
    method: str = STOP_METHOD
    only_recorded: int = Field(description="Stops that rules would have made, in shadow mode.")
    would_have_saved: Amount = read_from("by_shadows")
    shadow_method: str = SHADOW_METHOD


class KeepOut(Out):
    project: str = read_from("keep.key.project")
    gce_id: str = read_from("keep.key.gce_id")
    name: str = read_from("keep.name")
    preset: str = read_from("keep.preset")
    owner: str = read_from("keep.owner")
    by: str = read_from("keep.by")
    at: Moment = read_from("keep.at")
    until: Moment = read_from("keep.until")
    reason: str = read_from("keep.reason")
    cost: Amount = Field(
        description="The cost from when it would have been due until the keep expired, it ended, or now."
    )


class KeepsOut(Out):
    cost: Amount = read_from("by_keeps")
    method: str = KEEP_METHOD
    keeps: Sequence[KeepOut] = Field(description="The keeps, the latest first.")


class SavingsResponse(AmountsAsOf):
    from_: date = Field(alias="from", description="The first UTC day.")
    to: date = Field(description="The last UTC day.")
    spot: SpotSavingsOut
    stops: StopSavingsOut = Field(description="GET /api/v1/enforcement lists them.")
    keeps: KeepsOut


class SavingsQuery(DaysQuery):
    project: Text | None = None
    preset: Text | None = None
    owner: Text | None = None


@router.get("/savings", summary="Get what Spot and stops saved, and what keeps cost", operation_id="getSavings")
def savings(deps: Given, query: Annotated[SavingsQuery, Parameter()]) -> SavingsResponse:
    """Estimates savings, each with its method.

    Usage that could not be compared is listed, and never counted as saved.
    """
    now = deps.clock.now()
    first, last = query.days(now.date())
    check_length(first, last)
    with deps.database.read() as connection:
        scope = Scope(query.project, query.preset, query.owner)
        saved = saved_between(connection, accrual_at(connection, now), first, last, scope)
    return SavingsResponse(
        as_of=now,
        **beginning(first),
        to=last,
        spot=SpotSavingsOut.read(saved.spot, lost_to_preemptions=saved.lost),
        stops=StopSavingsOut.read(saved, only_recorded=len(saved.shadows)),
        keeps=KeepsOut.read(saved),
    )
