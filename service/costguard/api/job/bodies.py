"""Requests for jobs, quotes and cancellations, as the API receives them."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Literal

from pydantic import Field, StrictBool, StrictInt, StringConstraints

from costguard.api.fields import (
    Address,
    Body,
    BodyMoment,
    Text,
)
from costguard.jobs.submit.submit import Overrides, Submission
from costguard.model.job import (
    CheckpointPlan,
    JobCode,
    JobInput,
    JobKind,
    JobMetric,
    JobOutput,
    JobSpec,
    OnHang,
    WhenLate,
)
from costguard.model.money import Money
from costguard_vm.model.checkpoint import Framework, LookFor

Dollars = Annotated[
    str,
    StringConstraints(pattern=r"^[0-9]{1,9}(?:\.[0-9]{1,9})?$"),
    Field(description="Dollars, as a string, because JSON numbers are not exact.", examples=["60", "12.50"]),
]
Hours = Annotated[float, Field(strict=True, gt=0, le=24 * 365, allow_inf_nan=False)]
Word = Annotated[str, StringConstraints(max_length=262_144)]
Name = Annotated[str, StringConstraints(max_length=1_000)]
Variables = Annotated[dict[str, Word], Field(max_length=500)]
Count = Annotated[StrictInt, Field(ge=0, le=10_000)]


class CheckpointBody(Body):
    location: Name = Field(
        description="gs://bucket/path, s3://bucket/path, or a path on the VM's own disk: a folder, or one file that is "
        "overwritten.",
        examples=["gs://lab/run-1"],
    )
    resume: Name = Field(
        "",
        description=(
            "The arguments added to the command to resume. {checkpoint}, {location} and {step} in it are replaced."
        ),
        examples=["--from_checkpoint {checkpoint}"],
    )
    framework: Framework | None = Field(
        None, description="The framework that writes the checkpoints; null: detected by file names."
    )
    pattern: Text = Field("", description="The path of plain files, with {step} in it.", examples=["ckpt_{step}.pt"])
    marker: Text = Field("", description="The name of the file that is written last.", examples=["DONE"])
    local: Name = Field(
        "",
        description="The folder or file on the VM where the command saves. Complete checkpoints in it are uploaded to "
        "the location, and the newest is downloaded before the command resumes.",
        examples=["/data/out"],
    )
    keep: Annotated[StrictInt, Field(ge=0, le=1_000)] = Field(
        3, description="The number of complete checkpoints that stay at the location, with `local`; 0: all."
    )
    uploads_itself: StrictBool = Field(False, description="True: the command itself writes to the location.")

    def plan(self) -> CheckpointPlan:
        look_for = LookFor(self.framework, self.pattern, self.marker)
        return CheckpointPlan(self.location, self.resume, look_for, self.local, self.keep, self.uploads_itself)


class InputBody(Body):
    source: Name = Field(
        description="An address: s3://bucket/path or gs://bucket/path.", examples=["s3://acme-data/v7"]
    )
    path: Name = Field(description="A path on the VM.", examples=["/data"])


class OutputBody(Body):
    path: Name = Field(description="A path on the VM.", examples=["/data/model"])
    destination: Name = Field(
        description="The address s3://bucket/path or gs://bucket/path, published once the command has succeeded.",
        examples=["s3://acme-models/run-12"],
    )


class CodeBody(Body):
    """The archive of a work directory, uploaded before under its SHA-256."""

    sha256: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
    size: Annotated[StrictInt, Field(ge=0)] = Field(description="The size of the packed archive in bytes.")
    files: Annotated[StrictInt, Field(ge=0)]
    commit: Text = ""
    branch: Text = ""
    diff: Word = Field("", description="The uncommitted changes, cut where they are long.")


class MetricBody(Body):
    pattern: Text = Field(
        description="A regular expression with a group that finds the number in the output.",
        examples=[r"val_loss (\S+)"],
    )
    better: Literal["lower", "higher"] = "lower"


class OverridesBody(Body):
    """Deviations from the preset's recipe. Operators may override what the preset allows."""

    zones: Annotated[list[Name], Field(max_length=100)] | None = None
    spot: StrictBool | None = None
    machine_type: Name | None = None
    disk_gib: StrictInt | None = None
    max_run_hours: Hours | None = Field(None, description="The hours that each VM may run; then Google ends it.")
    on_demand_fallback: StrictBool | None = Field(
        None, description="Whether to use on-demand when Spot is out of stock everywhere."
    )
    image: Name | None = Field(None, description="The boot image: projects/P/global/images/family/F.")

    def overrides(self) -> Overrides:
        return Overrides(
            zones=None if self.zones is None else tuple(self.zones),
            spot=self.spot,
            machine_type=self.machine_type,
            disk_gib=self.disk_gib,
            max_run=None if self.max_run_hours is None else _hours(self.max_run_hours),
            on_demand_fallback=self.on_demand_fallback,
            image=self.image,
        )


