"""`costguard config check` and `costguard config init`: the settings file, without a server."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from costguard.cli.format import clean_lines
from costguard.cli.options import AsJson, print_json
from costguard.errors import SettingsError, StoreError

if TYPE_CHECKING:
    from costguard.settings import Settings

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
    from costguard.settings import load, where_it_is  # only here: other commands need no settings, and start sooner
    from costguard.settings.warnings import warnings

    try:
        settings = load(path, os.environ)
    except SettingsError as error:
        if not as_json:
            raise
        print_json({"ok": False, "problems": _lines(error), "next": error.what_next})
        raise typer.Exit(1) from None
    found = [*warnings(settings, where_it_is(path, os.environ), os.environ), *_of_database(settings)]
    if as_json:
        print_json({"ok": True, "problems": [], "warnings": found})
        return
    print("The settings are right.")
    for each in found:
        print(clean_lines(f"Warning: {each}"), file=sys.stderr)


def _of_database(settings: Settings) -> list[str]:
    """What `serve` would refuse of a database that is here, and what is unsafe about its folder."""
    from costguard.db import connect, database_file

    try:
        url = connect.parse(settings.database.url.get_secret_value())
        if (file := connect.file_of(url)) is None:
            return []
        database_file.check(file, connect.widest_mode_of(url))
    except StoreError as error:
        return [str(error)]
    return database_file.warnings(file)


def _lines(error: SettingsError) -> list[str]:
    """One problem a line; the first line of several counts them."""
    head, *several = error.message.strip().splitlines()
    return [line.strip() for line in several] or [head]


@config.command("init", epilog="Example:  costguard config init > costguard.toml")
def init(as_json: AsJson = False) -> None:
    """Print a commented settings file that names every key and its default."""
    from costguard.settings import example  # only here, as above

    print_json({"settings": example()}) if as_json else print(example(), end="")
