"""Builds the command line in the process of all forks, which load this module first: each would take 50 ms for it."""

import typer.main
from tests.built_commands import build_once

from costguard.cli.app import app

build_once()
typer.main.get_command(app)
