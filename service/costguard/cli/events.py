"""`costguard events`: the audit log."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from costguard.cli.fleet import find_vm
from costguard.cli.options import (
    DEFAULT_URL,
    AsJson,
    LastHours,
    Limit,
    OneJob,
    OneProject,
    Since,
    Until,
    Url,
    complete_vms,
    has_filter,
    job_id,
    not_before,
)
from costguard.cli.server import ServerClient
from costguard.cli.tables import Answer, Column, nothing_fits, render, show_page, when

_COLUMNS = (
    Column("When (UTC)", lambda event: when(event["occurred_at"])),
    Column("Event", "kind", spare=1),
    Column("Resource", lambda event: " / ".join(part for part in (event["project"], event["name"]) if part), spare=3),
    Column("What", "text", prose=True),
    Column("Who", "actor", spare=2),
)


def register(app: typer.Typer) -> None:
    app.command("events", epilog="Example:  costguard events --kind LifetimeEnded --since 2026-11-20T00:00:00Z")(events)


def events(
    since: Since = None,
    until: Until = None,
    last: LastHours = None,
    kind: Annotated[
        str | None, typer.Option("--kind", metavar="KIND", help="Only this kind, such as LifetimeStarted.")
    ] = None,
    who: Annotated[
        str | None, typer.Option("--who", metavar="NAME", help="A part of the actor's name, such as ana@.")
    ] = None,
    words: Annotated[
        str | None, typer.Option("--words", metavar="WORDS", help="A part of the text, or of the resource's name.")
    ] = None,
    job: OneJob = None,
    project: OneProject = None,
    vm: Annotated[
        str | None,
        typer.Option(
            "--vm",
            "--id",
            metavar="VM",
            help="Only this VM or other resource, by its name or id.",
            autocompletion=complete_vms,
        ),
    ] = None,
    limit: Limit = 50,
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """List events, the latest first, each with its actor and its reason."""
    server = ServerClient(url)
    filters = {
        "since": not_before(server, since, last),
        "until": until,
        "kind": kind,
        "who": who,
        "words": words,
        "job": job_id(server, job),
        "project": project,
        "gce_id": vm and find_vm(server, vm, project and [project])["gce_id"],
    }
    answer = server.pages("events", "events", limit, **filters)
    render(answer, as_json, show_events, has_filter(*filters.values()))


def show_events(console: Console, answer: Answer, is_filtered: bool) -> None:
    hint = "`costguard events` alone shows the latest of every kind."
    show_page(console, _COLUMNS, answer, "events", nothing=nothing_fits("event", is_filtered, hint))
