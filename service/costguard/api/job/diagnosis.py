"""Routes for the bottleneck of a job: its verdicts with their figures, the advice, and the expected saving."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, Field

from costguard.api.deps import Given
from costguard.api.fields import AmountsAsOf, Moment, Out, Seconds, Usd, one_of, read_from
from costguard.api.job_id import JobId
from costguard.api.route import NOT_FOUND, routes
from costguard.errors import Missing
from costguard.jobs.reports.checkpoints import save_interval
from costguard.jobs.reports.diagnosis import diagnosis_of
from costguard.ledger.accrual import accrual_at
from costguard_vm.diagnosis.kinds import BOUNDS, BoundVerdict
from costguard_vm.diagnosis.words import headline, value_text

router = routes("jobs")


class BoundNumberOut(Out):
    name: str = Field(examples=["without a kernel"])
    value: float = Field(examples=[0.63])
    unit: Annotated[str, one_of(("share", "cores", "count", "bytes_per_s", "looks"))]
    text: str = Field(examples=["63%"])


class BoundStretchOut(Out):
    """Consecutive windows of five minutes with the same verdict."""

    bound: Annotated[str, one_of(BOUNDS)] = read_from("verdict.bound")
    cause: str | None = read_from(
        "verdict.cause", description="The cause of the bound; null: only the bound is known.", examples=["workers"]
    )
    text: Annotated[str, BeforeValidator(lambda verdict: _text(verdict))] = read_from(
        "verdict",
        description='The bound in words that follow "bound by".',
        examples=["its input (too few loader workers)"],
    )
    share: float | None = read_from(
        "verdict.share",
        description="The mean share of time that the bound costs, or in which it held; null: not known.",
    )
    numbers: Annotated[list[BoundNumberOut], BeforeValidator(lambda verdict: _numbers(verdict))] = read_from(
        "verdict", description="The measurements of the last window that the verdict rests on."
    )
    why: str = read_from("verdict.why")
    advice: str = Field(description="A line of advice; empty: none.")
    since: Moment
    until: Moment
    windows: int = Field(description="The number of windows. The verdict holds from two on.")
    steps_per_s: float | None = Field(description="Steps per second; null: its steps are not known.")


class PromisedSavingOut(Out):
    """A saving at best, shown as "up to"."""

    share: float = Field(description="The saving as a share of the time that is left.")
    per_hour: Usd | None = Field(description="The saving on each hour of its VM; null: it has no price.")
    total: Usd | None = Field(description="The saving on the rest of the run; null: its length is not known.")
    seconds: Seconds | None = read_from("span")


class LargerVmOut(Out):
    machine_type: str
    vcpus: int
    more_per_hour: Usd = read_from(
        "more", description="The additional hourly cost over the job's VM, with the same GPUs."
    )


class NextMachineOut(Out):
    """The machine to try next: of a preset, or else a machine type that has a price."""

    preset: str = read_from("machine.preset", description="The preset that launches it; empty: none does.")
    machine_type: str = read_from("machine.machine_type")
    gpu_type: str = read_from("machine.gpu_type")
    gpu_count: int = read_from("machine.gpu_count")
    rate_per_hour: Usd = read_from("rate")
    cost_per_1000_steps: Usd | None = read_from(
        "per_1000_steps",
        description="The estimated cost of 1,000 steps there, from the ratio of the data sheets' peaks (of bandwidths "
        "where memory bandwidth is the bound); null: its pace is not known, or memory is the bound.",
    )
    cost_now_per_1000_steps: Usd | None = read_from("now", description="The cost of 1,000 steps at the present pace.")


class AchievedSavingOut(Out):
    """The cost of a step next to an earlier job's, as if a step did as much work in both jobs."""

    job: str = read_from("job_id", description="The earlier job with the same owner, preset and script.")
    bound: str = Field(description="The bound of the earlier job.")
    promised: float | None
    share: float = Field(description="The share by which a step costs less now; negative if it costs more.")
    faster: float = Field(description="Steps per second of this job, divided by those of the earlier one.")


class StragglerOut(Out):
    """The VM of a job of several for which the others wait."""

    node: int
    vm: str = read_from("name")
    gpu: int | None = Field(description="The number of its GPU, where one of several is slow.")
    since: Moment = Field(description="The beginning of the minutes that show it.")
    until: Moment
    bound: Annotated[str, one_of(BOUNDS)] = read_from("verdict.bound", description="The bottleneck that slows it.")
    cause: str | None = read_from("verdict.cause")
    numbers: Annotated[list[BoundNumberOut], BeforeValidator(lambda verdict: _numbers(verdict))] = read_from("verdict")
    text: str = Field(examples=["node 2 (cg-j7k2m9q4-3) holds up the others: its input, its loader waits for the disk"])


class DiagnosisResponse(AmountsAsOf):
    job: str = read_from("job.id")
    held: BoundStretchOut | None = Field(description="The latest verdict that held for two windows; null: none has.")
    is_current: bool = Field(description="True: the command runs, and the last window has the same verdict.")
    advice: str = Field(description="Advice, with the larger VM or the machine to try next that it names.")
    saving: PromisedSavingOut | None = Field(description="The expected saving of a remedy; null: not known.")
    saving_text: str
    checkpoints: str = Field(
        description="Advice on the checkpoint interval where another saves more than 2% of the cost; empty: none."
    )
    larger_vm: LargerVmOut | None = read_from("larger")
    next_machine: NextMachineOut | None = read_from(
        "next", description="The machine to try next; null: the bound names none, or none is priced."
    )
    achieved: AchievedSavingOut | None = Field(
        description="The saving over an earlier job; null: no earlier job compares."
    )
    achieved_text: str
    stretches: list[BoundStretchOut] = Field(description="The stretches of windows, the newest first.")
    straggler: StragglerOut | None = Field(
        description="The VM for which the others of a job of several VMs wait now; null: none, or it is not known."
    )
    minutes: Annotated[int, BeforeValidator(len)] = Field(
        description="The minutes that were measured in the last hour of its latest VM."
    )
    why_none: str = Field(description="The reason why no verdict has held yet.")


@router.get(
    "/jobs/{job_id}/diagnosis",
    summary="Get what bounds a job",
    operation_id="getDiagnosis",
    responses=NOT_FOUND,
)
def diagnosis(deps: Given, job_id: JobId) -> DiagnosisResponse:
    """Diagnoses the bottleneck from the measurements of the agent on the VM. Nothing acts on it.

    Unread measurements are unknown.
    """
    with deps.database.read() as connection:
        accrual = accrual_at(connection, deps.clock.now())
        answer = diagnosis_of(connection, accrual, job_id)
        interval = save_interval.advice_of(connection, accrual.now, job_id)
    if answer is None:
        raise Missing(f"There is no job {job_id!r}.", "GET /api/v1/jobs lists all jobs.")
    if deps.jobs is not None:
        answer = deps.jobs.with_next_machine(answer, accrual)
    checkpoints = interval.text if interval is not None and interval.is_worth else ""
    return DiagnosisResponse.read(answer, as_of=accrual.now, checkpoints=checkpoints)


def _text(verdict: object) -> object:
    return headline(verdict) if isinstance(verdict, BoundVerdict) else verdict


def _numbers(verdict: object) -> object:
    if not isinstance(verdict, BoundVerdict):
        return verdict
    return [
        BoundNumberOut(name=one.name, value=one.value, unit=one.unit, text=value_text(one)) for one in verdict.numbers
    ]
