"""`costguard report`: what the rules did or would have done, what that comes to a month, and the fleet's GPU use."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from costguard.cli.options import DEFAULT_URL, AsJson, Url
from costguard.cli.server import ServerClient
from costguard.cli.tables import Answer, Column, amount_text, cell, dollars, rate, render, say, show_table, when

_EXAMPLES = """Examples:

  costguard report                            since watching began, at most the last 30 days

  costguard report --days 1                   today

  costguard report --json                     every figure, with its method
"""


def register(app: typer.Typer) -> None:
    app.command("report", epilog=_EXAMPLES)(report)


def report(
    days: Annotated[
        int, typer.Option("--days", metavar="N", min=1, max=366, help="The last N UTC days, today included.")
    ] = 30,
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Report what rules stopped, or would have in shadow mode: which VMs, whose, and how much a month."""
    render(ServerClient(url).get("report", days=days), as_json, show_report)


def show_report(console: Console, answer: Answer) -> None:
    say(console, answer["mode"])
    say(console, answer["summary"], "bold")
    if answer["vms"]:
        console.print()
        show_table(console, _COLUMNS, answer["vms"])
    console.print()
    for note in answer["notes"]:
        say(console, note)
    if answer["what_next"]:
        console.print()
        say(console, "To let rules stop VMs, set in costguard.toml:")
        for line in answer["what_next"]:
            say(console, f"  {line}")


_STEPS = {"stopped": "stopped", "would_stop": "would stop", "reminded": "reminded"}


def _after(row: Answer) -> object:
    """The cost after its stop; of one without, after it was due."""
    return amount_text(row["cost_since_due"] if row["step"] == "reminded" else row["cost_since_stop"])


def _cost(row: Answer) -> object:
    return amount_text(row["saved"]) if row["saved"] is not None else _after(row)


_COLUMNS = (
    Column("VM", "name"),
    Column("Project", "project", spare=2),
    Column("Owner", lambda row: row["owner"] or "unowned"),
    Column("Rules", lambda row: _STEPS[row["step"]]),
    Column("Why", "why", prose=True, spare=4),
    Column("Stop", lambda row: "-" if row["stop_at"] is None else when(row["stop_at"]), spare=3),
    Column("Cost since", _cost, right=True),
    Column(
        "An hour",
        lambda row: cell("unknown", "bold red") if row["rate_per_hour"] is None else rate(row["rate_per_hour"]),
        right=True,
        spare=1,
    ),
    Column(
        "730 h at it",
        lambda row: "-" if row["month_at_rate"] is None else dollars(row["month_at_rate"]),
        right=True,
        spare=5,
    ),
)
