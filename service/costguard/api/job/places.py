"""Places and recoveries: how zones did lately, and how soon preempted work resumed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Annotated

from fastapi import Query as Parameter
from pydantic import BeforeValidator, Field

from costguard.api.deps import Given
from costguard.api.fields import CURRENCY, AsOf, Moment, Out, Provisioning, Query, Seconds, Usd, one_of, read_from
from costguard.api.job.attempts_shown import InterruptionOut
from costguard.api.route import routes
from costguard.jobs.decide.buy.placement import PREEMPTION_HALF_LIFE, STOCKOUT_HALF_LIFE
from costguard.jobs.decide.measures.histogram import Histogram
from costguard.jobs.rows.recovery import interruptions as engine
from costguard.jobs.submit.where.places import place_scores

router = routes("jobs")

_Score = Annotated[str, BeforeValidator(lambda score: f"{score:.3f}")]


def _millis(span: timedelta | None) -> str | None:
    return None if span is None else f"{Decimal(span // timedelta(milliseconds=1)).scaleb(-3):.3f}"


_Millis = Annotated[str | None, BeforeValidator(_millis)]


class PlaceEventOut(Out):
    at: Moment
    outcome: Annotated[str, one_of(("stockout", "preempted"))]


class PlaceOut(Out):
    """A zone for one kind of GPU and one provisioning model."""

    zone: str
    gpu_type: str = Field(description="The GPU's type; empty: VMs without a GPU.")
    provisioning_model: Provisioning
    stockouts: _Score = read_from(
        "score.stockouts",
        description="The weight of recent stockouts: each counts 1 at first, and fades with its half-life.",
    )
    preemptions: _Score = read_from(
        "score.preemptions",
        description="The weight of recent preemptions: each counts 1 at first, and fades with a longer half-life.",
    )
    presets: Sequence[str] = Field(description="The presets that launch there.")
    events: Sequence[PlaceEventOut] = Field(description="The events behind the figures, the newest first; at most ten.")


class PlacesResponse(AsOf):
    stockout_half_life_seconds: Seconds
    preemption_half_life_seconds: Seconds
    places: list[PlaceOut]


class BucketOut(Out):
    up_to_seconds: Seconds | None = Field(
        description=(
            "The bucket's upper bound; it begins at the bound of the bucket before. null: there is no upper bound."
        )
    )
    count: int


class SpanOut(Out):
    what: Annotated[str, one_of(("noticed", "requested", "resumed"))] = Field(
        description="The end of the span, which begins with the preemption."
    )
    count: int
    median_seconds: _Millis = read_from("median")
    p90_seconds: _Millis = read_from("p90", description="The 90th percentile in seconds.")
    longest_seconds: _Millis = read_from("longest")
    buckets: list[BucketOut]


class RecoveryOut(InterruptionOut):
    job: str
    title: str
    zone: str


class RecoveriesResponse(AsOf):
    since: Moment
    currency: str = CURRENCY
    interruptions_total: int = read_from("total")
    by_outcome: dict[str, int]
    noticed_first: dict[str, int] = Field(
        description="The number of interruptions by the source that reported them first."
    )
    from_zero: int = read_from("lost.from_zero")
    lost_seconds: Seconds = read_from("lost.span")
    lost_cost: Usd = read_from("lost.cost")
    spans: list[SpanOut] = Field(description="The spans of preemptions alone.")
    interruptions: list[RecoveryOut] = Field(description="The interruptions, the newest first; at most 200.")


class RecoveryQuery(Query):
    days: int = Field(30, ge=1, le=3650)


@router.get("/places", summary="List zones with their recent stockouts and preemptions", operation_id="listPlaces")
def places(deps: Given) -> PlacesResponse:
    """Lists zones.

    Besides the price, Costguard chooses zones by their stockouts and preemptions, which fade with time.
    """
    now = deps.clock.now()
    with deps.database.read() as connection:
        scores = place_scores(connection, deps.rules, now)
    listed = []
    for place in scores:
        zone, gpu_type, model = place.where
        listed.append(PlaceOut.read(place, zone=zone, gpu_type=gpu_type, provisioning_model=model))
    return PlacesResponse.model_validate(
        {
            "as_of": now,
            "stockout_half_life_seconds": STOCKOUT_HALF_LIFE,
            "preemption_half_life_seconds": PREEMPTION_HALF_LIFE,
            "places": listed,
        }
    )


@router.get("/recoveries", summary="Get how soon preempted work resumed", operation_id="getRecoveries")
def recoveries(deps: Given, query: Annotated[RecoveryQuery, Parameter()]) -> RecoveriesResponse:
    """Measures the time from each preemption until it was noticed, the next VM was requested, and the command ran
    again.
    """
    now = deps.clock.now()
    with deps.database.read() as connection:
        report = engine.recoveries(connection, now - timedelta(days=query.days))
    return RecoveriesResponse.read(
        report,
        as_of=now,
        by_outcome={outcome.value: count for outcome, count in report.by_outcome.items()},
        noticed_first={notice.value: count for notice, count in report.noticed_first.items()},
        spans=[
            _span("noticed", report.noticed),
            _span("requested", report.requested),
            _span("resumed", report.resumed),
        ],
        interruptions=[
            RecoveryOut.read(
                recovery.interruption,
                attempt=recovery.attempt.number,
                job=recovery.job.id,
                title=recovery.job.title,
                zone=recovery.attempt.zone,
            )
            for recovery in report.newest
        ],
    )


def _span(what: str, histogram: Histogram) -> SpanOut:
    buckets = [BucketOut.model_validate({"up_to_seconds": edge, "count": count}) for edge, count in histogram.buckets]
    return SpanOut.read(histogram, what=what, buckets=buckets)
