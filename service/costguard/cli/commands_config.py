"""`costguard config check` and `costguard config init`: the settings file, without a server."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from costguard.cli.options import AsJson, print_json
from costguard.errors import SettingsError

config = typer.Typer(no_args_is_help=True, help="The settings file.")


def register(app: typer.Typer) -> None:
    app.add_typer(config, name="config")


@config.command("check", epilog="Example:  costguard config check --config costguard.toml")
def check(
    path: Annotated[
        Path | None, typer.Option("--config", "-c", help="Default: $COSTGUARD_CONFIG, else ./costguard.toml.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check the settings whole, and touch nothing else. Exits 1 when something in them is wrong."""
    from costguard.settings import load  # only here: other commands need no settings, and start sooner

    try:
        load(path, os.environ)
    except SettingsError as error:
        if not as_json:
            raise
        print_json({"ok": False, "problems": _lines(error), "next": error.what_next})
        raise typer.Exit(1) from None
    print_json({"ok": True, "problems": []}) if as_json else print("The settings are right.")


def _lines(error: SettingsError) -> list[str]:
    """One problem a line; the first line of several counts them."""
    head, *several = error.message.strip().splitlines()
    return [line.strip() for line in several] or [head]


@config.command("init", epilog="Example:  costguard config init > costguard.toml")
def init(as_json: AsJson = False) -> None:
    """Print a commented settings file that names every key and its default."""
    from costguard.settings import example  # only here, as above

    print_json({"settings": example()}) if as_json else print(example(), end="")
