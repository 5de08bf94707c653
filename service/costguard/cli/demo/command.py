"""`costguard demo`: a simulated cloud, and a server that watches it with settings of its own."""

from __future__ import annotations

import os
import secrets
import sys
import tempfile
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from datetime import datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from costguard.cli.demo import agent as demo_agent
from costguard.cli.demo import cloud as demo_cloud
from costguard.cli.demo import view as demo_view
from costguard.cli.demo.jobs import DemoJobs
from costguard.cli.options import AsJsonLine, listening_address
from costguard.errors import SettingsError
from costguard.signals import on_ending_signals

if TYPE_CHECKING:
    from costguard.settings import Settings

_EXAMPLES = """Examples:

  costguard demo                             an hour of the fleet's time in a real minute

  costguard demo --speed 1 --listen :9000    in real time, at another port
"""
T = TypeVar("T")
_MOST_REMOVALS, _BETWEEN_REMOVALS_S = 20, 0.1
_LINK_LASTS = timedelta(days=1)  # longer than any demo
_STEPS = 700  # some 70 real seconds, and what two preemptions take
_SCENARIO = "demo"
ADMIN = "chiara@example.com"  # a user of the simulated workspace
_EVERY = timedelta(seconds=10)  # the shortest interval between passes that the settings allow
_DIGEST_AFTER = timedelta(minutes=100)
_WATCHED = timedelta(days=9)  # longer than the scenario's oldest VM has run
_VERTEX_REGIONS = ["us-central1", "europe-west4"]  # in which the scenario has something
# The forgotten T4 is stopped when its owner has not answered twice; about other VMs reminders are sent.
_PRESETS = {
    "t4": {"remind_every": "20m", "when_unanswered": "stop", "stop_after": 2, "grace": "10m"},
    # Its VMs live in real seconds, in which a notice would take two minutes.
    "a100": {"remind_every": "30m", "launch": {"notice": "0s"}},
    "multi-gpu": {"remind_every": "30m"},
    "other": {"remind_every": "30m"},
}


def register(app: typer.Typer) -> None:
    app.command("demo", epilog=_EXAMPLES)(demo)


def demo(
    listen: Annotated[
        str, typer.Option("--listen", metavar="HOST:PORT", help="HOST:PORT of the server.")
    ] = "127.0.0.1:8765",
    sandbox_port: Annotated[
        int,
        typer.Option(
            "--sandbox-port", metavar="PORT", min=0, max=65535, help="Port of the simulated cloud; 0: any free port."
        ),
    ] = 0,
    scenario: Annotated[
        str, typer.Option("--scenario", metavar="FILE", help="A scenario's file, or the name of a shipped one.")
    ] = _SCENARIO,
    speed: Annotated[
        float, typer.Option("--speed", metavar="TIMES", min=0.1, max=3600, help="Simulated seconds per real second.")
    ] = 60.0,
    steps: Annotated[
        int, typer.Option("--steps", metavar="N", min=0, help="Steps of its training job; 0: no job.")
    ] = _STEPS,
    as_json: AsJsonLine = False,
) -> None:
    """See Costguard at work on a simulated cloud. Ctrl-C ends all of it, and nothing is kept.

    On Linux people also launch jobs in it: a training that loses its VM twice and still comes to the same result, a
    sweep, a training that waits for its data, one with a deadline, and one whose loss stands still.
    """
    stop = threading.Event()
    with on_ending_signals(lambda _number: stop.set()):
        _run(stop, listen, sandbox_port, scenario, speed, steps, as_json)


def _run(
    stop: threading.Event, listen: str, sandbox_port: int, scenario: str, speed: float, steps: int, as_json: bool
) -> None:
    # Only now: these imports take longest, and Ctrl-C may come meanwhile.
    from costguard import logs

    address = demo_cloud.with_port(listening_address(listen))
    no_job = demo_cloud.why_no_job(steps, speed, server_url(address))
    has_job = bool(steps) and not no_job
    logs.configure("error", "console")
    with _Belongings() as belongings:
        folder = belongings.folder()
        vms = folder / "vms" if has_job else None
        cloud = belongings.enter(demo_cloud.simulated_cloud(scenario, sandbox_port, speed, vms))
        is_whole = scenario == _SCENARIO
        _Demo(address, folder, cloud, speed, steps if has_job else 0, is_whole, no_job, stop, as_json, belongings).run()


