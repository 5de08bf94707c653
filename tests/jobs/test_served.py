"""The guard's turns through Google's own client: a job in the simulated cloud, preempted, recovered and finished."""

from __future__ import annotations

from contextlib import closing
from datetime import timedelta

from tests.builders import at
from tests.fakes import HandClock
from tests.gce.conftest import Waits
from tests.jobs.list_prices import price_list
from tests.jobs.world import BELONGING, OWNERS, RECIPE, T4, Shelf, metadata

from costguard.daemon import restoring
from costguard.db.transaction import Database
from costguard.gce.client import ComputeCloud
from costguard.jobs.act.attempts.vm_request import VmMaker
from costguard.jobs.act.turn import JobsTurn, TurnRules, TurnServices
from costguard.jobs.reports.agent_events import AgentEvent, AgentEvents, AgentTokens
from costguard.jobs.rows import attempts, job_rows
from costguard.ledger import prices
from costguard.ledger.record import record
from costguard.model.attempt import AttemptState, Outcome
from costguard.model.job import CheckpointPlan, Job, JobKind, JobSpec, JobState, Terms
from costguard_sandbox.clock import ManualClock
from costguard_sandbox.server import running
from costguard_sandbox.world import World

PROJECT = "demo"


def test_a_job_in_the_simulated_cloud(sqlite_database: Database) -> None:
    """Two VMs, one after the other; nothing is left that bills, by the cloud's own account."""
    clock = ManualClock(at("08:00"))
    world, tokens = World(clock), AgentTokens(b"key")
    shelf = Shelf(HandClock(at("08:10")))
    with running(world) as url, closing(ComputeCloud(url, clock, wait=Waits())) as cloud:
        maker = VmMaker("g1", "https://guard.example.com", "", tokens.of, metadata, OWNERS)
        services = TurnServices(cloud.launcher, maker, shelf, lambda *_: T4, restoring.begin)
        turn = JobsTurn(sqlite_database, clock, services, TurnRules(Terms(), lambda *_: {}))
        agent_events = AgentEvents(sqlite_database, clock, tokens, lambda: None)

        def go_on(minutes: int) -> None:
            for _ in range(minutes * 2):
                world.advance(timedelta(seconds=30))
                record(sqlite_database, cloud, cloud.observe(PROJECT, None), BELONGING, None)
                turn.run()

        def say(number: int, *kinds: str) -> None:
            name = f"cg-j1-{number}"
            reported = [AgentEvent(seq, kind, clock.now(), _FIELDS[kind]) for seq, kind in enumerate(kinds, 1)]
            agent_events.hear(name, tokens.of(name), reported)

        plan = CheckpointPlan("gs://runs/train", "--from_checkpoint {checkpoint}")
        spec = JobSpec(JobKind.TRAINING, "t4", PROJECT, "ana@example.com", command=("train",), checkpoint=plan)
        with sqlite_database.write() as connection:
            prices.add(connection, list(price_list()), clock.now())
            job_rows.add(connection, Job("j1", spec, RECIPE, JobState.QUEUED, "", clock.now(), "api"), None, "")
        go_on(3)
        say(1, "boot", "start")
        shelf.save(40)
        go_on(2)
        world.preempt(PROJECT, "cg-j1-1")
        say(1, "boot", "start", "notice")
        go_on(6)
        say(2, "boot", "start")
        go_on(1)
        say(2, "boot", "start", "exit")
        go_on(8)
        with sqlite_database.read() as connection:
            job, tried = job_rows.read(connection, "j1"), attempts.of_jobs(connection, ["j1"])["j1"]
    assert job is not None
    assert job.state is JobState.SUCCEEDED, job.reason
    assert [one.outcome for one in tried] == [Outcome.PREEMPTED, Outcome.SUCCEEDED]
    assert {one.state for one in tried} == {AttemptState.OVER}
    assert tried[1].resume_step == 40
    assert world.instances(PROJECT) == []


_FIELDS: dict[str, dict[str, object]] = {
    "boot": {"run": 1},
    "start": {"run": 1},
    "notice": {"run": 1, "what": "preemption", "value": "TRUE"},
    "exit": {"run": 1, "reason": "exited", "code": 0},
}
