"""What the demo shows in the terminal that it was started in: the fleet, its job, and what happens to both."""

from __future__ import annotations

import json
import threading
from dataclasses import asdict, dataclass
from io import StringIO
from pathlib import Path
from typing import Any

from rich.console import Console

from costguard.cli import demo_job, fleet_table, jobs_table
from costguard.cli.client import Server
from costguard.cli.demo_job import DemoJob
from costguard.cli.format import amount_text, clean, count, when
from costguard.cli.tables import console, say
from costguard.errors import CostguardError, ServerUnreachable

_FACTS_SHOWN = 8
_TABLES_EVERY = 30  # turns


@dataclass(frozen=True, slots=True)
class Addresses:
    """`page` signs a browser in at `url`, where `token` opens the API; `cloud` is the simulated cloud's.

    `slack` shows the simulated Slack as people see it. The token speaks for no one: `owner`, an admin, is the person
    in whose name commands act.
    """

    url: str
    page: str
    cloud: str
    slack: str
    token: str
    owner: str


class View:
    """`no_job` says why there is no job, where one was wanted. As JSON only the addresses are told."""

    def __init__(self, at: Addresses, speed: float, no_job: str, stop: threading.Event, as_json: bool = False) -> None:
        self._out = console()
        self._server = Server(at.url, {"COSTGUARD_TOKEN": at.token})
        self._stop = stop
        self._as_json = as_json
        self._job: DemoJob | None = None
        self._told: set[str] = set()
        self._last_of_job = ""
        self._title = f"Costguard: {at.page}. Slack as people see it: {at.slack}. Ctrl-C ends the demo."
        if as_json:
            print(json.dumps(asdict(at)), flush=True)
        for line in (
            f"Costguard answers at {at.url}. Open it in a browser: {at.page}",
            f"Slack as people see it: {at.slack} (be any of them, and press).",
            f"One second of yours is {speed:g} of the fleet's. Ctrl-C ends all of it. In another terminal:",
            f"  export COSTGUARD_URL={at.url} COSTGUARD_TOKEN={at.token} COSTGUARD_OWNER={at.owner}",
            "  costguard ps",
            no_job,
        ):
            self._say(line)

    def _say(self, line: str) -> None:
        if line and not self._as_json:
            say(self._out, line)
            self._out.file.flush()

    def launch(self, folder: Path, project: str, steps: int) -> None:
        """The fleet is worth looking at without a job, too: where none is taken in, that is said."""
        try:
            self._job = demo_job.launch(self._server, folder, project, steps)
        except CostguardError as error:
            self._say(f"There is no job in this demo: {error.message}")
            return
        page = f"{self._server.url}/jobs/{self._job.id}"
        self._say(f"{demo_job.OWNER} launched a training, which will lose its VM twice: {page}")

    def show(self) -> None:
        """Afresh every second in a terminal, in a pipe what is new; until it is told to stop."""
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
                # Not by the console that is live: it puts its last frame into whatever is printed to it.
                width, text = self._out.width, StringIO()
                frame = Console(file=text, force_terminal=True, width=width, highlight=False, markup=False, emoji=False)
                self._draw(frame)
                live.update(Text.from_ansi(text.getvalue()), refresh=True)
                self._stop.wait(1)

    def _draw(self, out: Console) -> None:
        fleet, facts = self._fleet(), self._facts()
        say(out, self._title, "bold")
        out.print()
        fleet_table.show(out, fleet)
        out.print()
        if self._job is not None:
            self._show_job(self._job, out)
        for fact in reversed(facts[:_FACTS_SHOWN]):
            say(out, _line(fact), "dim")

    def _show_job(self, job: DemoJob, out: Console) -> None:
        detail, lines = job.look(self._server)
        jobs_table.show(out, {"jobs": [detail["job"]], "next_cursor": None}, asked=False)
        for line in lines:
            say(out, f"  {line}", "dim")
        if job.told:
            say(out, job.told, "bold green")
        out.print()

    def _show_plainly(self) -> None:
        turn = 0
        while not self._stop.is_set():
            fleet, facts = self._fleet(), self._facts()
            if fleet["instances"]:
                for fact in reversed(facts):
                    if fact["id"] not in self._told:
                        say(self._out, _line(fact))
                        self._told.add(fact["id"])
                if self._job is not None:
                    self._tell_of_job(self._job)
                if turn % _TABLES_EVERY == 0:
                    self._out.print()
                    fleet_table.show(self._out, fleet)
                    self._out.print()
                turn += 1
                self._out.file.flush()
            self._stop.wait(1 if turn else 0.3)

    def _tell_of_job(self, job: DemoJob) -> None:
        was_told = job.told
        detail, lines = job.look(self._server)
        line = _of_job(detail, lines)
        if line != self._last_of_job:
            say(self._out, line)
            self._last_of_job = line
        if job.told and not was_told:
            say(self._out, job.told)

    def _fleet(self) -> dict[str, Any]:
        return self._server.pages("instances", "instances", 50)

    def _facts(self) -> list[dict[str, Any]]:
        facts: list[dict[str, Any]] = self._server.get("facts", limit=50)["facts"]
        return facts


def _line(fact: dict[str, Any]) -> str:
    return f"{when(fact['occurred_at'])}  {clean(fact['text'])}"


def _of_job(detail: dict[str, Any], lines: list[str]) -> str:
    """`train-moons: running, step 412, 2 attempts, $0.61. It prints: step 412 loss 0.02`."""
    job = detail["job"]
    step = "" if job["step"] is None else f", step {job['step']:,}"
    prints = f" It prints: {lines[-1]}" if lines else ""
    what = f"{job['title']}: {job['state']}{step}, {count(job['attempts'], 'attempt')}, {amount_text(job['cost'])}."
    return clean(f"{what}{prints}")
