"""`costguard spend`: cost by day, owner and other groups."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.console import Console

from costguard.cli.options import DEFAULT_URL, AsJson, From, Last, OnePreset, OneProject, To, Url, days, only
from costguard.cli.server import ServerClient
from costguard.cli.tables import Answer, Column, cell, dollars, render, say, show_table
from costguard.model.words import count_text

_EXAMPLES = """Examples:

  costguard spend                                   this month, day by day

  costguard spend --last 7d --by owner              the last week, by owner

  costguard spend --by owner,preset                 by owner and preset, the most expensive first

  costguard spend --from 2026-01-01 --by project --csv > spend.csv

  costguard spend --by day,vm --csv > vms.csv       each VM with its job, owner, team and labels
"""
_UNGROUPED = {"owner": "unclaimed"}
_GROUPINGS = ("day", "project", "preset", "owner", "job", "provisioning_model", "vm")
_MOST_UNPRICED = 5


def register(app: typer.Typer) -> None:
    app.command("spend", epilog=_EXAMPLES)(spend)


def spend(
    first: From = None,
    to: To = None,
    last: Last = None,
    by: Annotated[
        list[str] | None,
        typer.Option("--by", callback=only(_GROUPINGS), help=f"{', '.join(_GROUPINGS)}; several with commas."),
    ] = None,
    project: OneProject = None,
    preset: OnePreset = None,
    owner: Annotated[str | None, typer.Option("--owner", help='Only this owner; "" for unclaimed VMs.')] = None,
    job: Annotated[str | None, typer.Option("--job", help="Only this job, by its id.")] = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Cost in a range of UTC days, including today up to now."""
    if as_csv and as_json:
        raise typer.BadParameter("--csv and --json exclude each other.")
    server = ServerClient(url)
    first, to = days(server, first, to, last)
    query: dict[str, Any] = {
        "from": first,
        "to": to,
        "group_by": by,
        "project": project,
        "preset": preset,
        "owner": owner,
        "job": job,
    }
    if as_csv:
        print(server.get_csv("spend", **query, format="csv"), end="")
    else:
        render(server.get("spend", **query), as_json, show_spend)


def show_spend(console: Console, answer: Answer) -> None:
    total = answer["total"]
    if answer["rows"]:
        columns = (*map(_group, answer["group_by"]), *_FIGURES, _GAP)
        texts = ("All", *[""] * (len(answer["group_by"]) - 1))
        foot = [cell(text, "bold") for text in (*texts, *(column.cell(total).plain for column in _FIGURES), "")]
        show_table(console, columns, answer["rows"], foot)
    console.print()
    say(console, f"{dollars(total['total'])} from {answer['from']} to {answer['to']} (UTC)", "bold")
    if answer["unpriced"]:
        unpriced = count_text(answer["unpriced"], "lifetime or disk", "lifetimes and disks")
        say(console, f"NOT PRICED and not in these amounts: {unpriced}, such as", "bold red")
        for span in answer["unpriced_spans"][:_MOST_UNPRICED]:
            say(console, f"  {span['project']} / {span['name']}: {span['reason']}", "bold red")


def _group(name: str) -> Column:
    if name == "vm":
        return Column("VM", lambda row: row["vm"]["name"])
    title = name.replace("_", " ").capitalize()
    return Column(title, lambda row: row["group"][name] or _UNGROUPED.get(name, "-"))


def _figure(title: str, key: str, spare: int = 0, unknown: str = "?") -> Column:
    """An amount. A group of unpriced VMs alone has no zeros: its amounts are not known."""

    def amount(row: Answer) -> str:
        is_unknown = row.get("unpriced") and not row["total"].strip("0.")
        return unknown if is_unknown else dollars(row[key])

    return Column(title, amount, right=True, spare=spare)


_FIGURES = (
    _figure("Machine", "machine", 3),
    _figure("GPU", "gpu", 4),
    _figure("Storage", "storage", 2),
    _figure("Total", "total", unknown="unpriced"),
    Column("Hours", lambda row: row["hours"][:-3], right=True, spare=1),
)
_GAP = Column("", lambda row: cell(f"+ {row['unpriced']} unpriced" if row["unpriced"] else "", "bold red"))
