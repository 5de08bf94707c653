"""The `costguard` command. Each module of commands registers its own; importing this stays cheap."""

from __future__ import annotations

import gc
import os
import sys

import typer

from costguard import __version__
from costguard.cli import (
    commands_access,
    commands_budgets,
    commands_checkpoints,
    commands_config,
    commands_demo,
    commands_fleet,
    commands_history,
    commands_jobs,
    commands_launch,
    commands_places,
    commands_reminders,
    commands_run,
    commands_sessions,
    commands_slack,
    commands_spend,
    commands_vm,
    commands_webhooks,
)
from costguard.cli.client import WrongUsage
from costguard.cli.format import clean_lines
from costguard.errors import CostguardError, ServerUnreachable

EXIT_ERROR = 1
EXIT_USAGE = 2
EXIT_UNREACHABLE = 3

app = typer.Typer(
    name="costguard",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Watches GPU VMs on Google Compute Engine, records every lifetime and prices every second.",
    epilog="Exit codes: 0 done, 1 error, 2 wrong usage, 3 no server answers.",
)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"costguard {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    """Watches GPU VMs on Google Compute Engine, records every lifetime and prices every second."""


for _module in (
    commands_run,
    commands_demo,
    commands_fleet,
    commands_vm,
    commands_webhooks,
    commands_spend,
    commands_budgets,
    commands_reminders,
    commands_history,
    commands_launch,
    commands_jobs,
    commands_places,
    commands_checkpoints,
    commands_slack,
    commands_access,
    commands_sessions,
    commands_config,
):
    _module.register(app)


def _exit_code(error: CostguardError) -> int:
    if isinstance(error, WrongUsage):
        return EXIT_USAGE
    return EXIT_UNREACHABLE if isinstance(error, ServerUnreachable) else EXIT_ERROR


def main() -> None:
    """The entry point: an error that a person can mend is one message on stderr, never a traceback."""
    # What a command imports is no garbage: looked through at Python's own pace, it takes a tenth of a guard's start.
    gc.set_threshold(10_000, 10, 10)
    try:
        app()
    except CostguardError as error:
        print(f"costguard: {clean_lines(error.message)}", file=sys.stderr)
        if error.what_next:
            print(clean_lines(error.what_next), file=sys.stderr)
        sys.exit(_exit_code(error))
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        # The reader has gone; nor may Python try again to flush as it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
