"""Ten jobs with deadlines on default presets, under the demo's settings, with its cloud: none waits, and none is late.

The guard is built as `main` builds it; the VMs are the simulated cloud's, and their agents speak as PROTOCOL.md has it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

import orjson
from tests.scenario.fleet import MINUTE
from tests.simulation.crashing import CrashPoint
from tests.simulation.guard import Place, Process
from tests.simulation.ledgers import opened
from tests.simulation.shelf import Shelf
from tests.simulation.wire import URL, Wire, one_thread

from costguard.cli.demo.command import demo_settings
from costguard.db.migrate import upgrade
from costguard.jobs.reports.agent_events import AgentEvent
from costguard.jobs.rows import attempts, job_rows
from costguard.jobs.submit.submission import Submission
from costguard.model.job import CheckpointPlan, Job, JobKind, JobSpec, JobState
from costguard_sandbox.clock import ManualClock
from costguard_sandbox.gce.vm import VM, Status
from costguard_sandbox.world import World

BUCKET = "gs://acme-runs/one"
NOW = datetime(2026, 11, 20, 9, 30, tzinfo=UTC)
PROJECTS = ["acme-training", "acme-research"]
SECRETS = {"COSTGUARD_SLACK_TOKEN": "xoxb-1", "COSTGUARD_SLACK_SIGNING_SECRET": "5" * 32}
STEP = timedelta(seconds=30)
BOOT = 2 * MINUTE
WORKS = [timedelta(minutes=minutes) for minutes in range(3, 13)]
SPARE = timedelta(hours=2)  # what is left when the work and one start are over


@dataclass
class Fleet:
    """The simulated cloud, its guard, and what agents on its VMs do."""

    world: World
    clock: ManualClock
    guard: Process
    works: dict[str, timedelta] = field(default_factory=dict)  # by job
    numbers: dict[int, int] = field(default_factory=dict)  # the last event of each VM's agent
    began: dict[int, datetime] = field(default_factory=dict)

    def submit(self, work: timedelta, has_checkpoint: bool) -> Job:
        plan = CheckpointPlan(BUCKET, "--from {checkpoint}") if has_checkpoint else None
        spec = JobSpec(
            JobKind.TRAINING,
            "t4",
            PROJECTS[0],
            "dana@example.com",
            command=("python", "train.py", "--save_to", BUCKET),
            checkpoint=plan,
            work=work,
            deadline_in=work + timedelta(minutes=24) + SPARE,
        )
        job, _ = self.guard.jobs.submit(Submission(spec), None, "api")
        self.works[job.id] = work
        return job

    def step(self, turn: int) -> None:
        self.world.advance(STEP)
        assert self.guard.hold()
        if turn % 2 == 0:
            self.guard.run_pass()
        self.guard.turn()
        for vm in self.world.instances(PROJECTS[0]):
            if vm.name.startswith("cg-") and vm.status is Status.RUNNING:
                self._agent(vm)

    def _agent(self, vm: VM) -> None:
        now = self.clock.now()
        run = vm.runs[-1]
        if now - run.began < BOOT:
            return
        job = str(vm.given["labels"]["costguard-job"])
        if vm.id not in self.began:
            self.began[vm.id] = now
            self._say(vm, "start", {})
        elif now - self.began[vm.id] >= self.works[job]:
            self._say(vm, "exit", {"reason": "exited", "code": 0})
        else:
            self._say(vm, "heartbeat", {"is_running": True})

    def _say(self, vm: VM, kind: str, fields: dict[str, object]) -> None:
        self.numbers[vm.id] = number = self.numbers.get(vm.id, 0) + 1
        items = {item["key"]: item["value"] for item in vm.given["metadata"]["items"]}
        settings = orjson.loads(items["costguard-attempt"])
        event = AgentEvent(number, kind, self.clock.now(), {"run": 1, **fields})
        self.guard.agents.hear(str(settings["attempt"]), items["costguard-token"], [event])

    def job(self, job_id: str) -> Job:
        with self.guard.database.read() as connection:
            job = job_rows.read(connection, job_id)
        assert job is not None
        return job

    def first_asked_at(self, job_id: str) -> datetime:
        with self.guard.database.read() as connection:
            return attempts.of_jobs(connection, [job_id])[job_id][0].intended_at


@contextmanager
def fleet(folder: Path) -> Iterator[Fleet]:
    clock = ManualClock(NOW)
    world = World(clock, projects=PROJECTS)

    def pause(seconds: float) -> bool:
        world.advance(timedelta(milliseconds=round(seconds * 1000)))
        return False

    wire = Wire(world, lambda span: world.advance(timedelta(milliseconds=-(-span // timedelta(milliseconds=1)))))
    url = f"sqlite:///{folder / 'costguard.db'}"
    upgrade(url)
    numbers = count(1)
    settings = demo_settings("127.0.0.1:8765", URL, folder, PROJECTS, NOW, SECRETS, 60.0)
    with one_thread(wire), closing(opened(url)) as database:
        place = Place(
            database, clock, wire, Shelf(), lambda: f"j{next(numbers):05}", lambda _: None, pause, settings,
            lambda: clock.now().timestamp(), has_signs=False, is_shared=False,
        )  # fmt: skip
        guard = Process(place, 1, CrashPoint())
        try:
            assert guard.hold()
            assert guard.read_prices()
            yield Fleet(world, clock, guard)
        finally:
            guard.close()


def test_ten_deadlines_on_default_presets(tmp_path: Path) -> None:
    """Spot is open everywhere: each first VM is asked for within a minute of the fleet's clock, and all are on time."""
    with fleet(tmp_path) as demo:
        jobs = [demo.submit(work, number % 2 == 0) for number, work in enumerate(WORKS)]
        assert not any(job.recipe.falls_back_to_on_demand for job in jobs)
        for turn in range(200):
            demo.step(turn)
            if all(demo.job(job.id).state.is_over for job in jobs):
                break
        for job in jobs:
            now = demo.job(job.id)
            assert demo.first_asked_at(job.id) - job.created_at <= MINUTE, now.reason
            assert now.state is JobState.SUCCEEDED, now.reason
            assert now.settled_at is not None
            assert job.spec.deadline is not None
            assert now.settled_at <= job.spec.deadline
