"""The demo in its terminal: the fleet, the job and their events."""

from __future__ import annotations

import json
import threading
from dataclasses import asdict, dataclass
from io import StringIO
from pathlib import Path

from rich.console import Console

from costguard.cli import demo_cloud
from costguard.cli.demo_cloud import DemoJob
from costguard.cli.fleet import show_fleet
from costguard.cli.jobs import show_jobs
from costguard.cli.server import ServerClient
from costguard.cli.tables import Answer, amount_text, clean, console, say, when
from costguard.errors import CostguardError, ServerUnreachable
from costguard.model.words import count_text

_EVENTS_SHOWN = 8
_TABLES_EVERY = 30  # turns


@dataclass(frozen=True, slots=True)
class Addresses:
    """`page` signs a browser in at `url`, where `token` opens the API; `cloud` is the simulated cloud's.

    `slack` shows the simulated Slack as people see it. The token speaks for no one: commands act in the name of
    `owner`, an admin, and launch in `project`.
    """

    url: str
    page: str
    cloud: str
    slack: str
    token: str
    owner: str
    project: str


class View:
    """`no_job` says why there is no job, where one was wanted. As JSON, only the addresses are printed."""

    def __init__(self, at: Addresses, speed: float, no_job: str, stop: threading.Event, as_json: bool = False) -> None:
        self._out = console()
        self._server = ServerClient(at.url, {"COSTGUARD_TOKEN": at.token})
        self._stop = stop
        self._as_json = as_json
        self._job: DemoJob | None = None
        self._shown: set[str] = set()
        self._last_of_job = ""
        self._title = f"Costguard: {at.page}. Slack as people see it: {at.slack}. Ctrl-C ends the demo."
        if as_json:
            print(json.dumps(asdict(at)), flush=True)
        for line in (
            f"Costguard is at {at.url}. Open it in a browser: {at.page}",
            f"Slack as people see it: {at.slack} (choose a user, and click buttons).",
            f"A real second is {speed:g} of the fleet's. Ctrl-C ends all of it. In another terminal:",
            f"  export COSTGUARD_URL={at.url} COSTGUARD_TOKEN={at.token} "
            f"COSTGUARD_OWNER={at.owner} COSTGUARD_PROJECT={at.project}",
            "  costguard ps",
            no_job,
        ):
            self._say(line)

    def _say(self, line: str) -> None:
        if line and not self._as_json:
            say(self._out, line)
            self._out.file.flush()

    def launch(self, folder: Path, project: str, steps: int) -> None:
        """A demo whose job is refused goes on without it."""
        try:
            self._job = demo_cloud.launch(self._server, folder, project, steps)
        except CostguardError as error:
            self._say(f"This demo has no job: {error.message}")
            return
        page = f"{self._server.url}/jobs/{self._job.id}"
        self._say(f"{demo_cloud.OWNER} launched a training that will lose its VM twice: {page}")

    def show(self) -> None:
        """Until it is stopped: every second in a terminal; in a pipe what is new."""
        try:
            if self._as_json:
                self._stop.wait()
            elif self._out.is_terminal:
                self._show_live()
            else:
                self._show_plainly()
        except ServerUnreachable:
            return
        finally:
            if self._job is not None:
                self._job.end()

    def _show_live(self) -> None:
        from rich.live import Live
        from rich.text import Text

        with Live(console=self._out, screen=True, auto_refresh=False) as live:
            while not self._stop.is_set():
                # Not by the live console: it puts its last frame into whatever is printed to it.
                width, text = self._out.width, StringIO()
                frame = Console(file=text, force_terminal=True, width=width, highlight=False, markup=False, emoji=False)
                self._draw(frame)
                live.update(Text.from_ansi(text.getvalue()), refresh=True)
                self._stop.wait(1)

    def _draw(self, out: Console) -> None:
        fleet, events = self._fleet(), self._events()
        say(out, self._title, "bold")
        out.print()
        show_fleet(out, fleet)
        out.print()
        if self._job is not None:
            self.show_job(self._job, out)
        for event in reversed(events[:_EVENTS_SHOWN]):
            say(out, _line(event), "dim")

    def show_job(self, job: DemoJob, out: Console) -> None:
        detail, lines = job.look(self._server)
        show_jobs(out, {"jobs": [detail["job"]], "kept_disks": {"count": 0}, "next_cursor": None}, is_filtered=False)
        for line in lines:
            say(out, f"  {line}", "dim")
        if job.comparison:
            say(out, job.comparison, "bold green")
        out.print()

    def _show_plainly(self) -> None:
        turn = 0
        while not self._stop.is_set():
            fleet, events = self._fleet(), self._events()
            if fleet["instances"]:
                for event in reversed(events):
                    if event["id"] not in self._shown:
                        say(self._out, _line(event))
                        self._shown.add(event["id"])
                if self._job is not None:
                    self._show_job_line(self._job)
                if turn % _TABLES_EVERY == 0:
                    self._out.print()
                    show_fleet(self._out, fleet)
                    self._out.print()
                turn += 1
                self._out.file.flush()
            self._stop.wait(1 if turn else 0.3)

    def _show_job_line(self, job: DemoJob) -> None:
        was_compared = job.comparison
        detail, lines = job.look(self._server)
        line = _job_line(detail, lines)
        if line != self._last_of_job:
            say(self._out, line)
            self._last_of_job = line
        if job.comparison and not was_compared:
            say(self._out, job.comparison)

    def _fleet(self) -> Answer:
        return self._server.pages("instances", "instances", 50)

    def _events(self) -> list[Answer]:
        events: list[Answer] = self._server.get("events", limit=50)["events"]
        return events


def _line(event: Answer) -> str:
    return f"{when(event['occurred_at'])}  {clean(event['text'])}"


def _job_line(detail: Answer, lines: list[str]) -> str:
    """`train-moons: running, step 412, 2 attempts, $0.61. It prints: step 412 loss 0.02`."""
    job = detail["job"]
    step = "" if job["step"] is None else f", step {job['step']:,}"
    prints = f" It prints: {lines[-1]}" if lines else ""
    what = (
        f"{job['title']}: {job['state']}{step}, {count_text(job['attempts'], 'attempt')}, {amount_text(job['cost'])}."
    )
    return clean(f"{what}{prints}")
