"""`costguard launch` and `costguard quote`."""

from __future__ import annotations

import secrets
import sys
import threading
from typing import Any, Literal

import typer

from costguard.cli import job_wait, launch_table
from costguard.cli import launch_options as has
from costguard.cli.client import Server, WrongUsage
from costguard.cli.format import clean_lines
from costguard.cli.options import DEFAULT_URL, AsJson, Me, Url, print_json
from costguard.cli.tables import console
from costguard.errors import ServerUnreachable
from costguard.model.checkpoint import Framework

_LAUNCH_EXAMPLES = """Examples:

  costguard launch a100 --image us-docker.pkg.dev/lab/train/llama:7 --ceiling 60 -- python train.py --epochs 3

  costguard launch t4 --checkpoint gs://lab/run-7 --resume '--from_checkpoint {checkpoint}' -- python train.py

  costguard launch t4 --secret WANDB_API_KEY=projects/lab/secrets/wandb -- python train.py

  costguard launch t4 --dev --wait                 a VM to work on; Costguard asks when it is forgotten
"""
_QUOTE_EXAMPLES = """Examples:

  costguard quote a100 --hours 40                  Spot and on-demand in every zone, the best place first

  costguard quote a100 --zone us-central1-a --on-demand --json
"""
_EACH_S = 5


def register(app: typer.Typer) -> None:
    app.command("launch", epilog=_LAUNCH_EXAMPLES)(launch)
    app.command("quote", epilog=_QUOTE_EXAMPLES)(quote)


def launch(
    preset: has.Preset,
    command: has.Command = None,
    name: has.Name = "",
    image: has.Image = "",
    pull: has.Pull = False,
    checkpoint: has.Checkpoint = "",
    resume: has.Resume = "",
    framework: has.HowSaved = None,
    pattern: has.Pattern = "",
    marker: has.Marker = "",
    step_pattern: has.StepPattern = "",
    env: has.Env = None,
    secret: has.Secret = None,
    workdir: has.Workdir = "",
    mount: has.Mount = None,
    project: has.Project = "",
    zone: has.Zones = None,
    spot: has.Spot = None,
    fallback: has.Fallback = None,
    machine_type: has.MachineType = None,
    disk: has.Disk = None,
    boot_image: has.BootImage = None,
    max_run: has.MaxRun = None,
    ceiling: has.Ceiling = None,
    deadline: has.Deadline = None,
    hours: has.Expected = None,
    max_preemptions: has.MaxPreemptions = None,
    max_crashes: has.MaxCrashes = None,
    owner: Me = "",
    dev: has.Dev = False,
    key: has.Key = "",
    wait: has.Wait = False,
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Launch a job: a command that Costguard brings to its end on as many VMs as it takes, or a VM to work on.

    Exits 1 when a job that was waited for did not succeed.
    """
    body: dict[str, Any] = {
        "kind": _kind(dev),
        "preset": preset,
        "project": project,
        **({"owner": owner} if owner else {}),
        "name": name,
        "command": command or [],
        "image": image,
        **({"pull": True} if pull else {}),
        "environment": _pairs(env, "--env", "EPOCHS=3"),
        "secrets": _pairs(secret, "--secret", "WANDB_API_KEY=projects/lab/secrets/wandb"),
        "workdir": workdir,
        "mounts": mount or [],
        "checkpoint": _checkpoint(checkpoint, resume, framework, pattern, marker),
        "step_pattern": step_pattern,
        "ceiling": ceiling,
        "deadline": deadline,
        "expected_hours": hours,
        "overrides": _overrides(
            zones=zone,
            spot=spot,
            machine_type=machine_type,
            disk_gib=disk,
            max_run_hours=max_run,
            on_demand_fallback=fallback,
            image=boot_image,
        ),
    }
    limits = {"max_preemptions": max_preemptions, "max_crashes": max_crashes}
    body |= {limit: value for limit, value in limits.items() if value is not None}
    server, key = Server(url), key or secrets.token_hex(16)
    try:
        made = server.post("jobs", body=body, key=key)
    except ServerUnreachable as error:
        again = f"If it had been taken in already, the same command with --key {key} launches nothing twice."
        raise ServerUnreachable(error.message, f"{error.what_next} {again}") from None
    if wait:
        tell = _quiet if as_json else _say
        pause = threading.Event()
        try:
            made = job_wait.follow(server, made, tell, lambda: pause.wait(_EACH_S))
        except KeyboardInterrupt:
            tell(f"The job goes on. See it with: costguard job {made['job']['id']}")
            raise
    print_json(made) if as_json else launch_table.show_launched(console(), made)
    if wait and made["job"]["state"] not in job_wait.GOOD:
        raise typer.Exit(1)


def quote(
    preset: has.Preset,
    hours: has.Hours = 1,
    project: has.Project = "",
    zone: has.Zones = None,
    spot: has.Spot = None,
    machine_type: has.MachineType = None,
    disk: has.Disk = None,
    ceiling: has.Ceiling = None,
    deadline: has.Deadline = None,
    dev: has.Dev = False,
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """What a launch would cost, Spot and on-demand, zone by zone. Nothing is launched."""
    overrides = _overrides(zones=zone, spot=spot, machine_type=machine_type, disk_gib=disk)
    body: dict[str, Any] = {"kind": _kind(dev), "preset": preset, "project": project, "hours": hours}
    body["overrides"] = overrides
    if ceiling or deadline:
        body |= {"ceiling": ceiling, "deadline": deadline, "expected_hours": hours}
    answer = Server(url).post("quotes", body=body)
    print_json(answer) if as_json else launch_table.show_quote(console(), answer)


def _say(line: str) -> None:
    print(clean_lines(line), file=sys.stderr, flush=True)


def _quiet(_: str) -> None:
    """Standard error is for people."""


def _kind(dev: bool) -> Literal["training", "dev"]:
    return "dev" if dev else "training"


def _overrides(**given: object) -> dict[str, object] | None:
    return {name: value for name, value in given.items() if value not in (None, [])} or None


def _checkpoint(
    location: str, resume: str, framework: Framework | None, pattern: str, marker: str
) -> dict[str, object] | None:
    how = {"resume": resume, "framework": framework, "pattern": pattern, "marker": marker}
    if not location and any(how.values()):
        raise WrongUsage(
            "--resume, --framework, --pattern and --marker are about checkpoints.", "Say where: --checkpoint URI."
        )
    return {"location": location, **how} if location else None


def _pairs(given: list[str] | None, option: str, example: str) -> dict[str, str]:
    """What is after `=` is not repeated in an error: it may be a secret that was meant for another option."""
    made: dict[str, str] = {}
    for each in given or ():
        name, sign, value = each.partition("=")
        if not sign or not name:
            raise typer.BadParameter(f"expected NAME=VALUE, such as {example}.", param_hint=option)
        if name in made:
            raise typer.BadParameter(f"{name} is given twice.", param_hint=option)
        made[name] = value
    return made
