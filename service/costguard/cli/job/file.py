"""job.toml: one job in a file, by the options of `costguard launch`. A sweep's [launch] has {names} in them."""

from __future__ import annotations

import shlex
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import typer
from typer.main import get_command

from costguard.cli.command_line import Command
from costguard.cli.job.launch_options import JobOptions, parameters_of, takes_job
from costguard.cli.server import WrongUsage

ENDING = ".toml"
_LISTED = "`costguard launch --help` lists options."
_EXAMPLE = 'Write such as preset = "a100" and command = "python train.py", and other options by their names.'


class JobCommand(Command):
    """`costguard launch job.toml`: the file's options, then those that were typed, which count more."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, _with_file(self, args))


def job_of(section: Mapping[str, Any], where: str) -> JobOptions:
    """The job that these options describe; errors say `where` they stand. Raises WrongUsage."""
    app = typer.Typer()
    app.command("launch")(takes_job(_ignored))
    command = get_command(app)
    try:
        context = command.make_context(where, list(_arguments(section, command, where)))
    except Exception as error:
        if not hasattr(error, "format_message"):  # of every error of a command line
            raise
        raise WrongUsage(f"In {where}: {error.format_message()}", _LISTED) from None
    return JobOptions(context.params)


def _ignored(job: JobOptions) -> None:
    """The job is made of what was parsed."""


def toml_of(path: Path, hint: str) -> dict[str, Any]:
    """Numbers with a point or an exponent stay as they were written. Raises WrongUsage with this hint."""
    try:
        return tomllib.loads(path.read_text("utf-8"), parse_float=str)
    except (OSError, UnicodeError) as error:
        raise WrongUsage(f"{path} cannot be read: {error}.", hint) from None
    except tomllib.TOMLDecodeError as error:
        raise WrongUsage(f"{path} is no TOML: {error}.", hint) from None


def _with_file(command: Any, typed: list[str]) -> list[str]:
    """Returns the typed arguments, with a file in the place of the preset replaced by its contents."""
    before = typed[: typed.index("--")] if "--" in typed else typed
    takes_value = {name for one in command.params if not getattr(one, "is_flag", True) for name in one.opts}
    files = [
        number
        for number, word in enumerate(before)
        if word.endswith(ENDING) and not (number and before[number - 1] in takes_value)
    ]
    if not files:
        return typed
    file = before[files[0]]
    section = toml_of(Path(file), _EXAMPLE)
    if "grid" in section or "list" in section:
        raise WrongUsage(f"{file} describes a sweep.", f"Launch it with: costguard sweep {file}")
    *options, preset, _, ends = _split(list(_arguments(section, command, file)))
    own_words = typed[len(before) + 1 :]
    rest = [*before[: files[0]], *before[files[0] + 1 :]]
    return [*options, *rest, preset, "--", *(own_words or ends)]


def _split(words: list[str]) -> list[Any]:
    """Options, the preset, `--`, and the list of the command's words."""
    at = words.index("--")
    return [*words[:at], "--", words[at + 1 :]]


def _arguments(section: Mapping[str, Any], command: Any, where: str) -> Iterator[str]:
    """Yields the arguments of a file as they would be typed. The command comes last, after `--`."""
    of_jobs = {parameter.name for _, parameter in parameters_of()}
    by_name = {
        name.removeprefix("--"): option
        for option in command.params
        for name in (*option.opts, *option.secondary_opts)
        if name.startswith("--") and option.name in of_jobs
    }
    for name, value in section.items():
        if name in ("preset", "command"):
            continue
        option = by_name.get(name.replace("_", "-"))
        if option is None:
            raise WrongUsage(f"In {where}: {name} is no option that it takes.", _LISTED)
        yield from _option(option, f"--{name.replace('_', '-')}", value)
    words = section.get("command", [])
    preset = section.get("preset")
    if not isinstance(preset, str):
        raise WrongUsage(f"In {where}: it names no preset.", 'Add one, such as preset = "a100".')
    yield from (preset, "--", *(shlex.split(words) if isinstance(words, str) else map(_text, words)))


def _option(option: Any, name: str, value: Any) -> Iterator[str]:
    """`false` of a flag is its opposite, such as --no-fallback of --fallback; where it has none, it is left out."""
    if isinstance(value, bool):
        opposite = option.secondary_opts if name in option.opts else option.opts
        yield from [name] if value else opposite[:1]
    elif isinstance(value, dict):
        yield from (f"{name}={part}={_text(one)}" for part, one in value.items())
    else:
        yield from (f"{name}={_text(one)}" for one in (value if isinstance(value, list) else [value]))


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
