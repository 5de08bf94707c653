"""Jobs as the API returns them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from fractions import Fraction
from typing import Annotated

from pydantic import BeforeValidator, Field

from costguard.api.fields import (
    Amount,
    AmountsAsOf,
    AsOf,
    Moment,
    Out,
    PriceNote,
    Provisioning,
    Seconds,
    Usd,
    one_of,
    read_from,
)
from costguard.api.goodput import GoodputOut
from costguard.api.job.attempts_shown import AttemptOut, InterruptionOut
from costguard.api.job.options import shows_options
from costguard.api.job.plan import StoredPlanOut
from costguard.api.job.progress import ProgressOut
from costguard.api.job.save_interval import SaveIntervalOut
from costguard.api.presets import RecipeOut
from costguard.model.attempt import AttemptState, Outcome
from costguard.model.delivery.tracker import Tracker
from costguard.model.job import JobKind, JobState
from costguard.model.reported.drill import Drill, DrillResult, DrillState, in_words


class JobVmOut(Out):
    """The VM of the latest attempt."""

    attempt: int = read_from("number", description="The attempt's number; 1 is the first.")
    name: str = Field(description="The VM's name.")
    zone: str
    provisioning_model: Provisioning = Field(description="spot or standard.")
    gce_id: str = Field(description="Google's numeric id; empty until it is known.")
    state: Annotated[str, one_of(AttemptState)] = Field(
        description="The attempt's state; ending and over: its outcome is known."
    )
    rate_per_hour: Usd | None = read_from(
        "rate", description="The hourly cost of VM and disk, as estimated at the launch."
    )


class KeptDiskOut(Out):
    """The disk of an ended job on a stopped VM. It holds the only copy of what the job saved, and it bills."""

    vm: str = read_from("attempt.name")
    zone: str = read_from("attempt.zone")
    gib: int
    holds: str = Field(description="The data that would be lost with it.")
    monthly: Usd | None = Field(description="The monthly cost; null: it has no price.")


class MetricValueOut(Out):
    value: float | None = Field(description="The value; null: it is not a finite number.")
    text: str = Field(description="The same as text, which may be `nan` or `inf`.", examples=["0.3417"])
    step: int | None = Field(description="The last step that was known by then; null: none.")
    at: Moment = Field(description="The time at which the agent read it.")


class BestCheckpointOut(Out):
    """The checkpoint with the best value of the metric, which is kept next to the newest ones."""

    place: str = Field(description="The address of the checkpoint.")
    step: int
    text: str = Field(description="The value of the last evaluation at or before its step.", examples=["0.3417"])


class SeenMetricOut(Out):
    """The values that the command has printed on all VMs."""

    better: Annotated[str, one_of(("lower", "higher"))]
    last: MetricValueOut
    best: MetricValueOut | None = Field(description="The best value; null: no value was finite.")
    kept: BestCheckpointOut | None = Field(description="The best checkpoint; null: none is known.")


class JobOut(Out):
    id: str = read_from("job.id")
    name: str = read_from("job.spec.name")
    title: str = read_from("job.title", description="The name, or the id where it has none.")
    kind: Annotated[str, one_of(JobKind)] = read_from(
        "job.spec.kind", description="`training`, or `dev`: a VM to work on."
    )
    state: Annotated[str, one_of(JobState)] = read_from("job.state")
    reason: str = read_from("job.reason", description="The reason for its state, and the next step.")
    owner: str = read_from("job.spec.owner")
    preset: str = read_from("job.spec.preset")
    project: str = read_from("job.spec.project")
    image: str = read_from("job.spec.image", description="The requested container image; empty: none.")
    image_digest: str = Field(description="The digest that was pulled, as sha256:...; empty before that.")
    command: Sequence[str] = read_from("job.spec.command")
    via: Annotated[str, one_of(("api", "cli", "page", "schedule"))] = read_from("job.via")
    schedule: str = read_from("job.spec.schedule", description="The schedule that launched it; empty: none.")
    created_at: Moment = read_from("job.created_at")
    settled_at: Moment | None = read_from("job.settled_at", description="The time at which it ended; null: it has not.")
    next_at: Moment | None = read_from(
        "job.next_at", description="The next time it is checked, unless there is news before."
    )
    cancel_asked_at: Moment | None = read_from("job.cancel_asked_at")
    cancel_asked_by: str = read_from("job.cancel_asked_by")
    cancel_after_at: Moment | None = read_from(
        "job.cancel_after_at", description="The time at which a cancel after its next checkpoint was requested."
    )
    cancel_after_by: str = read_from("job.cancel_after_by")
    never_mind_at: Moment | None = read_from(
        "job.never_mind_at",
        description=(
            'The time of the last "never mind": a standstill whose best value came before it is not hinted at.'
        ),
    )
    never_mind_by: str = read_from("job.never_mind_by")
    deadline: Moment | None = read_from("job.spec.deadline")
    ceiling: Usd | None = read_from("job.spec.ceiling")
    cost: Amount = Field(description="The cost of all its VMs with their disks, so far.")
    attempts: Annotated[int, BeforeValidator(len)]
    preemptions: int
    crashes: int
    step: int | None
    metric: SeenMetricOut | None = Field(
        description="The latest value of its metric; null: the job names none, or it has printed none yet."
    )
    place: JobVmOut | None = read_from(
        "last", description="The place of its latest VM; null: no VM has been requested yet."
    )
    kept_disk: KeptDiskOut | None = Field(
        description="The disk that was kept; null: none. POST /jobs/{job_id}/delete-disk deletes it."
    )


class KeptDisksOut(Out):
    """The kept disks of all ended jobs, also those that the filters exclude: each bills until it is deleted."""

    count: int
    monthly: Amount


class JobsResponse(AmountsAsOf):
    jobs: list[JobOut]
    kept_disks: KeptDisksOut
    next_cursor: str | None


@shows_options("checkpoint")
class CheckpointPlanOut(Out):
    """Where the command saves, how that is recognised, and how it resumes."""


@shows_options("metric")
class MetricOut(Out):
    """A number that the command prints."""


@shows_options("")
class JobSpecOut(Out):
    """The request, which never changes."""

    checkpoint: CheckpointPlanOut | None
    metric: MetricOut | None
    sweep: str = Field(description="The id of its sweep; empty: none.")


class CheckpointOut(Out):
    """The checkpoints found by the last look at the location."""

    looked_at: Moment
    resume_from: str = Field(description="The newest complete checkpoint that was seen; empty: there is none.")
    seen_at: Moment | None = Field(description="The last time at which it was seen complete, if later looks failed.")
    is_deleted: bool = Field(description="True: the checkpoint was on the disk of a VM that has been deleted.")
    step: int | None
    written_at: Moment | None
    advanced_at: Moment | None = Field(description="The time at which a newer checkpoint than before was first seen.")
    torn: Sequence[str] = Field(description="Newer checkpoints that were skipped, each with the reason.")
    error: str = Field(description="The reason why the look failed; the present contents are then unknown.")


class SeenCheckpointOut(Out):
    resume_from: str
    step: int | None
    written_at: Moment
    first_seen_at: Moment


class PaceOut(Out):
    steps: int | None = Field(description="The number of steps, without repeated work.")
    per_hour: Annotated[str | None, BeforeValidator(_one_place)] = Field(
        description="Steps per hour of the latest attempt whose steps are known."
    )
    cost_per_1000_steps: Usd | None = read_from(
        "cost_per_1000", description="The total cost per 1,000 steps, without repeated steps."
    )


class AtRiskOut(Out):
    """The work that would be repeated if the VM were lost now."""

    seconds: Seconds = read_from("span")
    cost: Usd | None
    since: Moment


class LostOut(Out):
    """The work that has been lost so far."""

    seconds: Seconds = read_from("span")
    cost: Usd
    from_zero: int = Field(description="The number of times that there was no checkpoint to resume from.")


class RoundOut(Out):
    """A round of a job of several VMs: what all of them did together, from one checkpoint."""

    number: int
    released_at: Moment | None = Field(description="The time at which its VMs were released to begin.")
    vms: int | None = Field(description="The number of VMs that ran it; null: an earlier version recorded it.")
    started_at: Moment | None = Field(
        description="The time at which the last of its commands had begun; null: not all of them have."
    )
    ended_at: Moment | None = Field(description="The time at which the first of its commands ended; null: it goes on.")
    outcome: Annotated[str, one_of(Outcome)] | None = Field(
        description="The outcome of the VM that ended the round; null: the round goes on, or it is not known."
    )
    reason: str = Field(description="The reason why it ended; empty: it goes on, or all of its commands succeeded.")
    resume_from: str = Field(description="The checkpoint that it resumed from; empty: none, it began from the start.")
    resume_step: int | None
    step: int | None = Field(description="The last step that node 0 reported in it.")
    lost_seconds: Seconds | None = read_from(
        "lost", description="The work since the checkpoint that the next round resumed from; null: not known."
    )
    lost_cost: Usd | None
    from_zero: bool = Field(description="True: the next round had no checkpoint to resume from.")


class DrillOut(Out):
    """A preemption drill: the command gets a notice on purpose.

    Seconds count from the notice; `resumed_seconds` from the start after it.
    """

    number: int
    requested_at: Moment
    requested_by: str
    state: Annotated[str, one_of(DrillState)]
    result: Annotated[str, one_of(DrillResult)] | None = Field(
        description="The outcome of the attempt; null: not known yet."
    )
    text: str = Field(description="The result in words.")
    began_at: Moment | None
    ended_at: Moment | None
    grace_seconds: float | None = Field(description="The time that a preemption leaves the command, in seconds.")
    saved_seconds: float | None = Field(description="The time until a checkpoint was complete, in seconds.")
    uploaded_seconds: float | None = Field(
        description="The time until that checkpoint was at the location, where it is uploaded, in seconds."
    )
    resumed_seconds: float | None = Field(description="The time until the command continued, in seconds.")
    goes_on: str = Field(description="Whether the command continued from that checkpoint: yes, no, unknown, or empty.")
    checkpoint: str
    step: int | None = Field(description="The step of that checkpoint.")
    step_before: int | None = Field(description="The step of the newest checkpoint before the notice.")
    was_killed: bool = Field(description="True: the command did not end by itself.")

    @classmethod
    def of(cls, drill: Drill) -> DrillOut:
        spans = {name: getattr(drill, name) for name in ("grace", "saved", "uploaded", "resumed")}
        seconds = {
            f"{name}_seconds": None if span is None else span / timedelta(seconds=1) for name, span in spans.items()
        }
        return cls.read(drill, text=in_words(drill), **seconds)


class SavedOnNoticeOut(Out):
    """The number of checkpoints saved on a notice, in drills and in announced preemptions."""

    saved: int
    times: int
    drills: int = Field(description="The number of drills in `times`.")
    text: str = Field(examples=["saved on notice 3 of 5 times"])
    save: str = Field(
        description="Whether a save fits in the notice of a preemption; empty: not known.",
        examples=["a save takes 60 s and fits in the notice of 120 s"],
    )


class StandstillOut(Out):
    """A metric that seems to stand still: a hint, nothing acts on it."""

    metric: str = read_from("name")
    gained: float = Field(description="The gain since then, as a share of the whole gain.")
    since: Moment
    until: Moment = Field(description="The time of the last evaluation.")
    cost: Usd | None = Field(
        description="The cost of the time since its best value, at the last VM's rate; null: not known."
    )
    best: float
    best_at: Moment
    unit: str | None = Field(description="The unit of `best_done`, such as step.")
    best_done: float | None = Field(description="The position of its best value, in `unit`.")
    saved_in: str = Field(description="The complete checkpoint nearest to its best; empty: none is known.")
    text: str


class TrackedRunOut(Out):
    """A run of an experiment tracker to which the job's cost is logged."""

    tracker: Annotated[str, one_of(Tracker)]
    run: str
    waiting: int = Field(description="The number of points to be logged.")
    logged_at: Moment | None = Field(
        description="The last time at which the tracker accepted points; null: it has not yet."
    )
    error: str = Field(description="The reason why the last try failed; empty: it did not.")


