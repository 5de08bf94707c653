"""`costguard loose`: what bills and nothing uses, with the command that removes it."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Annotated

import typer
from rich.console import Console

from costguard.cli.options import DEFAULT_URL, AsJson, OneProject, Url
from costguard.cli.server import ServerClient
from costguard.cli.tables import Answer, Column, amount_text, cell, dollars, render, say, show_table, when
from costguard.model.words import count_text

_PATIENCE_S = 60.0  # the server itself waits for Google twenty seconds

_EXAMPLES = """Examples:

  costguard loose                             disks, addresses, snapshots, images and reservations that nothing uses,
                                              and queued resources of TPUs that hold quota for nothing

  costguard loose --fresh                     the same, and Google is asked now: each project is asked once an hour

  costguard loose --project ml-lab --json     one project's, as JSON
"""


def register(app: typer.Typer) -> None:
    app.command("loose", epilog=_EXAMPLES)(loose)


def loose(
    project: OneProject = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Have Google asked now, and wait for it twenty seconds at most.")
    ] = False,
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """List unused things that bill or hold quota, with their cost a month and the command that removes each.

    Each project is asked once an hour, and this is what they last answered. Costguard removes nothing of it.
    """
    client = ServerClient(url, timeout=_PATIENCE_S) if fresh else ServerClient(url)
    render(client.get("loose", project=project, fresh=fresh or None), as_json, show_loose)


def show_loose(console: Console, answer: Answer) -> None:
    if answer["things"]:
        show_table(console, _COLUMNS, answer["things"])
        console.print()
        say(console, "The commands that remove them, which Costguard does not run:")
        for thing in answer["things"]:
            if thing["command"]:
                say(console, f"  {thing['command']}")
        console.print()
    say(console, f"{count_text(len(answer['things']), 'thing')}, {amount_text(answer['monthly'])} a month", "bold")
    if answer["unpriced"]:
        say(console, f"NO PRICE IS KNOWN of {answer['unpriced']}: their cost is in no amount.", "bold red")
    if count := answer["cluster_disks"]:
        disks = count_text(count, "unattached disk is", "unattached disks are")
        say(console, f"{disks} not listed: a cluster's volumes may need {'it' if count == 1 else 'them'}.")
    if any(thing["kind"] == "reservation" for thing in answer["things"]):
        say(console, f"Reserved VMs that nobody uses cost {amount_text(answer['unused_reservations'])} an hour now.")
    if answer["planned"]:
        console.print()
        say(console, "Future reservations, which bill from their start, used or not:")
        show_table(console, _PLANNED, answer["planned"])
    for alike in _alike(answer["unread"]):
        words = f"{alike[0]['reason']}{_and_others(alike)} It takes {alike[0]['permission']}."
        say(console, f"NOT READ: {words}", "bold red")
    _say_unknown(console, answer)
    if answer["oldest_at"] is not None:
        say(console, f"The oldest answer is of {when(answer['oldest_at'])}.")


def _say_unknown(console: Console, answer: Answer) -> None:
    """Says of which projects nothing is known: each once, and once for all with the same reason."""
    tried = [one for one in answer["unknown"] if one["why"] != "not_asked"]
    if waiting := len(answer["unknown"]) - len(tried):
        which = f"{waiting:,} of {count_text(answer['projects'], 'project')}"
        say(console, f"UNKNOWN: {which} not asked yet. Look again in a minute.", "bold red")
    for alike in _alike(tried):
        say(console, f"UNKNOWN: {alike[0]['project']}{_and_others(alike)}: {alike[0]['reason']}", "bold red")
    if tried:
        say(console, "What is in these projects is in no amount: --json lists each of them.")


def _alike(rows: Iterable[Answer]) -> Collection[list[Answer]]:
    """Groups rows by the reason without the project that it names, and by the permission that lacks, where one does."""
    groups: dict[tuple[str, str | None], list[Answer]] = {}
    for row in rows:
        groups.setdefault((row["reason"].replace(row["project"], ""), row.get("permission")), []).append(row)
    return groups.values()


def _and_others(alike: list[Answer]) -> str:
    others = len(alike) - 1
    return f", and {count_text(others, 'other project')} alike" if others else ""


def _ends(plan: Answer) -> str:
    end = plan["reservation_ends_at"] or plan["ends_at"]
    return "no end" if end is None else when(end)


_PLANNED = (
    Column("Name", "name"),
    Column("What", "what"),
    Column("Project", "project", spare=2),
    Column("Place", lambda row: row["scope"].partition("/")[2] or row["scope"], spare=1),
    Column("State", lambda row: row["procurement"].replace("_", " ")),
    Column("Starts", lambda row: when(row["starts_at"])),
    Column("Ends", _ends),
)
_COLUMNS = (
    Column("Name", "name"),
    Column("What", "what"),
    Column("Project", "project", spare=2),
    Column("Place", lambda row: row["scope"].partition("/")[2] or row["scope"], spare=3),
    Column("Owner", lambda row: row["owner"] or "unowned", spare=4),
    Column("Since", lambda row: when(row["since"]), spare=1),
    Column("Ends", lambda row: "" if row["ends_at"] is None else when(row["ends_at"]), spare=5),
    Column(
        "A month", lambda row: cell("unknown", "bold red") if row["monthly"] is None else dollars(row["monthly"]), True
    ),
)
