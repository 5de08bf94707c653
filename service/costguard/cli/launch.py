"""`costguard launch`, and the options that it shares with `costguard quote`."""

from __future__ import annotations

import re
import secrets
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from costguard.cli import jobs
from costguard.cli.job_page import show_ssh
from costguard.cli.options import DEFAULT_URL, AsJson, Me, Url, hours, utc_moment
from costguard.cli.server import ServerClient, WrongUsage
from costguard.cli.tables import Answer, clean_lines, render, say
from costguard.errors import Invalid, ServerUnreachable
from costguard.ledger.narrate import sentence
from costguard.model.checkpoint import Framework
from costguard.model.job import OnHang, WhenLate

_EXAMPLES = """Examples:

  costguard launch a100 --image us-docker.pkg.dev/lab/train/llama:7 --ceiling 60 -- python train.py --epochs 3

  costguard launch t4 --checkpoint gs://lab/run-7 --local /data/out --resume '--from {checkpoint}' -- python train.py

  costguard launch t4 --secret WANDB_API_KEY=projects/lab/secrets/wandb -- python train.py

  costguard launch t4 --workdir . --setup 'pip install -e .' -- python train.py

  costguard launch t4 --dev --wait                 a VM to work on; you are reminded when you forget it
"""
_POLL_S = 5

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
        "--deadline", metavar="TIME", callback=utc_moment, help="When it must be finished: 2026-11-22T08:00Z."
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


def register(app: typer.Typer) -> None:
    app.command("launch", epilog=_EXAMPLES)(launch)


