"""`costguard places` and `costguard recoveries`."""

from __future__ import annotations

from typing import Annotated

import typer

from costguard.cli import places_table
from costguard.cli.client import Server
from costguard.cli.options import DEFAULT_URL, AsJson, Url, print_json
from costguard.cli.tables import console


def register(app: typer.Typer) -> None:
    app.command("places", epilog="Example:  costguard places --json")(places)
    app.command("recoveries", epilog="Example:  costguard recoveries --days 7")(recoveries)


def places(url: Url = DEFAULT_URL, as_json: AsJson = False) -> None:
    """Zones by what became of launches there: recent stockouts and preemptions, which fade with time."""
    answer = Server(url).get("places")
    print_json(answer) if as_json else places_table.show_places(console(), answer)


def recoveries(
    days: Annotated[int, typer.Option("--days", min=1, max=3650, help="As far back.")] = 30,
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """How long jobs took to be back at work after they lost a VM, and what told of it first."""
    answer = Server(url).get("recoveries", days=days)
    print_json(answer) if as_json else places_table.show_recoveries(console(), answer)
