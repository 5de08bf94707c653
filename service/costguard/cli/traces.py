"""`costguard trace`: the fleet's own history of Spot VMs, as files that `costguard replay` reads."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

import typer

from costguard.cli.command_line import CommandLine
from costguard.cli.options import DEFAULT_URL, AsJson, Url, print_json
from costguard.cli.server import ServerClient
from costguard.cli.tables import Answer, clean
from costguard.errors import Invalid
from costguard.model.words import count_text

_EXAMPLE = "Example:  costguard trace export traces && costguard replay --traces traces --work 48h --deadline 72h"

trace = CommandLine(no_args_is_help=True, help="The fleet's own history of Spot VMs, as series for a replay.")

Days = Annotated[int, typer.Option("--days", metavar="DAYS", min=1, max=90, help="The number of days to look back.")]


def register(app: typer.Typer) -> None:
    trace.command("export", epilog=_EXAMPLE)(export)
    app.add_typer(trace, name="trace")


def export(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="The folder for the files, one for each zone and kind of VM.")
    ],
    days: Days = 30,
    gap: Annotated[
        int, typer.Option("--gap", metavar="SECONDS", min=60, max=3600, help="Seconds from one point to the next.")
    ] = 600,
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Write the times at which Spot VMs ran, were preempted and were out of stock, by zone.

    The files name zones and kinds of VM, and nobody: no project, owner, VM or moment. Their format is that of the Spot
    traces of "Can't Be Late" (github.com/skypilot-org/spot-traces).
    """
    written = []
    for name, document in documents(ServerClient(url), days, gap):
        file = folder / f"{name}.json"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(document) + "\n", encoding="utf-8")
        except OSError as error:
            raise Invalid(f"{file} cannot be written: {error.strerror}.", "Name a folder that you may write.") from None
        written.append(file)
    if as_json:
        print_json({"files": [str(file) for file in written]})
        return
    for file in written:
        print(clean(str(file)))
    if not written:
        print(f"No Spot VM was launched or asked for in the last {count_text(days, 'day')}.")


def documents(server: ServerClient, days: int, gap: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each series with its name, as it stands in a file."""
    for one in server.get("traces", days=days, gap_seconds=gap)["traces"]:
        yield _file_name(one["name"]), _document(one)


def _file_name(name: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in name).lstrip(".") or "zone"


def _document(one: Answer) -> dict[str, Any]:
    metadata: dict[str, Any] = {"gap_seconds": one["gap_seconds"], "seen": one["seen"]}
    prices = {"price": one["price_per_hour"], "on_demand_price": one["on_demand_price_per_hour"]}
    info = {name: float(Decimal(price)) for name, price in prices.items() if price is not None}
    return {"metadata": {**metadata, **({"price_info": info} if info else {})}, "data": one["data"]}