class JobResponse(AmountsAsOf):
    price_note: PriceNote
    job: JobOut = read_from("row")
    spec: JobSpecOut = read_from("row.job.spec")
    recipe: RecipeOut = read_from("row.job.recipe")
    attempts: list[AttemptOut]
    interruptions: list[InterruptionOut]
    checkpoint: CheckpointOut | None
    checkpoints: Sequence[SeenCheckpointOut] = read_from(
        "seen", description="The complete checkpoints, the oldest first."
    )
    pace: PaceOut
    work_at_risk: AtRiskOut | None = Field(
        description="The work since the newest checkpoint; null: no command is running."
    )
    lost: LostOut
    vm_seconds: Seconds = read_from(
        "vm_time", description="The time for which its VMs have run, added up over all of them and all attempts."
    )
    rounds: Sequence[RoundOut] = Field(
        description="The rounds of a job of several VMs, the oldest first; empty for a job of one VM."
    )
    drills: Sequence[DrillOut] = Field(description="The drills, the newest first.")
    on_notice: SavedOnNoticeOut
    save_interval: SaveIntervalOut | None = Field(
        description="The checkpoint interval in use next to the best; null: the interval, the time of a save or the "
        "price is not known, or its VM is not preempted."
    )
    kept_disk: KeptDiskOut | None = read_from(
        "row.kept_disk", description="The disk that was kept; null: none. POST /jobs/{job_id}/delete-disk deletes it."
    )
    bound: str | None = Field(
        description=(
            "The bottleneck of its present run, in words; null: not known. GET /jobs/{job_id}/diagnosis has "
            "the whole diagnosis."
        )
    )
    standstill: StandstillOut | None = Field(
        description=(
            "The standstill of its metric; null: its metric improves, noise hides that, or a user has decided "
            "on it: see `never_mind_at`."
        )
    )
    progress: ProgressOut | None = Field(
        description=(
            "The progress read in its output; null: nothing was read yet. GET /jobs/{job_id}/progress has its curves."
        )
    )
    goodput: GoodputOut | None = Field(description="The time and cost of the job by use; null for a development VM.")
    plan: StoredPlanOut | None = Field(
        description="The plan of a job with a deadline; null: nothing is planned for it."
    )
    trackers: list[TrackedRunOut] = Field(description="The runs of experiment trackers that it names.")
    next: str = Field(description="The next step if its VM is lost, or once it gets one; empty: nothing.")
    ssh_command: str | None = Field(description="The command that opens a shell on its VM; null: there is no VM.")
    notebook_command: str | None = Field(description="The command that forwards port 8888 of a development VM.")


class AttemptsResponse(AsOf):
    job: str
    attempts: list[AttemptOut]


def _one_place(speed: Fraction | None) -> str | None:
    return None if speed is None else f"{float(speed):.1f}"
