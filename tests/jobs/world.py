"""A small world for jobs: a cloud, VMs whose agents speak, a guard that can be ended at any step and built again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from copy import copy
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection
from tests.builders import PROJECT, at
from tests.fakes import HandClock
from tests.jobs.cloud import CloudOfVms
from tests.jobs.cloud_vms import Vm
from tests.jobs.fragile_launcher import FragileLauncher
from tests.jobs.list_prices import price_list

from costguard.daemon import restoring
from costguard.db.transaction import Database
from costguard.deadlines.situation import Policy
from costguard.errors import CheckpointError
from costguard.events import audit_log
from costguard.jobs.act.attempts.vm_request import VmMaker
from costguard.jobs.act.limits.admission import Admission, LaunchBounds
from costguard.jobs.act.planning import Planning
from costguard.jobs.act.turn import JobsTurn, TurnReport, TurnRules, TurnServices
from costguard.jobs.decide.limits.holds import BudgetHold
from costguard.jobs.reports.agent_events import AgentEvent, AgentEvents, AgentTokens, EventsAnswer
from costguard.jobs.reports.gang.gang_words import GoAhead
from costguard.jobs.reports.listening import Listening
from costguard.jobs.rows import attempts, job_rows
from costguard.jobs.rows.recovery import interruptions
from costguard.ledger import prices
from costguard.ledger.observe import Belonging
from costguard.ledger.owner import OwnerRules
from costguard.ledger.record import record
from costguard.model.attempt import STANDING_BY, Attempt
from costguard.model.budget import FleetLimit
from costguard.model.event import Event
from costguard.model.instance import Shape
from costguard.model.job import CheckpointPlan, Job, JobKind, JobSpec, JobState, Terms
from costguard.model.launch import Recipe
from costguard.model.observation import Observation
from costguard.sweeps.gather import common_ceilings
from costguard_vm.model.checkpoint import (
    Checkpoint,
    CheckpointLook,
    CheckpointState,
    Framework,
    Listing,
    LookFor,
)

ZONES = ("us-central1-a", "us-central1-b", "us-east1-c")
T4 = Shape("n1-standard-8", 8, 30720)
ANA = "ana@example.com"
BUCKET = "gs://runs/train"
OWNERS = OwnerRules(domain="example.com")
BELONGING = Belonging((), OWNERS)
RECIPE = Recipe(
    machine_type="n1-standard-8",
    zones=ZONES,
    image="projects/ml/global/images/family/common-cu128",
    max_run=timedelta(hours=24),
    gpu_type="nvidia-tesla-t4",
    gpu_count=1,
    attaches_gpus=True,
)


class Killed(BaseException):
    """The process is ended; nothing catches it."""


@dataclass
class CrashPoint:
    """Ends the process at the n-th step (0: never); from then on nothing of that process does anything any more."""

    at: int = 0
    count: int = 0
    is_blown: bool = False

    def step(self) -> None:
        if self.is_blown:
            raise Killed
        self.count += 1
        if self.count == self.at:
            self.is_blown = True
            raise Killed


class FragileDatabase(Database):
    """May end the process right before each commit and right after it. Every process has its own fuse.

    They share their connections and SQLAlchemy's compiled statements, which are most of the time of a tiny world.
    """

    fuse = CrashPoint()

    def of_process(self, fuse: CrashPoint) -> FragileDatabase:
        (process := copy(self)).fuse = fuse
        return process

    @contextmanager
    def write(self, fence: Any = None) -> Iterator[Connection]:
        with super().write(fence) as connection:
            yield connection
            self.fuse.step()
        self.fuse.step()


@dataclass
class Shelf:
    """Checkpoints by location: step and when it was written. `trouble` is why nobody can look."""

    clock: HandClock
    fuse: CrashPoint = field(default_factory=CrashPoint)
    saved: dict[str, list[tuple[int, datetime]]] = field(default_factory=dict)
    torn: dict[str, list[tuple[int, datetime]]] = field(default_factory=dict)
    trouble: CheckpointError | None = None
    looks: int = 0

    def save(self, step: int, location: str = BUCKET) -> None:
        self.saved.setdefault(location, []).append((step, self.clock.now()))

    def tear(self, step: int, location: str = BUCKET) -> None:
        self.torn.setdefault(location, []).append((step, self.clock.now()))

    def listing(self, location: str) -> Listing:
        return Listing(location, {})

    def look(
        self, location: str, look_for: LookFor, earlier: Listing | None = None, examine: int = 1
    ) -> CheckpointLook:
        self.fuse.step()
        self.looks += 1
        if self.trouble is not None:
            raise self.trouble
        whole = [_checkpoint(location, *one, torn=False) for one in self.saved.get(location, [])]
        torn = [_checkpoint(location, *one, torn=True) for one in self.torn.get(location, [])]
        newest_first = sorted(whole + torn, key=lambda one: one.step or 0, reverse=True)
        best = next((one for one in newest_first if one.is_complete), None)
        return CheckpointLook(location, self.listing(location), tuple(newest_first), best)


@dataclass
class Outside:
    """Everything but the guard: a deep copy of it is the same world at the same moment."""

    clock: HandClock = field(default_factory=lambda: HandClock(at("12:00")))
    seq: dict[str, int] = field(default_factory=dict)  # how far each agent's words were taken in
    go: dict[str, GoAhead] = field(default_factory=dict)  # what VMs that stood by begin with
    policy: Policy | None = None  # for jobs with a deadline; None: the planner

    def __post_init__(self) -> None:
        self.cloud = CloudOfVms(self.clock)
        self.shelf = Shelf(self.clock)


@dataclass
class World:
    """`database` is migrated. All of what one process remembers is in `turn`."""

    database: FragileDatabase
    outside: Outside = field(default_factory=Outside)
    terms: Terms = field(default_factory=Terms)
    held: dict[str, BudgetHold] = field(default_factory=dict)
    limits: tuple[FleetLimit, ...] = ()
    has_looks: bool = True
    listening: Listening | None = None  # of the guard's machine; None: nothing interrupts it
    looked: Observation | None = None  # the last look of this process of the guard

    def __post_init__(self) -> None:
        self.clock, self.cloud, self.shelf = self.outside.clock, self.outside.cloud, self.outside.shelf
        self.tokens = AgentTokens(b"key")
        self.guard()

    def begin(self) -> World:
        """Returns the rows that every database holds before the first job."""
        with self.database.write() as connection:
            prices.add(connection, list(price_list()), self.clock.now())
        return self

    # The guard.

    def guard(self, fuse: CrashPoint | None = None) -> JobsTurn:
        """A new process on what is stored: it takes turns and hears agents. With a fuse it may end at any step."""
        database = self.database.of_process(fuse := fuse or CrashPoint())
        self.looked = None
        self.shelf.fuse = fuse
        self.hearing = AgentEvents(database, self.clock, self.tokens, lambda: None)
        launcher, shelf = FragileLauncher(self.cloud, fuse.step), self.shelf if self.has_looks else None
        self.turn = JobsTurn(
            database,
            self.clock,
            TurnServices(launcher, self.maker(), shelf, lambda *_: T4, restoring.begin),
            TurnRules(self.terms, lambda *_: self.held, LaunchBounds(common_ceilings, Admission(self.limits))),
            workers=1,
            planning=Planning(self.outside.policy),
            listening=self.listening,
        )
        return self.turn

    def maker(self) -> VmMaker:
        return VmMaker("g1", "https://guard.example.com", "", self.tokens.of, metadata, OWNERS)

    def step(self, seconds: float = 5, passing: bool = False) -> TurnReport:
        """Time goes on, and the guard takes a turn; with `passing`, after a look at what is new."""
        self.clock.advance(timedelta(seconds=seconds))
        if passing:
            self.look_at_news()
        return self.turn.run()

    def settle(self, minutes: float = 5, every: float = 10) -> None:
        """A while in which nobody does anything but the guard."""
        for number in range(round(minutes * 60 / every)):
            self.step(every, passing=number % 6 == 5)

    def look(self) -> None:
        """A pass: the ledger as Google has it."""
        self._record(self.cloud.observe(PROJECT, None))

    def look_at_news(self) -> None:
        """Looks where Google shows something else than in the last look, and once a minute, as a guard does.

        A look that shows nothing new is a third of the time of a turn.
        """
        seen, last = self.cloud.observe(PROJECT, None), self.looked
        if last is None or _shown(seen) != _shown(last) or seen.read_at - last.read_at >= timedelta(minutes=1):
            self._record(seen)

    def _record(self, seen: Observation) -> None:
        record(self.database, self.cloud, seen, BELONGING, None)
        self.looked = seen

    # People.

    def submit(self, job_id: str = "j1", **given: Any) -> Job:
        recipe = given.pop("recipe", RECIPE)
        plan = CheckpointPlan(BUCKET, "--from_checkpoint {checkpoint}")
        values: dict[str, Any] = {
            "kind": JobKind.TRAINING,
            "preset": "t4",
            "project": PROJECT,
            "owner": ANA,
            "name": "bert",
            "command": ("python", "train.py"),
            "checkpoint": plan,
        }
        spec = JobSpec(**{"max_crashes": 3, **values, **given})
        job = Job(job_id, spec, recipe, JobState.QUEUED, "was taken in", self.clock.now(), "api")
        with self.database.write() as connection:
            return job_rows.add(connection, job, None, "")[0]

    def cancel(self, job_id: str = "j1", by: str = ANA) -> None:
        with self.database.write() as connection:
            job_rows.ask_cancel(connection, job_id, by, f"{by} asked to cancel it", self.clock.now())

    def agree(self, job_id: str = "j1", by: str = ANA) -> None:
        """Agrees, as its owner, that its disk goes."""
        with self.database.write() as connection:
            job_rows.give_disk_up(connection, job_id, by, self.clock.now())

    # The agent.

    def say(self, name: str, *events: tuple[str, Mapping[str, object]]) -> bool:
        """Says whether the command is to stop."""
        return self.answer(name, *events).cancel

    def answer(self, name: str, *events: tuple[str, Mapping[str, object]]) -> EventsAnswer:
        """Reports events, and returns what the guard answers."""
        begin = self.outside.seq.get(name, 0) + 1
        reported = [
            AgentEvent(seq, kind, self.clock.now(), {"run": 1, **fields})
            for seq, (kind, fields) in enumerate(events, begin)
        ]
        answer = self.hearing.hear(name, self.tokens.of(name), reported)
        self.outside.seq[name] = answer.accepted_through
        if answer.go is not None:
            self.outside.go[name] = answer.go
        return answer

    def start(self, name: str = "cg-j1-1", run: int = 1) -> None:
        self.say(name, ("boot", {"run": run}), ("start", {"run": run}))

    def stand_by(self, name: str = "cg-j1-2") -> bool:
        """It is ready, and asks whether its command may begin. Whether it is to end instead."""
        return self.say(name, ("boot", {}), ("heartbeat", {"is_running": False, "phase": STANDING_BY}))

    def beat(self, name: str = "cg-j1-1", run: int = 1, step: int | None = None) -> bool:
        return self.say(name, ("heartbeat", {"run": run, "is_running": True, "step": step, "output": "loss 0.1"}))

    def exit(self, name: str = "cg-j1-1", code: int = 0, run: int = 1, stop_request: str | None = None) -> None:
        self.say(name, ("exit", {"run": run, "reason": "exited", "code": code, "asked": stop_request}))

    def notice(self, name: str = "cg-j1-1", run: int = 1) -> None:
        self.say(name, ("notice", {"run": run, "what": "preemption", "value": "TRUE"}))

    def is_up(self, name: str) -> bool:
        return any(vm.name == name for vm in self.cloud.running())

    def vm(self, name: str = "cg-j1-1") -> Vm:
        return next(vm for vm in self.cloud.there() if vm.name == name)

    # What came of it.

    def job(self, job_id: str = "j1") -> Job:
        with self.database.read() as connection:
            job = job_rows.read(connection, job_id)
        assert job is not None
        return job

    def attempts(self, job_id: str = "j1") -> list[Attempt]:
        with self.database.read() as connection:
            return attempts.of_jobs(connection, [job_id]).get(job_id, [])

    def interruptions(self, job_id: str = "j1") -> list[Any]:
        with self.database.read() as connection:
            return interruptions.of_jobs(connection, [job_id]).get(job_id, [])

    def events(self, kind: str) -> list[Event]:
        with self.database.read() as connection:
            return [stored.event for stored in audit_log.read(connection, kind=kind)]

    def until_up(self, name: str, turns: int = 30) -> None:
        """Turns until this VM runs and the guard knows it."""
        job_id = name.split("-")[1]
        for _ in range(turns):
            self.step()
            if self.is_up(name) and any(one.name == name and one.gce_id for one in self.attempts(job_id)):
                return
        raise AssertionError(f"{name} did not come up: {self.job(job_id).reason}")


def _shown(seen: Observation) -> tuple[Any, ...]:
    return seen.instances, seen.operations


@contextmanager
def world(url: str, **given: Any) -> Iterator[World]:
    with closing(FragileDatabase.open(url)) as database:
        assert isinstance(database, FragileDatabase)
        yield World(database, **given).begin()


def metadata(settings: Mapping[str, object], token: str, with_drivers: bool) -> Mapping[str, str]:
    return {"costguard-attempt": repr(sorted(settings.items())), "costguard-token": token}


def _checkpoint(location: str, step: int, written_at: datetime, torn: bool) -> Checkpoint:
    return Checkpoint(
        framework=Framework.HUGGING_FACE,
        name=f"checkpoint-{step}",
        resume_from=f"{location}/checkpoint-{step}",
        step=step,
        state=CheckpointState.TORN if torn else CheckpointState.COMPLETE,
        reasons=("optimizer.pt: missing.",) if torn else (),
        written_at=written_at,
        size=100,
        files=3,
    )
