"""The options of `costguard launch`, some of which `costguard quote` has too."""

from __future__ import annotations

from typing import Annotated

import typer

from costguard.cli.options import hours, moment_or_span
from costguard.model.checkpoint import Framework
from costguard.model.job import OnHang, WhenLate

Preset = Annotated[str, typer.Argument(metavar="PRESET", help="The kind of VM, such as t4, a100 or multi-gpu.")]
Command = Annotated[
    list[str] | None, typer.Argument(metavar="-- COMMAND", help="The command to run, with its own options.")
]
Name = Annotated[str, typer.Option("--name", help="A name for people to read.")]
Image = Annotated[str, typer.Option("--image", metavar="REF", help="Container image, by tag or digest.")]
Pull = Annotated[
    bool, typer.Option("--pull", help="Pull the image's tag again on each VM; else all run the first VM's digest.")
]
Checkpoint = Annotated[
    str,
    typer.Option(
        "--checkpoint",
        metavar="URI",
        help="Where the command saves: gs://, s3://, or a path on the disk; a folder or a file.",
    ),
]
Resume = Annotated[
    str,
    typer.Option("--resume", metavar="TEMPLATE", help="Appended to resume, such as '--from_checkpoint {checkpoint}'."),
]
HowSaved = Annotated[
    Framework | None,
    typer.Option(
        "--framework", "-f", metavar="NAME", help=f"{', '.join(Framework)}. Default: recognised by the file names."
    ),
]
Pattern = Annotated[str, typer.Option("--pattern", metavar="PATH", help="Path of plain checkpoint files, with {step}.")]
Marker = Annotated[
    str, typer.Option("--marker", metavar="NAME", help="File that is written last, in a checkpoint's folder.")
]
StepPattern = Annotated[
    str,
    typer.Option(
        "--step-pattern", metavar="REGEX", help="Finds the step in the output; its first group is the number."
    ),
]
Env = Annotated[
    list[str] | None,
    typer.Option("--env", "-e", metavar="NAME=VALUE", help="A variable; repeatable. Not for secrets."),
]
Secret = Annotated[
    list[str] | None,
    typer.Option("--secret", metavar="NAME=REF", help="A variable that holds a secret, by reference; repeatable."),
]
Cd = Annotated[
    str,
    typer.Option(
        "--cd", metavar="PATH", help="The folder on the VM to run the command in; relative: below --workdir's."
    ),
]
Local = Annotated[
    str,
    typer.Option(
        "--local",
        metavar="PATH",
        help="Where the command saves on the VM: checkpoints there are uploaded to --checkpoint and brought back.",
    ),
]
Keep = Annotated[
    int | None, typer.Option("--keep", min=0, help="How many checkpoints stay at --checkpoint; 0: all. Default: 3.")
]
UploadsItself = Annotated[bool, typer.Option("--uploads-itself", help="The command writes to --checkpoint by itself.")]
Input = Annotated[
    list[str] | None,
    typer.Option("--input", metavar="URI=PATH", help="Data to download before the command starts; repeatable."),
]
Output = Annotated[
    list[str] | None,
    typer.Option("--output", metavar="PATH=URI", help="What to publish when the command succeeds; repeatable."),
]
Workdir = Annotated[
    str,
    typer.Option(
        "--workdir",
        metavar="DIR",
        help="A folder of this computer with the job's code, such as '.': it travels to each VM, and the command runs "
        "in it.",
    ),
]
Setup = Annotated[
    str, typer.Option("--setup", metavar="COMMAND", help="A shell command to run once on each VM before the command.")
]
MlflowRun = Annotated[str, typer.Option("--mlflow-run", metavar="ID", help="The MLflow run to log the job's cost to.")]
WandbRun = Annotated[
    str,
    typer.Option("--wandb-run", metavar="ENTITY/PROJECT/RUN", help="The W&B run whose summary shows the job's cost."),
]
AwsRole = Annotated[
    str, typer.Option("--aws-role", metavar="ARN", help="The role at AWS that the VM assumes, instead of keys.")
]
Bandwidth = Annotated[
    int | None, typer.Option("--bandwidth", metavar="MIB_PER_S", min=1, help="The most for uploads and downloads.")
]
MetricPattern = Annotated[
    str, typer.Option("--metric", metavar="REGEX", help="Finds a number in the output, such as 'val_loss (\\S+)'.")
]
Better = Annotated[str, typer.Option("--better", metavar="lower|higher", help="Which way the metric is better.")]
Mount = Annotated[
    list[str] | None,
    typer.Option("--mount", metavar="FROM:TO", help="A folder of the VM in the container; repeatable."),
]
ProjectId = Annotated[str, typer.Option("--project", "-p", help="Needed only where several projects are watched.")]
Zones = Annotated[list[str] | None, typer.Option("--zone", help="Only this zone; repeatable.")]
Spot = Annotated[bool | None, typer.Option("--spot/--on-demand", help="Instead of the preset's.")]
Fallback = Annotated[
    bool | None,
    typer.Option("--fallback/--no-fallback", help="Whether to use on-demand where Spot is out of stock."),
]
MachineType = Annotated[str | None, typer.Option("--machine-type", help="Instead of the preset's.")]
Disk = Annotated[int | None, typer.Option("--disk", metavar="GIB", help="Size of the boot disk.")]
BootImage = Annotated[
    str | None, typer.Option("--boot-image", metavar="IMAGE", help="The VM's image, instead of the preset's.")
]
MaxRun = Annotated[float | None, typer.Option("--max-run", metavar="HOURS", help="The longest that each VM may run.")]
Ceiling = Annotated[str | None, typer.Option("--ceiling", metavar="USD", help="The most that the whole job may cost.")]
Deadline = Annotated[
    str | None,
    typer.Option(
        "--deadline",
        metavar="TIME|SPAN",
        callback=moment_or_span,
        help="When it must be finished: 2026-11-22T08:00Z, or 18h from now.",
    ),
]
Work = Annotated[
    float | None,
    typer.Option("--work", metavar="SPAN", parser=hours, help="How long it takes without interruptions, such as 16h."),
]
Steps = Annotated[int | None, typer.Option("--steps", min=1, help="How many steps it takes in all.")]
Late = Annotated[
    WhenLate,
    typer.Option("--when-late", help="finish: late, within the ceiling; stop: at the deadline, after a checkpoint."),
]
Hang = Annotated[
    OnHang,
    typer.Option("--on-hang", help="restart: a command without progress is restarted from its newest checkpoint."),
]
Stacks = Annotated[
    bool, typer.Option("--stacks", help="Allow 30-second looks at where the command's main thread stands.")
]
Drill = Annotated[bool, typer.Option("--drill", help="Try a save on a notice once, early.")]
MaxPreemptions = Annotated[
    int | None, typer.Option("--max-preemptions", min=0, help="It fails after more than this. Default: 100.")
]
MaxCrashes = Annotated[
    int | None, typer.Option("--max-crashes", min=0, help="It fails after more than this. Default: 3.")
]
Dev = Annotated[bool, typer.Option("--dev", help="A VM to work on, without a command. It is not replaced.")]
Key = Annotated[str, typer.Option("--key", help="Repeating the command with the same key returns the same job.")]
Wait = Annotated[
    bool,
    typer.Option(
        "--wait", help="Wait until it is finished (exits 1 when it did not succeed); a dev VM: until it is up."
    ),
]
