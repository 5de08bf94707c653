"""`costguard spend`."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.console import Console

from costguard.cli.client import Server
from costguard.cli.format import count, dollars
from costguard.cli.options import DEFAULT_URL, AsJson, From, Last, To, Url, days, print_json
from costguard.cli.tables import Row, cell, console, say, show_table

_EXAMPLES = """Examples:

  costguard spend                                   this month, day by day

  costguard spend --last 7d --by owner              the last week, by owner

  costguard spend --by owner,preset                 who spends what, the most first

  costguard spend --from 2026-01-01 --by project --csv > spend.csv

  costguard spend --by day,vm --csv > vms.csv       each VM with its job, owner, team and labels
"""
_FIGURES = ("Machine", "GPU", "Storage", "Total", "Hours")
_GAP = ""  # the column that tells what has no price needs no name
_SPARE = ("Hours", "Storage", "Machine", "GPU")
_NOBODY = {"owner": "unclaimed", "job": "-"}

_GROUPINGS = ("day", "project", "preset", "owner", "job", "provisioning_model", "vm")


def _groupings(given: list[str] | None) -> list[str] | None:
    for name in (name.strip() for part in given or () for name in part.split(",")):
        if name and name not in _GROUPINGS:
            raise typer.BadParameter(f"{name!r} is none of {', '.join(_GROUPINGS)}.")
    return given


def register(app: typer.Typer) -> None:
    app.command("spend", epilog=_EXAMPLES)(spend)


def spend(
    first: From = None,
    to: To = None,
    last: Last = None,
    by: Annotated[
        list[str] | None,
        typer.Option("--by", callback=_groupings, help=f"{', '.join(_GROUPINGS)}; several with commas."),
    ] = None,
    project: Annotated[str | None, typer.Option("--project", "-p", help="Only this project.")] = None,
    preset: Annotated[str | None, typer.Option("--preset", help="Only this preset.")] = None,
    owner: Annotated[str | None, typer.Option("--owner", help='Only this owner; "" for the unclaimed.')] = None,
    job: Annotated[str | None, typer.Option("--job", help="Only this job, by its id.")] = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """What was spent in a range of UTC days, today's share up to now included."""
    if as_csv and as_json:
        raise typer.BadParameter("--csv and --json exclude each other.")
    server = Server(url)
    first, to = days(server, first, to, last)
    asked: dict[str, Any] = {
        "from": first,
        "to": to,
        "group_by": by,
        "project": project,
        "preset": preset,
        "owner": owner,
        "job": job,
    }
    if as_csv:
        print(server.get_csv("spend", **asked, format="csv"), end="")
        return
    answer = server.get("spend", **asked)
    if as_json:
        print_json(answer)
        return
    _show(console(), answer)


def _show(out: Console, answer: dict[str, Any]) -> None:
    groups = answer["group_by"]
    titles = ["VM" if name == "vm" else name.replace("_", " ").capitalize() for name in groups]
    columns = (*titles, *_FIGURES, _GAP)
    rows: list[Row] = []
    for row in answer["rows"]:
        keys = [row["vm"]["name"] if name == "vm" else row["group"][name] or _NOBODY.get(name, "-") for name in groups]
        gap = cell(f"+ {row['unpriced']} unpriced" if row["unpriced"] else "", "bold red")
        rows.append(dict(zip(columns, (*map(cell, keys), *map(cell, _figures(row)), gap), strict=True)))
    total = answer["total"]
    if rows:
        texts = ("All", *[""] * (len(groups) - 1), *_figures(total), "")
        foot = {name: cell(text, "bold") for name, text in zip(columns, texts, strict=True)}
        show_table(out, columns, rows, right=_FIGURES, spare=_SPARE, foot=foot)
    out.print()
    say(out, f"{dollars(total['total'])} from {answer['from']} to {answer['to']} (UTC)", "bold")
    if answer["unpriced"]:
        unpriced = count(answer["unpriced"], "lifetime or disk", "lifetimes and disks")
        say(out, f"NOT PRICED and not in these amounts: {unpriced}, such as", "bold red")
        for span in answer["unpriced_spans"][:5]:
            say(out, f"  {span['project']} / {span['name']}: {span['reason']}", "bold red")


def _figures(row: dict[str, Any]) -> list[str]:
    """A group that has nothing but unpriced VMs has no zeros: it shows that nothing is known."""
    if row.get("unpriced") and not row["total"].strip("0."):
        return ["?", "?", "?", "unpriced", _hours(row["hours"])]
    return [*(dollars(row[name]) for name in ("machine", "gpu", "storage", "total")), _hours(row["hours"])]


def _hours(text: str) -> str:
    return f"{text[:-3]}"
