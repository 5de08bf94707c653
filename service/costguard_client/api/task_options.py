"""The options of a task, one for each of a job. Generated from their declarations by `python -m tests.golden api`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True, kw_only=True)
class TaskOptions:
    """The options of a task on Costguard's VMs, with the meanings of `costguard launch`."""

    preset: str
    name: str = ""
    """A name for people."""
    command: Sequence[str] = ()
    """The command, run directly on the VM or in the image, without a shell."""
    image: str = ""
    """A container image by tag or digest; empty: run on the VM itself."""
    pull: bool | None = None
    """Whether to resolve the tag on each VM; by default all run the digest that the first one pulled."""
    code: Mapping[str, Any] | None = None
    """The code that is unpacked on each VM; the command runs in it."""
    workdir: str = ""
    """The folder on the VM to run the command in; relative: below the code's."""
    setup: str = ""
    """A shell command, run once on each VM before the command."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Environment variables. They are not secret: do not put passwords here."""
    secrets: Mapping[str, str] = field(default_factory=dict)
    """References to Secret Manager; the VM reads the values itself."""
    checkpoint: str = ""
    """gs://bucket/path, s3://bucket/path, or a path on the VM's own disk: a folder, or one file that is
    overwritten.
    """
    resume: str = ""
    """The arguments added to the command to resume. {checkpoint}, {location} and {step} in it are replaced.
    """
    framework: (
        Literal[
            "hugging-face",
            "lightning",
            "megatron",
            "deepspeed",
            "torch-dcp",
            "orbax",
            "keras",
            "tensorflow",
            "marker",
            "files",
        ]
        | None
    ) = None
    """The framework that writes the checkpoints; null: detected by file names."""
    pattern: str = ""
    """The path of plain files, with {step} in it."""
    marker: str = ""
    """The name of the file that is written last."""
    local: str = ""
    """The folder or file on the VM where the command saves. Complete checkpoints in it are uploaded to the
    location, and the newest is downloaded before the command resumes.
    """
    keep: int | None = None
    """The number of complete checkpoints that stay at the location, with `local`; 0: all."""
    publish_to: str = ""
    """The folder, with the provider of the location, to which one complete checkpoint is copied as the job's
    result once it has succeeded.
    """
    publish: Literal["best", "latest"] | None = None
    """The checkpoint that is published: the `best` by the job's metric, or the `latest`; null: the best where
    the job names a metric, else the latest.
    """
    uploads_itself: bool | None = None
    """True: the command itself writes to the location."""
    save_every: str = ""
    """The interval at which the agent asks the running command for a save: auto, chosen by what a save takes
    and how often VMs like it are preempted, or a span such as 20min. It needs `save_on`.
    """
    save_on: Literal["file", "SIGUSR1", "SIGUSR2"] | None = None
    """The way in which the agent asks the running command for a save: the file that COSTGUARD_SAVE_REQUEST
    names, or a signal that the command has a handler for; null: it does not ask.
    """
    stage: Literal["auto", "on", "off"] | None = None
    """Whether inputs come by way of a stage near the VMs, where each byte is fetched from its source once:
    `auto` stages those whose transfer is charged and that are large enough, `on` all from other clouds.
    """
    mounts: Sequence[str] = ()
    """Folders of the VM in the container: /on/the/vm:/in/the/image, and :ro to protect one."""
    aws_role: str = ""
    """The role that the VM assumes at AWS with its Google identity, instead of keys."""
    bandwidth_mib_s: int | None = None
    """The limit on uploads and downloads together, in MiB/s; null: unlimited."""
    project: str = ""
    """The project's id; empty: the watched project, where there is only one."""
    owner: str = ""
    """The address of the person responsible; default: the caller. Only admins name another."""
    nodes: int | str | None = None
    """The number of VMs that run the command together, all in one zone; 1: a job of one VM. A range such as
    "2..8" runs with what can be had: its launcher must take any number of them.
    """
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels on its VMs, in Google's characters, such as the execution of a workflow that it is a part of.
    """
    placement: Literal["any", "compact"] | None = None
    """`compact`: Google places its VMs close together in their zone, which takes a machine series that has
    compact placement policies; fewer places may have room for them.
    """
    zones: Sequence[str] = ()
    """The only zones to use."""
    buy: str = ""
    """The way to buy its VMs: spot, flex, demand, cheapest or reserved:NAME; null: as in the preset."""
    flex_wait_hours: float | None = None
    """The hours for which a request for a flex-start VM may wait, at most 2; 0: now or not at all."""
    notice: Literal["120s", "0s"] | None = None
    """The time from the announcement of a Spot VM's preemption to its shutdown; null: as in the preset."""
    on_demand_fallback: bool | None = None
    """Whether to use on-demand when what is bought otherwise is out of stock everywhere."""
    machine_type: str = ""
    """The machine type; null: the preset's."""
    disk_gib: int | None = None
    """The size of the boot disk in GiB; null: the preset's."""
    max_run_hours: float | None = None
    """The hours that each VM may run; then Google ends it."""
    ceiling: str | None = None
    """The most that all its VMs together may cost."""
    max_vm_hours: float | None = None
    """The most hours that its VMs may run, added up over all of them and all attempts: four VMs use four an
    hour.
    """
    deadline: str | None = None
    """The time by which it must be finished."""
    deadline_in_hours: float | None = None
    """The deadline in hours from its launch; give one of the two."""
    work_hours: float | None = None
    """The hours that it takes on its preset without interruptions."""
    total_steps: int | None = None
    """The number of steps that it takes in all."""
    when_late: Literal["finish", "stop"] | None = None
    """finish: it goes on past the deadline, within its ceiling; stop: it stops at the deadline, after a
    checkpoint.
    """
    max_preemptions: int | None = None
    """The number of preemptions that it survives."""
    max_crashes: int | None = None
    """The number of times that a command that failed after progress is run again. A command that fails at its
    start is never run again.
    """
    priority: int | None = None
    """The priority where a limit has jobs wait: higher ones first, from -100 to 100. Only operators of its
    owner's team and admins go above 0.
    """
    queue: bool | None = None
    """Whether it waits in line where it is over a limit or a budget, or is refused; null: it waits for limits,
    and a spent budget refuses it.
    """
    step_pattern: str = ""
    """A regular expression with a group that finds the step in the output."""
    metric: str = ""
    """A regular expression with a group that finds the number in the output."""
    better: Literal["lower", "higher"] | None = None
    mlflow_run: str = ""
    """The id of the MLflow run that its cost is logged to."""
    wandb_run: str = ""
    """The W&B run whose summary shows its cost: ENTITY/PROJECT/RUN."""
    on_hang: Literal["tell", "restart"] | None = None
    """`restart`: a command without progress is restarted from its newest checkpoint."""
    stop_when_flat: bool | None = None
    """Whether to finish it early once its metric, or loss, stands still. It needs checkpoints."""
    stacks: bool | None = None
    """Whether the agent may look for 30 s at where the command's main thread stands."""
    profile: bool | None = None
    """Whether the agent may take profiles of the command, now and then for 10 s; null: as the settings say.
    """
    drill: bool | None = None
    """Whether to try a save on a notice once, early."""


