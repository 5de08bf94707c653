"""Route of a job's lineage: what it started from, what started from it, and what all of that cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from costguard.api.deps import Given
from costguard.api.fields import Amount, AmountsAsOf, Moment, Out, PriceNote, one_of, read_from
from costguard.api.job_id import JobId
from costguard.api.route import NOT_FOUND, routes
from costguard.errors import Missing
from costguard.jobs.decide.lineage import Uses
from costguard.jobs.listing.lineage import lineage_of
from costguard.ledger.accrual import accrual_at
from costguard.model.job import JobState

router = routes("jobs")


class JobOriginOut(Out):
    """An address from which a job starts."""

    address: str
    uses: Annotated[str, one_of(Uses)] = Field(
        description="`checkpoint`: it lay at the job's own location when the job was submitted; `input`: one of its "
        "inputs; `command`: its command, setup or environment names it."
    )
    parent: str | None = Field(description="The id of the job that stored what lies there; null: not known.")


class LineageJobOut(Out):
    id: str = read_from("job.id")
    title: str = read_from("job.title")
    owner: str = read_from("job.spec.owner")
    preset: str = read_from("job.spec.preset")
    state: Annotated[str, one_of(JobState)] = read_from("job.state")
    created_at: Moment = read_from("job.created_at")
    depth: int = Field(description="The distance from the job: below zero for what it started from.")
    parent: str | None = Field(description="The id of the job under which it stands in the tree; null: none.")
    others: Sequence[str] = Field(
        description="The ids of other jobs that connect it with the job, too; it is listed once."
    )
    origins: Sequence[JobOriginOut]
    cost: Amount = Field(description="The cost of the job itself so far.")
    with_below: Amount = Field(description="The cost of it and of all that started from it; each job counts once.")


class LineageResponse(AmountsAsOf):
    price_note: PriceNote
    job: LineageJobOut = read_from("centre")
    ancestors: Sequence[LineageJobOut] = Field(description="The jobs that it started from, the oldest first.")
    descendants: Sequence[LineageJobOut] = Field(description="The jobs that started from it, each below its parent.")
    upward: Amount = Field(description="The cost of the job with all that it started from: the cost of its result.")
    downward: Amount = Field(description="The cost of the job with all that started from it.")
    total: Amount = Field(description="The cost of all of these jobs; each counts once.")
    unknown: Sequence[JobOriginOut] = Field(
        description="Checkpoints that lay at the location of one of these jobs when it was submitted, and that no "
        "known job saved: their cost is in none of the sums."
    )
    is_whole: bool = Field(description="False: jobs were left out, since there are more than 500.")


@router.get(
    "/jobs/{job_id}/lineage",
    summary="Add up the cost of a job's lineage",
    operation_id="readLineage",
    responses=NOT_FOUND,
)
def lineage(deps: Given, job_id: JobId) -> LineageResponse:
    """Lists the jobs that it started from, such as a pretraining, and those that started from it, such as fine-tunings.

    A job starts from another where its location held a checkpoint, or where an input, its command or its environment
    names an address in the place where the other stores its checkpoints or outputs. It is written down as the job is
    submitted.
    """
    with deps.database.read() as connection:
        accrual = accrual_at(connection, deps.clock.now())
        answer = lineage_of(connection, accrual, job_id)
    if answer is None:
        raise Missing(f"There is no job {job_id!r}.", "GET /api/v1/jobs lists them.")
    return LineageResponse.read(answer, as_of=accrual.now, price_note=accrual.price_note)