class JobBody(Body):
    kind: JobKind = Field(
        JobKind.TRAINING, description="`dev`: a VM to work on, without a command; it is not replaced when it ends."
    )
    preset: Name
    project: Name = Field("", description="The project's id; empty: the watched project, where there is only one.")
    owner: Name = Field(
        "",
        description="The address of the person responsible; default: the caller. Only admins name another.",
        examples=["ana@example.com"],
    )
    name: Name = Field("", description="A name for people.")
    command: list[Word] = Field(
        default_factory=list,
        max_length=5_000,
        description="The command, run directly on the VM or in the image, without a shell.",
    )
    image: Name = Field("", description="A container image by tag or digest; empty: run on the VM itself.")
    pull: StrictBool = Field(
        False,
        description=(
            "Whether to resolve the tag on each VM; by default all VMs run the digest that the first one pulled."
        ),
    )
    environment: Variables = Field(
        default_factory=dict, description="Environment variables. They are not secret: do not put passwords here."
    )
    secrets: Variables = Field(
        default_factory=dict,
        description="References to Secret Manager; the VM reads the values itself.",
        examples=[{"WANDB_API_KEY": "projects/lab/secrets/wandb"}],
    )
    workdir: Name = ""
    mounts: list[Name] = Field(default_factory=list, max_length=100, examples=[["/var/data:/data:ro"]])
    checkpoint: CheckpointBody | None = None
    step_pattern: Text = Field("", description="A regular expression with a group that finds the step in the output.")
    ceiling: Dollars | None = Field(None, description="The most that all its VMs together may cost.")
    deadline: BodyMoment | None = Field(None, description="The time by which it must be finished.")
    deadline_in_hours: Hours | None = Field(
        None, description="The deadline in hours from its launch; give one of the two."
    )
    work_hours: Hours | None = Field(None, description="The hours that it takes on its preset without interruptions.")
    total_steps: Annotated[StrictInt, Field(ge=1, le=10**12)] | None = Field(
        None, description="The number of steps that it takes in all."
    )
    when_late: WhenLate = Field(
        WhenLate.FINISH,
        description=(
            "finish: it goes on past the deadline, within its ceiling; stop: it stops at the deadline, after "
            "a checkpoint."
        ),
    )
    on_hang: OnHang = Field(
        OnHang.TELL, description="`restart`: a command without progress is restarted from its newest checkpoint."
    )
    stacks: StrictBool = Field(
        False, description="Whether the agent may look for 30 s at where the command's main thread stands."
    )
    drill: StrictBool = Field(False, description="Whether to try a save on a notice once, early.")
    max_preemptions: Count = 100
    max_crashes: Count = Field(
        0,
        description=(
            "The number of times that a command that failed after progress is run again. A command that fails "
            "at its start is never run again."
        ),
    )
    inputs: list[InputBody] = Field(
        default_factory=list, max_length=100, description="Data that is downloaded before the command starts."
    )
    outputs: list[OutputBody] = Field(
        default_factory=list, max_length=100, description="Data that is published when the command succeeds."
    )
    code: CodeBody | None = Field(None, description="The code that is unpacked on each VM; the command runs in it.")
    setup: Word = Field(
        "", description="A shell command, run once on each VM before the command.", examples=["pip install -e ."]
    )
    aws_role: Name = Field(
        "",
        description="The role that the VM assumes at AWS with its Google identity, instead of keys.",
        examples=["arn:aws:iam::123456789012:role/training"],
    )
    bandwidth_mib_s: Annotated[StrictInt, Field(ge=1, le=100_000)] | None = Field(
        None, description="The limit on uploads and downloads together, in MiB/s; null: unlimited."
    )
    metric: MetricBody | None = Field(None, description="A number in the output, such as a validation loss.")
    mlflow_run: Text = Field(
        "",
        description="The id of the MLflow run that its cost is logged to.",
        examples=["0a1b2c3d4e5f60718293a4b5c6d7e8f9"],
    )
    wandb_run: Text = Field(
        "",
        description="The W&B run whose summary shows its cost: ENTITY/PROJECT/RUN.",
        examples=["lab/bert/3k2j9x1p"],
    )
    overrides: OverridesBody | None = None

    def submission(self, owner: str) -> Submission:
        spec = JobSpec(
            kind=self.kind,
            preset=self.preset,
            project=self.project,
            owner=owner,
            name=self.name,
            command=tuple(self.command),
            image=self.image,
            pull=self.pull,
            environment=self.environment,
            secrets=self.secrets,
            workdir=self.workdir,
            mounts=tuple(self.mounts),
            checkpoint=None if self.checkpoint is None else self.checkpoint.plan(),
            step_pattern=self.step_pattern,
            ceiling=None if self.ceiling is None else Money.of(self.ceiling),
            deadline=self.deadline,
            deadline_in=None if self.deadline_in_hours is None else _hours(self.deadline_in_hours),
            work=None if self.work_hours is None else _hours(self.work_hours),
            total_steps=self.total_steps,
            when_late=self.when_late,
            on_hang=self.on_hang,
            stacks=self.stacks,
            drill=self.drill,
            max_preemptions=self.max_preemptions,
            max_crashes=self.max_crashes,
            inputs=tuple(JobInput(one.source, one.path) for one in self.inputs),
            outputs=tuple(JobOutput(one.path, one.destination) for one in self.outputs),
            code=None if self.code is None else JobCode(**self.code.model_dump()),
            setup=self.setup,
            aws_role=self.aws_role,
            bandwidth_mib_s=self.bandwidth_mib_s,
            metric=None if self.metric is None else JobMetric(self.metric.pattern, self.metric.better),
            mlflow_run=self.mlflow_run,
            wandb_run=self.wandb_run,
        )
        return Submission(spec, Overrides() if self.overrides is None else self.overrides.overrides())


class QuoteBody(JobBody):
    hours: Hours = Field(1.0, description="The running time to quote for.")

    @property
    def span(self) -> timedelta:
        return _hours(self.hours)


class DeleteDiskBody(Body):
    by: Address | None = Field(
        None, description="The address of the person who confirms it; default: the caller. Only admins name another."
    )


class DrillBody(Body):
    by: Address | None = Field(
        None, description="The requester's address; default: the caller. Only admins name another."
    )


class NeverMindBody(Body):
    by: Address | None = Field(
        None, description="The requester's address; default: the caller. Only admins name another."
    )


class CancelBody(Body):
    by: Address | None = Field(
        None, description="The address of the person who cancels; default: the caller. Only admins name another."
    )
    reason: Text = ""
    delete_disk: bool = Field(
        False,
        description="Delete also the disk that holds the only copy of what the job saved. By default it is kept, and "
        "bills.",
    )
    after_checkpoint: bool = Field(
        False,
        description=(
            "True: cancels once a checkpoint was written after this request, or at once where none of its VMs runs."
        ),
    )


def _hours(number: float) -> timedelta:
    """Whole seconds: what Google and the database keep."""
    return timedelta(seconds=round(number * 3600))
