"""sweep.toml: parameters with their values, and the options of `costguard launch` with `{names}` in them."""

from __future__ import annotations

import shlex
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import typer
from typer.main import get_command

from costguard.cli.launch import launch
from costguard.cli.server import WrongUsage

_TOP = ("name", "at_once", "ceiling", "grid", "list", "launch")
_OF_THE_COMMAND = frozenset({"key", "wait", "json", "url"})  # of `costguard sweep` itself
_SHOWN = "`costguard sweep init` prints an example."
EXAMPLE = r"""# sweep.toml
name = "learning rate"
at_once = 4              # members at a time; a member that recovers from a preemption keeps its place
ceiling = 120            # dollars, of all members together

[grid]                   # every combination: six members
lr = [1e-4, 3e-4, 1e-3]
seed = [1, 2]

[launch]                 # the options of `costguard launch`, by their names
preset = "a100"
command = "python train.py --lr {lr} --seed {seed}"
workdir = "."
checkpoint = "s3://lab/sweep/{lr}-{seed}"
local = "/data/out"
resume = "--resume_from_checkpoint {checkpoint}"
output = ["/data/out/model=s3://lab/models/{sweep}/{member}"]
metric = 'val_loss (\S+)'
work = "2h"              # how long each takes: then the quote and the ceiling can be compared
"""


def read(path: Path) -> dict[str, Any]:
    """The file's parts. Numbers with a point or an exponent stay as they were written. Raises WrongUsage."""
    try:
        parts = tomllib.loads(path.read_text("utf-8"), parse_float=str)
    except (OSError, UnicodeError) as error:
        raise WrongUsage(f"{path} cannot be read: {error}.", _SHOWN) from None
    except tomllib.TOMLDecodeError as error:
        raise WrongUsage(f"{path} is no TOML: {error}.", _SHOWN) from None
    if unknown := sorted(set(parts) - set(_TOP)):
        raise WrongUsage(f"{path}: {unknown[0]} means nothing here.", f"Known are {', '.join(_TOP)}.")
    if not isinstance(parts.get("launch"), dict):
        raise WrongUsage(f"{path} has no section [launch].", _SHOWN)
    return parts


def options(section: Mapping[str, Any]) -> dict[str, Any]:
    """What `costguard launch` makes of these options, by the names of its parameters. Raises WrongUsage."""
    app = typer.Typer()
    app.command("launch")(launch)
    command = get_command(app)
    try:
        context = command.make_context("[launch]", list(_arguments(section, command)))
    except Exception as error:
        if not hasattr(error, "format_message"):  # of every error of a command line
            raise
        raise WrongUsage(f"In [launch]: {error.format_message()}", "`costguard launch --help` lists options.") from None
    return {
        name: (list(value) or None) if isinstance(value, tuple) else value for name, value in context.params.items()
    }


def _arguments(section: Mapping[str, Any], command: Any) -> Iterator[str]:
    """As they would be typed. The command comes last, after `--`."""
    by_name = {
        name.removeprefix("--"): option
        for option in command.params
        for name in (*option.opts, *option.secondary_opts)
        if name.startswith("--")
    }
    for name, value in section.items():
        if name in ("preset", "command"):
            continue
        option = by_name.get(name.replace("_", "-"))
        if option is None or name in _OF_THE_COMMAND:
            raise WrongUsage(
                f"In [launch]: {name} is no option that it takes.", "`costguard launch --help` lists options."
            )
        yield from _option(option, f"--{name.replace('_', '-')}", value)
    words = section.get("command", [])
    preset = section.get("preset")
    if not isinstance(preset, str):
        raise WrongUsage("In [launch]: it names no preset.", 'Add one, such as preset = "a100".')
    yield from (preset, "--", *(shlex.split(words) if isinstance(words, str) else map(_text, words)))


def _option(option: Any, name: str, value: Any) -> Iterator[str]:
    """`false` of a flag is its opposite, such as --on-demand of --spot; where it has none, it is left out."""
    if isinstance(value, bool):
        opposite = option.secondary_opts if name in option.opts else option.opts
        yield from [name] if value else opposite[:1]
    elif isinstance(value, dict):
        yield from (f"{name}={part}={_text(one)}" for part, one in value.items())
    else:
        yield from (f"{name}={_text(one)}" for one in (value if isinstance(value, list) else [value]))


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
