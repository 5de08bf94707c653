"""A storm: a thousand jobs, their whole region preempted at once, half the zones out of stock, calls limited."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from statistics import median

from tests.benchmarks.memory import peak_mb
from tests.builders import PROJECT, at
from tests.jobs.world import BELONGING, RECIPE, FragileDatabase, World

from costguard.db.transaction import Database
from costguard.jobs.act.turn import JobsTurn
from costguard.jobs.reports.agent_events import AgentEvent
from costguard.jobs.rows import attempts, job_rows
from costguard.jobs.rows.recovery import interruptions
from costguard.ledger.record import record
from costguard.model.attempt import Attempt, AttemptState
from costguard.model.job import CheckpointPlan, Job, JobKind, JobSpec, JobState

ZONES = (
    "us-central1-a",
    "us-central1-b",
    "us-central1-c",
    "us-central1-f",
    "us-east1-c",
    "us-east1-d",
    "us-west1-a",
    "us-west1-b",
)
REGION = "us-central1"
OUT_OF_STOCK = frozenset({"us-central1-a", "us-central1-f", "us-east1-c", "us-west1-a"})
CALLS_PER_MINUTE = 1500
TURN = timedelta(seconds=5)
_LONGEST = timedelta(hours=1)


@dataclass(frozen=True)
class StormSetup:
    """The place of a storm: the cloud in memory, or the real client against a served one.

    `wait` lets time pass, `look` is a pass of the ledger, `say` an agent's report, `made` the names of all VMs ever
    made.
    """

    database: Database
    turn: JobsTurn
    now: Callable[[], float]
    wait: Callable[[timedelta], None]
    look: Callable[[], None]
    say: Callable[[str, Sequence[AgentEvent]], None]
    storm: Callable[[], None]  # the region preempted, zones out of stock, calls limited
    made: Callable[[], Sequence[str]]
    limited: Callable[[], int]  # calls that were refused so far


@dataclass(frozen=True, slots=True)
class Storm:
    """The times of a storm by the cloud's clock from the preemption on: until another VM is requested for each job, and
    until Google has accepted one for each.
    """

    launched_s: float
    idle_turn_s: float  # processor time of a turn in which a thousand agents were heard and nothing happened
    idle_minute_s: float  # processor time of all turns of a minute, and of its pass
    until_requested: timedelta
    until_replaced: timedelta
    replaced_s: float  # wall time of the guard's turns until then
    calls: int
    refused: int
    peak_mb: float


def storm(ground: StormSetup, number: int = 1000) -> Storm:
    """Raises AssertionError where a job is left without a replacement, or a name was given to two VMs."""
    _submit(ground.database, number)
    before = time.perf_counter()
    first = _until(ground, lambda: len(_all(ground.database, AttemptState.BOOTING)) == number)
    launched_s = time.perf_counter() - before - first.waited_s
    for attempt in _all(ground.database, AttemptState.BOOTING):
        begun = (AgentEvent(seq, kind, _at(attempt), {"run": 1}) for seq, kind in ((1, "boot"), (2, "start")))
        ground.say(attempt.name, list(begun))
    ground.look()
    ground.turn.run()
    idle_turn_s, idle_minute_s = _idle(ground)
    running = _all(ground.database, AttemptState.RUNNING)
    assert len(running) == number, f"{len(running)} run"
    began = ground.now()
    ground.storm()
    for attempt in running:
        preempted = AgentEvent(1000, "notice", _at(attempt), {"run": 1, "what": "preemption", "value": "TRUE"})
        ended = AgentEvent(1001, "exit", _at(attempt), {"run": 1, "reason": "exited", "code": 0, "asked": "preemption"})
        ground.say(attempt.name, [preempted, ended])
    before = time.perf_counter()
    replaced = _until(ground, lambda: _has_replacements(ground.database, number))
    replaced_s = time.perf_counter() - before - replaced.waited_s
    _none_twice(ground, number)
    return Storm(
        launched_s,
        idle_turn_s,
        idle_minute_s,
        _until_requested(ground.database, number, began),
        timedelta(seconds=ground.now() - began),
        replaced_s,
        replaced.calls,
        ground.limited(),
        peak_mb(),
    )


def in_memory(database: FragileDatabase) -> StormSetup:
    world = World(database).begin()
    cloud, clock = world.cloud, world.clock

    def look() -> None:
        record(database, cloud, cloud.observe(PROJECT, None), BELONGING, None)

    def let_loose() -> None:
        cloud.preempt(*(vm for vm in cloud.there() if vm.zone.startswith(REGION)))
        cloud.stockouts = set(OUT_OF_STOCK)
        cloud.per_minute = CALLS_PER_MINUTE

    return StormSetup(
        database=database,
        turn=world.turn,
        now=lambda: clock.now().timestamp(),
        wait=clock.advance,
        look=look,
        say=lambda name, events: _heard(world, name, events),
        storm=let_loose,
        made=lambda: [vm.name for vm in cloud.all],
        limited=lambda: cloud.refused_calls,
    )


@dataclass(frozen=True, slots=True)
class _Turns:
    calls: int
    waited_s: float


def _until(ground: StormSetup, done: Callable[[], bool]) -> _Turns:
    """Turns, with a pass each minute, until it is so."""
    calls, waited, passed, began = 0, 0.0, ground.now(), ground.now()
    while not done():
        assert ground.now() - began < _LONGEST.total_seconds(), "not within an hour of the cloud's time"
        before = time.perf_counter()
        ground.wait(TURN)
        if ground.now() - passed >= 60:
            ground.look()
            passed = ground.now()
        waited += time.perf_counter() - before
        calls += ground.turn.run().calls
    return _Turns(calls, waited)


def _idle(ground: StormSetup) -> tuple[float, float]:
    """Processor time of a turn, the median, and of a minute's turns and its pass. Every agent is heard four times."""
    spent = []
    for number in range(12):
        ground.wait(TURN)
        if number % 3 == 0:
            for attempt in _all(ground.database, AttemptState.RUNNING):
                beat = AgentEvent(
                    100 + number, "heartbeat", _at(attempt), {"run": 1, "is_running": True, "step": number}
                )
                ground.say(attempt.name, [beat])
        before = time.process_time()
        ground.turn.run()
        spent.append(time.process_time() - before)
    before = time.process_time()
    ground.look()
    passed = time.process_time() - before
    return median(spent), sum(spent) + passed


