"""The storm against the simulated cloud, in a process of its own, through Google's own client.

Its clock is the machine's, with jumps: what takes time takes it, and what is only waited for is skipped.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from tests.benchmarks.storm import CALLS_PER_MINUTE, OUT_OF_STOCK, REGION, StormSetup
from tests.builders import PROJECT
from tests.fakes import HandClock
from tests.jobs.list_prices import price_list
from tests.jobs.world import OWNERS, T4, Shelf, metadata

from costguard.access.rules import Rules
from costguard.daemon import restoring
from costguard.daemon.reconcile import Reconciler
from costguard.db.migrate import upgrade
from costguard.db.transaction import Database
from costguard.gce.client import ComputeCloud
from costguard.jobs.act.attempts.vm_request import VmMaker
from costguard.jobs.act.turn import JobsTurn, TurnRules, TurnServices
from costguard.jobs.reports.agent_events import AgentEvents, AgentTokens
from costguard.ledger import prices
from costguard.ledger.observe import Belonging
from costguard.model.job import Terms
from costguard.settings import validate
from costguard_sandbox.clock import ScaledClock
from costguard_sandbox.gce.errors import Refused
from costguard_sandbox.gce.faults import CloudFaults
from costguard_sandbox.server import running
from costguard_sandbox.world import World


class JumpingClock(ScaledClock):
    def jump(self, by: timedelta) -> None:
        self._base += by


class _Counting(CloudFaults):
    """Knows how often it refused something."""

    refused = 0

    def refuse(self, project: str, method: str, path: str, now: datetime) -> None:
        try:
            super().refuse(project, method, path, now)
        except Refused:
            self.refused += 1
            raise


class Cloud:
    """The process, driven by lines: a number of seconds to jump, or an empty line to read its state."""

    def __init__(self, process: subprocess.Popen[str], url: str) -> None:
        self._process = process
        self._lock = threading.Lock()
        self.url = url

    def jump(self, by: timedelta) -> None:
        self._ask(str(by.total_seconds()))

    def stands(self) -> dict[str, Any]:
        state: dict[str, Any] = json.loads(self._ask(""))
        return state

    def post(self, path: str, body: Mapping[str, object]) -> dict[str, Any]:
        request = Request(f"{self.url}{path}", json.dumps(body).encode(), {"Content-Type": "application/json"})
        with urlopen(request, timeout=60) as answer:
            document: dict[str, Any] = json.load(answer)
        return document

    def _ask(self, line: str) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._lock:
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()
            return self._process.stdout.readline()


@contextmanager
def served(folder: Path, calls_per_minute: int = CALLS_PER_MINUTE) -> Iterator[StormSetup]:
    """A guard on a SQLite database of its own; all of it ends with the block."""
    url = f"sqlite:///{folder / 'served.db'}"
    upgrade(url)
    with _cloud() as cloud, closing(Database.open(url)) as database:
        clock = JumpingClock(datetime.fromisoformat(cloud.stands()["now"]))

        def wait(seconds: float) -> bool:
            """Waits in place of Google's client, which waits after a rate limit."""
            _jump(cloud, clock, timedelta(seconds=seconds))
            return False

        with closing(ComputeCloud(cloud.url, clock, wait=wait)) as client:
            yield _ground(cloud, clock, client, database, calls_per_minute)


def _ground(cloud: Cloud, clock: JumpingClock, client: ComputeCloud, database: Database, per_minute: int) -> StormSetup:
    with database.write() as connection:
        prices.add(connection, list(price_list()), clock.now())
    tokens = AgentTokens(b"key")
    maker = VmMaker("g1", "https://guard.example.com", "", tokens.of, metadata, OWNERS)
    shelf = Shelf(HandClock(clock.now()))
    services = TurnServices(client.launcher, maker, shelf, lambda *_: T4, restoring.begin)
    turn = JobsTurn(database, clock, services, TurnRules(Terms(), lambda *_: {}))
    settings = validate({"watch": {"projects": [PROJECT]}, "owners": {"domain": "example.com"}}, {}, Path("none"))
    presets = settings.preset_list()
    rules, belonging = Rules({preset.name: preset for preset in presets}), Belonging(presets, OWNERS)
    passes = Reconciler(database, client, clock, lambda: [PROJECT], rules, belonging)
    agent_events = AgentEvents(database, clock, tokens, lambda: None)

    def look() -> None:
        assert not passes.run().failed_projects

    def let_loose() -> None:
        cloud.post("/sandbox/preempt", {"region": REGION})
        for zone in OUT_OF_STOCK:
            cloud.post("/sandbox/faults", {"kind": "stockout", "zone": zone})
        for writes in (True, False):
            cloud.post("/sandbox/faults", {"kind": "rate_limit", "limit": per_minute, "writes": writes})

    return StormSetup(
        database=database,
        turn=turn,
        now=lambda: clock.now().timestamp(),
        wait=lambda by: _jump(cloud, clock, by),
        look=look,
        say=lambda name, events: _heard(agent_events, tokens, name, events),
        storm=let_loose,
        made=lambda: list(cloud.stands()["made"]),
        limited=lambda: int(cloud.stands()["refused"]),
    )


def _jump(cloud: Cloud, clock: JumpingClock, by: timedelta) -> None:
    clock.jump(by)
    cloud.jump(by)


def _heard(agent_events: AgentEvents, tokens: AgentTokens, name: str, events: Sequence[Any]) -> None:
    agent_events.hear(name, tokens.of(name), events)


@contextmanager
def _cloud() -> Iterator[Cloud]:
    command = [sys.executable, "-m", "tests.benchmarks.storm_served"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield Cloud(process, process.stdout.readline().strip())
        finally:
            process.stdin.close()


def _main() -> None:
    clock = JumpingClock(datetime.fromisoformat("2026-11-20T12:00:00+00:00"))
    world = World(clock, projects=[PROJECT])
    world.faults = faults = _Counting()
    for metric in ("NVIDIA_T4_GPUS", "PREEMPTIBLE_NVIDIA_T4_GPUS"):
        faults.add("quota", metric=metric, limit=100_000)
    with running(world) as url:
        print(url, flush=True)
        for line in sys.stdin:
            if line.strip():
                clock.jump(timedelta(seconds=float(line)))
            made = [vm.name for vm in world.every_vm()] if not line.strip() else []
            print(
                json.dumps({"now": world.now.isoformat(), "made": made, "refused": faults.refused}),
                flush=True,
            )


if __name__ == "__main__":
    _main()
