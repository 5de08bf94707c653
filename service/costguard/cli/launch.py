"""`costguard launch`, and the options that it shares with `costguard quote`."""

from __future__ import annotations

import re
import secrets
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typer
from rich.console import Console

from costguard.cli import jobs
from costguard.cli.job_page import show_ssh
from costguard.cli.launch_options import (
    AwsRole,
    Bandwidth,
    Better,
    BootImage,
    Cd,
    Ceiling,
    Checkpoint,
    Command,
    Deadline,
    Dev,
    Disk,
    Drill,
    Env,
    Fallback,
    Hang,
    HowSaved,
    Image,
    Input,
    Keep,
    Key,
    Late,
    Local,
    MachineType,
    Marker,
    MaxCrashes,
    MaxPreemptions,
    MaxRun,
    MetricPattern,
    MlflowRun,
    Mount,
    Name,
    Output,
    Pattern,
    Preset,
    ProjectId,
    Pull,
    Resume,
    Secret,
    Setup,
    Spot,
    Stacks,
    StepPattern,
    Steps,
    UploadsItself,
    Wait,
    WandbRun,
    Work,
    Workdir,
    Zones,
)
from costguard.cli.options import DEFAULT_URL, AsJson, Me, Url, hours
from costguard.cli.server import ServerClient, WrongUsage
from costguard.cli.tables import Answer, clean_lines, render, say
from costguard.errors import Invalid, ServerUnreachable
from costguard.ledger.narrate import sentence
from costguard.model.duration import read_span
from costguard.model.job import OnHang, WhenLate

_EXAMPLES = """Examples:

  costguard launch a100 --image us-docker.pkg.dev/lab/train/llama:7 --ceiling 60 -- python train.py --epochs 3

  costguard launch t4 --checkpoint gs://lab/run-7 --local /data/out --resume '--from {checkpoint}' -- python train.py

  costguard launch t4 --secret WANDB_API_KEY=projects/lab/secrets/wandb -- python train.py

  costguard launch t4 --workdir . --setup 'pip install -e .' -- python train.py

  costguard launch t4 --dev --wait                 a VM to work on; you are reminded when you forget it
"""
_POLL_S = 5


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
    mlflow_run: MlflowRun = "",
    wandb_run: WandbRun = "",
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
        "mlflow_run": options["mlflow_run"],
        "wandb_run": options["wandb_run"],
        "step_pattern": options["step_pattern"],
        "ceiling": options["ceiling"],
        **deadline_of(options["deadline"]),
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


def deadline_of(text: str | None) -> dict[str, str | float]:
    """`--deadline` as a part of a request."""
    if text is None:
        return {}
    return {"deadline_in_hours": hours(text)} if read_span(text) else {"deadline": text}


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
