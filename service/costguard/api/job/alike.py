"""Route that compares what runs of a job's script cost on each machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from costguard.api.deps import Given
from costguard.api.fields import Amount, AmountsAsOf, Moment, Out, Usd, one_of, read_from
from costguard.api.job_id import JobId
from costguard.api.route import NOT_FOUND, routes
from costguard.errors import Missing
from costguard.jobs.reports.alike import alike_jobs
from costguard.ledger.accrual import accrual_at
from costguard.model.job import JobState
from costguard.model.reported.metric import HIGHER, LOWER

router = routes("jobs")


class AlikeJobOut(Out):
    """A run of the script."""

    id: str = read_from("job.id")
    title: str = read_from("job.title")
    owner: str = read_from("job.spec.owner")
    state: Annotated[str, one_of(JobState)] = read_from("job.state")
    created_at: Moment = read_from("job.created_at")
    cost: Amount
    steps: int | None = Field(description="The number of steps, without repeated work; null: not known.")
    is_same_command: bool = Field(description="False: its command line has other options.")


class MachineCostOut(Out):
    """The cost of the script on one machine. What is not known is null."""

    preset: str
    machine_type: str
    gpu_type: str
    gpu_count: int
    steps: int | None = Field(description="The steps of all its runs with known steps and cost.")
    cost_per_1000_steps: Usd | None = read_from(
        "per_1000_steps", description="The cost of those runs per 1,000 steps; repeated steps count once."
    )
    best: float | None = Field(description="The best value of the metric that a run on this machine reached.")
    cost_to_reach: Usd | None = read_from(
        "to_reach",
        description="The cost of the run that reached `target`, until its metric first did.",
    )
    reached_by: str | None = Field(description="The id of that job.")
    jobs: Sequence[AlikeJobOut] = read_from("runs")


class ComparedMetricOut(Out):
    name: str
    better: Annotated[str, one_of((LOWER, HIGHER))]


class AlikeResponse(AmountsAsOf):
    job: str = read_from("job.id")
    metric: ComparedMetricOut | None = Field(
        description="The metric by which the machines are compared; null: the job has printed none."
    )
    target: float | None = read_from(
        "comparison.target",
        description="The best value of the metric that a run on every machine reached; null: fewer than two machines "
        "have values of it.",
    )
    text: str = read_from("comparison.text", description="The cheapest machine in a sentence; empty: nothing compares.")
    machines: Sequence[MachineCostOut] = read_from(
        "comparison.machines", description="The machines, the cheapest first."
    )


@router.get(
    "/jobs/{job_id}/alike",
    summary="Compare the cost of a job's script by machine",
    operation_id="compareAlike",
    responses=NOT_FOUND,
)
def alike(deps: Given, job_id: JobId) -> AlikeResponse:
    """Compares the job with runs of the same script (the same code, or the same command line) on other machines.

    The newest 500 trainings of its project are looked at.
    """
    with deps.database.read() as connection:
        accrual = accrual_at(connection, deps.clock.now())
        answer = alike_jobs(connection, accrual, job_id)
    if answer is None:
        raise Missing(f"There is no training job {job_id!r}.", "GET /api/v1/jobs?kind=training lists them.")
    return AlikeResponse.read(answer, as_of=accrual.now)
