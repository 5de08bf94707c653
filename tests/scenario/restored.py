"""A guard in the simulated cloud whose database is copied, and put back later: real clients, a clock moved by hand."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from tests.builders import at
from tests.fakes import HandClock
from tests.gce.conftest import Waits
from tests.jobs.list_prices import price_list
from tests.jobs.world import BELONGING, OWNERS, RECIPE, T4, Shelf, metadata

from costguard.daemon import restoring
from costguard.db.transaction import Database
from costguard.errors import Forbidden
from costguard.events import audit_log
from costguard.gce.client import ComputeCloud
from costguard.jobs.act.attempts.vm_request import VmMaker
from costguard.jobs.act.turn import JobsTurn, TurnRules, TurnServices
from costguard.jobs.reports.agent_events import AgentEvent, AgentEvents, AgentTokens
from costguard.jobs.rows import attempts, job_rows
from costguard.ledger import prices
from costguard.ledger.charged.charging import charge_due
from costguard.ledger.record import record
from costguard.model.attempt import Attempt, AttemptState
from costguard.model.event import Event
from costguard.model.instance import ProvisioningModel
from costguard.model.job import CheckpointPlan, Job, JobKind, JobSpec, JobState, Terms
from costguard_sandbox.clock import ManualClock
from costguard_sandbox.server import running
from costguard_sandbox.world import World

PROJECT = "demo"
BUCKET = "gs://runs/train"
FIELDS: dict[str, dict[str, object]] = {
    "boot": {"run": 1},
    "start": {"run": 1},
    "heartbeat": {"run": 1, "is_running": True},
    "notice": {"run": 1, "what": "preemption", "value": "TRUE"},
    "exit": {"run": 1, "reason": "exited", "code": 0},
}


class Restorable:
    """An installation. `copy` and `restore` do what an operator does with files while the guard is stopped."""

    def __init__(self, url: str, world: World, cloud: ComputeCloud, clock: ManualClock) -> None:
        self.url, self._cloud = url, cloud
        self.world, self.clock = world, clock
        self.tokens = AgentTokens(b"key")
        self.shelf = Shelf(HandClock(at("08:10")))
        self.speaking: dict[str, int] = {}  # agents that beat at every turn, and how often they spoke
        self.start()
        with self.database.write() as connection:
            prices.add(connection, list(price_list()), clock.now())

    def start(self) -> None:
        self.database = Database.open(self.url)
        self.maker = VmMaker("g1", "https://guard.example.com", "", self.tokens.of, metadata, OWNERS)
        services = TurnServices(self._cloud.launcher, self.maker, self.shelf, lambda *_: T4, restoring.begin)
        self.turn = JobsTurn(self.database, self.clock, services, TurnRules(Terms(), lambda *_: {}))
        self.hearing = AgentEvents(self.database, self.clock, self.tokens, lambda: None)

    @property
    def path(self) -> Path:
        """Returns the path of an SQLite database."""
        return Path(self.url.removeprefix("sqlite:///"))

    def copy(self, name: str = "backup.db") -> Path:
        """The guard ends, its file is copied, and it starts again."""
        self.database.close()
        to = self.path.with_name(name)
        shutil.copy(self.path, to)
        self.start()
        return to

    def restore(self, backup: Path) -> None:
        self.database.close()
        for suffix in ("-wal", "-shm"):
            self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)
        shutil.copy(backup, self.path)
        self.start()

    def look(self) -> None:
        record(self.database, self._cloud, self._cloud.observe(PROJECT, None), BELONGING, None)
        charge_due(self.database, self.clock.now())

    def launch_unseen(self, job_id: str, number: int, zone: str) -> None:
        """Launches as another guard with a copy of this database does."""
        request = f"00000000-0000-4000-8000-{number:012}"
        attempt = Attempt(
            id=0,
            job_id=job_id,
            number=number,
            name=f"cg-{job_id}-{number}",
            project=PROJECT,
            zone=zone,
            provisioning_model=ProvisioningModel.SPOT,
            request_uuid=request,
            max_run=timedelta(hours=24),
            state=AttemptState.INTENDED,
            intended_at=self.clock.now(),
        )
        self._cloud.launcher.insert(PROJECT, zone, self.maker.request(self.job(job_id), attempt), request)

    def go_on(self, minutes: float, every: float = 30) -> None:
        """`every` so many seconds there is a pass, a turn, and a word of each agent that speaks."""
        for _ in range(round(minutes * 60 / every)):
            self.world.advance(timedelta(seconds=every))
            self.look()
            self.turn.run()
            for name in list(self.speaking):
                self.beat(name)

    def submit(self, job_id: str, **given: Any) -> None:
        plan = CheckpointPlan(BUCKET, "--from_checkpoint {checkpoint}")
        values = {"owner": "ana@example.com", "command": ("train",), "checkpoint": plan, **given}
        spec = JobSpec(values.pop("kind", JobKind.TRAINING), "t4", PROJECT, **values)
        with self.database.write() as connection:
            job_rows.add(connection, Job(job_id, spec, RECIPE, JobState.QUEUED, "", self.clock.now(), "api"), None, "")

    def say(self, name: str, *kinds: str) -> None:
        """An agent's numbers go on, whatever its guard has forgotten; what nobody hears it says again later."""
        begin = self.speaking.get(name, 0) + 1
        agent_events = [AgentEvent(seq, kind, self.clock.now(), FIELDS[kind]) for seq, kind in enumerate(kinds, begin)]
        self.hearing.hear(name, self.tokens.of(name), agent_events)
        self.speaking[name] = begin + len(kinds) - 1

    def beat(self, name: str) -> None:
        try:
            self.say(name, "heartbeat")
        except Forbidden:
            self.speaking[name] += 1  # the heartbeat is dropped

    def works(self, name: str) -> None:
        """Lets its agent report from now on."""
        self.say(name, "boot", "start")

    def preempt(self, name: str) -> None:
        self.speaking.pop(name, None)
        self.world.preempt(PROJECT, name)

    def up(self) -> list[str]:
        return sorted(vm.name for vm in self.world.instances(PROJECT) if vm.status == "RUNNING")

    def job(self, job_id: str) -> Job:
        with self.database.read() as connection:
            job = job_rows.read(connection, job_id)
        assert job is not None
        return job

    def attempts(self, job_id: str) -> list[Attempt]:
        with self.database.read() as connection:
            return attempts.of_jobs(connection, [job_id]).get(job_id, [])

    def events(self, kind: str) -> list[Event]:
        with self.database.read() as connection:
            return [stored.event for stored in audit_log.read(connection, kind=kind)]


@contextmanager
def restorable(url: str) -> Iterator[Restorable]:
    """`url` names a migrated database."""
    clock = ManualClock(at("08:00"))
    world = World(clock)
    with ExitStack() as stack:
        address = stack.enter_context(running(world))
        cloud = stack.enter_context(closing(ComputeCloud(address, clock, wait=Waits())))
        guard = Restorable(url, world, cloud, clock)
        try:
            yield guard
        finally:
            guard.database.close()
