"""`costguard demo`: a simulated cloud and a guard that watches it, with nothing to set up."""

from __future__ import annotations

import os
import signal
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from costguard.cli import demo_cloud, fleet_table
from costguard.cli.client import Server
from costguard.cli.demo_settings import demo_settings
from costguard.cli.format import clean, when
from costguard.cli.options import listening_address
from costguard.cli.tables import console, say
from costguard.errors import ServerUnreachable

_EPILOG = """Examples:

  costguard demo                             an hour of the fleet's time in a minute of yours

  costguard demo --speed 1 --listen :9000    in real time, at another port
"""
_FACTS_SHOWN = 8


def register(app: typer.Typer) -> None:
    app.command("demo", epilog=_EPILOG)(demo)


def demo(
    listen: Annotated[str, typer.Option("--listen", help="HOST:PORT of the guard.")] = "127.0.0.1:8765",
    sandbox_port: Annotated[int, typer.Option("--sandbox-port", min=0, max=65535, help="0: any free one.")] = 0,
    scenario: Annotated[str, typer.Option("--scenario", help="A file, or the name of one shipped.")] = "demo",
    speed: Annotated[float, typer.Option("--speed", min=0.1, max=3600, help="Its seconds in one of yours.")] = 60.0,
) -> None:
    """See Costguard at work on a simulated cloud. Ctrl-C ends all of it, and nothing is kept."""
    stop = threading.Event()
    for sign in (signal.SIGINT, signal.SIGTERM):
        signal.signal(sign, lambda _number, _frame: stop.set())
    # Only now: this is where the weight is, and Ctrl-C may come meanwhile.
    from costguard import logs, main

    address = listening_address(listen)
    logs.configure("error", "console")
    with (
        tempfile.TemporaryDirectory(prefix="costguard-demo-") as folder,
        demo_cloud.simulated_cloud(scenario, sandbox_port, speed) as cloud,
    ):
        clock = demo_cloud.clock_of(cloud)
        environ = {"COSTGUARD_TOKEN": os.environ.get("COSTGUARD_TOKEN", ""), **demo_cloud.slack_secrets(cloud)}
        projects = demo_cloud.projects_of(cloud)
        settings = demo_settings(address, cloud, Path(folder), projects, clock.now(), environ)
        with main.opened(settings, clock, speed) as guard:
            guard.refresh_prices(None)  # before the first pass, so that no figure changes for want of them
            told: list[str] = []
            servers: list[Any] = []
            ready = threading.Event()

            def announce(url: str, server: Any) -> None:
                told.append(url)
                servers.append(server)
                ready.set()

            with ThreadPoolExecutor(1, "serve") as threads:
                serving = threads.submit(main.serve, guard, announce)
                try:
                    while not ready.wait(0.1) and not serving.done():
                        pass
                    if told:
                        demo_cloud.send_presses(cloud, told[0])
                        _show(told[0], cloud, speed, stop)
                finally:
                    stop.set()
                    for server in servers:
                        server.should_exit = True
            serving.result()  # raises what ended it, such as a port that is taken


def _show(url: str, cloud: str, speed: float, stop: threading.Event) -> None:
    """The fleet and what happens to it, afresh every second in a terminal, now and then in a pipe."""
    out = console()
    how = "" if os.environ.get("COSTGUARD_TOKEN") else " (open it in a browser)"
    say(out, f"Costguard answers at {url}{how}. The simulated cloud is at {cloud}. Ctrl-C ends both.")
    say(out, f"Slack as people see it: {cloud}/slack (be any of them, and press).")
    say(out, f"One second of yours is {speed:g} of the fleet's. In another terminal: costguard ps --url {url}")
    out.file.flush()
    server = Server(url)
    if out.is_terminal:
        title = f"Costguard: {url}{how}. Slack as people see it: {cloud}/slack. Ctrl-C ends the demo."
        _show_live(out, server, title, stop)
    else:
        _show_plainly(out, server, stop)


def _show_live(out: Console, server: Server, title: str, stop: threading.Event) -> None:
    from rich.live import Live
    from rich.text import Text

    with Live(console=out, screen=True, auto_refresh=False) as live:
        while not stop.is_set():
            try:
                fleet, facts = _fleet(server), _facts(server)
            except ServerUnreachable:
                return
            with out.capture() as captured:
                say(out, title, "bold")
                out.print()
                fleet_table.show(out, fleet)
                out.print()
                for fact in reversed(facts[:_FACTS_SHOWN]):
                    say(out, _line(fact), "dim")
            live.update(Text.from_ansi(captured.get()), refresh=True)
            stop.wait(1)


def _show_plainly(out: Console, server: Server, stop: threading.Event) -> None:
    known: set[str] = set()
    turn = 0
    while not stop.is_set():
        try:
            fleet, facts = _fleet(server), _facts(server)
        except ServerUnreachable:
            return
        if fleet["instances"]:
            for fact in reversed(facts):
                if fact["id"] not in known:
                    say(out, _line(fact))
                    known.add(fact["id"])
            if turn % 10 == 0:
                out.print()
                fleet_table.show(out, fleet)
                out.print()
            turn += 1
            out.file.flush()
        stop.wait(3 if turn else 0.3)


def _fleet(server: Server) -> dict[str, Any]:
    return server.pages("instances", "instances", 50)


def _facts(server: Server) -> list[dict[str, Any]]:
    facts: list[dict[str, Any]] = server.get("facts", limit=50)["facts"]
    return facts


def _line(fact: dict[str, Any]) -> str:
    return f"{when(fact['occurred_at'])}  {clean(fact['text'])}"
