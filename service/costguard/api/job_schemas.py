"""The answers about jobs."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from costguard.api.fields import CURRENCY, Amount, Moment, Out, Provisioning, Usd, one_of
from costguard.jobs.disk import DiskState
from costguard.model.attempt import AttemptState, Notice, Outcome
from costguard.model.checkpoint import Framework
from costguard.model.job import JobKind, JobState


class VmPlace(Out):
    """Where its VM is: that of the latest attempt."""

    attempt: int = Field(description="Its number; 1 is the first.")
    name: str = Field(description="Of the VM.")
    zone: str
    provisioning_model: Provisioning = Field(description="spot or standard.")
    gce_id: str = Field(description="Google's numeric id; empty until it is known.")
    state: Annotated[str, one_of(AttemptState)] = Field(
        description="Of the attempt; ending and over: its outcome is known."
    )
    rate_per_hour: Usd | None = Field(description="Machine and disk, as estimated at its launch.")


class KeptDisk(Out):
    """The disk of a job that is over, on a stopped VM: it holds the only copy of what the job saved, and it bills."""

    vm: str
    zone: str
    gib: int
    holds: str = Field(description="What would be lost with it.")
    monthly: Usd | None = Field(description="null: it has no price.")


class Job(Out):
    id: str
    name: str
    title: str = Field(description="The name, or the id where it has none.")
    kind: Annotated[str, one_of(JobKind)] = Field(description="training, or dev: a VM to work on.")
    state: Annotated[str, one_of(JobState)]
    reason: str = Field(description="Why it is in its state, and what comes next.")
    owner: str
    preset: str
    project: str
    image: str = Field(description="As it was asked for: a container image by tag or digest; empty: the VM itself.")
    image_digest: str = Field(description="What that image was when it was pulled: sha256:...; empty before that.")
    command: list[str]
    via: Annotated[str, one_of(("api", "cli", "page"))]
    created_at: Moment
    settled_at: Moment | None = Field(description="When it was over; null: it is not.")
    next_at: Moment | None = Field(description="Nothing is done for it before, unless there is news.")
    cancel_asked_at: Moment | None
    cancel_asked_by: str
    deadline: Moment | None
    ceiling: Usd | None
    cost: Amount = Field(description="All its VMs with their disks, so far.")
    attempts: int
    preemptions: int
    crashes: int
    step: int | None
    place: VmPlace | None = Field(description="null: no VM was asked for yet.")
    kept_disk: KeptDisk | None = Field(description="null: none is kept. POST /jobs/{job_id}/delete-disk deletes it.")


class KeptDisks(Out):
    """Disks of all jobs that are over, whatever was asked for here: each bills until it is deleted."""

    count: int
    monthly: Amount


class Jobs(Out):
    as_of: Moment
    currency: str = CURRENCY
    jobs: list[Job]
    kept_disks: KeptDisks
    next_cursor: str | None


class Plan(Out):
    location: str
    resume: str
    framework: Annotated[str, one_of(Framework)] | None
    pattern: str
    marker: str


class Spec(Out):
    """What was asked for; it never changes."""

    environment: dict[str, str]
    secrets: dict[str, str] = Field(description="References, never values.")
    workdir: str
    mounts: list[str]
    checkpoint: Plan | None
    step_pattern: str
    pull: bool = Field(description="Whether each VM asks for the image's tag again.")
    expected_seconds: int | None
    max_preemptions: int
    max_crashes: int


class Recipe(Out):
    machine_type: str
    gpu_type: str
    gpu_count: int
    zones: list[str] = Field(description="In the order in which they are preferred where nothing else decides.")
    image: str = Field(description="What it boots from.")
    provisioning_model: Provisioning
    falls_back_to_on_demand: bool = Field(description="Once every zone was out of stock.")
    max_run_seconds: int = Field(description="Google ends each VM after so long.")
    disk_gib: int
    disk_type: str
    service_account: str = Field(description="Empty: the VM may call nothing of Google's.")
    network: str
    subnetwork: str
    external_address: bool
    labels: dict[str, str]


class Exit(Out):
    """The agent's last word about a run."""

    reason: Annotated[str, one_of(("exited", "not_started", "cut_off"))]
    code: int | None
    signal: int | None
    error: str
    repeats: bool = Field(description="Whether the same would happen on every VM: it is not tried again then.")
    asked: str = Field(description="Why the command had been told to stop; empty where it ended by itself.")
    at: Moment


class Disk(Out):
    """The filesystem of the VM that holds what the command writes, unless that is mounted from elsewhere."""

    state: Annotated[str, one_of(DiskState)]
    mount: str = Field(examples=["/"])
    free_bytes: int
    total_bytes: int | None
    text: str = Field(description="`disk full: 0 bytes left on /`; empty while there is room.")