class _Belongings:
    """The processes and files of a demo, its folder last: all of it ends once, in whichever thread requests
    that first.
    """

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._lock = threading.Lock()

    def __enter__(self) -> _Belongings:
        return self

    def __exit__(self, *_error: object) -> None:
        self._clear()

    def enter(self, belonging: AbstractContextManager[T]) -> T:
        return self._stack.enter_context(belonging)

    def folder(self) -> Path:
        made = tempfile.TemporaryDirectory(prefix="costguard-demo-", ignore_cleanup_errors=True)
        self._stack.callback(_remove, made)
        return Path(made.name)

    def end(self, code: int) -> None:
        """Ends the process as well, whatever in it hangs."""
        self._clear()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)

    def _clear(self) -> None:
        with self._lock:
            self._stack.close()


def _remove(folder: tempfile.TemporaryDirectory[str]) -> None:
    """Removes a folder.

    Hanging processes, and VMs that are just ending, may still write a file while the others are removed.
    """
    pause = threading.Event()
    for _ in range(_MOST_REMOVALS):
        folder.cleanup()
        if not Path(folder.name).exists():
            return
        pause.wait(_BETWEEN_REMOVALS_S)


@dataclass(frozen=True, slots=True)
class _Demo:
    """A demo whose simulated cloud runs. `steps` is 0 without jobs, and `no_job` says why where some were wanted.

    `is_whole`: it plays the shipped scenario, with all that people launch and ask in it.
    """

    address: str
    folder: Path
    cloud: str
    speed: float
    steps: int
    is_whole: bool
    no_job: str
    stop: threading.Event
    as_json: bool
    belongings: _Belongings

    def run(self) -> None:
        """Serves and shows the fleet until it is stopped."""
        from costguard import main
        from costguard.settings.values import is_loopback

        clock = demo_cloud.clock_of(self.cloud)
        # A demo that others can reach needs a token of the user's: the settings check for it.
        own = secrets.token_urlsafe(24) if is_loopback(self.address.rpartition(":")[0].strip("[]")) else ""
        token = os.environ.get("COSTGUARD_TOKEN", "") or own
        environ = {"COSTGUARD_TOKEN": token, **demo_cloud.slack_secrets(self.cloud)}
        projects = demo_cloud.projects_of(self.cloud)
        job_speed = self.speed if self.steps else None
        bill = demo_cloud.bill_table_of(self.cloud)
        settings = demo_settings(self.address, self.cloud, self.folder, projects, clock.now(), environ, job_speed, bill)
        server = settings.server
        web = self.belongings.enter(main.start_web_processes(server.host, server.port, server.workers))
        with ExitStack() as stack:
            guard, service = stack.enter_context(
                main.service(settings, web, clock, self.speed, self.stop, self.belongings.end)
            )
            guard.catalogue.refresh(None)  # before the first pass, so that no figure changes later
            if bill is not None:
                demo_cloud.watch_since(guard, projects, clock.now() - _WATCHED)
            urls: list[str] = []
            ready = threading.Event()

            def announce(url: str) -> None:
                urls.append(url)
                ready.set()

            threads = stack.enter_context(ThreadPoolExecutor(1, "serve"))
            serving = threads.submit(service.run, announce)
            try:
                while not ready.wait(0.1) and not serving.done():
                    pass
                if urls:
                    [url] = urls
                    demo_cloud.send_clicks(self.cloud, url)
                    page = main.first_link(guard, url, demo_cloud.OWNER, _LINK_LASTS)
                    slack = f"{self.cloud}/slack"
                    self._show(demo_view.Addresses(url, page, self.cloud, slack, token, ADMIN, projects[0]))
            finally:
                self.stop.set()
            serving.result()  # raises what ended it, such as a port that is taken
        if not service.has_ended:  # a part of it hangs, and Python would wait for that
            self.belongings.end(0)

    def _show(self, at: demo_view.Addresses) -> None:
        view = demo_view.View(at, self.speed, self.no_job, self.stop, self.as_json)
        if self.steps:
            view.jobs = DemoJobs(view.server, self.folder, at.project, self.steps, self.is_whole)
        if self.is_whole:
            view.asked = demo_agent.Asked(at.url, at.token)
        view.show()


