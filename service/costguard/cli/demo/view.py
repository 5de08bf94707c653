"""The demo in its terminal: the fleet, the jobs and their events."""

from __future__ import annotations

import json
import threading
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from io import StringIO

from rich.console import Console

from costguard.cli.demo import agent as demo_agent
from costguard.cli.demo.agent import Asked
from costguard.cli.demo.jobs import DemoJob, DemoJobs
from costguard.cli.fleet import show_fleet
from costguard.cli.job.jobs import show_jobs
from costguard.cli.server import ServerClient
from costguard.cli.tables import Answer, amount_text, clean, console, moment, rate, say, when
from costguard.errors import ServerUnreachable
from costguard.model.words import count_text

_EVENTS_SHOWN = 8
_TABLES_EVERY = 30  # turns
_LAUNCHES_EVERY = 3
_JOBS_SHOWN = 6
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
        self.server = ServerClient(at.url, {"COSTGUARD_TOKEN": at.token})
        self.jobs: DemoJobs | None = None
        self.asked: Asked | None = None
        self._stop = stop
        self._as_json = as_json
        self._shown: set[str] = set()
        self._lines = EventLines(timedelta(seconds=_HELD_S * speed))
        self._last_of_job = self._answer = ""
        self._turn = 0
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
            demo_agent.HOW_CONNECTED if demo_agent.is_installed() else demo_agent.HOW_INSTALLED,
            no_job,
        ):
            self._say(line)

    def _say(self, line: str) -> None:
        if line and not self._as_json:
            say(self._out, line)
            self._out.file.flush()

    def show(self) -> None:
        """Shows the demo until it is stopped: every second in a terminal; in a pipe only news."""
        try:
            if self._as_json:
                self._launch_only()
            elif self._out.is_terminal:
                self._show_live()
            else:
                self._show_plainly()
        except ServerUnreachable:
            return
        finally:
            if self.jobs is not None:
                self.jobs.end()

    def _launch_only(self) -> None:
        while not self._stop.is_set():
            self._launched()
            self._stop.wait(1)

    def _launched(self) -> list[str]:
        """Launches what is due, every few turns, and returns a line for each."""
        self._turn += 1
        return self.jobs.launch_due() if self.jobs is not None and self._turn % _LAUNCHES_EVERY == 1 else []

    def _asked(self, fleet: Answer) -> str:
        """The line of what the agent asked, once it is answered."""
        line = self.asked.line(fleet) if self.asked is not None else ""
        self._answer = line or self._answer
        return line

    @property
    def _job(self) -> DemoJob | None:
        return self.jobs.main if self.jobs is not None else None

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
        self._launched()
        fleet, events = self._fleet(), self._events()
        self._asked(fleet)
        say(out, self._title, "bold")
        out.print()
        show_fleet(out, fleet)
        out.print()
        if self._job is not None:
            self.show_job(self._job, out)
        for line in filter(None, (self._answer, self._goodput())):
            say(out, line)
        for event in sorted(events, key=lambda event: moment(event["occurred_at"]))[-_EVENTS_SHOWN:]:
            say(out, f"{when(event['occurred_at'])}  {clean(event['text'])}", "dim")

    def show_job(self, job: DemoJob, out: Console) -> None:
        """Shows the training and the other open jobs, with the last lines that the training printed."""
        detail, lines = job.look(self.server)
        others = [one for one in self.server.get("jobs", open=True, limit=_JOBS_SHOWN)["jobs"] if one["id"] != job.id]
        rows = [detail["job"], *others]
        show_jobs(out, {"jobs": rows, "kept_disks": {"count": 0}, "next_cursor": None}, is_filtered=False)
        for line in lines:
            say(out, f"  {line}", "dim")
        if job.comparison:
            say(out, job.comparison, "bold green")
        out.print()

    def _show_plainly(self) -> None:
        turn = 0
        while not self._stop.is_set():
            for line in self._launched():
                self._say(line)
            fleet, events = self._fleet(), self._events()
            if fleet["instances"] or turn:  # the first look has seen the fleet
                now = moment(fleet["as_of"])
                self._note(events)
                if self._job is not None:
                    self._note_job(self._job, now)
                if answer := self._asked(fleet):
                    self._lines.add(now, answer)
                for line in self._lines.due(now):
                    say(self._out, line)
                if turn % _TABLES_EVERY == 0:
                    self._out.print()
                    show_fleet(self._out, fleet)
                    self._out.print()
                    self._say(self._goodput())
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
        detail, lines = job.look(self.server)
        line = _job_line(detail, lines)
        if line != self._last_of_job:
            self._lines.add(now, line)
            self._last_of_job = line
        if job.comparison and not was_compared:
            self._lines.add(now, job.comparison)

    def _fleet(self) -> Answer:
        return self.server.pages("instances", "instances", 50)

    def _events(self) -> list[Answer]:
        events: list[Answer] = self.server.get("events", limit=50)["events"]
        return events

    def _goodput(self) -> str:
        """A line about what the jobs' cost went into; "" before any of it was useful."""
        if self._job is None:
            return ""
        total = self.server.get("goodput")["total"]
        kept, hourly = total["kept_percent_of_paid"], total["cost_per_useful_gpu_hour"]
        if kept is None or hourly is None:
            return ""
        return (
            f"Goodput: of the time that {count_text(total['jobs'], 'job')} paid for, {kept} % is useful work that "
            f"stands; a useful GPU-hour costs {rate(hourly)}."
        )


def _job_line(detail: Answer, lines: list[str]) -> str:
    """`train-moons: running, step 412, 2 attempts, $0.61. It prints: step 412 loss 0.02`."""
    job = detail["job"]
    step = "" if job["step"] is None else f", step {job['step']:,}"
    prints = f" It prints: {lines[-1]}" if lines else ""
    what = (
        f"{job['title']}: {job['state']}{step}, {count_text(job['attempts'], 'attempt')}, {amount_text(job['cost'])}."
    )
    return clean(f"{what}{prints}")
