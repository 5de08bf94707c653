"""`costguard bill`: Google's bill next to the ledger."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from costguard.cli.command_line import CommandLine
from costguard.cli.options import (
    DEFAULT_URL,
    AsJson,
    Config,
    From,
    Last,
    OneProject,
    To,
    Url,
    days,
    print_json,
    settings_of,
)
from costguard.cli.server import ServerClient
from costguard.cli.tables import Answer, Column, cell, dollars, render, say, show_table
from costguard.model.words import count_text

_EXAMPLES = """Examples:

  costguard bill                               this month, day by day, and what differs most

  costguard bill --last 30d --project lab      one project

  costguard bill read export-*.json.gz         read files of the export
"""


def register(app: typer.Typer) -> None:
    group = CommandLine(invoke_without_command=True, epilog=_EXAMPLES)
    group.callback()(bill)
    group.command("read", epilog="Example:  costguard bill read export-*.json.gz --config costguard.toml")(read)
    app.add_typer(group, name="bill")


def bill(
    context: typer.Context,
    first: From = None,
    to: To = None,
    last: Last = None,
    project: OneProject = None,
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Compare the ledger with Google's bill, a line for each UTC day, and list the resources that differ most."""
    if context.invoked_subcommand is not None:
        return
    server = ServerClient(url)
    first, to = days(server, first, to, last)
    render(server.get("bill", **{"from": first, "to": to, "project": project}), as_json, show_bill)


def show_bill(console: Console, answer: Answer) -> None:
    if not answer["days"]:
        say(
            console,
            f"No bill is compared from {answer['from']} to {answer['to']} (UTC). Read one with `costguard bill read "
            "FILE`; the server compares it within ten minutes.",
        )
        return
    total = answer["total"]
    foot = () if total is None else [cell(text, "bold") for text in ("Closed", *_texts(total))]
    show_table(console, _DAYS, answer["days"], foot)
    console.print()
    if answer["accuracy"] is not None:
        say(console, f"The ledger is {answer['accuracy']['text']}.", "bold")
    for title, rows in (("Differences", answer["worst"]), ("Unused reservations", answer["reservations"])):
        if rows:
            console.print()
            say(console, title, "bold")
        for row in rows:
            name = row.get("title") or row["name"]
            amount = dollars(row.get("difference") or row["cost"])
            say(console, f"{row['project']} / {name}: {amount}")
            for line in row.get("stories", ()):
                say(console, f"  {line}")
    _show_savings(console, answer)


def _show_savings(console: Console, answer: Answer) -> None:
    if answer["savings"]:
        console.print()
        say(console, "Earned by sustained and committed use", "bold")
        show_table(console, _SAVINGS, answer["savings"])
    commitments = answer["commitments"]
    if commitments["fees"]:
        console.print()
        say(console, "Commitments", "bold")
        saved, paid, net = (dollars(commitments[name]) for name in ("saved", "paid", "net"))
        say(console, f"They took {saved} off usage, and cost {paid} besides: {net} saved in all.")
        if commitments["unused"] is not None:
            say(console, f"Of fees that say how much of them was used, {dollars(commitments['unused'])} was not.")
        show_table(console, _FEES, commitments["fees"])
    if answer["outside"]:
        console.print()
        say(console, "Billed, and not in the ledger", "bold")
        show_table(console, _OUTSIDE, answer["outside"])


def _texts(day: Answer) -> list[str]:
    return [column.cell(day).plain for column in _DAYS[1:]]


def _state(day: Answer) -> Text:
    words = day["why_open"] or day["state"]
    if day["differing"]:
        words = f"{words}: {count_text(day['differing'], 'line')}"
    return cell(words, {"differs": "bold red", "agreed": "green"}.get(day["state"], ""))


def _amount(title: str, key: str, spare: int = 0) -> Column:
    return Column(title, lambda row: dollars(row[key]), right=True, spare=spare)


def _of_compared(title: str, key: str, spare: int = 0) -> Column:
    """Makes a column of the comparison. An open day still lacks rows, so it shows no difference."""
    return Column(title, lambda row: "–" if row["state"] == "open" else dollars(row[key]), right=True, spare=spare)


_DAYS = (
    Column("Day", "day"),
    _amount("Ledger", "ledger"),
    _amount("Bill at list", "list_price"),
    _of_compared("Difference", "difference"),
    _of_compared("Explained", "explained", 3),
    _amount("Paid", "effective", 2),
    Column("", _state),
)
_SAVINGS = (
    Column("Resource", "name"),
    Column("Owner", lambda row: row["owner"] or "unclaimed", spare=1),
    _amount("At list", "list_price"),
    _amount("Sustained use", "sustained"),
    _amount("Committed use", "committed"),
)
_FEES = (
    Column("Project", "project", spare=1),
    Column("Fee", "name"),
    _amount("Before use", "cost"),
    Column("Used", lambda row: "unknown" if row["used_percent"] is None else f"{row['used_percent']}%", right=True),
    Column("Unused", lambda row: "unknown" if row["unused"] is None else dollars(row["unused"]), right=True),
)
_OUTSIDE = (Column("Project", "project"), Column("What", "name"), _amount("Cost", "cost"))


def read(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="JSON lines, a JSON list or CSV, also gzipped: all pieces together."),
    ],
    is_whole: Annotated[
        bool, typer.Option("--whole", help="The files hold whole export days: replace what is stored of them.")
    ] = False,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Read files made from Google's detailed billing export, or from its FOCUS table, into the database.

    Reading the same again changes nothing. Run it where the server runs.
    """
    from costguard.bill.reading import read_files
    from costguard.clock import SystemClock  # only here: other commands need no database, and start sooner

    done = read_files(
        settings_of(config).database.url.get_secret_value(), files, SystemClock().now(), is_whole=is_whole
    )
    if as_json:
        print_json(
            {
                "rows": done.row_count,
                "left_out": done.left_out.row_count,
                "reasons": done.left_out.reasons,
                "export_days": done.days,
                "days_changed": done.days_changed,
            }
        )
        return
    print(
        f"Read {count_text(done.row_count, 'row')} of {count_text(done.days, 'export day')}; "
        f"{done.days_changed or 'none'} new or changed."
        + (" The server compares them with the ledger within ten minutes." if done.days_changed else "")
    )
    if done.left_out.row_count:
        print(done.left_out.words)
