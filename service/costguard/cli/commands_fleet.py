"""`costguard ps` and `costguard show`."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.live import Live
from rich.text import Text

from costguard.cli import fleet_table, history_table
from costguard.cli.client import Server
from costguard.cli.commands_vm import Vm
from costguard.cli.finding import the_vm
from costguard.cli.format import clean_lines
from costguard.cli.options import DEFAULT_URL, AsJson, Limit, Owner, Preset, Project, Url, is_asked, print_json
from costguard.cli.tables import console
from costguard.errors import ServerUnreachable
from costguard.model.instance import Status

_PS_EXAMPLES = """Examples:

  costguard ps                          the whole fleet, the most expensive first

  costguard ps --owner "" --sort age    what nobody claims, the oldest first

  costguard ps --watch 5                afresh every five seconds
"""


def register(app: typer.Typer) -> None:
    app.command("ps", epilog=_PS_EXAMPLES)(ps)
    app.command("show", epilog="Example:  costguard show trainer-3 --project lab")(show)


def ps(
    project: Project = None,
    preset: Preset = None,
    owner: Owner = None,
    status: Annotated[list[Status] | None, typer.Option("--status", help="Only this status, such as running.")] = None,
    gpu: Annotated[str | None, typer.Option("--gpu", help="An accelerator type, any, or none.")] = None,
    spot: Annotated[bool | None, typer.Option("--spot/--no-spot", help="Only Spot VMs, or only others.")] = None,
    gone: Annotated[bool, typer.Option("--all", "-a", help="Also VMs that are gone.")] = False,
    sort: Annotated[Literal["rate", "age", "name"], typer.Option("--sort", help="What stands first.")] = "rate",
    limit: Limit = 200,
    watch: Annotated[
        float | None, typer.Option("--watch", "-w", min=0.5, metavar="SECONDS", help="Show afresh so often.")
    ] = None,
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """The fleet: who runs what, for how long, at what rate, and what it has cost."""
    server = Server(url)

    def fetch() -> dict[str, Any]:
        return server.pages(
            "instances",
            "instances",
            limit,
            project=project,
            preset=preset,
            owner=owner,
            status=status,
            gpu=gpu,
            spot=spot,
            gone=gone,
            sort=sort,
        )

    if watch is None:
        asked = is_asked(project, preset, owner, status, gpu, spot)
        print_json(fetch()) if as_json else fleet_table.show(console(), fetch(), asked)
        return
    if as_json:
        raise typer.BadParameter("--watch shows a table; leave --json out.")
    stop = threading.Event()
    follow(fetch, console(), lambda: stop.wait(watch))


def follow(fetch: Callable[[], dict[str, Any]], out: Console, wait: Callable[[], bool]) -> None:
    """Show the fleet afresh until `wait` says to stop. A server that is away for a while is waited for."""
    fleet = fetch()
    if not out.is_terminal:
        while True:
            fleet_table.show(out, fleet)
            out.print()
            out.file.flush()
            if wait():
                return
            fleet = fetch()
    trouble = ""
    with Live(console=out, screen=True, auto_refresh=False) as live:
        while True:
            live.update(_frame(out, fleet, trouble), refresh=True)
            if wait():
                return
            try:
                fleet, trouble = fetch(), ""
            except ServerUnreachable as error:
                trouble = f"{error.message} This is from {fleet['as_of']}."


def _frame(out: Console, fleet: dict[str, Any], trouble: str) -> Text:
    with out.capture() as captured:
        fleet_table.show(out, fleet)
    frame = Text.from_ansi(captured.get())
    return Text.assemble((f"{clean_lines(trouble)}\n\n", "bold red"), frame) if trouble else frame


def show(
    vm: Vm,
    project: Project = None,
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """One VM: every lifetime and disk, charge by charge, with the price it was billed at."""
    server = Server(url)
    found = the_vm(server, vm, project)
    answer = server.get("instances", found["project"], found["gce_id"])
    print_json(answer) if as_json else history_table.show_instance(console(), answer)
