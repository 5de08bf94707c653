"""`costguard config check` and `costguard config init`: the settings file, without a server."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

config = typer.Typer(no_args_is_help=True, help="The settings file.")


def register(app: typer.Typer) -> None:
    app.add_typer(config, name="config")


@config.command("check", epilog="Example:  costguard config check --config costguard.toml")
def check(
    path: Annotated[
        Path | None, typer.Option("--config", "-c", help="Default: $COSTGUARD_CONFIG, else ./costguard.toml.")
    ] = None,
) -> None:
    """Check the settings whole, and touch nothing else."""
    from costguard.settings import load  # only here: other commands need no settings, and start sooner

    load(path, os.environ)
    print("The settings are right.")


@config.command("init", epilog="Example:  costguard config init > costguard.toml")
def init() -> None:
    """Print a commented settings file that names every key and its default."""
    from costguard.settings import example  # only here, as above

    print(example(), end="")
