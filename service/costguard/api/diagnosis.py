"""What bounds a job: its verdicts with the numbers they rest on, the advice, and what mending it saves."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, Field

from costguard.api.deps import Given
from costguard.api.fields import CURRENCY, Moment, Out, Seconds, Usd, one_of, read_from
from costguard.api.job_id import JobId
from costguard.api.route import routes
from costguard.errors import Missing
from costguard.jobs.diagnosis import diagnosis_of
from costguard.ledger.accrual import accrual_at
from costguard.web.problems import NOT_FOUND
from costguard_vm.diagnosis.kinds import BOUNDS, BoundVerdict
from costguard_vm.diagnosis.words import headline, value_text

router = routes("jobs")


class BoundNumberOut(Out):
    name: str = Field(examples=["without a kernel"])
    value: float = Field(examples=[0.63])
    unit: Annotated[str, one_of(("share", "cores", "count", "bytes_per_s", "looks"))]
    text: str = Field(examples=["63%"])


class BoundStretchOut(Out):
    """Windows of five minutes in a row with the same verdict."""

    bound: Annotated[str, one_of(BOUNDS)] = read_from("verdict.bound")
    cause: str | None = read_from("verdict.cause", description="null: the bound alone is known.", examples=["workers"])
    text: Annotated[str, BeforeValidator(lambda verdict: _text(verdict))] = read_from(
        "verdict", description='In words, after "bound by".', examples=["its input (too few loader workers)"]
    )
    share: float | None = read_from(
        "verdict.share", description="Of the time that it costs, or in which it held, on average; null: not known."
    )
    numbers: Annotated[list[BoundNumberOut], BeforeValidator(lambda verdict: _numbers(verdict))] = read_from(
        "verdict", description="What the verdict rests on, of the last window."
    )
    why: str = read_from("verdict.why")
    advice: str = Field(description="One line; empty: none.")
    since: Moment
    until: Moment
    windows: int = Field(description="From two on the verdict holds.")
    steps_per_s: float | None = Field(description="null: its steps are not known.")


class PromisedSavingOut(Out):
    """At best, "up to"."""

    share: float = Field(description="Of the time that is left.")
    per_hour: Usd | None = Field(description="Of each hour of its VM; null: it has no price.")
    total: Usd | None = Field(description="Of what is left of the run; null: how long that takes is not known.")
    seconds: Seconds | None = read_from("span")


class LargerVmOut(Out):
    machine_type: str
    vcpus: int
    more_per_hour: Usd = read_from("more", description="Than the VM that the job has, with the same GPUs.")


class AchievedSavingOut(Out):
    """By the cost of a step, if a step does as much work in both jobs."""

    job: str = read_from("job_id", description="The earlier job with the same owner, preset and script.")
    bound: str = Field(description="What bound that one.")
    promised: float | None
    share: float = Field(description="How much less a step costs; below zero: more.")
    faster: float = Field(description="Steps per second, now over then.")


class DiagnosisResponse(Out):
    as_of: Moment
    currency: str = CURRENCY
    job: str = read_from("job.id")
    held: BoundStretchOut | None = Field(description="The latest verdict that held for two windows; null: none has.")
    is_current: bool = Field(description="Whether the last window says the same, of a command that runs.")
    advice: str = Field(description="With the next larger VM, where processors are what is missing.")
    saving: PromisedSavingOut | None = Field(description="null: what mending it saves is not known.")
    saving_text: str
    larger_vm: LargerVmOut | None = read_from("larger")
    achieved: AchievedSavingOut | None = Field(description="null: no earlier job compares.")
    achieved_text: str
    stretches: list[BoundStretchOut] = Field(description="The newest first.")
    minutes: Annotated[int, BeforeValidator(len)] = Field(description="Measured in the last hour of its latest VM.")
    why_none: str = Field(description="Why no verdict has held yet.")


@router.get(
    "/jobs/{job_id}/diagnosis",
    summary="Get what bounds a job",
    operation_id="getDiagnosis",
    responses=NOT_FOUND,
)
def diagnosis(deps: Given, job_id: JobId) -> DiagnosisResponse:
    """Judged from what its agent measures on the VM; nothing acts on it. What cannot be read is unknown."""
    with deps.database.read() as connection:
        accrual = accrual_at(connection, deps.clock.now())
        answer = diagnosis_of(connection, accrual, job_id)
    if answer is None:
        raise Missing(f"There is no job {job_id!r}.", "GET /api/v1/jobs lists all jobs.")
    return DiagnosisResponse.read(answer, as_of=accrual.now)


def _text(verdict: object) -> object:
    return headline(verdict) if isinstance(verdict, BoundVerdict) else verdict


def _numbers(verdict: object) -> object:
    if not isinstance(verdict, BoundVerdict):
        return verdict
    return [
        BoundNumberOut(name=one.name, value=one.value, unit=one.unit, text=value_text(one)) for one in verdict.numbers
    ]