def launch(
    preset: Preset,
    command: Command = None,
    name: Name = "",
    image: Image = "",
    pull: Pull = False,
    checkpoint: Checkpoint = "",
    resume: Resume = "",
    framework: HowSaved = None,
    pattern: Pattern = "",
    marker: Marker = "",
    local: Local = "",
    keep: Keep = None,
    uploads_itself: UploadsItself = False,
    input_: Input = None,
    output: Output = None,
    workdir: Workdir = "",
    setup: Setup = "",
    step_pattern: StepPattern = "",
    metric: MetricPattern = "",
    better: Better = "lower",
    aws_role: AwsRole = "",
    bandwidth: Bandwidth = None,
    env: Env = None,
    secret: Secret = None,
    cd: Cd = "",
    mount: Mount = None,
    project: ProjectId = "",
    zone: Zones = None,
    spot: Spot = None,
    fallback: Fallback = None,
    machine_type: MachineType = None,
    disk: Disk = None,
    boot_image: BootImage = None,
    max_run: MaxRun = None,
    ceiling: Ceiling = None,
    deadline: Deadline = None,
    work: Work = None,
    steps: Steps = None,
    when_late: Late = WhenLate.FINISH,
    on_hang: Hang = OnHang.TELL,
    stacks: Stacks = False,
    drill: Drill = False,
    max_preemptions: MaxPreemptions = None,
    max_crashes: MaxCrashes = None,
    owner: Me = "",
    dev: Dev = False,
    key: Key = "",
    wait: Wait = False,
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Launch a job: a command that is run to its end on as many VMs as it takes, or a VM to work on."""
    options = dict(locals())
    server = ServerClient(url)
    _launch(server, request(server, options), key or secrets.token_hex(16), wait, as_json)


def request(server: ServerClient, options: Mapping[str, Any]) -> dict[str, Any]:
    """The request for a job; its work directory is packed and sent first. Raises WrongUsage."""
    body = _body(options["preset"], options["command"], options)
    if options["workdir"]:
        from costguard.cli import code  # only here: packing loads what no other command needs

        try:
            body["code"] = code.sent(server, Path(options["workdir"]).expanduser(), tell)
        except Invalid as wrong:
            raise WrongUsage(f"--workdir: {wrong.message}", wrong.what_next) from None
    return body


def _body(preset: str, command: list[str] | None, options: Mapping[str, Any]) -> dict[str, Any]:
    """The request for a job. `options` are those of `launch`, by the names of its parameters."""
    overrides = given(
        zones=options["zone"],
        spot=options["spot"],
        machine_type=options["machine_type"],
        disk_gib=options["disk"],
        image=options["boot_image"],
    )
    overrides |= given(max_run_hours=options["max_run"], on_demand_fallback=options["fallback"])
    body: dict[str, Any] = {
        "kind": "dev" if options["dev"] else "training",
        "preset": preset,
        "project": options["project"],
        "name": options["name"],
        "command": command or [],
        "image": options["image"],
        "environment": _pairs(options["env"], "--env", "EPOCHS=3"),
        "secrets": _pairs(options["secret"], "--secret", "WANDB_API_KEY=projects/lab/secrets/wandb"),
        "workdir": options["cd"],
        "mounts": options["mount"] or [],
        "checkpoint": _checkpoint(
            options["checkpoint"],
            {
                "resume": options["resume"],
                "framework": options["framework"],
                "pattern": options["pattern"],
                "marker": options["marker"],
                "local": options["local"],
                "keep": options["keep"],
                "uploads_itself": options["uploads_itself"],
            },
        ),
        **data_options(options["input_"], options["output"]),
        "setup": options["setup"],
        "aws_role": options["aws_role"],
        "bandwidth_mib_s": options["bandwidth"],
        "metric": {"pattern": options["metric"], "better": options["better"]} if options["metric"] else None,
        "step_pattern": options["step_pattern"],
        "ceiling": options["ceiling"],
        "deadline": options["deadline"],
        "work_hours": options["work"],
        "total_steps": options["steps"],
        "when_late": options["when_late"],
        "on_hang": options["on_hang"],
        "stacks": options["stacks"],
        "drill": options["drill"],
        "overrides": overrides or None,
    }
    body |= given(
        owner=options["owner"] or None,
        pull=options["pull"] or None,
        max_preemptions=options["max_preemptions"],
        max_crashes=options["max_crashes"],
    )
    return body


def given(**values: object) -> dict[str, object]:
    """Those options that were given."""
    return {name: value for name, value in values.items() if value not in (None, [])}


def data_options(inputs: list[str] | None, outputs: list[str] | None) -> dict[str, Any]:
    """`--input` and `--output` as parts of a request."""
    sources = _places(inputs, "--input", "s3://b/v7=/data")
    results = _places(outputs, "--output", "/data/model=s3://b/m")
    return {
        "inputs": [{"source": source, "path": path} for source, path in sources],
        "outputs": [{"path": path, "destination": place} for path, place in results],
    }


def _launch(server: ServerClient, body: dict[str, Any], key: str, wait: bool, as_json: bool) -> None:
    try:
        answer = server.post("jobs", body=body, key=key)
    except ServerUnreachable as error:
        again = f"Repeating the command with --key {key} launches nothing twice, whatever became of this request."
        raise ServerUnreachable(error.message, f"{error.what_next} {again}") from None
    if wait:
        speak = _discard if as_json else tell
        pause = threading.Event()
        try:
            answer = jobs.follow(server, answer, speak, lambda: pause.wait(_POLL_S))
        except KeyboardInterrupt:
            speak(f"The job goes on. See it with: costguard job {answer['job']['id']}")
            raise
    render(answer, as_json, _show_launched)
    if wait and answer["job"]["state"] not in jobs.GOOD:
        raise typer.Exit(1)


def _show_launched(console: Console, answer: Answer) -> None:
    job = answer["job"]
    say(console, f"{job['title']}  {job['id']}  {job['state']}", "bold")
    say(console, sentence(job["reason"]))
    if answer["ssh_command"]:
        show_ssh(console, answer)
    elif job["kind"] == "dev":
        say(console, f"How to reach it, once it is up: costguard job {job['id']}")
    else:
        say(console, f"See it with: costguard job {job['id']}; cancel it with: costguard cancel {job['id']}")


def tell(line: str) -> None:
    print(clean_lines(line), file=sys.stderr, flush=True)


def _discard(_: str) -> None:
    """With --json, progress is not printed."""


def _checkpoint(location: str, how: dict[str, object]) -> dict[str, object] | None:
    how = {name: value for name, value in how.items() if value not in (None, "", False)}
    if not location and how:
        options = ", ".join(f"--{name.replace('_', '-')}" for name in how)
        raise WrongUsage(f"{options}: there is no checkpoint location.", "Say where: --checkpoint URI.")
    return {"location": location, **how} if location else None


def _places(given: list[str] | None, option: str, example: str) -> list[tuple[str, str]]:
    """The two sides of each. A bucket's path may hold `=`, as in `day=7`: the one before `/` or a scheme separates."""
    places = []
    for text in given or ():
        parts = re.split(r"=(?=/|[a-z][a-z0-9]*://)", text)
        if len(parts) != 2 or not all(parts):
            raise typer.BadParameter(f"expected FROM=TO, such as {example}.", param_hint=option)
        places.append((parts[0], parts[1]))
    return places


def _pairs(given: list[str] | None, option: str, example: str) -> dict[str, str]:
    """An error does not repeat what follows `=`: it may be a secret that was meant for another option."""
    pairs: dict[str, str] = {}
    for text in given or ():
        name, sign, value = text.partition("=")
        if not sign or not name:
            raise typer.BadParameter(f"expected NAME=VALUE, such as {example}.", param_hint=option)
        if name in pairs:
            raise typer.BadParameter(f"{name} is given twice.", param_hint=option)
        pairs[name] = value
    return pairs
