"""How zones did lately, and how recoveries went by."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Annotated

from fastapi import Query as Parameter
from pydantic import Field

from costguard.api import job_mapping, job_schemas
from costguard.api.deps import Given
from costguard.api.fields import CURRENCY, Moment, Out, Provisioning, Query, Usd, one_of, usd
from costguard.api.route import routes
from costguard.jobs import interruptions as engine
from costguard.jobs.figures import Histogram
from costguard.jobs.placement import PREEMPTION_HALF_LIFE, STOCKOUT_HALF_LIFE
from costguard.jobs.places import PlaceScore, place_scores

router = routes("jobs")

_SECOND = timedelta(seconds=1)


class Event(Out):
    at: Moment
    outcome: Annotated[str, one_of(("stockout", "preempted"))]


class Place(Out):
    """A zone for one kind of GPU, Spot or not."""

    zone: str
    gpu_type: str = Field(description="Empty: VMs without a GPU.")
    provisioning_model: Provisioning
    stockouts: str = Field(description="Each counts 1 when it happens, and fades with its half-life.")
    preemptions: str = Field(description="The same, with a longer half-life.")
    presets: list[str] = Field(description="Those that launch there.")
    events: list[Event] = Field(description="What the figures rest on, the newest first; ten at most.")


class Places(Out):
    as_of: Moment
    stockout_half_life_seconds: int
    preemption_half_life_seconds: int
    places: list[Place]


class Bucket(Out):
    up_to_seconds: int | None = Field(description="And above the bucket before; null: anything above.")
    count: int


class Span(Out):
    what: Annotated[str, one_of(("noticed", "requested", "resumed"))] = Field(description="Since the preemption.")
    count: int
    median_seconds: str | None
    p90_seconds: str | None = Field(description="Nine in ten took at most so long.")
    longest_seconds: str | None
    buckets: list[Bucket]


class Recovery(job_schemas.Interruption):
    job: str
    title: str
    zone: str


class Recoveries(Out):
    as_of: Moment
    since: Moment
    currency: str = CURRENCY
    interruptions_total: int
    by_outcome: dict[str, int]
    noticed_first: dict[str, int] = Field(description="What told of them first.")
    from_zero: int
    lost_seconds: int
    lost_cost: Usd
    spans: list[Span] = Field(description="Of preemptions alone.")
    interruptions: list[Recovery] = Field(description="The newest first; 200 at most.")


class RecoveryQuery(Query):
    days: int = Field(30, ge=1, le=3650)


@router.get("/places", summary="How zones did lately", operation_id="listPlaces")
def places(deps: Given) -> Places:
    """What the choice of a place rests on beside the price: stockouts and preemptions, fading with time."""
    now = deps.clock.now()
    with deps.database.read() as connection:
        found = place_scores(connection, deps.rules, now)
    return Places(
        as_of=now,
        stockout_half_life_seconds=STOCKOUT_HALF_LIFE // _SECOND,
        preemption_half_life_seconds=PREEMPTION_HALF_LIFE // _SECOND,
        places=[_place(each) for each in found],
    )


@router.get("/recoveries", summary="How soon preempted work went on", operation_id="getRecoveries")
def recoveries(deps: Given, query: Annotated[RecoveryQuery, Parameter()]) -> Recoveries:
    """From each preemption until it was noticed, until the next VM was asked for, and until the command ran again."""
    now = deps.clock.now()
    with deps.database.read() as connection:
        found = engine.recoveries(connection, now - timedelta(days=query.days))
    return Recoveries(
        as_of=now,
        since=found.since,
        interruptions_total=found.total,
        by_outcome={outcome.value: number for outcome, number in found.by_outcome.items()},
        noticed_first={notice.value: number for notice, number in found.noticed_first.items()},
        from_zero=found.lost.from_zero,
        lost_seconds=found.lost.span // _SECOND,
        lost_cost=usd(found.lost.cost),
        spans=[
            _span("noticed", found.noticed),
            _span("requested", found.requested),
            _span("resumed", found.resumed),
        ],
        interruptions=[_recovery(each) for each in found.newest],
    )


def _place(of: PlaceScore) -> Place:
    zone, gpu_type, model = of.where
    return Place(
        zone=zone,
        gpu_type=gpu_type,
        provisioning_model=model.value,
        stockouts=f"{of.score.stockouts:.3f}",
        preemptions=f"{of.score.preemptions:.3f}",
        presets=list(of.presets),
        events=[Event(at=each.at, outcome=each.outcome.value) for each in of.events],
    )


def _span(what: str, of: Histogram) -> Span:
    return Span(
        what=what,
        count=of.count,
        median_seconds=_seconds(of.median),
        p90_seconds=_seconds(of.p90),
        longest_seconds=_seconds(of.longest),
        buckets=[
            Bucket(up_to_seconds=None if edge is None else edge // _SECOND, count=number) for edge, number in of.buckets
        ],
    )


def _seconds(span: timedelta | None) -> str | None:
    """To the millisecond."""
    return None if span is None else f"{Decimal(span // timedelta(milliseconds=1)).scaleb(-3):.3f}"


def _recovery(of: engine.JobRecovery) -> Recovery:
    told = job_mapping.interruption(of.interruption, of.attempt.number)
    return Recovery(**dict(told), job=of.job.id, title=of.job.title, zone=of.attempt.zone)
