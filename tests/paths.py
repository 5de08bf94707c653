"""`make paths`: how many files and rooms three pieces of data go through, traced on the simulated cloud.

The functions that a path enters for the first time stand in one row; a room change is a neighbour of another room. A
room is a folder of `service/costguard`, or another package. What all rooms use (`db`, `model`, and files that
are in no room) counts neither as a change nor as a file.
"""

from __future__ import annotations

import inspect
import logging
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from types import CodeType, FrameType
from typing import Any, Self

import orjson
import structlog
from tests.api.conftest import deps_of
from tests.in_one_thread import in_one_thread
from tests.scenario.fleet import MINUTE, body, price_list
from tests.simulation.crashing import CrashPoint
from tests.simulation.guard import Place, Process
from tests.simulation.guarding import GuardClock
from tests.simulation.ledgers import Ledgers
from tests.simulation.people import Meant, signed
from tests.simulation.plan import START
from tests.simulation.settings import BUCKET, HASTY, PROJECT
from tests.simulation.shelf import Shelf
from tests.simulation.wire import Wire, one_thread

from costguard.api.app import create_app
from costguard.jobs.reports.agent_events import AgentEvent
from costguard.jobs.submit.submission import Submission
from costguard.model.job import CheckpointPlan, JobKind, JobSpec
from costguard.pages.app import add_pages
from costguard_sandbox.clock import ManualClock
from costguard_sandbox.gce.vm import VM, Status
from costguard_sandbox.world import World

SERVICE = Path(__file__).resolve().parent.parent / "service"
_NOT_THE_PRODUCT = "costguard_sandbox"
_USED_BY_ALL = ("db", "model", "")
_INLINED = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")  # later Pythons make no function of most of them
_ZONE = "us-central1-a"


@dataclass
class Trace:
    """Keeps the product's functions in the order of their first entry, while a block is open. Within the functions
    named by `without` it looks away.
    """

    service: Path = SERVICE
    without: frozenset[str] = frozenset()
    entries: list[tuple[str, str]] = field(default_factory=list)  # a file below `service`, and a function's name
    _seen: set[CodeType] = field(default_factory=set)
    _away: FrameType | None = None

    def __enter__(self) -> Self:
        sys.setprofile(self._look)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _look(self, frame: FrameType, event: str, _: object) -> None:
        if self._away is not None:
            if event == "return" and frame is self._away:
                self._away = None
        elif event == "call" and frame.f_code.co_qualname in self.without:
            self._away = frame
        elif event == "call" and frame.f_code not in self._seen:
            self._seen.add(frame.f_code)
            self._enter(frame.f_code)

    def _enter(self, code: CodeType) -> None:
        file, is_function = Path(code.co_filename), code.co_flags & inspect.CO_OPTIMIZED  # no body of a class or module
        if is_function and code.co_name not in _INLINED and file.suffix == ".py" and file.is_relative_to(self.service):
            name = file.relative_to(self.service)
            if name.parts[0] != _NOT_THE_PRODUCT:
                self.entries.append((str(name), code.co_qualname))

    @property
    def _own(self) -> list[tuple[str, str]]:
        """Returns the room and the file of each function that not all rooms use."""
        return [(room, file) for file, _ in self.entries if (room := room_of(file)) not in _USED_BY_ALL]

    @property
    def room_changes(self) -> int:
        rooms = [room for room, _ in self._own]
        return sum(room != later for room, later in pairwise(rooms))

    @property
    def files(self) -> list[str]:
        return sorted({file for _, file in self._own})


def room_of(file: str) -> str:
    """Returns the folder of a file of `costguard`, or its package; "" for a file of `costguard` in no folder."""
    package, *folders, _ = Path(file).parts
    if package != "costguard":
        return package
    return folders[0] if folders else ""


@dataclass(frozen=True, slots=True)
class _Stage:
    """A world with a guard that has looked at it before."""

    world: World
    guard: Process
    shelf: Shelf

    def wait(self, minutes: int) -> None:
        self.world.advance(minutes * MINUTE)
        assert self.guard.hold()

    def look(self) -> None:
        self.guard.run_pass()
        while self.guard.look_up():
            self.guard.run_pass()
        self.guard.deliver()
        self.guard.turn()

    def insert(self) -> None:
        wanted = body("train-1", _ZONE, "n1-standard-4", ("nvidia-tesla-t4", 1), labels={"owner": "ana"})
        self.world.insert(PROJECT, _ZONE, wanted, "ana@example.com")


@contextmanager
def _stage() -> Iterator[_Stage]:
    with TemporaryDirectory() as folder, closing(Ledgers(Path(folder))) as ledgers:
        clock = ManualClock(START + timedelta(hours=9))
        world, shelf = World(clock, projects=list(HASTY.watch.projects), seed=1), Shelf()
        world.prices = price_list()
        wire = Wire(world, world.advance)
        place = Place(
            ledgers.fresh(), GuardClock(clock), wire, shelf, iter(("j7k2m9q4",)).__next__, lambda _: None,
            _waits(world), HASTY, lambda: clock.now().timestamp(),
            False, False,
        )  # fmt: skip
        with one_thread(wire), closing(Process(place, 1, CrashPoint())) as guard:
            stage = _Stage(world, guard, shelf)
            stage.wait(1)
            stage.look()
            yield stage