class Attempt(Out):
    """One VM. What its agent told is of its latest run."""

    number: int
    name: str
    project: str
    zone: str
    provisioning_model: Provisioning
    state: Annotated[str, one_of(AttemptState)]
    outcome: Annotated[str, one_of(Outcome)] | None = Field(description="null: not known yet.")
    reason: str
    rate_per_hour: Usd | None
    max_run_seconds: int
    resume_from: str = Field(description="Empty: it starts from the beginning.")
    resume_step: int | None
    resume_why: str = Field(
        description="Why it did not resume from the newest complete checkpoint; empty where it did."
    )
    image: str = Field(description="What its VM is given: with a digest where one was known. Empty: no container.")
    image_digest: str = Field(description="What its VM pulled; empty before that.")
    intended_at: Moment
    asked_at: Moment | None
    made_at: Moment | None = Field(description="When its VM was known to be there.")
    started_at: Moment | None = Field(description="When the command began to run.")
    ended_at: Moment | None
    gone_at: Moment | None = Field(description="When its VM was known to be gone.")
    gce_id: str
    restarts: int = Field(description="How often the same VM was started again.")
    run: int
    heard_at: Moment | None
    step: int | None
    step_at: Moment | None
    noticed_at: Moment | None = Field(description="When the VM was told of its preemption.")
    stop_asked_at: Moment | None
    stop_why: str
    exit: Exit | None
    disk: Disk | None = Field(description="Of the attempt that was heard last; null: not known.")
    machine: dict[str, Any] = Field(description="Of the attempt that was heard last: what its agent measured.")
    error: str = Field(description="Of the last call to Google.")
    try_after: Moment | None


class Interruption(Out):
    """One run that ended before the work was done, counted once whatever told of it."""

    attempt: int
    run: int
    outcome: Annotated[str, one_of(Outcome)]
    happened_at: Moment
    noticed_at: Moment
    noticed_by: Annotated[str, one_of(Notice)] = Field(description="What reported it first.")
    requested_at: Moment | None = Field(description="When the next VM was asked of Google.")
    resumed_at: Moment | None = Field(description="When the command ran again.")
    lost_seconds: int | None = Field(description="Work since the checkpoint that was resumed from.")
    lost_cost: Usd | None
    from_zero: bool = Field(description="There was no checkpoint: all of the work was lost.")


class Checkpoint(Out):
    """What the last look at the location found."""

    looked_at: Moment
    resume_from: str = Field(description="The newest complete one that was seen; empty: there is none.")
    seen_at: Moment | None = Field(description="When it was last seen complete: looks after that have failed.")
    is_deleted: bool = Field(description="It lay on the disk of a VM that was deleted, and is not there any more.")
    step: int | None
    written_at: Moment | None
    advanced_at: Moment | None = Field(description="When one newer than before was first seen.")
    torn: list[str] = Field(description="Newer ones that were passed over, and why.")
    error: str = Field(description="Why nobody could look; what lies there is then not known.")


class SeenCheckpoint(Out):
    resume_from: str
    step: int | None
    written_at: Moment
    first_seen_at: Moment


class Pace(Out):
    steps: int | None = Field(description="Those that count: work that was done twice counts once.")
    per_hour: str | None = Field(description="Of the latest attempt whose steps are known.")
    cost_per_1000_steps: Usd | None = Field(description="All that was paid, by the steps that count.")


class AtRisk(Out):
    """What would be done again if its VM went away now."""

    seconds: int
    cost: Usd | None
    since: Moment


class Lost(Out):
    """Work that was done in vain so far."""

    seconds: int
    cost: Usd
    from_zero: int = Field(description="How often there was nothing to resume from.")


class JobDetail(Out):
    as_of: Moment
    currency: str = CURRENCY
    job: Job
    spec: Spec
    recipe: Recipe
    attempts: list[Attempt]
    interruptions: list[Interruption]
    checkpoint: Checkpoint | None
    checkpoints: list[SeenCheckpoint] = Field(description="Complete ones that were seen, the oldest first.")
    pace: Pace
    work_at_risk: AtRisk | None = Field(description="null: no command runs.")
    lost: Lost
    kept_disk: KeptDisk | None = Field(description="null: none is kept. POST /jobs/{job_id}/delete-disk deletes it.")
    next: str = Field(description="What comes if its VM goes away, or once it gets one; empty: nothing.")
    ssh_command: str | None = Field(description="null: there is no VM.")
    notebook_command: str | None = Field(description="Of a development VM: brings its port 8888 here.")


class Attempts(Out):
    as_of: Moment
    job: str
    attempts: list[Attempt]


class Output(Out):
    """The last part of what an attempt's command printed."""

    as_of: Moment
    job: str
    attempt: int | None = Field(description="null: no agent has said anything yet.")
    heard_at: Moment | None
    output: str
    log: str = Field(description="Where all of it lies on the VM.")
