"""What is asked of jobs over REST. Bodies are strict: what is misspelt, or of another kind, is refused."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from pydantic import Field, StrictBool, StrictInt, StringConstraints

from costguard.api.fields import Address, Body, Text, Told
from costguard.jobs.submit import Overrides, Submission
from costguard.model.checkpoint import Framework, LookFor
from costguard.model.job import CheckpointPlan, JobKind, JobSpec
from costguard.model.money import Money

Dollars = Annotated[
    str,
    StringConstraints(pattern=r"^[0-9]{1,9}(?:\.[0-9]{1,9})?$"),
    Field(description="Dollars, as a string: a number in JSON cannot hold every cent.", examples=["60", "12.50"]),
]
Hours = Annotated[float, Field(strict=True, gt=0, le=24 * 365, allow_inf_nan=False)]
Word = Annotated[str, StringConstraints(max_length=262_144)]
Name = Annotated[str, StringConstraints(max_length=1_000)]
Variables = Annotated[dict[str, Word], Field(max_length=500)]
Count = Annotated[StrictInt, Field(ge=0, le=10_000)]


class CheckpointBody(Body):
    location: Name = Field(
        description="gs://bucket/path, s3://bucket/path, or a path on the VM's own disk: a folder, or one file that is "
        "written over.",
        examples=["gs://lab/run-1"],
    )
    resume: Name = Field(
        "",
        description="Added to the command to resume. {checkpoint}, {location} and {step} in it are replaced.",
        examples=["--from_checkpoint {checkpoint}"],
    )
    framework: Framework | None = Field(None, description="null: told by the names of what lies there.")
    pattern: Text = Field("", description="Of plain files: a path with {step} in it.", examples=["ckpt_{step}.pt"])
    marker: Text = Field("", description="The file that is written last.", examples=["DONE"])

    def plan(self) -> CheckpointPlan:
        return CheckpointPlan(self.location, self.resume, LookFor(self.framework, self.pattern, self.marker))


class OverridesBody(Body):
    """What this job wants otherwise than its preset's recipe has it. Operators may what the preset lets them."""

    zones: Annotated[list[Name], Field(max_length=100)] | None = None
    spot: StrictBool | None = None
    machine_type: Name | None = None
    disk_gib: StrictInt | None = None
    max_run_hours: Hours | None = Field(None, description="How long each VM may run; Google ends it then.")
    on_demand_fallback: StrictBool | None = Field(None, description="On-demand once Spot is out of stock everywhere.")
    image: Name | None = Field(None, description="What the VM boots from: projects/P/global/images/family/F.")

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
    kind: JobKind = Field(JobKind.TRAINING, description="dev: a VM to work on, without a command; it is not replaced.")
    preset: Name
    project: Name = Field("", description="Empty: the one that is watched, where there is only one.")
    owner: Name = Field(
        "",
        description="The address of who answers for it; default: whom the token or the session speaks for. Only admins "
        "name another.",
        examples=["ana@example.com"],
    )
    name: Name = Field("", description="For people.")
    command: list[Word] = Field(
        default_factory=list, max_length=5_000, description="Run directly on the VM, or in the image; no shell."
    )
    image: Name = Field("", description="A container image, by tag or digest; empty: on the VM itself.")
    pull: StrictBool = Field(
        False,
        description="Each VM asks for the image's tag again. Otherwise all run the digest that the first one pulled.",
    )
    environment: Variables = Field(default_factory=dict, description="Many can read it: no secrets.")
    secrets: Variables = Field(
        default_factory=dict,
        description="By reference into Secret Manager; the VM reads them itself.",
        examples=[{"WANDB_API_KEY": "projects/lab/secrets/wandb"}],
    )
    workdir: Name = ""
    mounts: list[Name] = Field(default_factory=list, max_length=100, examples=[["/var/data:/data:ro"]])
    checkpoint: CheckpointBody | None = None
    step_pattern: Text = Field("", description="Finds the step in the output: a regular expression with a group.")
    ceiling: Dollars | None = Field(None, description="What all its VMs together may cost.")
    deadline: Told | None = Field(None, description="When it must be finished.")
    expected_hours: Hours | None = Field(None, description="How long it takes without interruptions.")
    max_preemptions: Count = 100
    max_crashes: Count = 3
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
            expected=None if self.expected_hours is None else _hours(self.expected_hours),
            max_preemptions=self.max_preemptions,
            max_crashes=self.max_crashes,
        )
        return Submission(spec, Overrides() if self.overrides is None else self.overrides.overrides())


class QuoteBody(JobBody):
    hours: Hours = Field(1.0, description="For so long.")

    @property
    def span(self) -> timedelta:
        return _hours(self.hours)


class DeleteDiskBody(Body):
    by: Address | None = Field(
        None, description="Who agrees; default: whom the token or the session speaks for. Only admins name another."
    )


class CancelBody(Body):
    by: Address | None = Field(
        None, description="Who asks; default: whom the token or the session speaks for. Only admins name another."
    )
    reason: Text = ""
    delete_disk: bool = Field(
        False,
        description="Agrees that the disk is deleted which holds the only copy of what the job saved. Without it "
        "such a disk is kept, and bills.",
    )


def _hours(number: float) -> timedelta:
    """Whole seconds: what Google and the database keep."""
    return timedelta(seconds=round(number * 3600))
