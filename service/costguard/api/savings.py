"""What Spot saved, what stops saved, and what keeps cost."""

from __future__ import annotations

from datetime import date
from typing import Annotated

from fastapi import Query as Parameter
from pydantic import Field

from costguard.api.days import DaysQuery, beginning
from costguard.api.deps import Given
from costguard.api.fields import CURRENCY, Amount, Moment, Out, Text, Usd, usd
from costguard.api.route import routes
from costguard.api.spend import check_length
from costguard.ledger.accrual import accrual_at
from costguard.model.budget import Scope
from costguard.spend.keep_savings import KeepReport
from costguard.spend.saved import Saved, saved_between
from costguard.spend.savings import KEEP_METHOD, SHADOW_METHOD, STOP_METHOD
from costguard.spend.spot import METHOD

router = routes("spend")


class Spot(Out):
    cost: Usd = Field(description="What Spot machines and their GPUs were billed at. Disks are in neither amount.")
    on_demand: Usd = Field(description="What the same use would have been billed at on demand.")
    saved: Usd
    percent: int = Field(description="Of the on-demand price, cut off to whole percents.")
    unpriced: list[str] = Field(description="What has no on-demand price, and is in neither amount.")
    lost_to_preemptions: Usd = Field(description="Paid for work that had to be done again. It is not taken off.")
    method: str = METHOD


class Stops(Out):
    carried_out: int
    saved: Amount
    method: str = STOP_METHOD
    only_recorded: int = Field(description="What rules would have stopped, in shadow mode.")
    would_have_saved: Amount
    shadow_method: str = SHADOW_METHOD


class Keep(Out):
    project: str
    gce_id: str
    name: str
    preset: str
    owner: str
    by: str
    at: Moment
    until: Moment
    reason: str
    cost: Amount = Field(description="From when it was due without this keep until it ran out, the VM ended, or now.")


class Keeps(Out):
    cost: Amount
    method: str = KEEP_METHOD
    keeps: list[Keep] = Field(description="The latest first.")


class Savings(Out):
    as_of: Moment
    currency: str = CURRENCY
    from_: date = Field(alias="from", description="The first UTC day.")
    to: date = Field(description="The last UTC day.")
    spot: Spot
    stops: Stops = Field(description="GET /api/v1/enforcement lists them.")
    keeps: Keeps


class SavingsQuery(DaysQuery):
    project: Text | None = None
    preset: Text | None = None
    owner: Text | None = None


@router.get("/savings", summary="What Spot and stops saved, and what keeps cost", operation_id="getSavings")
def savings(deps: Given, query: Annotated[SavingsQuery, Parameter()]) -> Savings:
    """Estimates, each with how it is made; what could not be compared is named, and never counted as saved."""
    now = deps.clock.now()
    first, last = query.days(now.date())
    check_length(first, last)
    with deps.database.read() as connection:
        scope = Scope(query.project, query.preset, query.owner)
        found = saved_between(connection, accrual_at(connection, now), first, last, scope)
    return Savings(
        as_of=now,
        **beginning(first),
        to=last,
        spot=_spot(found),
        stops=Stops(
            carried_out=found.carried_out,
            saved=Amount.of(found.by_stops),
            only_recorded=len(found.shadows),
            would_have_saved=Amount.of(found.by_shadows),
        ),
        keeps=Keeps(cost=Amount.of(found.by_keeps), keeps=[_keep(each) for each in found.keeps]),
    )


def _spot(of: Saved) -> Spot:
    return Spot(
        cost=usd(of.spot.cost),
        on_demand=usd(of.spot.on_demand),
        saved=usd(of.spot.saved),
        percent=of.spot.percent,
        unpriced=list(of.spot.unpriced),
        lost_to_preemptions=usd(of.lost),
    )


def _keep(of: KeepReport) -> Keep:
    keep = of.keep
    return Keep(
        project=keep.key.project,
        gce_id=keep.key.gce_id,
        name=keep.name,
        preset=keep.preset,
        owner=keep.owner,
        by=keep.by,
        at=keep.at,
        until=keep.until,
        reason=keep.reason,
        cost=Amount.of(of.cost),
    )
