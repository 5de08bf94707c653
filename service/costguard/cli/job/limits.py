"""`costguard limits`: what may be in use at once, what is, and who waits for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer
from rich.console import Console

from costguard.cli.options import DEFAULT_URL, AsJson, Url
from costguard.cli.server import ServerClient
from costguard.cli.tables import Answer, Column, rate, render, say, show_table, when
from costguard.model.words import count_text

_EXAMPLES = """Examples:

  costguard limits                  the use of each limit, and the jobs that wait for it, in their order

  costguard limits --json           the same for a script, with everything that uses it
"""
_SCOPES = ("project", "preset", "owner", "team")
_RESOURCES = (("vms", "VMs"), ("gpus", "GPUs"), ("dollars_per_hour", "an hour"))


def register(app: typer.Typer) -> None:
    app.command("limits", epilog=_EXAMPLES)(limits)


def limits(url: Url = DEFAULT_URL, as_json: AsJson = False) -> None:
    """List limits on VMs, GPUs and dollars an hour at once: their use, and who waits for them in which order."""
    render(ServerClient(url).get("limits"), as_json, show_limits)


def show_limits(console: Console, answer: Answer) -> None:
    rows = answer["limits"]
    if not rows:
        say(console, "No limit is set, or nothing uses one. Add one to the settings file, and restart the server:")
        for line in ("[limits.gpus]", "gpus = 8", 'for_each = "owner"'):
            say(console, f"  {line}")
        return
    show_table(console, _COLUMNS, rows)
    for limit in rows:
        if limit["waiting"]:
            console.print()
            say(console, f"{count_text(len(limit['waiting']), 'job')} waiting for {_name(limit)}:", "bold")
            show_table(console, _WAITING, limit["waiting"])
            for job in limit["waiting"]:
                say(console, f"{job['title']}: {job['why']}", "dim")


def _name(limit: Answer) -> str:
    return f"{limit['name']} of {limit['value']}" if limit["value"] else str(limit["name"])


def _scope(limit: Answer) -> str:
    scope = ", ".join(f"{part} {limit[part]}" for part in _SCOPES if limit[part] is not None) or "everything"
    return scope if limit["counts_others"] else f"{scope}, jobs alone"


def _uses(limit: Answer) -> Iterator[str]:
    for name, word in _RESOURCES:
        if limit[name] is not None:
            show: Any = rate if name == "dollars_per_hour" else str
            yield f"{show(limit['used'][name])} of {show(limit[name])} {word}"
    if limit["dollars_per_hour"] is not None and limit["used"]["unpriced"]:
        yield f"{count_text(limit['used']['unpriced'], 'VM')} without a price"


_COLUMNS = (
    Column("Limit", _name),
    Column("Scope", _scope, spare=1),
    Column("In use", lambda limit: ", ".join(_uses(limit))),
    Column("By", lambda limit: ", ".join(use["title"] or "no job" for use in limit["users"]), spare=2),
    Column("Waiting", lambda limit: str(len(limit["waiting"])), right=True),
)
_WAITING = (
    Column("Place", lambda job: str(job["place"]) if job["place"] else "never", right=True),
    Column("Job", lambda job: job["title"]),
    Column("Owner", lambda job: job["owner"], spare=1),
    Column("Priority", lambda job: str(job["priority"]), right=True, spare=2),
    Column("Since", lambda job: when(job["since"]), spare=3),
    Column("Starts about", lambda job: when(job["starts_at"]) if job["starts_at"] else "unknown"),
)