def demo_settings(
    listen: str,
    cloud: str,
    folder: Path,
    projects: list[str],
    now: datetime,
    environ: Mapping[str, str],
    job_speed: float | None = None,
    bill: str | None = None,
) -> Settings:
    """Settings with short spans, so that a lot happens in minutes. `now` is the fleet's time.

    Without `job_speed` no jobs are accepted. `bill` names the table of Google's billing export. Raises SettingsError in
    words of options: there is no file to correct.
    """
    from costguard.settings import validate

    wanted = {
        "watch": {"projects": projects, "every": f"{_EVERY.seconds}s", "vertex_regions": _VERTEX_REGIONS},
        "idle": {"every": f"{_EVERY.seconds}s"},
        "database": {"url": f"sqlite:///{folder / 'costguard.db'}"},
        "server": {"listen": listen},
        "compute": {"endpoint": cloud},
        "prices": {"endpoint": cloud},
        "owners": {"domain": "example.com"},
        "slack": {"channel": "#gpu-costs", "endpoint": f"{cloud}/slack/api/", **_dashboard(listen)},
        "reminders": {
            "quiet_hours": "never",
            "quiet_days": [],
            "contact": ADMIN,
            "daily_digest": f"{now + _DIGEST_AFTER:%H:%M}",
        },
        "enforcement": {"shadow": False, "stop_through": ["vertex"]},
        "log": {"level": "error"},  # the terminal shows the fleet, not the log
        "access": {"admins": [ADMIN], "operators": ["dana@example.com"], "viewers": ["@example.com"]},
        "presets": _PRESETS,
        "budgets": _budgets(projects),
        **_teams(projects),
        **({} if job_speed is None else {"jobs": _jobs(server_url(listen), job_speed)}),
        **({} if bill is None else {"bill": {"table": bill, "endpoint": cloud, "first_days": _WATCHED.days + 1}}),
    }
    place = Path("the demo")
    try:
        return validate(wanted, environ, place)
    except SettingsError as error:
        message = error.message.replace(f"{place}: server.listen:", "--listen:")
        raise SettingsError(message, "Nothing was started. Correct that, then start the demo again.") from None


def server_url(listen: str) -> str:
    """The server's URL for processes of this computer; "" where they cannot reach it, or its port is not known."""
    host, _, port = listen.rpartition(":")
    bare = ip_address(host.strip("[]"))
    if bare.is_unspecified:
        host = "127.0.0.1" if bare.version == 4 else "[::1]"
    return f"http://{host}:{port}" if port != "0" and (bare.is_unspecified or bare.is_loopback) else ""


def _jobs(url: str, speed: float) -> dict[str, Any]:
    """VMs live in real seconds, so waits for them are longer by as much as the fleet's clock is faster.

    A VM has five real seconds after its preemption notice.
    """

    def span(seconds: int, least: int, most: int) -> str:
        return f"{max(least, min(most, round(seconds * speed)))}s"

    return {
        "guard_url": url,
        "heartbeat": "3s",
        "silence": span(240, 600, 21_600),
        "boot": span(120, 1800, 21_600),
        "dying": span(8, 40, 600),
        "cancel_grace": span(10, 60, 3600),
        "stalled": span(120, 7200, 604_800),
    }


def _dashboard(listen: str) -> dict[str, str]:
    """Returns the settings of the dashboard that messages link to; nothing while the port is not chosen."""
    return {} if listen.endswith(":0") else {"url": f"http://{listen}"}


def _budgets(projects: list[str]) -> dict[str, Any]:
    """Returns two budgets: one that the four A100s soon exceed, and one that is on course."""
    everything = {"everything": {"limit": 20_000, "period": "month"}}
    if "acme-training" not in projects:
        return everything
    return {"training-today": {"scope": {"project": "acme-training"}, "limit": 400, "period": "day"}, **everything}


def _teams(projects: list[str]) -> dict[str, Any]:
    if "acme-research" not in projects:
        return {}
    team = {
        "members": ["ben@example.com", "cleo@example.com"],
        "operators": ["ben@example.com"],
        "projects": ["acme-research"],
        "channel": "#ml-team",
    }
    return {"teams": {"research": team}}
