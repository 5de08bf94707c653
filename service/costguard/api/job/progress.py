"""Routes for a training's progress, its curves, and the hours and dollars that are left."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

from pydantic import Field

from costguard.api.deps import Given
from costguard.api.fields import AmountsAsOf, Moment, Out, Seconds, Usd, one_of, read_from
from costguard.api.job_id import JobId
from costguard.api.route import NOT_FOUND, routes
from costguard.errors import Missing
from costguard.jobs.reports.progress.progress import job_progress
from costguard.ledger.accrual import accrual_at
from costguard.model.reported.progress import UNITS

router = routes("jobs")

Unit = Annotated[str, one_of(UNITS)]


class TimeLeftOut(Out):
    """The running time left, without preemptions and starts. Nine of ten trainings end between low and high."""

    seconds_low: Seconds = read_from("low")
    seconds_likely: Seconds = read_from("likely")
    seconds_high: Seconds = read_from("high")
    cost_low: Usd | None = Field(description="The cost at the hourly price of the latest VM; null: that is not known.")
    cost_likely: Usd | None
    cost_high: Usd | None


class ProgressOut(Out):
    read_at: Moment = read_from(
        "seen.read_at", description="The time at which its agent last read progress in the output."
    )
    phase: str = read_from("seen.phase", description="`train` or `eval`: the phase that was read last.")
    unit: Unit | None = Field(description="The unit of `done` and `total`; null: nothing was counted yet.")
    done: float | None
    total: float | None = Field(description="The job's own number of steps, or else the total in its output.")
    per_second: float | None = Field(
        description="Steps or other units per second over the last minutes; null for a job that has ended."
    )
    epoch: float | None = read_from("seen.epoch", description="The epoch as printed.")
    loss: str | None = read_from("seen.loss", description="The training loss, as a number or nan, inf, -inf.")
    metrics: Mapping[str, str] = read_from("seen.metrics", description="Other values that were printed, by name.")
    left: TimeLeftOut | None = Field(
        description="The time and cost left; null: its total or its pace is unknown, or it has ended."
    )


class CurvePointOut(Out):
    at: Moment
    unit: Unit | None
    done: float | None = Field(description="The position of the training, in the unit.")
    value: float | None = Field(description="The value at this point; null: not a finite number.")
    cost: Usd | None = Field(description="The cost of the job's VMs by then, as estimated at their launch.")


class CurveOut(Out):
    kind: Annotated[str, one_of(("loss", "metric", "evaluation", "speed"))]
    name: str
    points: Sequence[CurvePointOut] = Field(
        description=(
            "The points, at most 500, thinned evenly. Steps repeated after a preemption count for the speed alone."
        )
    )


class JobProgressResponse(AmountsAsOf):
    job: str
    progress: ProgressOut | None = Field(description="The progress read in its output; null: nothing was read yet.")
    curves: Sequence[CurveOut]
    interrupted_at: Sequence[Moment]


@router.get(
    "/jobs/{job_id}/progress",
    summary="Get how far a job's training is",
    operation_id="getJobProgress",
    responses=NOT_FOUND,
)
def progress(deps: Given, job_id: JobId) -> JobProgressResponse:
    """Returns the progress read in its output: step, loss, evaluations and speed, and the hours and dollars that are
    left.
    """
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
