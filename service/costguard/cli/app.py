"""The `costguard` command. Each module registers its own commands; importing this stays cheap."""

from __future__ import annotations

import gc
import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any, TextIO

import typer

from costguard import __version__
from costguard.cli import (
    access,
    bill,
    budgets,
    commitments,
    events,
    fleet,
    goodput,
    ledger,
    loose,
    places,
    projects,
    read,
    reminders,
    replay,
    report,
    requests,
    schedules,
    serve,
    spend,
    sweeps,
    traces,
)
from costguard.cli.command_line import CommandLine
from costguard.cli.demo import command as demo
from costguard.cli.job import (
    alike,
    checkpoints,
    diagnosis,
    executions,
    jobs,
    launch,
    limits,
    lineage,
    profile,
    progress,
    quotes,
    stages,
    tips,
)
from costguard.cli.server import WrongUsage
from costguard.cli.setup import backups, config, doctor, google_feed, google_role, init, samples
from costguard.cli.tables import clean_lines
from costguard.errors import CostguardError, ServerUnreachable

EXIT_ERROR = 1
EXIT_USAGE = 2
EXIT_UNREACHABLE = 3

app = CommandLine(
    name="costguard",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Watches GPU VMs on Google Compute Engine, records every lifetime and prices every second.",
    epilog="Exit codes: 0 success, 1 error, 2 wrong usage, 3 no server answers.",
)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"costguard {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(False, "--version", "-V", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    """Watches GPU VMs on Google Compute Engine, records every lifetime and prices every second."""


_PANELS: Mapping[str, Sequence[Any]] = {
    "Try it": (demo,),
    "VMs": (fleet, projects, requests, reminders, report, events),
    "Jobs": (
        launch,
        quotes,
        jobs,
        limits,
        sweeps,
        schedules,
        diagnosis,
        profile,
        alike,
        lineage,
        goodput,
        places,
        traces,
    ),
    "Money": (spend, executions, tips, budgets, loose, stages, bill, commitments, ledger),
    "Files of a training, without a server": (checkpoints, progress, read, replay),
    "Access and agents": (access,),
    "Where the server runs": (google_role, google_feed, init, doctor, samples, config, serve, backups),
}
for _panel, _modules in _PANELS.items():
    app.panel = _panel
    for _commands in _modules:
        _commands.register(app)


def _exit_code(error: CostguardError) -> int:
    if isinstance(error, WrongUsage):
        return EXIT_USAGE
    return EXIT_UNREACHABLE if isinstance(error, ServerUnreachable) else EXIT_ERROR


# Typer 0.29 carries click inside, older ones depend on it: this is the base of its errors in both.
_ClickError: Any = typer.BadParameter.__mro__[2]


def main() -> None:
    """The entry point: an expected error is one message, never a traceback.

    With --json it is an object on standard output, else text on standard error.
    """
    # Imported modules are no garbage: collecting at Python's own pace takes a tenth of a server's start.
    gc.set_threshold(10_000, 10, 10)
    _tolerate_poor_encodings(sys.stdout, sys.stderr)
    as_json = _wants_json(sys.argv[1:])
    try:
        if as_json:
            _run_for_programs()
        else:
            app()
    except CostguardError as error:
        if as_json:
            _print_error(error.message, error.what_next, _exit_code(error))
        print(f"costguard: {clean_lines(error.message)}", file=sys.stderr)
        if error.what_next:
            print(clean_lines(error.what_next), file=sys.stderr)
        sys.exit(_exit_code(error))
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        # The reader is gone; Python must not flush again as it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)


def _tolerate_poor_encodings(*streams: TextIO) -> None:
    """An ASCII terminal or pipe shows other characters by their numbers, and never ends a command."""
    for stream in streams:
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _wants_json(arguments: list[str]) -> bool:
    """Says whether --json is an option of ours: words after `--` are a job's command."""
    ours = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return "--json" in ours


def _run_for_programs() -> None:
    """Runs `app()`, and prints also wrong usage as an object."""
    try:
        code = app(standalone_mode=False)
    except _ClickError as error:
        where = "" if error.ctx is None else f"`{error.ctx.command_path} --help` shows what it takes."
        _print_error(error.format_message(), where, EXIT_USAGE)
    except typer.Abort:
        sys.exit(EXIT_ERROR)
    sys.exit(code if isinstance(code, int) else 0)


def _print_error(message: str, what_next: str, code: int) -> None:
    """Prints the object and ends the process."""
    print(json.dumps({"error": {"message": message, "next": what_next, "exit_code": code}}, indent=2))
    sys.exit(code)
