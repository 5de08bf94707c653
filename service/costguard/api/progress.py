"""How far a job's training is, its curves, and the hours and dollars that are left."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

from pydantic import Field

from costguard.api.deps import Given
from costguard.api.fields import CURRENCY, Moment, Out, Seconds, Usd, one_of, read_from
from costguard.api.job_id import JobId
from costguard.api.route import routes
from costguard.errors import Missing
from costguard.jobs.progress import job_progress
from costguard.ledger.accrual import accrual_at
from costguard.model.progress import UNITS
from costguard.web.problems import NOT_FOUND

router = routes("jobs")

Unit = Annotated[str, one_of(UNITS)]


class TimeLeftOut(Out):
    """Of running: what preemptions and starts add is not in it. Nine of ten trainings end between low and high."""

    seconds_low: Seconds = read_from("low")
    seconds_likely: Seconds = read_from("likely")
    seconds_high: Seconds = read_from("high")
    cost_low: Usd | None = Field(description="At the hourly price of the latest VM; null: that is not known.")
    cost_likely: Usd | None
    cost_high: Usd | None


class ProgressOut(Out):
    read_at: Moment = read_from("seen.read_at", description="When its agent last read anything of it.")
    phase: str = read_from("seen.phase", description="train or eval, of what was read last.")
    unit: Unit | None = Field(description="What done and total count; null: nothing was counted yet.")
    done: float | None
    total: float | None = Field(description="The job's own number of steps, else what its output says.")
    per_second: float | None = Field(description="Over the last minutes; null for a job that has ended.")
    epoch: float | None = read_from("seen.epoch", description="As printed.")
    loss: str | None = read_from("seen.loss", description="The training loss, as a number or nan, inf, -inf.")
    metrics: Mapping[str, str] = read_from("seen.metrics", description="What else was printed, by its name.")
    left: TimeLeftOut | None = Field(description="null: its total or its pace is unknown, or it has ended.")


class CurvePointOut(Out):
    at: Moment
    unit: Unit | None
    done: float | None = Field(description="The position of the training, in the unit.")
    value: float | None = Field(description="null: not a finite number.")
    cost: Usd | None = Field(description="What the job's VMs had cost by then, as estimated at their launch.")


class CurveOut(Out):
    kind: Annotated[str, one_of(("loss", "metric", "evaluation", "speed"))]
    name: str
    points: Sequence[CurvePointOut] = Field(
        description="At most 500, thinned evenly; without work that was done again after a preemption, but for speed."
    )


class JobProgressResponse(Out):
    as_of: Moment
    currency: str = CURRENCY
    job: str
    progress: ProgressOut | None = Field(description="null: nothing was read of it yet.")
    curves: Sequence[CurveOut]
    interrupted_at: Sequence[Moment]


@router.get(
    "/jobs/{job_id}/progress",
    summary="Get how far a job's training is",
    operation_id="getJobProgress",
    responses=NOT_FOUND,
)
def progress(deps: Given, job_id: JobId) -> JobProgressResponse:
    """What is read in its output: its step, loss, evaluations and speed, and the hours and dollars that are left."""
    with deps.database.read() as connection:
        shown = job_progress(connection, accrual_at(connection, deps.clock.now()), job_id)
    if shown is None:
        raise Missing(f"There is no job {job_id!r}.", "GET /api/v1/jobs lists all jobs.")
    return JobProgressResponse.read(
        shown,
        as_of=deps.clock.now(),
        job=job_id,
        progress=None if shown.seen is None else ProgressOut.read(shown),
    )
