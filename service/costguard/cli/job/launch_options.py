"""Options of a job: each is declared once, for `launch`, `quote`, a job's file and a sweep's file."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, fields
from functools import wraps
from typing import Annotated, Any, get_args, get_type_hints

import typer
from typer.models import ArgumentInfo

from costguard.cli.options import Me, hours, moment_or_span
from costguard.cli.server import BODY_OPTIONS, WrongUsage
from costguard.model.duration import read_span
from costguard.model.job import OnHang, WhenLate
from costguard_vm.model.checkpoint import Framework

_CODE, _CHECKPOINTS, _DATA = "Command and code", "Checkpoints", "Data"
_VM, _COST, _WATCH = "VM", "Cost and time", "Progress and drills"


@dataclass(frozen=True, slots=True)
class _Sends:
    """Where in the request an option's value goes, such as `overrides.zones`, and what it is made of."""

    place: str
    made: Callable[[Any], Any] = lambda value: value


def _option(name: str, metavar: str | None, words: str, panel: str, *more: str, **how: Any) -> Any:
    """`metavar` names the value's type; None: a switch."""
    return typer.Option(name, *more, metavar=metavar, help=words, rich_help_panel=panel, **how)


def _places(option: str, example: str, names: tuple[str, str]) -> Callable[[list[str]], list[dict[str, str]]]:
    """The two sides of each. A bucket's path may hold `=`, as in `day=7`: the one before `/` or a scheme separates."""

    def made(given: list[str]) -> list[dict[str, str]]:
        places = []
        for text in given:
            parts = re.split(r"=(?=/|[a-z][a-z0-9]*://)", text)
            if len(parts) != 2 or not all(parts):
                raise typer.BadParameter(f"expected FROM=TO, such as {example}.", param_hint=option)
            places.append(dict(zip(names, parts, strict=True)))
        return places

    return made


