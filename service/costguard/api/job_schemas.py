"""Jobs as the API returns them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from fractions import Fraction
from typing import Annotated

from pydantic import BeforeValidator, Field

from costguard.api.attempts import AttemptOut, InterruptionOut
from costguard.api.fields import (
    CURRENCY,
    Amount,
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
from costguard.api.job_plan import StoredPlanOut
from costguard.api.presets import RecipeOut
from costguard.api.progress import ProgressOut
from costguard.model.attempt import AttemptState
from costguard.model.drill import Drill, DrillResult, DrillState, in_words
from costguard.model.job import JobKind, JobState, OnHang, WhenLate
from costguard.model.tracker import Tracker
from costguard_vm.model.checkpoint import Framework


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
    rate_per_hour: Usd | None = read_from("rate", description="VM and disk, as estimated at the launch.")


class KeptDiskOut(Out):
    """The disk of an ended job on a stopped VM. It holds the only copy of what the job saved, and it bills."""

    vm: str = read_from("attempt.name")
    zone: str = read_from("attempt.zone")
    gib: int
    holds: str = Field(description="What would be lost with it.")
    monthly: Usd | None = Field(description="null: it has no price.")


class MetricValueOut(Out):
    value: float | None = Field(description="null: it is not a finite number.")
    text: str = Field(description="The same as text, which may be nan or inf.", examples=["0.3417"])
    step: int | None = Field(description="The last step that was known by then; null: none.")
    at: Moment = Field(description="When the agent read it.")


class SeenMetricOut(Out):
    """What the command printed so far, on all VMs."""

    better: Annotated[str, one_of(("lower", "higher"))]
    last: MetricValueOut
    best: MetricValueOut | None = Field(description="null: no value was finite.")


class JobOut(Out):
    id: str = read_from("job.id")
    name: str = read_from("job.spec.name")
    title: str = read_from("job.title", description="The name, or the id where it has none.")
    kind: Annotated[str, one_of(JobKind)] = read_from("job.spec.kind", description="training, or dev: a VM to work on.")
    state: Annotated[str, one_of(JobState)] = read_from("job.state")
    reason: str = read_from("job.reason", description="Why it is in this state, and what comes next.")
    owner: str = read_from("job.spec.owner")
    preset: str = read_from("job.spec.preset")
    project: str = read_from("job.spec.project")
    image: str = read_from("job.spec.image", description="The requested container image; empty: none.")
    image_digest: str = Field(description="The digest that was pulled: sha256:...; empty before that.")
    command: Sequence[str] = read_from("job.spec.command")
    via: Annotated[str, one_of(("api", "cli", "page"))] = read_from("job.via")
    created_at: Moment = read_from("job.created_at")
    settled_at: Moment | None = read_from("job.settled_at", description="When it ended; null: it has not.")
    next_at: Moment | None = read_from(
        "job.next_at", description="The next time it is checked, unless there is news before."
    )
    cancel_asked_at: Moment | None = read_from("job.cancel_asked_at")
    cancel_asked_by: str = read_from("job.cancel_asked_by")
    cancel_after_at: Moment | None = read_from(
        "job.cancel_after_at", description="When a cancel after its next checkpoint was requested."
    )
    cancel_after_by: str = read_from("job.cancel_after_by")
    never_mind_at: Moment | None = read_from(
        "job.never_mind_at", description="A standstill whose best value came before is not hinted at."
    )
    never_mind_by: str = read_from("job.never_mind_by")
    deadline: Moment | None = read_from("job.spec.deadline")
    ceiling: Usd | None = read_from("job.spec.ceiling")
    cost: Amount = Field(description="All its VMs with their disks, so far.")
    attempts: Annotated[int, BeforeValidator(len)]
    preemptions: int
    crashes: int
    step: int | None
    metric: SeenMetricOut | None = Field(description="null: the job names none, or it has printed none yet.")
    place: JobVmOut | None = read_from("last", description="null: no VM has been requested yet.")
    kept_disk: KeptDiskOut | None = Field(description="null: none is kept. POST /jobs/{job_id}/delete-disk deletes it.")


class KeptDisksOut(Out):
    """The kept disks of all ended jobs, whatever the filters: each bills until it is deleted."""

    count: int
    monthly: Amount


class JobsResponse(Out):
    as_of: Moment
    currency: str = CURRENCY
    jobs: list[JobOut]
    kept_disks: KeptDisksOut
    next_cursor: str | None


class CheckpointPlanOut(Out):
    location: str
    resume: str
    framework: Annotated[str, one_of(Framework)] | None = read_from("look_for.framework")
    pattern: str = read_from("look_for.pattern")
    marker: str = read_from("look_for.marker")
    local: str = Field(description="The folder or file on the VM whose checkpoints are uploaded; empty: none is.")
    keep: int = Field(description="With local: how many complete checkpoints stay at the location; 0: all.")
    uploads_itself: bool = Field(description="The command writes to the location by itself.")


class InputOut(Out):
    source: str
    path: str = Field(description="On the VM.")


class OutputOut(Out):
    path: str = Field(description="On the VM.")
    destination: str


class CodeOut(Out):
    """The archive of a work directory, and the state of its repository when it was packed."""

    sha256: str
    size: int = Field(description="Bytes, packed.")
    files: int
    commit: str = Field(description="Empty outside of a repository.")
    branch: str
    diff: str = Field(description="What was not committed, cut where it is long.")


class MetricOut(Out):
    pattern: str
    better: Annotated[str, one_of(("lower", "higher"))]


class JobSpecOut(Out):
    """The request, which never changes."""

    environment: Mapping[str, str]
    secrets: Mapping[str, str] = Field(description="References, never values.")
    workdir: str
    mounts: Sequence[str]
    checkpoint: CheckpointPlanOut | None
    step_pattern: str
    pull: bool = Field(description="Whether each VM resolves the image's tag again.")
    work_seconds: Seconds | None = read_from("work")
    deadline_in_seconds: Seconds | None = read_from("deadline_in", description="From its launch on.")
    total_steps: int | None
    when_late: WhenLate
    on_hang: OnHang
    stacks: bool
    drill: bool
    max_preemptions: int
    max_crashes: int
    inputs: Sequence[InputOut] = Field(description="Downloaded before the command starts.")
    outputs: Sequence[OutputOut] = Field(description="Published when the command has succeeded.")
    code: CodeOut | None = Field(description="null: its code is in the image, or on the VM already.")
    setup: str = Field(description="The shell command that runs once on each VM before the command.")
    aws_role: str
    bandwidth_mib_s: int | None = Field(description="The most for uploads and downloads; null: no limit.")
    metric: MetricOut | None
    mlflow_run: str = Field(description="The MLflow run that its cost is logged to; empty: none.")
    wandb_run: str = Field(description="The W&B run whose summary shows its cost; empty: none.")
    sweep: str = Field(description="The id of its sweep; empty: none.")


class CheckpointOut(Out):
    """What the last look at the location found."""

    looked_at: Moment
    resume_from: str = Field(description="The newest complete checkpoint that was seen; empty: there is none.")
    seen_at: Moment | None = Field(description="When it was last seen complete: later looks failed.")
    is_deleted: bool = Field(description="It was on the disk of a VM that has been deleted.")
    step: int | None
    written_at: Moment | None
    advanced_at: Moment | None = Field(description="When one newer than before was first seen.")
    torn: Sequence[str] = Field(description="Newer ones that were skipped, and why.")
    error: str = Field(description="Why the look failed; the present contents are then unknown.")


class SeenCheckpointOut(Out):
    resume_from: str
    step: int | None
    written_at: Moment
    first_seen_at: Moment


class PaceOut(Out):
    steps: int | None = Field(description="Without repeated work.")
    per_hour: Annotated[str | None, BeforeValidator(_one_place)] = Field(
        description="Of the latest attempt whose steps are known."
    )
    cost_per_1000_steps: Usd | None = read_from("cost_per_1000", description="The total cost by the steps that count.")


class AtRiskOut(Out):
    """The work that would be repeated if the VM were lost now."""

    seconds: Seconds = read_from("span")
    cost: Usd | None
    since: Moment


class LostOut(Out):
    """The work that has been lost so far."""

    seconds: Seconds = read_from("span")
    cost: Usd
    from_zero: int = Field(description="How often there was no checkpoint to resume from.")


class DrillOut(Out):
    """A notice of a preemption on purpose. Seconds count from it; `resumed_seconds` from the start after it."""

    number: int
    requested_at: Moment
    requested_by: str
    state: Annotated[str, one_of(DrillState)]
    result: Annotated[str, one_of(DrillResult)] | None = Field(description="null: not known yet.")
    text: str = Field(description="The result in words.")
    began_at: Moment | None
    ended_at: Moment | None
    grace_seconds: float | None = Field(description="What a preemption leaves the command.")
    saved_seconds: float | None = Field(description="Until a checkpoint was complete.")
    uploaded_seconds: float | None = Field(description="Until it was at the location, where it travels.")
    resumed_seconds: float | None = Field(description="Until the command went on.")
    goes_on: str = Field(description="yes, no, unknown, or empty: whether the command went on from there.")
    checkpoint: str
    step: int | None = Field(description="Of that checkpoint.")
    step_before: int | None = Field(description="Of the newest checkpoint before the notice.")
    was_killed: bool = Field(description="The command did not end by itself.")

    @classmethod
    def of(cls, drill: Drill) -> DrillOut:
        spans = {name: getattr(drill, name) for name in ("grace", "saved", "uploaded", "resumed")}
        seconds = {
            f"{name}_seconds": None if span is None else span / timedelta(seconds=1) for name, span in spans.items()
        }
        return cls.read(drill, text=in_words(drill), **seconds)


class SavedOnNoticeOut(Out):
    """How often a checkpoint was saved on a notice, in drills and in announced preemptions."""

    saved: int
    times: int
    drills: int = Field(description="Of `times`.")
    text: str = Field(examples=["saved on notice 3 of 5 times"])


class StandstillOut(Out):
    """A metric that seems to stand still: a hint, nothing acts on it."""

    metric: str = read_from("name")
    gained: float = Field(description="Since then, as a share of all its gain.")
    since: Moment
    until: Moment = Field(description="The last evaluation.")
    cost: Usd | None = Field(description="Of that time, at the last VM's rate; null: not known.")
    best: float
    best_at: Moment
    unit: str | None = Field(description="Of `best_done`, such as step.")
    best_done: float | None = Field(description="Where its best was reached.")
    saved_in: str = Field(description="The complete checkpoint nearest to its best; empty: none is known.")
    text: str


class TrackedRunOut(Out):
    """A run of an experiment tracker that its cost is logged to."""

    tracker: Annotated[str, one_of(Tracker)]
    run: str
    waiting: int = Field(description="How many points are to be logged.")
    logged_at: Moment | None = Field(description="When the tracker accepted some last; null: it has not yet.")
    error: str = Field(description="Why the last try failed; empty: it did not.")


class JobResponse(Out):
    as_of: Moment
    currency: str = CURRENCY
    price_note: PriceNote
    job: JobOut = read_from("row")
    spec: JobSpecOut = read_from("row.job.spec")
    recipe: RecipeOut = read_from("row.job.recipe")
    attempts: list[AttemptOut]
    interruptions: list[InterruptionOut]
    checkpoint: CheckpointOut | None
    checkpoints: Sequence[SeenCheckpointOut] = read_from("seen", description="Complete ones, the oldest first.")
    pace: PaceOut
    work_at_risk: AtRiskOut | None = Field(description="null: no command is running.")
    lost: LostOut
    drills: Sequence[DrillOut] = Field(description="The newest first.")
    on_notice: SavedOnNoticeOut
    kept_disk: KeptDiskOut | None = read_from(
        "row.kept_disk", description="null: none is kept. POST /jobs/{job_id}/delete-disk deletes it."
    )
    bound: str | None = Field(
        description="What bounds its run now, in words; null: not known. GET /jobs/{job_id}/diagnosis has it whole."
    )
    standstill: StandstillOut | None = Field(
        description="null: its metric improves, noise hides that, or a user has decided on it: see `never_mind_at`."
    )
    progress: ProgressOut | None = Field(
        description="null: nothing was read of it yet. GET /jobs/{job_id}/progress has its curves."
    )
    goodput: GoodputOut | None = Field(description="What its time and cost went into; null for a development VM.")
    plan: StoredPlanOut | None = Field(description="Of a job with a deadline; null: nothing is planned for it.")
    trackers: list[TrackedRunOut] = Field(description="The runs of experiment trackers that it names.")
    next: str = Field(description="What happens if its VM is lost, or once it gets one; empty: nothing.")
    ssh_command: str | None = Field(description="null: there is no VM.")
    notebook_command: str | None = Field(description="For a development VM: forwards its port 8888.")


class AttemptsResponse(Out):
    as_of: Moment
    job: str
    attempts: list[AttemptOut]


def _one_place(speed: Fraction | None) -> str | None:
    return None if speed is None else f"{float(speed):.1f}"
