"""`costguard config`: the settings file, checked without a server, and its example."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import typer

from costguard.cli.command_line import CommandLine
from costguard.cli.options import AsJson, Config, print_json
from costguard.cli.tables import clean_lines
from costguard.errors import SettingsError, StoreError

if TYPE_CHECKING:
    from costguard.settings import Settings

config = CommandLine(no_args_is_help=True, help="The settings file.")


def register(app: typer.Typer) -> None:
    app.add_typer(config, name="config")


@config.command("check", epilog="Example:  costguard config check --config costguard.toml")
def check(path: Config = None, as_json: AsJson = False) -> None:
    """Check all settings, and change nothing. Exits 1 when one is wrong. Run it where the server runs."""
    from costguard.settings import load, warnings, where_it_is  # only here, as below: other commands start sooner

    try:
        settings = load(path, os.environ)
    except SettingsError as error:
        if not as_json:
            raise
        print_json({"ok": False, "problems": _problems(error), "next": error.what_next})
        raise typer.Exit(1) from None
    texts = [*warnings(settings, where_it_is(path, os.environ), os.environ), *_database_warnings(settings)]
    if as_json:
        print_json({"ok": True, "problems": [], "warnings": texts})
        return
    print("The settings are correct.")
    for warning in texts:
        print(clean_lines(f"Warning: {warning}"), file=sys.stderr)


def _database_warnings(settings: Settings) -> list[str]:
    """Explains why `serve` would refuse the SQLite file, or what is unsafe about its folder."""
    from costguard.db import connect, database_file

    try:
        url = connect.parse(settings.database.url.get_secret_value())
        if (file := connect.file_of(url)) is None:
            return []
        database_file.check(file, connect.widest_mode_of(url))
    except StoreError as error:
        return [str(error)]
    return database_file.warnings(file)


def _problems(error: SettingsError) -> list[str]:
    """Splits an error into one problem a line; where there are several, its first line counts them."""
    head, *several = error.message.strip().splitlines()
    return [line.strip() for line in several] or [head]


@config.command("example", epilog="Example:  costguard config example | less")
def print_example(as_json: AsJson = False) -> None:
    """Print a commented settings file with every key and its default; `costguard init` writes one that fits a fleet."""
    from costguard.settings import example

    print_json({"settings": example()}) if as_json else print(example(), end="")
