"""Jobs: what was submitted, and its state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from costguard.model.buying import has_group_identity
from costguard.model.delivery.tracker import Tracker
from costguard.model.duration import read_span
from costguard.model.launch import Placement, Recipe
from costguard.model.money import ZERO, Money
from costguard.model.options.node_count import NodeCount, NodeRange
from costguard_vm.model.checkpoint import LookFor

AUTO = "auto"
COSTGUARD = "Costguard"  # as the one that ends a job early
BEST, LATEST = "best", "latest"
PUBLISHED = (BEST, LATEST)  # which checkpoint is the job's result
ASKED_BY = ("file", "SIGUSR1", "SIGUSR2")  # what a command can be asked by for a save, without ending it


class JobKind(StrEnum):
    TRAINING = "training"
    DEV = "dev"  # a VM without a command: one attempt, never replaced


class JobState(StrEnum):
    QUEUED = "queued"  # no VM was asked for yet
    PROVISIONING = "provisioning"  # a VM is asked for, or boots
    RUNNING = "running"  # the command runs; of a dev VM: it is up
    RECOVERING = "recovering"  # its VM is lost, and the next was not asked for yet
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_over(self) -> bool:
        return self in _OVER


_OVER = frozenset({JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED})


class EarlyEnd(StrEnum):
    """The reasons for which Costguard ends a job before its command is done."""

    LOSER = "halving"  # a member of a sweep that halving stopped: it is cancelled
    FLAT = "flat"  # its metric stood still, and it was to be stopped then: it has succeeded


class WhenLate(StrEnum):
    """The action for a job that can no longer meet its deadline."""

    FINISH = "finish"  # late, within its ceiling
    STOP = "stop"  # at the deadline, after a checkpoint


class OnHang(StrEnum):
    """The action for a command that no longer makes progress."""

    TELL = "tell"  # its owner is notified
    RESTART = "restart"  # it is also restarted from its newest checkpoint


class Staging(StrEnum):
    """The way in which a job's inputs come to its VMs: by a stage where that saves transfer, always, or never."""

    AUTO = "auto"
    ON = "on"
    OFF = "off"


@dataclass(frozen=True, slots=True)
class CheckpointPlan:
    """Where the command saves, how that is recognised, and what is added to the command to resume.

    `resume` is split like a shell would, and `{checkpoint}` in it replaced; `{location}` and `{step}` too.
    An absolute path is on the VM's own disk: then the same VM is started again, and its agent judges what lies there.
    `file:///path` is a folder that the guard can read too, as in the sandbox.
    """

    location: str
    resume: str = ""
    look_for: LookFor = field(default_factory=LookFor)
    local: str = ""  # the folder or file where the command saves, which the agent uploads to `location`
    keep: int = 3  # how many complete checkpoints the agent leaves at `location`; 0: all
    uploads_itself: bool = False  # the command writes to `location` by itself
    save_on: str | None = None  # how the running command is asked for a save: "file" or a signal's name; None: not
    publish_to: str = ""  # the folder in a bucket to which the agent copies the result; "" publishes no checkpoint
    publish: str | None = None  # which one that is; None: the best where the job names a metric, else the newest
    save_every: str = ""  # "auto", or a span such as 20min; "" leaves saving to the command

    @property
    def saves_by_hazard(self) -> bool:
        """Says whether the guard chooses the interval at which the command is asked for a save."""
        return self.save_every == AUTO

    @property
    def fixed_interval(self) -> timedelta | None:
        """Returns the interval that its owner chose; None where there is none."""
        return None if self.saves_by_hazard else read_span(self.save_every.replace("min", "m"))

    @property
    def is_on_disk(self) -> bool:
        return self.location.startswith("/")


@dataclass(frozen=True, slots=True)
class JobInput:
    """Data that is on the VM before the command starts: a bucket's folder or object, and its path on the VM."""

    source: str
    path: str
    cost: Money | None = None  # of one download, on its source's bill, at list prices as it was launched; None: unknown
    staged: bool = False  # its VMs take it by way of a stage, so that all together pay for one download


def download_cost(inputs: Iterable[JobInput], vms: int = 1) -> Money:
    """Returns the cost of bringing these inputs to so many VMs, as far as it is known, with nothing staged before."""
    return sum((one.cost.times(1 if one.staged else vms) for one in inputs if one.cost is not None), ZERO)


@dataclass(frozen=True, slots=True)
class JobOutput:
    """The output of a command at `path`, published at `destination` in a bucket once the command has succeeded."""

    path: str
    destination: str


