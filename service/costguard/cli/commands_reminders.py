"""`costguard reminders`, `costguard reminders preview` and `costguard enforcement`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from costguard.cli import reminders_table
from costguard.cli.client import Server
from costguard.cli.options import DEFAULT_URL, AsJson, From, Last, Limit, To, Url, days, is_asked, print_json
from costguard.cli.tables import console

_EXAMPLES = """Examples:

  costguard reminders                          what was sent, and what waits to be

  costguard reminders --status failed          what Slack refused, and why

  costguard reminders preview                  what would be sent now, and why nothing else
"""
_STATUSES = ("intended", "sending", "accepted", "withdrawn", "failed")
_KINDS = ("reminder", "digest", "notice", "job", "whisper")


def _one_of(known: tuple[str, ...]) -> Any:
    def check(given: str | None) -> str | None:
        if given is not None and given not in known:
            raise typer.BadParameter(f"{given!r} is none of {', '.join(known)}.")
        return given

    return check


def register(app: typer.Typer) -> None:
    group = typer.Typer(invoke_without_command=True, epilog=_EXAMPLES)
    group.callback()(reminders)
    group.command("preview", epilog="Example:  costguard reminders preview --json")(preview)
    app.add_typer(group, name="reminders")
    app.command("enforcement", epilog="Example:  costguard enforcement --from 2026-11-01")(enforcement)


def reminders(
    context: typer.Context,
    vm: Annotated[str | None, typer.Option("--id", help="Only about the VM with this numeric id.")] = None,
    subject: Annotated[str | None, typer.Option("--subject", help="Only about this run or rest: run:12:7.")] = None,
    status: Annotated[
        str | None, typer.Option("--status", callback=_one_of(_STATUSES), help=f"{', '.join(_STATUSES)}.")
    ] = None,
    kind: Annotated[str | None, typer.Option("--kind", callback=_one_of(_KINDS), help=f"{', '.join(_KINDS)}.")] = None,
    limit: Limit = 50,
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Messages: to whom, what became of them, the latest first. With `preview`: what would be sent now, and why."""
    if context.invoked_subcommand is not None:
        return
    filters = {"gce_id": vm, "subject": subject, "status": status, "kind": kind}
    answer = Server(url).pages("reminders", "reminders", limit, **filters)
    print_json(answer) if as_json else reminders_table.show(console(), answer, is_asked(*filters.values()))


def preview(url: Url = DEFAULT_URL, as_json: AsJson = False) -> None:
    """What would be sent now and why, and why each other VM is left alone. Nothing is sent."""
    answer = Server(url).get("reminders", "preview")
    print_json(answer) if as_json else reminders_table.show_preview(console(), answer)


def enforcement(
    first: From = None, to: To = None, last: Last = None, url: Url = DEFAULT_URL, as_json: AsJson = False
) -> None:
    """What was stopped or would have been, by which rule, and what that saved."""
    server = Server(url)
    first, to = days(server, first, to, last)
    answer = server.get("enforcement", **{"from": first, "to": to})
    print_json(answer) if as_json else reminders_table.show_enforcement(console(), answer)
