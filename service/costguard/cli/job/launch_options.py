"""The options of `launch`, `quote`, a job's file and a sweep's file, made of the declarations of a job's options."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import wraps
from typing import Annotated, Any

import typer

from costguard.cli.options import Me, hours, moment_or_span
from costguard.cli.server import BODY_OPTIONS, WrongUsage
from costguard.model.duration import read_span
from costguard.model.options.job import JOB_OPTIONS
from costguard.model.options.node_count import node_count
from costguard.model.options.option import Flag, Option, Panel, Takes, two_places

_PRESET = typer.Argument(
    metavar="PRESET|FILE", help="The kind of VM, such as t4 or a100; or a job's file, such as job.toml."
)
_COMMAND = typer.Argument(metavar="-- COMMAND", help="The command to run, with its own options.")
_WORKDIR = typer.Option(
    "--workdir",
    metavar="DIR",
    help="A folder of this computer with the job's code, such as '.': it travels to each VM, and the command runs "
    "in it.",
    rich_help_panel=Panel.CODE,
)
_DEV = typer.Option("--dev", help="A VM to work on, without a command. It is not replaced.", rich_help_panel=Panel.VM)


@dataclass(frozen=True, slots=True)
class JobOptions:
    """A job as it was written, in a command line or a file: values by the names of the command's parameters.

    What was left out is left to the server.
    """

    given: Mapping[str, Any]

    def __getitem__(self, name: str) -> Any:
        return self.given[name]

    @property
    def workdir(self) -> str:
        """Returns the folder of this computer whose code travels; "" is none."""
        return str(self["workdir"])

    @property
    def body(self) -> dict[str, Any]:
        """The request for this job, without its code. Raises WrongUsage and typer.BadParameter."""
        return checked(self.parts())

    def parts(self, typed: Collection[str] | None = None) -> dict[str, Any]:
        """The parts of the request. With `typed`, the names of the parameters that a person gave, those alone count,
        also where they repeat a default. Raises typer.BadParameter.
        """
        body: dict[str, Any] = {"kind": "dev"} if self["dev"] else {}
        for option, parameter in _SENT:
            value = self[parameter.name]
            is_left_out = value == parameter.default if typed is None else parameter.name not in typed
            if is_left_out or value in (None, [], ()):
                continue
            made = _MADE.get(option.takes)
            part = body.setdefault(option.group, {}) if option.group else body
            part[option.name] = value if made is None else made(option, value)
        if read_span(body.get("deadline", "")):
            body["deadline_in_hours"] = hours(body.pop("deadline"))
        return body


def checked(body: dict[str, Any]) -> dict[str, Any]:
    """The same request. Raises WrongUsage for options that say how, without one that says what."""
    how = body.get("checkpoint", {})
    if how and "location" not in how:
        options = ", ".join(f"--{name.replace('_', '-')}" for name in how)
        raise WrongUsage(f"{options}: there is no checkpoint location.", "Say where: --checkpoint URI.")
    if "pattern" not in body.get("metric", {"pattern": ""}):
        raise WrongUsage("--better: there is no metric.", "Say which: --metric REGEX.")
    return body


def parameters_of(options: Iterable[Option] = JOB_OPTIONS) -> Iterator[tuple[Option | None, inspect.Parameter]]:
    """Yields the parameters of a command that takes these options, each with its option, if it sends one as it is."""
    by_place = {option.place: option for option in options}
    yield by_place["preset"], _parameter("preset", Annotated[str, _PRESET], inspect.Parameter.empty)
    yield by_place["command"], _parameter("command", Annotated[list[str] | None, _COMMAND], None)
    for option in by_place.values():
        if option.place == "workdir":
            yield None, _parameter("workdir", Annotated[str, _WORKDIR], "")
        if option.flag is not None:
            yield option, _parameter(_flag_name(option), Annotated[_typed(option), _declared(option)], _default(option))
        if option.place == "kind":
            yield None, _parameter("dev", Annotated[bool, _DEV], False)
    yield by_place["owner"], _parameter("owner", Me, "")


def takes_job(command: Callable[..., None], options: Iterable[Option] = JOB_OPTIONS) -> Callable[..., None]:
    """A command with all options of a job in front of its own; it is called with a `JobOptions`."""
    parameters = [parameter for _, parameter in parameters_of(options)]

    @wraps(command)
    def called(**given: Any) -> None:
        command(JobOptions({one.name: given.pop(one.name) for one in parameters}), **given)

    _, *own = inspect.signature(command, eval_str=True).parameters.values()
    own = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in own]
    called.__signature__ = inspect.Signature([*parameters, *own])  # type: ignore[attr-defined]
    called.__annotations__ = {one.name: one.annotation for one in (*parameters, *own)}
    return called


def _parameter(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _flag(option: Option) -> Flag:
    if option.flag is None:
        raise LookupError(f"No command has the option {option.place}.")
    return option.flag


def _flag_name(option: Option) -> str:
    return _flag(option).name.partition("/")[0].removeprefix("--").replace("-", "_")


def _typed(option: Option) -> Any:
    """Returns the type of a parameter; what may be left out has a type with None."""
    kinds = {Takes.SWITCH: bool, Takes.COUNT: int, Takes.HOURS: float}
    kind: Any = kinds.get(option.takes, str)
    if option.takes in _REPEATED:
        kind = list[str]
    elif isinstance(option.choices, type) and issubclass(option.choices, StrEnum):
        kind = option.choices
    return kind if _default(option) is not None else kind | None


def _default(option: Option) -> Any:
    """Returns what stands for "not given". A count's default is left to the server."""
    is_left_out = option.takes in _REPEATED or option.takes in (Takes.COUNT, Takes.NODES) or option.group == "overrides"
    return None if is_left_out else option.unset


