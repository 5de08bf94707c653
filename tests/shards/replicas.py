"""Two replicas as processes of their own on one database; one is killed now and then, and started again."""

from __future__ import annotations

import json
import random
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from tests.ports import free_port
from tests.scenario.replicas import Replica, started
from tests.shards.cloud import CHANNEL, SimulatedCloud
from tests.shards.judge import Kill

from costguard.clock import SystemClock
from costguard_sandbox.slack.access import BOT_TOKEN, SIGNING_SECRET

# Each replica calls the cloud by a name of its own, so that the cloud's log tells them apart.
HOSTS = ("127.0.0.1", "localhost")
_BACK_AFTER_S = (0.0, 12.0)  # at once, as a supervisor does, or when its projects were taken over
_SETTINGS = """
[watch]
projects = {projects}
every = "10s"
[database]
url = "{database}"
[server]
listen = "127.0.0.1:{port}"
[compute]
endpoint = "{cloud}"
[prices]
endpoint = "{cloud}"
[idle]
enabled = false
[owners]
domain = "example.com"
[slack]
channel = "#{channel}"
endpoint = "{cloud}/slack/api/"
[reminders]
quiet_hours = "never"
quiet_days = []
[enforcement]
shadow = false
[jobs]
guard_url = "http://127.0.0.1:{reports}"
[presets.long]
limit = "2m"
match.labels = {{ kind = "long" }}
remind_every = "10m"
when_unanswered = "stop"
stop_after = 1
grace = "10m"
[presets.t4.launch]
zones = ["us-central1-a", "us-central1-c"]
[log]
format = "json"
"""


@dataclass
class Pair:
    """The two, by the name that each calls the cloud by. Agents report to the first one's port."""

    folder: Path
    cloud: SimulatedCloud
    projects: Sequence[str]
    database: str
    chance: random.Random
    kills: list[Kill] = field(default_factory=list)
    killed_acting: int = 0
    _ports: dict[str, int] = field(default_factory=lambda: {host: free_port() for host in HOSTS})
    _replicas: dict[str, Replica] = field(default_factory=dict)

    def start(self, host: str) -> None:
        cloud = f"http://{host}:{self.cloud.port}"
        settings = _SETTINGS.format(
            projects=json.dumps(self.projects),
            database=self.database,
            port=self._ports[host],
            reports=self._ports[HOSTS[0]],
            cloud=cloud,
            channel=CHANNEL,
        )
        slack = {"COSTGUARD_SLACK_TOKEN": BOT_TOKEN, "COSTGUARD_SLACK_SIGNING_SECRET": SIGNING_SECRET}
        self._replicas[host] = started(self.folder, host, settings, **slack)

    def kill(self, stop: threading.Event) -> None:
        """Kills one by SIGKILL, and starts it again at once or some seconds later."""
        host = self.chance.choice(HOSTS)
        victim, pause_s = self._replicas.pop(host), self.chance.choice(_BACK_AFTER_S)
        self.killed_acting += victim.acts
        killed_at = _now()
        victim.process.send_signal(signal.SIGKILL)
        victim.end()
        stop.wait(pause_s)
        self.kills.append(Kill(killed_at, f"{host}:{self.cloud.port}", _now()))
        self.start(host)

    @property
    def one(self) -> Replica | None:
        """A replica that runs, for people's requests."""
        running = list(self._replicas.values())
        return self.chance.choice(running) if running else None

    @property
    def are_ready(self) -> bool:
        """Says whether both hold projects, and every project has a holder."""
        answers = [one.ready() for one in self._replicas.values()]
        if len(answers) < len(HOSTS) or any(answer.status != 200 for answer in answers):
            return False
        holders = [one["holder"] for one in answers[0].body["projects"]]
        return None not in holders and len(set(holders)) == len(HOSTS)

    def end(self) -> None:
        for one in self._replicas.values():
            one.end()


@contextmanager
def pair(folder: Path, cloud: SimulatedCloud, projects: Sequence[str], database: str, seed: int) -> Iterator[Pair]:
    """Starts both, which are killed at the end of the block."""
    made = Pair(folder, cloud, projects, database, random.Random(seed))
    try:
        for host in HOSTS:
            made.start(host)
        yield made
    finally:
        made.end()


def _now() -> datetime:
    return SystemClock().now()
