"""Builds the command line once in a process: Typer builds all of its hundred commands for each call, in 50 ms."""

from __future__ import annotations

import os
from functools import lru_cache
from typing import Any

import typer.main
import typer.testing

_SHELLS = "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION"  # with it, Typer builds other options


def build_once() -> None:
    """Make every later call in this process use the commands that an earlier one built of the same application."""
    build = typer.main.get_command
    built = lru_cache(maxsize=4)(lambda application, _shells: build(application))

    def get_command(application: typer.Typer) -> Any:
        return built(application, os.environ.get(_SHELLS))

    for module, name in ((typer.main, "get_command"), (typer.testing, "_get_command")):
        setattr(module, name, get_command)