def _declared(option: Option) -> Any:
    flag = _flag(option)
    more: dict[str, Any] = {}
    if option.takes is Takes.COUNT and option.most is not None:
        more["min"] = option.least
    elif option.takes is Takes.NODES:
        more["parser"] = _nodes
    elif option.takes is Takes.HOURS:
        more["parser"] = _hours
    elif option.takes is Takes.MOMENT:
        more["callback"] = moment_or_span
    return typer.Option(
        flag.name,
        *([flag.short] if flag.short else []),
        metavar=flag.metavar or None,
        help=flag.help,
        rich_help_panel=option.panel,
        envvar=flag.variable or None,
        **more,
    )


def _hours(text: str) -> float:
    """Reads a span such as 12h; a number alone is of hours."""
    return float(text) if re.fullmatch(r"[0-9]{1,5}(\.[0-9]{1,4})?", text) else hours(text)


def _nodes(text: str) -> int | str:
    """Reads a number of VMs, or a range of them, as a request has it."""
    try:
        count = node_count(text)
    except ValueError as wrong:
        raise typer.BadParameter(str(wrong)) from None
    return count if isinstance(count, int) else str(count)


def _places(option: Option, given: list[str]) -> list[dict[str, str]]:
    """Returns the two sides of each by their names."""
    places = []
    for text in given:
        if (sides := two_places(text)) is None:
            message = f"expected FROM=TO, such as {option.typed_example}."
            raise typer.BadParameter(message, param_hint=_flag(option).name)
        places.append(dict(zip(option.sides, sides, strict=True)))
    return places


def _pairs(option: Option, given: list[str]) -> dict[str, str]:
    """An error does not repeat what follows `=`: it may be a secret that was meant for another option."""
    pairs: dict[str, str] = {}
    for text in given:
        name, sign, value = text.partition("=")
        if not sign or not name:
            ((key, example),) = option.examples[0].items()
            message = f"expected NAME=VALUE, such as {key}={example}."
            raise typer.BadParameter(message, param_hint=_flag(option).name)
        if name in pairs:
            raise typer.BadParameter(f"{name} is given twice.", param_hint=_flag(option).name)
        pairs[name] = value
    return pairs


_REPEATED = frozenset({Takes.LINES, Takes.PAIRS, Takes.PLACES})
_MADE: Mapping[Takes, Callable[[Option, Any], Any]] = {Takes.PLACES: _places, Takes.PAIRS: _pairs}
_SENT = tuple((option, parameter) for option, parameter in parameters_of() if option is not None)
BODY_OPTIONS.update(
    {option.place: option.flag.name.partition("/")[0] for option, _ in _SENT if option.flag is not None}
    | {"preset": "PRESET", "command": "COMMAND", "owner": "--owner", "kind": "--dev"}
)