def _pairs(option: str, example: str) -> Callable[[list[str]], dict[str, str]]:
    """An error does not repeat what follows `=`: it may be a secret that was meant for another option."""

    def made(given: list[str]) -> dict[str, str]:
        pairs: dict[str, str] = {}
        for text in given:
            name, sign, value = text.partition("=")
            if not sign or not name:
                raise typer.BadParameter(f"expected NAME=VALUE, such as {example}.", param_hint=option)
            if name in pairs:
                raise typer.BadParameter(f"{name} is given twice.", param_hint=option)
            pairs[name] = value
        return pairs

    return made


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOptions:
    """A job as it was written, in a command line or a file. What was left out is left to the server."""

    preset: Annotated[
        str,
        typer.Argument(
            metavar="PRESET|FILE", help="The kind of VM, such as t4 or a100; or a job's file, such as job.toml."
        ),
        _Sends("preset"),
    ]
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="-- COMMAND", help="The command to run, with its own options."),
        _Sends("command"),
    ] = None
    name: Annotated[
        str, _option("--name", "NAME", "A name for people, by which it is found too.", _CODE), _Sends("name")
    ] = ""
    image: Annotated[str, _option("--image", "REF", "Container image, by tag or digest.", _CODE), _Sends("image")] = ""
    pull: Annotated[
        bool,
        _option("--pull", None, "Pull the image's tag again on each VM; else all run the first VM's digest.", _CODE),
        _Sends("pull"),
    ] = False
    workdir: Annotated[
        str,
        _option(
            "--workdir",
            "DIR",
            "A folder of this computer with the job's code, such as '.': it travels to each VM, and the command runs "
            "in it.",
            _CODE,
        ),
    ] = ""
    cd: Annotated[
        str,
        _option("--cd", "PATH", "The folder on the VM to run the command in; relative: below --workdir's.", _CODE),
        _Sends("workdir"),
    ] = ""
    setup: Annotated[
        str,
        _option("--setup", "COMMAND", "A shell command to run once on each VM before the command.", _CODE),
        _Sends("setup"),
    ] = ""
    env: Annotated[
        list[str] | None,
        _option("--env", "NAME=VALUE", "A variable; repeatable. Not for secrets.", _CODE, "-e"),
        _Sends("environment", _pairs("--env", "EPOCHS=3")),
    ] = None
    secret: Annotated[
        list[str] | None,
        _option("--secret", "NAME=REF", "A variable that holds a secret, by reference; repeatable.", _CODE),
        _Sends("secrets", _pairs("--secret", "WANDB_API_KEY=projects/lab/secrets/wandb")),
    ] = None
    checkpoint: Annotated[
        str,
        _option(
            "--checkpoint",
            "URI",
            "The location of checkpoints: gs://, s3://, or a path on the disk; a folder or a file.",
            _CHECKPOINTS,
        ),
        _Sends("checkpoint.location"),
    ] = ""
    resume: Annotated[
        str,
        _option("--resume", "TEMPLATE", "Appended to resume, such as '--from_checkpoint {checkpoint}'.", _CHECKPOINTS),
        _Sends("checkpoint.resume"),
    ] = ""
    framework: Annotated[
        Framework | None,
        _option(
            "--framework",
            "NAME",
            f"{', '.join(Framework)}. Default: recognised by the file names.",
            _CHECKPOINTS,
            "-f",
        ),
        _Sends("checkpoint.framework"),
    ] = None
    pattern: Annotated[
        str,
        _option("--pattern", "PATH", "Path of plain checkpoint files, with {step}.", _CHECKPOINTS),
        _Sends("checkpoint.pattern"),
    ] = ""
    marker: Annotated[
        str,
        _option("--marker", "NAME", "File that is written last, in a checkpoint's folder.", _CHECKPOINTS),
        _Sends("checkpoint.marker"),
    ] = ""
    local: Annotated[
        str,
        _option(
            "--local",
            "PATH",
            "The folder or file on the VM whose checkpoints are uploaded to --checkpoint and brought back.",
            _CHECKPOINTS,
        ),
        _Sends("checkpoint.local"),
    ] = ""
    keep: Annotated[
        int | None,
        _option("--keep", "N", "Checkpoints that stay at --checkpoint; 0: all. Default: 3.", _CHECKPOINTS, min=0),
        _Sends("checkpoint.keep"),
    ] = None
    uploads_itself: Annotated[
        bool,
        _option("--uploads-itself", None, "The command writes to --checkpoint by itself.", _CHECKPOINTS),
        _Sends("checkpoint.uploads_itself"),
    ] = False
    input_: Annotated[
        list[str] | None,
        _option("--input", "URI=PATH", "Data to download before the command starts; repeatable.", _DATA),
        _Sends("inputs", _places("--input", "s3://b/v7=/data", ("source", "path"))),
    ] = None
    output: Annotated[
        list[str] | None,
        _option("--output", "PATH=URI", "Data to publish when the command succeeds; repeatable.", _DATA),
        _Sends("outputs", _places("--output", "/data/model=s3://b/m", ("path", "destination"))),
    ] = None
    mount: Annotated[
        list[str] | None,
        _option("--mount", "FROM:TO", "A folder of the VM in the container; repeatable.", _DATA),
        _Sends("mounts"),
    ] = None
    aws_role: Annotated[
        str,
        _option("--aws-role", "ARN", "The role at AWS that the VM assumes, instead of keys.", _DATA),
        _Sends("aws_role"),
    ] = ""
    bandwidth: Annotated[
        int | None,
        _option("--bandwidth", "MIB_PER_S", "The limit on uploads and downloads together.", _DATA, min=1),
        _Sends("bandwidth_mib_s"),
    ] = None
    project: Annotated[
        str,
        _option(
            "--project",
            "PROJECT",
            "The project, needed only where several are watched.",
            _VM,
            "-p",
            envvar="COSTGUARD_PROJECT",
        ),
        _Sends("project"),
    ] = ""
    zone: Annotated[
        list[str] | None, _option("--zone", "ZONE", "Only this zone; repeatable.", _VM), _Sends("overrides.zones")
    ] = None
    spot: Annotated[
        bool | None, _option("--spot/--on-demand", None, "Replace the preset's model.", _VM), _Sends("overrides.spot")
    ] = None
    fallback: Annotated[
        bool | None,
        _option("--fallback/--no-fallback", None, "Use on-demand where Spot is out of stock, or wait for Spot.", _VM),
        _Sends("overrides.on_demand_fallback"),
    ] = None
    machine_type: Annotated[
        str | None,
        _option("--machine-type", "TYPE", "Use this machine type instead of the preset's.", _VM),
        _Sends("overrides.machine_type"),
    ] = None
    disk: Annotated[
        int | None, _option("--disk", "GIB", "Size of the boot disk.", _VM), _Sends("overrides.disk_gib")
    ] = None
    boot_image: Annotated[
        str | None,
        _option("--boot-image", "IMAGE", "The VM's image, instead of the preset's.", _VM),
        _Sends("overrides.image"),
    ] = None
    max_run: Annotated[
        float | None,
        _option("--max-run", "HOURS", "The longest that each VM may run.", _VM),
        _Sends("overrides.max_run_hours"),
    ] = None
    dev: Annotated[
        bool,
        _option("--dev", None, "A VM to work on, without a command. It is not replaced.", _VM),
        _Sends("kind", lambda _: "dev"),
    ] = False
    ceiling: Annotated[
        str | None, _option("--ceiling", "USD", "The most that the whole job may cost.", _COST), _Sends("ceiling")
    ] = None
    deadline: Annotated[
        str | None,
        _option(
            "--deadline",
            "TIME|SPAN",
            "The time by which it must be finished: 2026-11-22T08:00Z, or 18h from now.",
            _COST,
            callback=moment_or_span,
        ),
        _Sends("deadline"),
    ] = None
    work: Annotated[
        float | None,
        _option("--work", "SPAN", "The time that it takes without interruptions, such as 16h.", _COST, parser=hours),
        _Sends("work_hours"),
    ] = None
    steps: Annotated[
        int | None, _option("--steps", "N", "The total number of steps.", _COST, min=1), _Sends("total_steps")
    ] = None
    when_late: Annotated[
        WhenLate,
        _option(
            "--when-late",
            "finish|stop",
            "finish: go on past the deadline, within the ceiling; stop: stop at the deadline, after a checkpoint.",
            _COST,
        ),
        _Sends("when_late"),
    ] = WhenLate.FINISH
    max_preemptions: Annotated[
        int | None,
        _option("--max-preemptions", "N", "The preemptions that it survives. Default: 100.", _COST, min=0),
        _Sends("max_preemptions"),
    ] = None
    max_crashes: Annotated[
        int | None,
        _option("--max-crashes", "N", "The crashes after progress that it survives. Default: 0.", _COST, min=0),
        _Sends("max_crashes"),
    ] = None
    step_pattern: Annotated[
        str,
        _option("--step-pattern", "REGEX", "Find the step in the output; its first group is the number.", _WATCH),
        _Sends("step_pattern"),
    ] = ""
    metric: Annotated[
        str,
        _option("--metric", "REGEX", "Find a number in the output, such as 'val_loss (\\S+)'.", _WATCH),
        _Sends("metric.pattern"),
    ] = ""
    better: Annotated[
        str, _option("--better", "lower|higher", "The better direction of the metric.", _WATCH), _Sends("metric.better")
    ] = "lower"
    mlflow_run: Annotated[
        str, _option("--mlflow-run", "ID", "The MLflow run to log the job's cost to.", _WATCH), _Sends("mlflow_run")
    ] = ""
    wandb_run: Annotated[
        str,
        _option("--wandb-run", "ENTITY/PROJECT/RUN", "The W&B run whose summary shows the job's cost.", _WATCH),
        _Sends("wandb_run"),
    ] = ""
    on_hang: Annotated[
        OnHang,
        _option(
            "--on-hang",
            "tell|restart",
            "restart: a command without progress is restarted from its newest checkpoint.",
            _WATCH,
        ),
        _Sends("on_hang"),
    ] = OnHang.TELL
    stacks: Annotated[
        bool,
        _option("--stacks", None, "Allow 30-second looks at where the command's main thread stands.", _WATCH),
        _Sends("stacks"),
    ] = False
    drill: Annotated[bool, _option("--drill", None, "Try a save on a notice once, early.", _WATCH), _Sends("drill")] = (
        False
    )
    owner: Annotated[Me, _Sends("owner")] = ""

    @property
    def body(self) -> dict[str, Any]:
        """The request for this job, without its code. Raises WrongUsage and typer.BadParameter."""
        body: dict[str, Any] = {}
        for option, _, sends in _SENT:
            value = getattr(self, option.name)
            if value == option.default or value in (None, [], ()):
                continue
            part, _, name = sends.place.rpartition(".")
            (body.setdefault(part, {}) if part else body)[name] = sends.made(value)
        _check_parts(body)
        if self.deadline is not None and read_span(self.deadline):
            body["deadline_in_hours"] = hours(body.pop("deadline"))
        return body


