"""`costguard savings`: what Spot, stops and tips saved in a quarter."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from costguard.cli.options import DEFAULT_URL, AsJson, Url
from costguard.cli.server import ServerClient
from costguard.cli.tables import Answer, Column, amount_text, dollars, render, say, show_table, show_values

_EXAMPLES = """Examples:

  costguard savings                     the present quarter

  costguard savings --quarter 2026-Q4   the last one of 2026
"""
_KINDS = {
    "reminder": "reminders of running VMs",
    "standstill": "hints at a standstill",
    "diagnosis": "diagnoses of jobs",
}


def register(app: typer.Typer) -> None:
    app.command("savings", epilog=_EXAMPLES)(savings)


def savings(
    quarter: Annotated[
        str, typer.Option("--quarter", metavar="YEAR-QN", help="Such as 2026-Q4. Default: the present one.")
    ] = "",
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Show what was saved in a quarter: tips that were followed, Spot instead of on-demand, and stops.

    A tip is followed by evidence alone; GET /api/v1/savings/tips says what counts.
    """
    server = ServerClient(url)
    tips = server.get("savings/tips", quarter=quarter or None)
    saved = server.get("savings", **{"from": tips["from"], "to": min(tips["to"], tips["as_of"][:10])})
    render({"tips": tips, "savings": saved}, as_json, show_savings)


def show_savings(console: Console, answer: Answer) -> None:
    tips, saved = answer["tips"], answer["savings"]
    zone = tips["time_zone"]
    say(console, f"{tips['quarter']} ({zone}): {tips['followed']} of {tips['given']} tips were followed.", "bold")
    show_table(console, _COUNTS, tips["counts"])
    followed = [tip for tip in tips["tips"] if tip["outcome"] == "followed"]
    if followed:
        show_table(console, _TIPS, followed)
    show_values(
        console,
        (
            ("saved by tips", amount_text(tips["saved"])),
            ("saved by Spot", f"{dollars(saved['spot']['saved'])} against on-demand"),
            ("saved by stops", f"{amount_text(saved['stops']['saved'])} by {saved['stops']['carried_out']} stops"),
        ),
    )
    say(console, "Stops that users asked for after a reminder are among tips and stops: do not add the two.", "dim")


_COUNTS = (
    Column("Tips", lambda one: _KINDS.get(one["kind"], one["kind"])),
    Column("Given", lambda one: str(one["given"]), right=True),
    Column("Followed", lambda one: str(one["followed"]), right=True),
    Column("Not", lambda one: str(one["not_followed"]), right=True, spare=2),
    Column("Pending", lambda one: str(one["pending"]), right=True, spare=1),
    Column("Unknown", lambda one: str(one["unknown"]), right=True),
    Column("Saved", lambda one: amount_text(one["saved"]), right=True),
)
_TIPS = (
    Column("About", "subject"),
    Column("Owner", "owner", spare=1),
    Column("Evidence", "evidence", prose=True),
    Column("Saved", lambda one: "-" if one["saved"] is None else amount_text(one["saved"]), right=True),
)
