"""`costguard demo`: a simulated cloud and a guard that watches it, with nothing to set up."""

from __future__ import annotations

import os
import secrets
import signal
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Annotated

import typer

from costguard.cli import demo_cloud, demo_job, demo_view
from costguard.cli.demo_settings import ADMIN, demo_settings, guard_url
from costguard.cli.options import AsJsonLine, listening_address

_EPILOG = """Examples:

  costguard demo                             an hour of the fleet's time in a minute of yours

  costguard demo --speed 1 --listen :9000    in real time, at another port
"""
_LINK_GOOD_FOR = timedelta(days=1)  # nothing of the demo lasts longer
_STEPS = 700  # some 70 seconds of the machine's, and what two preemptions take


def register(app: typer.Typer) -> None:
    app.command("demo", epilog=_EPILOG)(demo)


def demo(
    listen: Annotated[str, typer.Option("--listen", help="HOST:PORT of the guard.")] = "127.0.0.1:8765",
    sandbox_port: Annotated[int, typer.Option("--sandbox-port", min=0, max=65535, help="0: any free one.")] = 0,
    scenario: Annotated[str, typer.Option("--scenario", help="A file, or the name of one shipped.")] = "demo",
    speed: Annotated[float, typer.Option("--speed", min=0.1, max=3600, help="Its seconds in one of yours.")] = 60.0,
    steps: Annotated[int, typer.Option("--steps", min=0, help="Of the training that is its job; 0: no job.")] = _STEPS,
    as_json: AsJsonLine = False,
) -> None:
    """See Costguard at work on a simulated cloud. Ctrl-C ends all of it, and nothing is kept.

    On Linux it launches a job, too: a training that loses its VM twice, and comes to the same result all the same.
    """
    stop = threading.Event()
    for sign in (signal.SIGINT, signal.SIGTERM):
        signal.signal(sign, lambda _number, _frame: stop.set())
    # Only now: this is where the weight is, and Ctrl-C may come meanwhile.
    from costguard import logs, main
    from costguard.settings.values import is_loopback

    address = demo_cloud.with_port(listening_address(listen))
    no_job = demo_job.impossible(steps, speed, guard_url(address))
    has_job = bool(steps) and not no_job
    logs.configure("error", "console")
    with (
        tempfile.TemporaryDirectory(prefix="costguard-demo-") as name,
        demo_cloud.simulated_cloud(scenario, sandbox_port, speed, Path(name) / "vms" if has_job else None) as cloud,
    ):
        folder = Path(name)
        clock = demo_cloud.clock_of(cloud)
        # A demo that others could reach must have been given a token on purpose: the settings ask for it.
        own = secrets.token_urlsafe(24) if is_loopback(address.rpartition(":")[0].strip("[]")) else ""
        token = os.environ.get("COSTGUARD_TOKEN", "") or own
        environ = {"COSTGUARD_TOKEN": token, **demo_cloud.slack_secrets(cloud)}
        projects = demo_cloud.projects_of(cloud)
        settings = demo_settings(address, cloud, folder, projects, clock.now(), environ, speed if has_job else None)
        server = settings.server
        with (
            main.start_web_process(server.host, server.port) as web,
            main.service(settings, web, clock, speed, stop) as service,
        ):
            guard = service.guard
            guard.refresh_prices(None)  # before the first pass, so that no figure changes for want of them
            urls: list[str] = []
            ready = threading.Event()

            def announce(url: str) -> None:
                urls.append(url)
                ready.set()

            with ThreadPoolExecutor(1, "serve") as threads:
                serving = threads.submit(service.run, announce)
                try:
                    while not ready.wait(0.1) and not serving.done():
                        pass
                    if urls:
                        [url] = urls
                        demo_cloud.send_presses(cloud, url)
                        page = main.first_link(guard, url, demo_job.OWNER, _LINK_GOOD_FOR)
                        at = demo_view.Addresses(url, page, cloud, f"{cloud}/slack", token, ADMIN)
                        view = demo_view.View(at, speed, no_job, stop, as_json)
                        if has_job:
                            view.launch(folder, projects[0], steps)
                        view.show()
                finally:
                    stop.set()
            serving.result()  # raises what ended it, such as a process that could not serve
