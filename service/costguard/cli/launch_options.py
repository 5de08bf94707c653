"""The options of `costguard launch` and `costguard quote`."""

from __future__ import annotations

from typing import Annotated

import typer

from costguard.cli.options import utc_moment
from costguard.model.checkpoint import Framework

Preset = Annotated[str, typer.Argument(metavar="PRESET", help="How the VM is made, such as t4, a100 or multi-gpu.")]
Command = Annotated[list[str] | None, typer.Argument(metavar="-- COMMAND", help="What is run, with its own options.")]
Name = Annotated[str, typer.Option("--name", help="For people.")]
Image = Annotated[str, typer.Option("--image", metavar="REF", help="Container image, by tag or digest.")]
Pull = Annotated[
    bool, typer.Option("--pull", help="Ask for the image's tag again on each VM; else all run the first one's digest.")
]

Checkpoint = Annotated[
    str,
    typer.Option(
        "--checkpoint",
        metavar="URI",
        help="Where the command saves: gs://, s3://, a path on the disk; a folder or a file.",
    ),
]
Resume = Annotated[
    str,
    typer.Option("--resume", metavar="TEMPLATE", help="Added to resume, such as '--from_checkpoint {checkpoint}'."),
]
HowSaved = Annotated[
    Framework | None,
    typer.Option("--framework", "-f", metavar="NAME", help=f"{', '.join(Framework)}; told by the names if left out."),
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
    list[str] | None, typer.Option("--env", "-e", metavar="NAME=VALUE", help="A variable; repeatable. No secrets.")
]
Secret = Annotated[
    list[str] | None,
    typer.Option("--secret", metavar="NAME=REF", help="A variable that holds a secret, by reference; repeatable."),
]
Workdir = Annotated[str, typer.Option("--workdir", "-w", metavar="PATH", help="Where the command is run.")]
Mount = Annotated[
    list[str] | None,
    typer.Option("--mount", metavar="FROM:TO", help="A folder of the VM in the container; repeatable."),
]

Project = Annotated[str, typer.Option("--project", "-p", help="May be left out where one is watched.")]
Zones = Annotated[list[str] | None, typer.Option("--zone", help="Only this zone; repeatable.")]
Spot = Annotated[bool | None, typer.Option("--spot/--on-demand", help="Otherwise than the preset says.")]
Fallback = Annotated[
    bool | None,
    typer.Option("--fallback/--no-fallback", help="Whether on-demand is taken where Spot is out of stock."),
]
MachineType = Annotated[str | None, typer.Option("--machine-type", help="Otherwise than the preset says.")]
Disk = Annotated[int | None, typer.Option("--disk", metavar="GIB", help="Size of the boot disk.")]
BootImage = Annotated[
    str | None, typer.Option("--boot-image", metavar="IMAGE", help="What the VM boots; otherwise than the preset says.")
]
MaxRun = Annotated[float | None, typer.Option("--max-run", metavar="HOURS", help="How long each VM may run at most.")]

Ceiling = Annotated[str | None, typer.Option("--ceiling", metavar="USD", help="What all of it may cost at most.")]
Deadline = Annotated[
    str | None,
    typer.Option(
        "--deadline", metavar="TIME", callback=utc_moment, help="When it must be finished: 2026-11-22T08:00Z."
    ),
]
Expected = Annotated[float | None, typer.Option("--hours", help="How long it takes without interruptions.")]
MaxPreemptions = Annotated[int | None, typer.Option("--max-preemptions", min=0, help="It fails after more; 100.")]
MaxCrashes = Annotated[int | None, typer.Option("--max-crashes", min=0, help="It fails after more; 3.")]
Dev = Annotated[bool, typer.Option("--dev", help="A VM to work on, without a command. It is not replaced.")]
Key = Annotated[str, typer.Option("--key", help="Who asks again with the same one gets the same job.")]
Wait = Annotated[bool, typer.Option("--wait", help="Until it is over; a dev VM: until it is up.")]
Hours = Annotated[float, typer.Option("--hours", help="For so long.")]