# Where in a job's request each stands.
PLACES: Mapping[str, str] = {
    "preset": "preset",
    "name": "name",
    "command": "command",
    "image": "image",
    "pull": "pull",
    "code": "code",
    "workdir": "workdir",
    "setup": "setup",
    "environment": "environment",
    "secrets": "secrets",
    "checkpoint": "checkpoint.location",
    "resume": "checkpoint.resume",
    "framework": "checkpoint.framework",
    "pattern": "checkpoint.pattern",
    "marker": "checkpoint.marker",
    "local": "checkpoint.local",
    "keep": "checkpoint.keep",
    "publish_to": "checkpoint.publish_to",
    "publish": "checkpoint.publish",
    "uploads_itself": "checkpoint.uploads_itself",
    "save_every": "checkpoint.save_every",
    "save_on": "checkpoint.save_on",
    "stage": "stage",
    "mounts": "mounts",
    "aws_role": "aws_role",
    "bandwidth_mib_s": "bandwidth_mib_s",
    "project": "project",
    "owner": "owner",
    "nodes": "nodes",
    "labels": "labels",
    "placement": "placement",
    "zones": "overrides.zones",
    "buy": "overrides.buy",
    "flex_wait_hours": "overrides.flex_wait_hours",
    "notice": "overrides.notice",
    "on_demand_fallback": "overrides.on_demand_fallback",
    "machine_type": "overrides.machine_type",
    "disk_gib": "overrides.disk_gib",
    "max_run_hours": "overrides.max_run_hours",
    "ceiling": "ceiling",
    "max_vm_hours": "max_vm_hours",
    "deadline": "deadline",
    "deadline_in_hours": "deadline_in_hours",
    "work_hours": "work_hours",
    "total_steps": "total_steps",
    "when_late": "when_late",
    "max_preemptions": "max_preemptions",
    "max_crashes": "max_crashes",
    "priority": "priority",
    "queue": "queue",
    "step_pattern": "step_pattern",
    "metric": "metric.pattern",
    "better": "metric.better",
    "mlflow_run": "mlflow_run",
    "wandb_run": "wandb_run",
    "on_hang": "on_hang",
    "stop_when_flat": "stop_when_flat",
    "stacks": "stacks",
    "profile": "profile",
    "drill": "drill",
}
# In whose texts {name} stands for a task's input.
FILLED = frozenset(
    {
        "name",
        "command",
        "environment",
        "checkpoint",
        "resume",
        "publish_to",
        "labels",
        "mlflow_run",
        "wandb_run",
    }
)
