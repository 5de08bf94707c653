"""`costguard profile`: the functions in which a job spends its time, and its stacks as a file for speedscope."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from costguard.cli.options import DEFAULT_URL, AsJson, JobId, Url
from costguard.cli.server import ServerClient
from costguard.cli.tables import Answer, Column, render, say, show_table
from costguard.errors import Invalid
from costguard.ledger.narrate import sentence

_SHOWN = 15
_TITLES = {"main": "Main thread", "workers": "Loader workers"}

Compare = Annotated[
    str | None,
    typer.Option(
        "--compare",
        metavar="EARLIER",
        help="Compare with this job; none: with none. Default: the last one before it that finished, of the same "
        "owner, preset and script.",
    ),
]
Speedscope = Annotated[
    Path | None,
    typer.Option("--speedscope", metavar="FILE", help="Write the stacks to a file that speedscope opens."),
]


def register(app: typer.Typer) -> None:
    app.command("profile", epilog="Example:  costguard profile j7k2m9q4 --speedscope j7k2m9q4.json")(profile)


def profile(
    job_id: JobId,
    compare: Compare = None,
    speedscope: Speedscope = None,
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Show in which functions a job's main thread and loader workers spend their time, and cures for slow data.

    Profiles are taken where --profile or the settings allow it, at no more than 0.5 % of the training's time.
    """
    server = ServerClient(url)
    if speedscope is not None:
        document = server.get("jobs", job_id, "profile", format="speedscope")
        try:
            speedscope.write_text(json.dumps(document), encoding="utf-8")
        except OSError as error:
            raise Invalid(
                f"{speedscope} cannot be written: {error.strerror}.", "Give a file in a folder that exists."
            ) from error
    render(server.get("jobs", job_id, "profile", compare=compare), as_json, show_profile)


def show_profile(console: Console, answer: Answer) -> None:
    if answer["why_none"]:
        say(console, f"The profile of job {answer['job']} is not known. {answer['why_none']}")
        return
    windows, seconds = answer["windows"], answer["seconds"]
    taken = f"{windows} {'window' if windows == 1 else 'windows'}, {seconds:.0f} s in all"
    say(
        console,
        f"Job {answer['job']}: {taken}; {answer['data_share']:.0%} of it waits for data, or prepares it",
        "bold",
    )
    for cure in answer["cures"]:
        say(console, sentence(cure["text"]), "yellow")
    for group in answer["groups"]:
        console.print()
        columns = _COLUMNS if answer["compared_with"] is None else (*_COLUMNS, _CHANGE)
        rest = f", {group['other'] / group['looks']:.0%} in rarer stacks" if group["other"] else ""
        say(console, f"{_TITLES[group['name']]}: {group['looks']:,} looks{rest}")
        show_table(console, columns, group["functions"][:_SHOWN])
    if answer["compared_with"] is not None:
        say(console, f"Change: in points of the time, since job {answer['compared_with']}.", "dim")


def _change(function: Answer) -> str:
    points = round(100 * (function["own"] - function["own_before"]))
    return "-" if points == 0 else f"{points:+d}"


def _place(function: Answer) -> str:
    return f"{function['file']}:{function['line']}" if function["line"] else function["file"]


_COLUMNS = (
    Column("Self", lambda one: f"{one['own']:.1%}", right=True),
    Column("Total", lambda one: f"{one['total']:.1%}", right=True),
    Column("Function", lambda one: one["function"]),
    Column("File", _place, spare=1),
)
_CHANGE = Column("Change", _change, right=True)