def _until_requested(database: Database, number: int, began: float) -> timedelta:
    with database.read() as connection:
        interruptions_by_job = interruptions.of_jobs(
            connection, [f"j{number_of_job}" for number_of_job in range(number)]
        )
    requested_at = [one.requested_at for some in interruptions_by_job.values() for one in some]
    assert len(requested_at) == number
    return timedelta(seconds=max(one.timestamp() for one in requested_at if one is not None) - began)


def _submit(database: Database, number: int) -> None:
    recipe = replace(RECIPE, zones=ZONES)
    with database.write() as connection:
        for index in range(number):
            spec = JobSpec(
                kind=JobKind.TRAINING,
                preset="t4",
                project=PROJECT,
                owner=f"person{index % 40}@example.com",
                command=("python", "train.py"),
                checkpoint=CheckpointPlan(f"gs://runs/{index}", "--from_checkpoint {checkpoint}"),
            )
            job = Job(f"j{index}", spec, recipe, JobState.QUEUED, "was taken in", at("12:00"), "api")
            job_rows.add(connection, job, None, "")


def _all(database: Database, state: AttemptState) -> list[Attempt]:
    with database.read() as connection:
        return [one for one in attempts.live(connection) if one.state is state]


def _at(attempt: Attempt) -> datetime:
    """Returns the time by the VM's clock, which may say anything."""
    return attempt.intended_at


def _heard(world: World, name: str, events: Sequence[AgentEvent]) -> None:
    world.hearing.hear(name, world.tokens.of(name), events)


def _has_replacements(database: Database, number: int) -> bool:
    """Google has accepted a VM for each job, and none of them is out of stock again."""
    with database.read() as connection:
        up = [one for one in attempts.live(connection) if one.number > 1 and one.is_open and one.gce_id]
    return len({one.job_id for one in up}) == number


def _none_twice(ground: StormSetup, number: int) -> None:
    made = ground.made()
    assert len(made) == len(set(made)), "a name was given to two VMs"
    with ground.database.read() as connection:
        tried = attempts.of_jobs(connection, [f"j{index}" for index in range(number)])
    for job_id, some in tried.items():
        assert sum(one.is_open for one in some) == 1, job_id