@dataclass(frozen=True, slots=True)
class JobCode:
    """The archive of a work directory, named by its SHA-256, and the state of its repository when it was packed.

    `size` is in bytes, packed. `commit` is empty outside of a repository; `diff` is what was not committed, cut where
    it is long.
    """

    sha256: str
    size: int
    files: int
    commit: str = ""
    branch: str = ""
    diff: str = ""


@dataclass(frozen=True, slots=True)
class JobMetric:
    """A number that the command prints, found by the first group of `pattern`. `better` is "lower" or "higher"."""

    pattern: str
    better: str = "lower"


@dataclass(frozen=True, slots=True)
class JobSpec:
    """The request for a job; it never changes. `secrets` are references (projects/P/secrets/S), never values."""

    kind: JobKind
    preset: str
    project: str
    owner: str  # an address
    name: str = ""  # for people
    nodes: int = 1  # how many VMs run the command together, at most; with more than one they are a gang
    least_nodes: int | None = None  # the least number that it runs with; None: no fewer than `nodes`
    placement: Placement = Placement.ANY  # of its VMs, relative to each other
    command: tuple[str, ...] = ()  # run directly on the VM, or in the image; empty: the image's own
    image: str = ""  # a container image: tag or digest; "" runs on the VM itself
    pull: bool = False  # each VM asks for the tag again; otherwise the digest of the first pull stays
    environment: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)  # of its VMs, next to those of its preset
    secrets: Mapping[str, str] = field(default_factory=dict)
    workdir: str = ""
    mounts: tuple[str, ...] = ()
    checkpoint: CheckpointPlan | None = None
    step_pattern: str = ""  # "" is the agent's own
    ceiling: Money | None = None  # of all attempts together
    max_vm_time: timedelta | None = None  # that the VMs of all attempts may run, added up
    deadline: datetime | None = None  # when it must be finished
    deadline_in: timedelta | None = None  # the same from its launch on; `deadline` is worked out from it
    work: timedelta | None = None  # how long it takes on its preset without interruptions, as its owner thinks
    total_steps: int | None = None  # how many steps it takes, as its owner says
    when_late: WhenLate = WhenLate.FINISH
    max_preemptions: int = 100
    max_crashes: int = 0  # after progress; as in SkyPilot and dstack, a command that fails is not run again unasked
    inputs: tuple[JobInput, ...] = ()
    outputs: tuple[JobOutput, ...] = ()
    stage: Staging = Staging.AUTO
    code: JobCode | None = None  # unpacked on the VM, and the command runs in it
    setup: str = ""  # a shell command that runs once on each VM, in the unpacked code, before the command
    aws_role: str = ""  # the role that the VM assumes at AWS with its Google identity
    bandwidth_mib_s: int | None = None  # of uploads and downloads together; None: unlimited
    metric: JobMetric | None = None
    sweep: str = ""  # the id of the sweep that it is a member of
    schedule: str = ""  # the id of the schedule that launched it
    on_hang: OnHang = OnHang.TELL
    stop_when_flat: bool = False  # whether it is finished early once its metric stands still
    stacks: bool = False  # whether the agent may look for 30 s at where the command's main thread stands
    profile: bool | None = None  # whether the agent may take profiles of the command; None: as the settings say
    drill: bool = False  # whether a save on a notice is tried once, early, while nothing is at stake
    mlflow_run: str = ""  # the id of the MLflow run that its cost is logged to
    wandb_run: str = ""  # the same of W&B: ENTITY/PROJECT/RUN
    priority: int = 0  # its place before others where a limit has them wait: higher ones first
    queue: bool | None = None  # whether it waits in line over a limit or a budget; None: over a limit alone

    @property
    def fewest(self) -> int:
        """Returns the least number of VMs that run its command together."""
        return self.nodes if self.least_nodes is None else self.least_nodes

    @property
    def is_elastic(self) -> bool:
        """Says whether it runs with fewer VMs than it is to have at most."""
        return self.fewest < self.nodes

    @property
    def may_come_at_once(self) -> bool:
        """Says whether a group of Google's may make its VMs: a fixed number, wherever the zone has room."""
        return not self.is_elastic and self.placement is not Placement.COMPACT

    @property
    def vm_count(self) -> NodeCount:
        """Returns the number of its VMs as its owner gave it: one number, or a range."""
        return NodeRange(self.fewest, self.nodes) if self.is_elastic else self.nodes

    @property
    def download_cost(self) -> Money:
        """Returns the cost of downloading all inputs to all of its VMs once, as far as it is known."""
        return download_cost(self.inputs, self.nodes)

    @property
    def tracker_runs(self) -> Mapping[Tracker, str]:
        """The runs of experiment trackers that it names."""
        runs = {Tracker.MLFLOW: self.mlflow_run, Tracker.WANDB: self.wandb_run}
        return {tracker: run for tracker, run in runs.items() if run}


