"""`costguard lifetimes`, `costguard facts` and `costguard prices`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from costguard.cli import complete, history_table
from costguard.cli.client import Server
from costguard.cli.options import (
    DEFAULT_URL,
    AsJson,
    LastHours,
    Limit,
    Owner,
    Preset,
    Project,
    Since,
    Until,
    Url,
    is_asked,
    print_json,
)
from costguard.cli.options import since as not_before
from costguard.cli.tables import console
from costguard.model.lifetime import EndReason


def register(app: typer.Typer) -> None:
    app.command("lifetimes", epilog="Example:  costguard lifetimes --owner ada@example.com --open")(lifetimes)
    app.command("facts", epilog="Example:  costguard facts --kind LifetimeEnded --since 2026-11-20T00:00:00Z")(facts)
    app.command("prices", epilog="Example:  costguard prices --resource gpu: --region us-central1")(prices)


def lifetimes(
    project: Project = None,
    preset: Preset = None,
    owner: Owner = None,
    reason: Annotated[
        list[EndReason] | None, typer.Option("--reason", help="Only ended so, such as preempted.")
    ] = None,
    is_open: Annotated[bool | None, typer.Option("--open/--ended", help="Only those that run, or that ended.")] = None,
    limit: Limit = 50,
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Continuous runs of VMs: when, why they ended, and what each cost."""
    filters: dict[str, Any] = {
        "project": project,
        "preset": preset,
        "owner": owner,
        "end_reason": reason,
        "state": None if is_open is None else "open" if is_open else "ended",
    }
    answer = Server(url).pages("lifetimes", "lifetimes", limit, **filters)
    print_json(answer) if as_json else history_table.show_lifetimes(console(), answer, is_asked(*filters.values()))


def facts(
    since: Since = None,
    until: Until = None,
    last: LastHours = None,
    kind: Annotated[str | None, typer.Option("--kind", help="Only this kind, such as LifetimeStarted.")] = None,
    who: Annotated[str | None, typer.Option("--who", help="Part of who did it, such as ana@.")] = None,
    words: Annotated[str | None, typer.Option("--words", help="Part of the text, or of the VM's name.")] = None,
    job: Annotated[
        str | None, typer.Option("--job", help="Only this job, by its id.", autocompletion=complete.jobs)
    ] = None,
    project: Annotated[str | None, typer.Option("--project", "-p", help="Only this project.")] = None,
    vm: Annotated[str | None, typer.Option("--id", help="Only the VM with this numeric id.")] = None,
    limit: Limit = 50,
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """What happened, the latest first: who, what and why."""
    server = Server(url)
    filters = {
        "since": not_before(server, since, last),
        "until": until,
        "kind": kind,
        "who": who,
        "words": words,
        "job": job,
        "project": project,
        "gce_id": vm,
    }
    answer = server.pages("facts", "facts", limit, **filters)
    print_json(answer) if as_json else history_table.show_facts(console(), answer, is_asked(*filters.values()))


def prices(
    resource: Annotated[str | None, typer.Option("--resource", "-r", help="Resources that begin so.")] = None,
    region: Annotated[str | None, typer.Option("--region", help="Only this region.")] = None,
    history: Annotated[bool, typer.Option("--history", help="Also prices no longer in force.")] = False,
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Prices in force, prices refused, and loudly what has none."""
    answer = Server(url).get("prices", resource=resource, region=region, history=history)
    print_json(answer) if as_json else history_table.show_prices(console(), answer, is_asked(resource, region))
