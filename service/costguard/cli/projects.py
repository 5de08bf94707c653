"""`costguard projects`: the projects that are watched, why, and which of them cannot be read."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from costguard.cli.options import DEFAULT_URL, AsJson, Url
from costguard.cli.server import ServerClient
from costguard.cli.tables import Answer, Column, cell, render, say, show_table, when
from costguard.model.words import count_text

_EXAMPLES = """Examples:

  costguard projects                 every project that is watched: listed in the settings, or found by a search

  costguard projects --refusing      those that cannot be read, each with what mends it
"""


def register(app: typer.Typer) -> None:
    app.command("projects", epilog=_EXAMPLES)(projects)


def projects(
    refusing: Annotated[bool, typer.Option("--refusing", help="Only projects that cannot be read.")] = False,
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """List the watched projects, each with why it is watched, since when, and when it was last read whole."""
    answer = ServerClient(url).get("projects")
    if refusing:
        answer = {**answer, "projects": [one for one in answer["projects"] if _is_unread(one)]}
    render(answer, as_json, show_projects, refusing)


def show_projects(console: Console, answer: Answer, refusing: bool = False) -> None:
    unread = [one for one in answer["projects"] if _is_unread(one)]
    if answer["projects"]:
        show_table(console, _COLUMNS, answer["projects"])
        console.print()
    read = len(answer["projects"]) - len(unread)
    say(console, f"{count_text(len(answer['projects']), 'project')}, {read} of them read", "bold")
    for place in answer["searches"]:
        _say_search(console, place)
    if unread and not refusing:
        say(
            console,
            f"NOT READ: {len(unread)}. `costguard projects --refusing` says why, and what mends it.",
            "bold red",
        )
    for one in unread if refusing else ():
        for part in one["unread"]:
            say(console, f"NOT READ: {one['project']}: {part['reason']}", "bold red")
            if part["command"]:
                say(console, f"  {part['command']}")


def _say_search(console: Console, place: Answer) -> None:
    count = f"{place['place']}: {count_text(place['project_count'], 'project')} found, last searched"
    say(console, f"{count} {when(place['searched_at']) if place['searched_at'] is not None else 'never'}.")
    if place["failed_since"] is not None:
        since = when(place["failed_since"])
        say(console, f"SEARCHES FAIL since {since}: {place['failure']} Known projects stay watched.", "bold red")


def _is_unread(project: Answer) -> bool:
    return any(part["scope"] == "project" for part in project["unread"])


def _origin(project: Answer) -> str:
    """Says whether the settings list it, a search found it, or both."""
    words = ["listed"] if project["is_listed"] else []
    words += ["found"] if project["found_at"] is not None else []
    return " and ".join(words)


def _state(project: Answer) -> object:
    if project["refused_since"] is not None:
        return cell(f"refuses since {when(project['refused_since'])}", "bold red")
    if _is_unread(project):
        return cell("not read", "bold red")
    if project["missing_since"] is not None:
        return f"not found since {when(project['missing_since'])}"
    return "stale" if project["is_stale"] else "read"


_COLUMNS = (
    Column("Project", "project"),
    Column("Origin", _origin),
    Column("Watched since", lambda row: when(row["first_seen_at"]), spare=2),
    Column(
        "Last read whole", lambda row: "never" if row["last_complete_at"] is None else when(row["last_complete_at"])
    ),
    Column("VMs", lambda row: row["instances"], True),
    Column("State", _state),
)
