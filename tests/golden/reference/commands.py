"""The reference of commands: what `--help` says of each, as one page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer
from typer.core import TyperGroup

from costguard.cli.app import app

_HEAD = """# Commands

<!-- Generated: python -m tests.golden reference -->

Every command prints help with `--help`, and takes `--json` for output that programs read. Commands that ask a server
find it by `--url`, `COSTGUARD_URL` or your profile, and its token by `COSTGUARD_TOKEN` or your profile
(`costguard token create NAME --save` writes one). `costguard --install-completion` teaches your shell.
"""
_BRACES = str.maketrans("", "", "{}")
_EVERYWHERE = {"--help", "--json"}


def text() -> str:
    costguard = typer.main.get_command(app)
    commands = list(_commands(costguard, "costguard"))
    lines = [f"{_HEAD}{costguard.epilog}\n", "| Command | Does |", "|---|---|"]
    lines += [f"| [`{path}`](#{_anchor(path)}) | {_cell(_first(command))} |" for path, command in commands]
    for path, command in commands:
        lines += ["", *_section(path, command)]
    return "\n".join(lines) + "\n"


def _commands(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    if not isinstance(command, TyperGroup) or command.invoke_without_command:
        yield path, command
    if isinstance(command, TyperGroup):
        for name, inner in command.commands.items():
            if not inner.hidden:
                yield from _commands(inner, f"{path} {name}")


def _section(path: str, command: Any) -> Iterator[str]:
    yield f"## {path}"
    yield ""
    for paragraph in (command.help or "").strip().split("\n\n"):
        yield " ".join(paragraph.split())
        yield ""
    context = command.make_context(path, [], resilient_parsing=True)
    usage = " ".join([path, *command.collect_usage_pieces(context)])
    yield f"```\n{usage.translate(_BRACES)}\n```"
    rows = [_row(parameter) for parameter in command.params if not _EVERYWHERE & set(parameter.opts)]
    if rows:
        yield "\n| Argument or option | Meaning |\n|---|---|"
        yield from rows
    if command.epilog:
        yield f"\n```\n{_examples(command.epilog)}\n```"


def _row(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        names = [parameter.metavar or parameter.name.upper()]
    else:
        value = "" if parameter.is_flag else f" {parameter.metavar or parameter.name.upper()}"
        names = [f"{name}{value}" for name in [*parameter.opts, *parameter.secondary_opts]]
    notes = [parameter.help or ""]
    if parameter.envvar:
        notes.append(f"Default: `{parameter.envvar}`.")
    return f"| {', '.join(f'`{name}`' for name in names)} | {_cell(' '.join(filter(None, notes)))} |"


def _first(command: Any) -> str:
    return " ".join((command.help or "").strip().split("\n\n")[0].split())


def _examples(epilog: str) -> str:
    lines = [line.strip() for line in epilog.strip().splitlines()]
    return "\n".join(line for line in lines if line)


def _anchor(path: str) -> str:
    return path.replace(" ", "-")


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
