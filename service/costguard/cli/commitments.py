"""`costguard commitments`: what to commit to, with its saving and its risk."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from costguard.cli.options import DEFAULT_URL, AsJson, Url
from costguard.cli.server import ServerClient
from costguard.cli.tables import Answer, Column, cell, dollars, render, say, show_table
from costguard.model.words import count_text

_EXAMPLES = """Examples:

  costguard commitments                what would have saved over the last 90 days

  costguard commitments --days 180     over the last 180
"""


def register(app: typer.Typer) -> None:
    app.command("commitments", epilog=_EXAMPLES)(commitments)


def commitments(
    days: Annotated[
        int, typer.Option("--days", metavar="DAYS", min=30, max=400, help="The number of last days that count.")
    ] = 90,
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Advise what to commit to, from the hours of on-demand use, with the saving and the risk.

    Costguard buys nothing.
    """
    render(ServerClient(url).get("commitments", days=days), as_json, show_commitments)


def show_commitments(console: Console, answer: Answer) -> None:
    if answer["too_short"]:
        say(console, answer["too_short"])
    elif not answer["advice"]:
        say(console, "No commitment would have saved anything in addition to those that are bought.")
    else:
        span = count_text(answer["hours"] // 24, "day")
        say(console, f"What would have saved over the last {span}, by the month", "bold")
        show_table(console, _COLUMNS, answer["advice"])
        first = answer["advice"][0]
        say(console, f"The first saves {dollars(first['saved'])} a month. {first['after_fall_text']}")
    console.print()
    _show_limits(console, answer)
    say(console, answer["method"])


def _show_limits(console: Console, answer: Answer) -> None:
    bought = answer["bought"]
    if bought["day"] is not None:
        flexible = dollars(bought["flexible"])
        say(console, f"Bought already, by the bill of {bought['day']}: flexible ones for {flexible} of use an hour.")
    if bought["unnamed"]:
        fees = ", ".join(bought["unnamed"])
        say(console, f"NOT SUBTRACTED, as their family or region is not known: {fees}.", "bold red")
    if answer["uncovered"]:
        names = ", ".join(one["what"] for one in answer["uncovered"])
        say(console, f"No commitment to it is known, so nothing is said of: {names}.")
    if answer["unpriced"] or answer["unknown_runs"]:
        runs = count_text(answer["unknown_runs"], "run")
        resources = count_text(len(answer["unpriced"]), "resource")
        say(console, f"NOT COUNTED: {runs} of unknown VMs, and {resources} without a price.", "bold red")


_COLUMNS = (
    Column("To what", "what"),
    Column("Region", lambda row: row["region"], spare=2),
    Column("Years", lambda row: str(row["years"]), right=True),
    Column("Off", lambda row: f"{round(float(row['discount']) * 100)}%", right=True, spare=1),
    Column("Level", "level_text", right=True),
    Column("Fee/h", lambda row: dollars(row["fee"]), right=True, spare=3),
    Column("Saves", lambda row: dollars(row["saved"]), right=True),
    Column(
        "If use falls 20%",
        lambda row: cell(dollars(row["after_fall"]), "bold red" if row["after_fall"].startswith("-") else ""),
        right=True,
    ),
)
