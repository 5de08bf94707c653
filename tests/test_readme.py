"""The README leaves nothing out: every setting, variable, route and command stands in it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import typer
from tests.doors import EVERYBODY
from typer.core import TyperGroup

from costguard.access.rules import Rules
from costguard.api.app import create_app
from costguard.api.deps import DaemonStatus, Deps
from costguard.cli.app import app as cli
from costguard.clock import SystemClock
from costguard.db.transaction import Database
from costguard.settings import VARIABLES, setting_keys

README = (Path(__file__).resolve().parents[1] / "README.md").read_text("utf-8")


def commands(command: object, path: str) -> Iterator[str]:
    """`costguard db upgrade` for a command in a group; a group alone is no command."""
    if isinstance(command, TyperGroup):
        for name, inner in command.commands.items():
            if not inner.hidden:
                yield from commands(inner, f"{path} {name}")
    else:
        yield path


def test_settings_stand_in_the_readme() -> None:
    """Each key of the settings file is written out with its section: `watch.every`, `presets.NAME.limit`."""
    assert [key for key in setting_keys() if f"`{key}`" not in README] == []


def test_variables_stand_in_the_readme() -> None:
    """Each environment variable that is read is named."""
    assert [variable for variable in VARIABLES if f"`{variable}`" not in README] == []


def test_routes_stand_in_the_readme(tmp_path: Path) -> None:
    """Each path of the REST API is written out."""
    database = Database.open(f"sqlite:///{tmp_path}/never-opened.db")
    deps = Deps(
        database=database,
        clock=SystemClock(),
        rules=Rules({}),
        door=EVERYBODY,
        version="0",
        stale_after=timedelta(hours=1),
        status=lambda: DaemonStatus(),
    )
    paths = create_app(deps).openapi()["paths"]
    assert paths
    assert [path for path in paths if f"{path}`" not in README] == []


def test_commands_stand_in_the_readme() -> None:
    """Each command is written out as it is typed."""
    known = list(commands(typer.main.get_command(cli), "costguard"))
    assert known
    assert [command for command in known if command not in README] == []
