"""Names the VM that a running gang waits for, by the minutes that its agents report, and notifies once."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest
from tests.jobs.gang_life import GangAgents
from tests.jobs.world import World, world

from costguard.jobs.reports import diagnosis
from costguard.jobs.reports.diagnosis import JobDiagnosis
from costguard.ledger.accrual import accrual_at
from costguard_vm.diagnosis import kinds
from costguard_vm.diagnosis.signals import CommandSignals, GpuSignals, HostSignals, Minute, StackSignals, as_json

NODES, SLOW = 4, 2


def minute(kernel: float, main: float, asleep: float) -> Minute:
    command = CommandSignals(cpu=1.0, main_cpu=main, main_asleep=asleep, workers=2.0, workers_cpu=0.1)
    return Minute(60.0, 60.0, (GpuSignals(kernel_active=kernel),), command, HostSignals(cpus=12.0, cpu=2.0))


CALM = minute(0.99, 0.9, 0.1)  # its collective's kernel waits
STARVED = minute(0.45, 0.2, 0.7)._replace(stacks=StackSignals(looks=30.0, places={"loader": 0.9, "host": 0.1}))


@pytest.fixture
def jobs(sqlite_url: str) -> Iterator[World]:
    with world(sqlite_url) as made:
        yield made


def measure(jobs: World, agents: GangAgents, slow: int | None = SLOW) -> None:
    """Lets a minute pass, at the end of which each agent reports what it measured."""
    for _ in range(6):
        agents.step()
    nodes = {one.name: one.node for one in jobs.attempts()}
    for name, member in agents.running().items():
        measured = as_json(STARVED if nodes[name] == slow else CALM)
        jobs.say(name, ("activity", {"run": member.run, "round": member.round, "minute": measured}))


def shown(jobs: World) -> JobDiagnosis:
    with jobs.database.read() as connection:
        answer = diagnosis.diagnosis_of(connection, accrual_at(connection, jobs.clock.now()), "j1")
    assert answer is not None
    return answer


def begun(jobs: World) -> GangAgents:
    jobs.submit(nodes=NODES)
    agents = GangAgents(jobs)
    agents.until_running(NODES)
    return agents


def test_a_straggler_is_named_within_ten_minutes_and_once(jobs: World) -> None:
    """It is slow from the start of the round; the owner hears of it once, however long it stays so."""
    agents = begun(jobs)
    began = jobs.clock.now()
    while not jobs.events("JobStragglerFound"):
        measure(jobs, agents)
        assert jobs.clock.now() - began <= timedelta(minutes=10)
    named = shown(jobs).straggler
    assert named is not None
    slow = next(one for one in jobs.attempts() if one.node == SLOW)
    assert (named.node, named.name, named.verdict.bound) == (SLOW, slow.name, kinds.INPUT)
    for _ in range(10):
        measure(jobs, agents)
    (event,) = jobs.events("JobStragglerFound")
    assert f"node {SLOW} ({slow.name}) holds up the others: its input" in event.text
    assert event.data["attempt"] == slow.name


def test_one_that_begins_later_is_named_within_ten_minutes(jobs: World) -> None:
    """Nobody is named before it, and nobody else after it."""
    agents = begun(jobs)
    for _ in range(15):
        measure(jobs, agents, slow=None)
    assert shown(jobs).straggler is None
    began = jobs.clock.now()
    while (named := shown(jobs).straggler) is None:
        measure(jobs, agents)
        assert jobs.clock.now() - began <= timedelta(minutes=10)
    assert named.node == SLOW


def test_the_last_round_says_nothing_of_the_present_one(jobs: World) -> None:
    """Once the next round has begun, its own minutes are waited for."""
    agents = begun(jobs)
    for _ in range(9):
        measure(jobs, agents)
    assert shown(jobs).straggler is not None
    jobs.cloud.preempt(jobs.vm(next(one.name for one in jobs.attempts() if one.node == 0)))
    for _ in range(6):
        agents.step()
    assert shown(jobs).straggler is None
    agents.until_running(NODES)
    assert shown(jobs).straggler is None
    assert len(jobs.events("JobStragglerFound")) == 1


def test_a_gang_whose_agents_fell_silent_names_nobody(jobs: World) -> None:
    """Old minutes say nothing of now."""
    agents = begun(jobs)
    for _ in range(9):
        measure(jobs, agents)
    jobs.clock.advance(timedelta(minutes=6))
    assert shown(jobs).straggler is None
