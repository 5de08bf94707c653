"""The demo in its terminal: the fleet, the job and their events."""

from __future__ import annotations

import json
import threading
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path

from rich.console import Console

from costguard.cli import demo_cloud
from costguard.cli.demo_cloud import DemoJob
from costguard.cli.fleet import show_fleet
from costguard.cli.job.jobs import show_jobs
from costguard.cli.server import ServerClient
from costguard.cli.tables import Answer, amount_text, clean, console, moment, say, when
from costguard.errors import CostguardError, ServerUnreachable
from costguard.model.words import count_text

_EVENTS_SHOWN = 8
_TABLES_EVERY = 30  # turns
_HELD_S = 6  # real seconds, and longer than a pass takes to learn of most things


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


class EventLines:
    """Lines in the order of the fleet's time. Each is held back for a while: Costguard learns of some things late."""

    def __init__(self, held: timedelta) -> None:
        self._held = held
        self._waiting: list[tuple[datetime, int, str]] = []
        self._count = 0
        self._printed_until = datetime.min.replace(tzinfo=UTC)

    def add(self, at: datetime, text: str) -> None:
        """A line that came too late for its place gets the time of the last printed one, and its own behind it."""
        if at < self._printed_until:
            at, text = self._printed_until, f"{text} (That was at {at:%H:%M:%S}.)"
        self._count += 1
        self._waiting.append((at, self._count, text))

    def due(self, now: datetime) -> list[str]:
        """Returns the lines that have waited long enough by the fleet's clock, each once."""
        self._waiting.sort()
        until = now - self._held
        due_lines = [line for line in self._waiting if line[0] <= until]
        self._waiting = self._waiting[len(due_lines) :]
        self._printed_until = max(self._printed_until, until)
        return [f"{when(at.isoformat())}  {text}" for at, _, text in due_lines]


class View:
    """`no_job` says why there is no job, where one was wanted. As JSON, only the addresses are printed."""

    def __init__(self, at: Addresses, speed: float, no_job: str, stop: threading.Event, as_json: bool = False) -> None:
        self._out = console()
        self._server = ServerClient(at.url, {"COSTGUARD_TOKEN": at.token})
        self._stop = stop
        self._as_json = as_json
        self._job: DemoJob | None = None
        self._shown: set[str] = set()
        self._lines = EventLines(timedelta(seconds=_HELD_S * speed))
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
        """Shows the demo until it is stopped: every second in a terminal; in a pipe only news."""
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
        for event in sorted(events, key=lambda event: moment(event["occurred_at"]))[-_EVENTS_SHOWN:]:
            say(out, f"{when(event['occurred_at'])}  {clean(event['text'])}", "dim")

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
            if fleet["instances"] or turn:  # the first look has seen the fleet
                now = moment(fleet["as_of"])
                self._note(events)
                if self._job is not None:
                    self._note_job(self._job, now)
                for line in self._lines.due(now):
                    say(self._out, line)
                if turn % _TABLES_EVERY == 0:
                    self._out.print()
                    show_fleet(self._out, fleet)
                    self._out.print()
                turn += 1
                self._out.file.flush()
            self._stop.wait(1 if turn else 0.3)

    def _note(self, events: list[Answer]) -> None:
        for event in reversed(events):  # of the same moment, in the order in which they were recorded
            if event["id"] not in self._shown:
                self._lines.add(moment(event["occurred_at"]), clean(event["text"]))
                self._shown.add(event["id"])

    def _note_job(self, job: DemoJob, now: datetime) -> None:
        was_compared = job.comparison
        detail, lines = job.look(self._server)
        line = _job_line(detail, lines)
        if line != self._last_of_job:
            self._lines.add(now, line)
            self._last_of_job = line
        if job.comparison and not was_compared:
            self._lines.add(now, job.comparison)

    def _fleet(self) -> Answer:
        return self._server.pages("instances", "instances", 50)

    def _events(self) -> list[Answer]:
        events: list[Answer] = self._server.get("events", limit=50)["events"]
        return events


def _job_line(detail: Answer, lines: list[str]) -> str:
    """`train-moons: running, step 412, 2 attempts, $0.61. It prints: step 412 loss 0.02`."""
    job = detail["job"]
    step = "" if job["step"] is None else f", step {job['step']:,}"
    prints = f" It prints: {lines[-1]}" if lines else ""
    what = (
        f"{job['title']}: {job['state']}{step}, {count_text(job['attempts'], 'attempt')}, {amount_text(job['cost'])}."
    )
    return clean(f"{what}{prints}")