def _waits(world: World) -> Callable[[float], bool]:
    """Makes pauses of the guard's virtual."""

    def wait(seconds: float) -> bool:
        world.advance(timedelta(seconds=seconds))
        return False

    return wait


def listing_to_spend() -> Trace:
    """A new VM comes with the cloud's listing, and the page Spend shows what it costs."""
    trace = Trace(without=frozenset({"Reconciler.act"}))  # what is done about VMs is the next path
    with _stage() as stage:
        deps = replace(deps_of(stage.guard.database), clock=stage.guard.guard.clock, rules=stage.guard.guard.rules)
        app = create_app(deps)
        add_pages(app, deps, 1)
        with in_one_thread(app) as browser:
            assert "$0.00" in browser.request("GET", "/spend").text
            stage.insert()
            stage.wait(30)
            with trace:
                stage.guard.guard.reconciler.run(stage.guard.lease)
                page = browser.request("GET", "/spend")
        assert "$0.28" in page.text
    return trace


def reminder_to_stop() -> Trace:
    """A reminder is due, its recipient presses Stop in Slack, and the VM stops."""
    trace = Trace()
    with _stage() as stage:
        world, process = stage.world, stage.guard
        stage.insert()
        for _ in range(4):
            stage.wait(30)
            stage.look()
        stage.wait(1)
        assert process.lease is not None
        with trace:
            process.guard.reconciler.act(process.lease)
            process.deliver()
        message, _ = world.slack.record[-1]
        stage.wait(1)
        headers, payload, _ = signed(world.slack, Meant(world.now, "ana", message, "stop"), 1)
        with trace:
            assert process.press(headers, payload) == 200
            process.guard.reconciler.act(process.lease)
        stage.wait(5)
        process.guard.reconciler.run(process.lease)
        with trace:
            process.guard.reconciler.act(process.lease)
        assert [vm.status for vm in world.instances(PROJECT)] == [Status.TERMINATED]
    return trace


def preemption_to_resumption() -> Trace:
    """A job's VM is preempted, and its command runs on another one from its last checkpoint."""
    trace = Trace()
    with _stage() as stage:
        location = f"{BUCKET}/1"
        spec = JobSpec(
            JobKind.TRAINING, "job", PROJECT, "ben@example.com", name="train-1",
            command=("python", "train.py", "--save_to", location), total_steps=500,
            checkpoint=CheckpointPlan(location, "--from_checkpoint {checkpoint}"),
        )  # fmt: skip
        stage.guard.jobs.submit(Submission(spec), "key-1", "api")
        stage.guard.turn()
        for step in (0, 10, 20):
            stage.wait(10)
            _report(stage, step)
            stage.shelf.save(location, step, stage.world.now)
            stage.look()
        stage.world.trigger("preempt", PROJECT, _job_vm(stage.world).name)
        stage.wait(2)
        stage.guard.guard.reconciler.run(stage.guard.lease)
        assert stage.guard.lease is not None
        with trace:
            stage.guard.guard.jobs.turn.run(stage.guard.lease)
        stage.wait(5)
        stage.guard.guard.reconciler.run(stage.guard.lease)
        with trace:
            _report(stage, 20)
            stage.guard.guard.jobs.turn.run(stage.guard.lease)
        assert f"{location}/checkpoint-20" in orjson.loads(_metadata(stage.world)["costguard-attempt"])["command"]
    return trace


def _report(stage: _Stage, step: int) -> None:
    """Says what the agent on the job's present VM says when its command has made so many steps."""
    items = _metadata(stage.world)
    attempt, now = orjson.loads(items["costguard-attempt"])["attempt"], stage.world.now
    is_first = step in (0, 20)
    first: tuple[tuple[str, Mapping[str, object]], ...] = (("boot", {}), ("start", {"started_at": now.isoformat()}))
    kinds = [*(first if is_first else ()), ("heartbeat", {"is_running": True, "step": step})]
    events = [AgentEvent(step + number, kind, now, {"run": 1, **fields}) for number, (kind, fields) in enumerate(kinds)]
    stage.guard.agents.hear(attempt, items["costguard-token"], events, now)


def _metadata(world: World) -> dict[str, str]:
    given: dict[str, Any] = _job_vm(world).given["metadata"]
    return {item["key"]: item["value"] for item in given["items"]}


def _job_vm(world: World) -> VM:
    return next(vm for vm in world.instances(PROJECT) if vm.status is Status.RUNNING)


PATHS: Mapping[str, Callable[[], Trace]] = {
    "a new VM in the listing, to the page Spend": listing_to_spend,
    "a reminder that is due, to the VM's stop": reminder_to_stop,
    "a job's VM preempted, to the job resumed": preemption_to_resumption,
}


def main(arguments: list[str]) -> None:
    """Prints a table; with `--all`, each function of each path as well."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    for name, path in PATHS.items():
        trace = path()
        print(f"{name:45}{trace.room_changes:5} room changes{len(trace.files):5} files")
        for file, function in trace.entries if "--all" in arguments else ():
            print(f"    {file} {function}")


if __name__ == "__main__":
    main(sys.argv[1:])
