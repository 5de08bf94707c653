"""Traces: the fleet's own history of Spot VMs by zone, as series that a replay reads."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from fastapi import Query as Parameter
from pydantic import Field

from costguard.api.deps import Given
from costguard.api.fields import AsOf, Out, Query, Usd, usd
from costguard.api.route import routes
from costguard.jobs.rows.history.zone_history import FleetSeries, fleet_series

router = routes("jobs")


class TraceOut(Out):
    """The series of one zone and kind of VM, in the format of github.com/skypilot-org/spot-traces, without moments."""

    name: str = Field(
        description="The zone with the GPU's type and count, or the machine type.",
        examples=["us-central1-a_nvidia-l4_1"],
    )
    gap_seconds: int
    data: list[int] = Field(
        description=(
            "A value per point: 1: a Spot VM ran, or the last attempt to start one was not refused; 0: it "
            "was preempted, or out of stock."
        )
    )
    seen: int = Field(
        description="The number of points with a VM, or within an hour after a launch, a stockout or an end."
    )
    price_per_hour: Usd | None = Field(
        description="The Spot price, as estimated for the latest VM of a job; null: unknown."
    )
    on_demand_price_per_hour: Usd | None


class TracesResponse(AsOf):
    traces: list[TraceOut] = Field(description="The series. All of one kind of VM begin together.")


class TraceQuery(Query):
    days: int = Field(30, ge=1, le=90, description="The length of the series, up to now.")
    gap_seconds: int = Field(600, ge=60, le=3600, description="The time from one point to the next.")


@router.get("/traces", summary="Get the fleet's Spot history as series", operation_id="listTraces")
def traces(deps: Given, query: Annotated[TraceQuery, Parameter()]) -> TracesResponse:
    """Returns lifetimes of Spot VMs and stockouts that jobs met, by zone, without the name of a project, a person or a
    VM.
    """
    now = deps.clock.now()
    with deps.database.read() as connection:
        series = fleet_series(connection, now - timedelta(days=query.days), now, timedelta(seconds=query.gap_seconds))
    return TracesResponse(as_of=now, traces=[_trace(one) for one in series])


def _trace(one: FleetSeries) -> TraceOut:
    return TraceOut(
        name=one.name,
        gap_seconds=one.gap // timedelta(seconds=1),
        data=one.ups,
        seen=one.seen,
        price_per_hour=None if one.price is None else usd(one.price),
        on_demand_price_per_hour=None if one.on_demand_price is None else usd(one.on_demand_price),
    )
