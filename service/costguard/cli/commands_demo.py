"""`costguard demo`: a simulated cloud and a guard that watches it, with nothing to set up."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.request import urlopen

import typer
from rich.console import Console

from costguard.cli import fleet_table
from costguard.cli.client import Server
from costguard.cli.format import clean, when
from costguard.cli.options import listening_address
from costguard.cli.tables import console, say
from costguard.errors import CostguardError, ServerUnreachable, SettingsError

if TYPE_CHECKING:
    from costguard.clock import ScaledClock
    from costguard.settings import Settings

_EPILOG = """Examples:

  costguard demo                             an hour of the fleet's time in a minute of yours

  costguard demo --speed 1 --listen :9000    in real time, at another port
"""
_EVERY = timedelta(seconds=10)  # the shortest interval between passes that the settings allow
_FACTS_SHOWN = 8
# One that the four A100s overspend while one looks on, and one that is on course.
_BUDGETS = {
    "training-today": {"scope": {"project": "acme-training"}, "limit": 400, "period": "day"},
    "everything": {"limit": 20_000, "period": "month"},
}


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
        _simulated_cloud(scenario, sandbox_port, speed) as cloud,
    ):
        settings = _settings(address, cloud, Path(folder))
        clock = _clock(cloud)
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
                        _show(told[0], cloud, speed, stop)
                finally:
                    stop.set()
                    for server in servers:
                        server.should_exit = True
            serving.result()  # raises what ended it, such as a port that is taken


@contextmanager
def _simulated_cloud(scenario: str, port: int, speed: float) -> Iterator[str]:
    """The address of a simulated cloud, which ends with the block, and also when this process is killed."""
    command = [sys.executable, "-m", "costguard_sandbox", scenario, "--port", str(port), "--speed", str(speed)]
    # Its standard input is a pipe from us: when that closes, however we end, so does it.
    # A session of its own: Ctrl-C in the terminal is for us, and we end it.
    process = subprocess.Popen(  # noqa: S603 - no shell, and every argument is checked
        [*command, "--until-input-ends"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield _address(process)
    finally:
        process.terminate()
        process.communicate(timeout=10)


def _address(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    for line in process.stdout:
        if found := re.search(r"http://\S+", line):
            return found[0].rstrip("/.,")
    raise CostguardError(
        "The simulated cloud did not start; its own words are above.", "Try another --scenario or --sandbox-port."
    )


def _settings(listen: str, cloud: str, folder: Path) -> Settings:
    from costguard.settings import validate

    wanted = {
        "watch": {"projects": _ask(cloud, "/sandbox/projects")["projects"], "every": f"{_EVERY.seconds}s"},
        "idle": {"every": f"{_EVERY.seconds}s"},
        "database": {"url": f"sqlite:///{folder / 'costguard.db'}"},
        "server": {"listen": listen},
        "compute": {"endpoint": cloud},
        "prices": {"endpoint": cloud},
        "owners": {"domain": "example.com"},
        "budgets": _BUDGETS,
    }
    place = Path("the demo")
    try:
        return validate(wanted, {"COSTGUARD_TOKEN": os.environ.get("COSTGUARD_TOKEN", "")}, place)
    except SettingsError as error:
        # There is no settings file to mend: all that a person set is an option and a variable.
        told = error.message.replace(f"{place}: server.listen:", "--listen:")
        raise SettingsError(told, "Nothing was started. Mend that, then start the demo again.") from None


def _clock(cloud: str) -> ScaledClock:
    from costguard.clock import ScaledClock

    shown = _ask(cloud, "/sandbox/clock")
    return ScaledClock(datetime.fromisoformat(shown["now"]), shown["speed"])


def _ask(cloud: str, path: str) -> Any:
    with urlopen(cloud + path, timeout=10) as answer:  # noqa: S310 - an http address that we were just given
        return json.load(answer)


def _show(url: str, cloud: str, speed: float, stop: threading.Event) -> None:
    """The fleet and what happens to it, afresh every second in a terminal, now and then in a pipe."""
    out = console()
    how = "" if os.environ.get("COSTGUARD_TOKEN") else " (open it in a browser)"
    say(out, f"Costguard answers at {url}{how}. The simulated cloud is at {cloud}. Ctrl-C ends both.")
    say(out, f"One second of yours is {speed:g} of the fleet's. In another terminal: costguard ps --url {url}")
    out.file.flush()
    server = Server(url)
    if out.is_terminal:
        _show_live(out, server, f"Costguard at {url}{how}. Ctrl-C ends the demo.", stop)
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