def _sent() -> Iterator[tuple[Field[Any], str, _Sends]]:
    """Each option that goes into the request as it is, and how it is typed."""
    hints = get_type_hints(JobOptions, include_extras=True)
    for option in fields(JobOptions):
        _, declared, *more = get_args(hints[option.name])
        is_argument = isinstance(declared, ArgumentInfo)
        typed = str(declared.metavar).removeprefix("-- ").partition("|")[0] if is_argument else declared.default
        yield from ((option, str(typed).partition("/")[0], sends) for sends in more)


_SENT = tuple(_sent())
BODY_OPTIONS.update({sends.place: typed for _, typed, sends in _SENT})


def _check_parts(body: Mapping[str, Any]) -> None:
    """Options that say how without one that says what."""
    how = body.get("checkpoint", {})
    if how and "location" not in how:
        options = ", ".join(f"--{name.replace('_', '-')}" for name in how)
        raise WrongUsage(f"{options}: there is no checkpoint location.", "Say where: --checkpoint URI.")
    if "pattern" not in body.get("metric", {"pattern": ""}):
        raise WrongUsage("--better: there is no metric.", "Say which: --metric REGEX.")


def takes_job(command: Callable[..., None]) -> Callable[..., None]:
    """A command with all options of a job in front of its own; it is called with a `JobOptions`."""

    @wraps(command)
    def called(**given: Any) -> None:
        job = JobOptions(**{option.name: given.pop(option.name) for option in fields(JobOptions)})
        command(job, **given)

    hints = get_type_hints(JobOptions, include_extras=True)
    parameters = [
        inspect.Parameter(
            option.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if option.default is MISSING else option.default,
            annotation=hints[option.name],
        )
        for option in fields(JobOptions)
    ]
    _, *own = inspect.signature(command, eval_str=True).parameters.values()
    own = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in own]
    called.__signature__ = inspect.Signature([*parameters, *own])  # type: ignore[attr-defined]
    called.__annotations__ = {one.name: one.annotation for one in (*parameters, *own)}
    return called
