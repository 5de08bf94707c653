"""`costguard commitments`: what to commit to, with its saving and its risk."""

from __future__ import annotations

from decimal import Decimal
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
    _show_cover(console, answer["cover"])
    _show_limits(console, answer)
    say(console, answer["method"])


def _show_cover(console: Console, cover: Answer) -> None:
    """Shows use that is covered already, and fees, by place, by fee and by the hour of the day."""
    total = cover["total"]
    if total is not None:
        say(console, "What is committed already, by the bill", "bold")
        words = f"Commitments cover {percent(total['share'])} of {dollars(total['eligible'])} of on-demand use since"
        say(console, f"{words} {cover['since'][:10]}.")
        if total["wasted"] is not None:
            say(console, f"Of fees that say how much was used, {dollars(total['wasted'])} was wasted.")
        show_table(console, _PLACES, cover["places"])
        if cover["fees"]:
            show_table(console, _FEES, cover["fees"])
            show_table(console, _HOURS, cover["by_hour_of_day"])
        say(console, cover["method"])
    if days := cover["days_without"]:
        say(
            console,
            f"NOT WHOLE: the bill of {count_text(len(days), 'day')} from {days[0]} to {days[-1]} was read before its "
            "hours were kept. Read the export of these days again with `costguard bill read FILE`.",
            "bold red",
        )
    if total is not None or days:
        console.print()


def _show_limits(console: Console, answer: Answer) -> None:
    bought = answer["bought"]
    if bought["day"] is not None:
        flexible = dollars(bought["flexible"])
        say(console, f"Bought already, by the bill of {bought['day']}: flexible ones for {flexible} of use an hour.")
    if bought["unnamed"]:
        fees = ", ".join(bought["unnamed"])
        say(console, f"NOT SUBTRACTED, as their family or region is not known: {fees}.", "bold red")
    if answer["unsure"]:
        say(console, f"{_UNSURE} {' and '.join(answer['unsure'])}. Ask Google before you buy one for them.", "bold red")
    if answer["uncovered"]:
        names = ", ".join(one["what"] for one in answer["uncovered"])
        say(console, f"No commitment to it is known, so nothing is said of: {names}.")
    if answer["unpriced"] or answer["unknown_runs"]:
        runs = count_text(answer["unknown_runs"], "run")
        resources = count_text(len(answer["unpriced"]), "resource")
        say(console, f"NOT COUNTED: {runs} of unknown VMs, and {resources} without a price.", "bold red")


def percent(share: str | None) -> str:
    """`62%`, cut off; a dash where nothing is known."""
    return "–" if share is None else f"{int(Decimal(share) * 100)}%"


_UNSURE = "NOT CERTAIN: public texts disagree whether flexible commitments cover"
_USE = (
    Column("Eligible", lambda row: dollars(row["use"]["eligible"]), right=True),
    Column("Covered", lambda row: percent(row["use"]["share"]), right=True),
)
_PAID = (
    Column("Fee", lambda row: dollars(row["use"]["fee"]), right=True),
    Column(
        "Wasted",
        lambda row: "unknown" if row["use"]["wasted"] is None else dollars(row["use"]["wasted"]),
        right=True,
    ),
)
_KINDS = {"host": "vCPUs and memory", "gpu": "GPUs", "ssd": "local SSD"}
_PLACES = (
    Column("Part", lambda row: f"{row['family'].upper()} {_KINDS[row['kind']]}".strip()),
    Column("Region", "region"),
    *_USE,
    Column("Saved", lambda row: dollars(row["use"]["saved"]), right=True),
)
_FEES = (Column("Fee of", "name"), Column("Region", "region", spare=2), *_PAID)
_HOURS = (Column("Hour (UTC)", lambda row: f"{row['hour']:02}:00"), *_USE, *_PAID)
_COLUMNS = (
    Column("To what", "what"),
    Column("Region", lambda row: row["region"], spare=2),
    Column("Years", lambda row: str(row["years"]), right=True),
    Column("Off", lambda row: f"{round(float(row['discount']) * 100)}%", right=True, spare=1),
    Column("Covered", lambda row: percent(row["covered"]), right=True, spare=4),
    Column("Level", "level_text", right=True),
    Column("Fee/h", lambda row: dollars(row["fee"]), right=True, spare=3),
    Column("Saves", lambda row: dollars(row["saved"]), right=True),
    Column(
        "If use falls 20%",
        lambda row: cell(dollars(row["after_fall"]), "bold red" if row["after_fall"].startswith("-") else ""),
        right=True,
    ),
)