def published(spec: JobSpec) -> str:
    """Returns which checkpoint a job publishes, BEST or LATEST; "" where it publishes none."""
    plan = spec.checkpoint
    if plan is None or not plan.publish_to:
        return ""
    return plan.publish or (BEST if spec.metric is not None else LATEST)


def destinations_of(spec: JobSpec) -> dict[str, str]:
    """Returns where a job publishes, by the part of the request that says so."""
    places = {f"outputs.{number}.destination": one.destination for number, one in enumerate(spec.outputs)}
    plan = spec.checkpoint
    return {**places, **({"checkpoint.publish_to": plan.publish_to} if plan is not None and plan.publish_to else {})}


@dataclass(frozen=True, slots=True)
class Job:
    """A job as it stands. `reason` is one sentence: why it is in its state, and what comes next."""

    id: str  # such as j7k2m9q4: a letter, then lower-case letters and digits
    spec: JobSpec
    recipe: Recipe
    state: JobState
    reason: str
    created_at: datetime
    via: str  # "api", "cli" or "page"
    settled_at: datetime | None = None
    cancel_asked_at: datetime | None = None
    cancel_asked_by: str = ""
    early: EarlyEnd | None = None  # why Costguard ends it early; then it counts as cancelled by Costguard
    early_reason: str = ""
    cancel_after_at: datetime | None = None  # since when it is to be cancelled after its next checkpoint
    cancel_after_by: str = ""
    never_mind_at: datetime | None = None  # a standstill whose best came before is not hinted at
    never_mind_by: str = ""
    next_at: datetime | None = None  # nothing is to be done before
    disk_given_up_at: datetime | None = None  # since when the disk that holds its checkpoints may go
    disk_given_up_by: str = ""
    gang_round: int = 0  # the round that its VMs are to run together; 0 before the first, and in a job of one VM

    @property
    def comes_by_group(self) -> bool:
        """Says whether it may buy several VMs by flex-start: by a group, which makes all of them or none."""
        return self.spec.may_come_at_once and has_group_identity(self.recipe)

    @property
    def labels(self) -> Mapping[str, str]:
        """Returns the labels that its VMs are launched with, but for those that Costguard adds: its preset's stay."""
        return {**self.spec.labels, **self.recipe.labels}

    @property
    def is_gang(self) -> bool:
        return self.spec.nodes > 1

    @property
    def cancel_text(self) -> str:
        """Says who cancels it, or why Costguard ends it early; for a job that is being cancelled."""
        return self.early_reason or f"cancelled by {self.cancel_asked_by or 'an unknown user'}"

    @property
    def title(self) -> str:
        return self.spec.name or self.id


@dataclass(frozen=True, slots=True)
class SeenCheckpoint:
    """The newest complete checkpoint that was seen at a job's location, and how the look went.

    `advanced_at` is when a newer one than before was first seen; None before the first. `torn` holds a sentence
    for each newer one that was passed over. `error`: why nobody could look; what lies there is then not known. `files`
    is how many lie there at all, where a VM's own agent looked. `seen_at` is when a look last found the checkpoint:
    before `looked_at` where looks have failed since.
    """

    looked_at: datetime
    resume_from: str = ""  # "" where there is none
    step: int | None = None
    written_at: datetime | None = None
    advanced_at: datetime | None = None
    torn: tuple[str, ...] = ()
    error: str = ""
    files: int | None = None
    seen_at: datetime | None = None
    unrecognised: str = ""  # as in `CheckpointLook`, of a look that is not stored yet


@dataclass(frozen=True, slots=True)
class Terms:
    """The waiting times and limits of jobs. All of them can be set under [jobs]."""

    silence: timedelta = timedelta(minutes=10)  # of an agent that was heard before, until its VM counts as lost
    boot: timedelta = timedelta(minutes=30)  # from the VM to the first word of its agent
    dying: timedelta = timedelta(seconds=40)  # from the end of a preemption's notice until nothing of the VM can write
    cancel_grace: timedelta = timedelta(seconds=60)  # the agent's, from SIGTERM to SIGKILL
    quick_crash: timedelta = timedelta(minutes=10)  # a command that fails sooner is in a crash loop, if it does so...
    crash_loop: int = 3  # ...so many times in a row
    first_wait: timedelta = timedelta(seconds=30)  # after all zones failed; doubled each time
    longest_wait: timedelta = timedelta(minutes=15)
    stalled: timedelta = timedelta(hours=2)  # without a newer checkpoint while it runs, its owner gets a message
    orphan_grace: timedelta = timedelta(minutes=10)
    waiting_saves: int = 2  # percent of the rest's cost: for less, a job with a deadline waits for no better Spot VM
