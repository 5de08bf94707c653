"""`costguard goodput`: what the time and the cost of jobs went into."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from costguard.cli.job.page import USES
from costguard.cli.options import (
    DEFAULT_URL,
    AsJson,
    From,
    Last,
    OneJob,
    OnePreset,
    OneProject,
    To,
    Url,
    days,
    job_id,
    only,
)
from costguard.cli.server import ServerClient
from costguard.cli.tables import Answer, Column, amount_text, cell, rate, render, say, show_table
from costguard.model.words import count_text

_EXAMPLES = """Examples:

  costguard goodput                           this month, by preset

  costguard goodput --last 30d --by owner     who keeps how much of what is paid

  costguard goodput --from 2026-01-01 --by month,preset
"""
_GROUPINGS = ("month", "project", "preset", "owner", "job")


def register(app: typer.Typer) -> None:
    app.command("goodput", epilog=_EXAMPLES)(goodput)


def goodput(
    first: From = None,
    to: To = None,
    last: Last = None,
    by: Annotated[
        list[str] | None,
        typer.Option(
            "--by", metavar="NAME", callback=only(_GROUPINGS), help=f"{', '.join(_GROUPINGS)}; several with commas."
        ),
    ] = None,
    project: OneProject = None,
    preset: OnePreset = None,
    owner: Annotated[str | None, typer.Option("--owner", metavar="ADDRESS", help="Only this owner.")] = None,
    job: OneJob = None,
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Divide the time of training jobs by use, with the cost of a useful GPU-hour, in a range of UTC days."""
    server = ServerClient(url)
    first, to = days(server, first, to, last)
    given = {
        "from": first,
        "to": to,
        "group_by": by,
        "project": project,
        "preset": preset,
        "owner": owner,
        "job": job_id(server, job),
    }
    render(server.get("goodput", **given), as_json, show_goodput)


def show_goodput(console: Console, answer: Answer) -> None:
    total = answer["total"]
    if answer["rows"]:
        columns = (*map(_group, answer["group_by"]), *_FIGURES)
        texts = ("All", *[""] * (len(answer["group_by"]) - 1))
        foot = [cell(text, "bold") for text in (*texts, *(column.cell(total).plain for column in _FIGURES))]
        show_table(console, columns, answer["rows"], foot)
        console.print()
    say(console, f"{count_text(total['jobs'], 'job')} from {answer['from']} to {answer['to']} (UTC)", "bold")


def _group(name: str) -> Column:
    return Column(name.capitalize(), lambda row: row["group"][name] or "-")


def _use(use: str, name: str, spare: int) -> Column:
    return Column(f"{name.capitalize()} %", lambda row: row["percent"][use], right=True, spare=spare)


def _hourly(row: Answer) -> str:
    return "-" if row["cost_per_useful_gpu_hour"] is None else rate(row["cost_per_useful_gpu_hour"])


_SPARES = {"kept": 0, "lost": 0, "unsaved": 2, "starting": 4, "ending": 1, "waiting": 3}
_FIGURES = (
    Column("Jobs", "jobs", right=True, spare=5),
    *(_use(use, name, _SPARES[use]) for use, name in USES.items()),
    Column("Of paid %", lambda row: row["kept_percent_of_paid"] or "-", right=True, spare=6),
    Column("Cost", lambda row: amount_text(row["cost"]), right=True),
    Column("Useful GPU-hour", _hourly, right=True),
)
