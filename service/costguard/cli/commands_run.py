"""The commands that run something here: serve, pass, db, sandbox."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from costguard.cli import commands_backup
from costguard.cli.options import AsJson, AsJsonLine, listening_address, print_json

if TYPE_CHECKING:
    from costguard.settings import Settings

Config = Annotated[
    Path | None, typer.Option("--config", "-c", help="Default: $COSTGUARD_CONFIG, else ./costguard.toml.")
]

database = typer.Typer(no_args_is_help=True, help="The database.")


def register(app: typer.Typer) -> None:
    app.command("serve", epilog="Example:  costguard serve --config costguard.toml")(serve)
    app.command("pass", epilog="Example:  costguard pass --json | jq .decisions")(run_pass)
    app.command("sandbox", epilog=_SANDBOX_EXAMPLES)(sandbox)
    commands_backup.register(database)
    app.add_typer(database, name="db")


_HOW_TO_SIGN_IN = "To sign in, `costguard sign-in` prints a link; programs use a token."
_SANDBOX_EXAMPLES = """Examples:

  costguard sandbox                          the demo's scenario, in real time

  costguard sandbox fleet.toml --speed 60    one of your own, an hour a minute

  costguard sandbox empty --machines         VMs run as local processes

With the settings compute.endpoint and prices.endpoint at its address,
Costguard watches it.

Only `costguard demo` follows a clock that was sped up. `serve` and `pass`
keep real time: for them, leave --speed at 1.
"""


def serve(
    config: Config = None,
    listen: Annotated[str | None, typer.Option("--listen", help="HOST:PORT in place of server.listen.")] = None,
    as_json: AsJsonLine = False,
) -> None:
    """Watch the projects, keep the ledger, and answer over HTTP, until Ctrl-C or SIGTERM."""
    from costguard import main  # only here: this is where the weight is

    settings = _settings(config, None if listen is None else listening_address(listen))
    _log(settings)
    server = settings.server
    with main.start_web_process(server.host, server.port) as web, main.service(settings, web) as service:

        def announce(url: str) -> None:
            # A log is read by others: there the link would be a secret that is not kept.
            link = main.first_link(service.guard, url) if sys.stdout.isatty() else None
            if as_json:
                print(json.dumps({"url": url, "sign_in": link}), flush=True)
                return
            here = ", on this machine only" if server.is_loopback else ""
            print(f"Costguard answers at {url}{here}.", flush=True)
            how = f"Sign in, once and within ten minutes: {link}" if link else _HOW_TO_SIGN_IN
            print(how, flush=True)

        service.run(announce)


def run_pass(
    config: Config = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Run one pass now, and print what it saw, recorded, decided and did.

    Exits 1 when a project could not be read at all, or not be recorded; the others were.
    """
    from costguard import main
    from costguard.cli import report
    from costguard.cli.format import clean

    settings = _settings(config, None)
    _log(settings)
    with main.opened(settings) as guard:
        done = guard.run_pass()
    if as_json:
        print_json(report.as_json(done))
    else:
        for line in report.lines(done):
            print(clean(line))
    if any(one.error or any(part.scope == "project" for part in one.unread) for one in done.recorded):
        raise typer.Exit(1)


@database.command("upgrade", epilog="Example:  costguard db upgrade --config costguard.toml")
def upgrade(config: Config = None, as_json: AsJson = False) -> None:
    """Bring the database to this version. `serve` and `pass` do so by themselves."""
    from costguard.db import migrate

    revision = migrate.upgrade(_settings(config, None).database.url.get_secret_value())
    print_json({"revision": revision}) if as_json else print(f"The database is at revision {revision}.")


@database.command("check", epilog="Example:  costguard db check --config costguard.toml")
def check(config: Config = None, as_json: AsJson = False) -> None:
    """Say whether the database is at this version, and change nothing."""
    from costguard.db import migrate
    from costguard.db.transaction import Database

    opened = Database.open(_settings(config, None).database.url.get_secret_value())
    try:
        migrate.check(opened)
    finally:
        opened.close()
    print_json({"ok": True}) if as_json else print("The database is at this version.")


def sandbox(
    scenario: Annotated[str, typer.Argument(metavar="SCENARIO", help="A file, or the name of one shipped.")] = "demo",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0 takes any free one.")] = 8766,
    speed: Annotated[float, typer.Option("--speed", min=0.001, help="Its seconds in one of yours.")] = 1.0,
    machines: Annotated[
        bool,
        typer.Option("--machines", help="Run VMs that have a startup script as processes of yours, on Linux."),
    ] = False,
    machines_folder: Annotated[
        Path | None,
        typer.Option("--machines-folder", help="Where their disks are, instead of a temporary folder; implies it."),
    ] = None,
    as_json: AsJsonLine = False,
) -> None:
    """Serve a simulated Compute Engine, with prices and a meter of its own, until Ctrl-C."""
    # Another program, not another module: the product and the simulated cloud only ever meet over HTTP.
    command = [sys.executable, "-m", "costguard_sandbox", scenario, "--port", str(port), "--speed", str(speed)]
    command += ["--machines"] if machines else []
    command += ["--machines-folder", str(machines_folder)] if machines_folder is not None else []
    command += ["--json"] if as_json else []
    os.execv(sys.executable, command)  # noqa: S606 - no shell, and every argument is checked above


def _settings(config: Path | None, listen: str | None) -> Settings:
    from costguard.settings import load

    return load(config, os.environ, listen)


def _log(settings: Settings) -> None:
    from costguard import logs

    logs.configure(settings.log.level, settings.log.format)
