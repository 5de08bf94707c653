"""Tests that a gang passes a checkpoint over from which a round failed at once, as a job of one VM does."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest
from tests.jobs.gang_life import GangAgents
from tests.jobs.world import BUCKET, World, world

from costguard.jobs.reports.checkpoints.checkpoint_watch import CheckpointWatch
from costguard.jobs.rows import job_rows
from costguard.jobs.rows.gang import gang_rows
from costguard.model.attempt import GangRound

PEER = "torch.distributed.DistNetworkError: Connection closed by peer [10.0.0.3]:29400"


@pytest.fixture
def jobs(sqlite_url: str) -> Iterator[World]:
    with world(sqlite_url) as made:
        yield made


@pytest.fixture
def jobs_of_either(database_url: str) -> Iterator[World]:
    """The same with both databases: the rows of a gang's life are the same in all of its stories."""
    with world(database_url) as made:
        yield made


def play(jobs: World) -> GangAgents:
    """Plays a first round that saves twice and loses a VM, until the second round runs from the newest checkpoint."""
    jobs.submit(nodes=3, max_crashes=5)
    agents = GangAgents(jobs)
    agents.until_running(3)
    for step in (100, 200):
        agents.at_step = step
        for _ in range(12):
            agents.step()
        jobs.shelf.save(step)
    jobs.cloud.preempt(jobs.vm("cg-j1-2"))
    agents.until_running(3)
    return agents


def fail_at_once(jobs: World, agents: GangAgents) -> None:
    """Ends all commands before their first step, by the failure of one."""
    for number, member in enumerate(agents.running().values()):
        agents.fail(member, output="step 200" if number == 1 else PEER)
    agents.until_running(3)


def rounds(jobs: World) -> list[GangRound]:
    with jobs.database.read() as connection:
        return gang_rows.rounds_of(connection, [jobs.job()]).get("j1", [])


def resumed(jobs: World) -> tuple[set[int | None], str]:
    """Returns the step from which the present round resumed, and why."""
    members = [one for one in jobs.attempts() if one.is_open]
    return {one.resume_step for one in members}, members[0].resume_why


def test_a_checkpoint_that_fails_a_round_at_once_is_passed_over(jobs_of_either: World) -> None:
    """The next round takes the one before it and says so; with no other left the newest is tried once more."""
    agents = play(jobs_of_either)
    assert resumed(jobs_of_either) == ({200}, "")
    fail_at_once(jobs_of_either, agents)
    steps, why = resumed(jobs_of_either)
    assert steps == {100}
    assert "round 2 failed at once after it resumed from step 200" in why
    (event,) = jobs_of_either.events("CheckpointPassedOver")
    assert event.text.startswith("Round 3 of job")
    assert "gs://runs/train/checkpoint-200 is left where it is" in event.text
    fail_at_once(jobs_of_either, agents)
    steps, why = resumed(jobs_of_either)
    assert (steps, "no other is complete" in why) == ({200}, True)
    assert [one.resume_step for one in rounds(jobs_of_either)] == [None, 200, 100]


def test_a_round_that_is_preempted_suspects_no_checkpoint(jobs: World) -> None:
    """A command speaks against what it loaded only where it fails by itself."""
    agents = play(jobs)
    jobs.cloud.preempt(jobs.vm("cg-j1-3"))
    agents.until_running(3)
    assert resumed(jobs) == ({200}, "")


def test_the_suspicion_lasts_over_later_rounds_until_a_newer_checkpoint(jobs: World) -> None:
    """A round that a preemption ended later does not clear a checkpoint that it did not load."""
    agents = play(jobs)
    fail_at_once(jobs, agents)
    agents.at_step = 150
    for _ in range(30):
        agents.step()
    jobs.cloud.preempt(jobs.vm("cg-j1-3"))
    agents.until_running(3)
    assert resumed(jobs)[0] == {100}
    agents.at_step = 300
    for _ in range(30):
        agents.step()
    jobs.shelf.save(300)
    jobs.cloud.preempt(jobs.vm("cg-j1-1"))
    agents.until_running(3)
    assert resumed(jobs) == ({300}, "")


def test_the_watch_trusts_a_checkpoint_that_the_present_round_has_passed(jobs: World) -> None:
    """It is suspected no more while the round goes on, though it is not over and another one is complete by then."""
    agents = play(jobs)
    jobs.shelf.saved[BUCKET] = [one for one in jobs.shelf.saved[BUCKET] if one[0] == 200]
    fail_at_once(jobs, agents)
    assert resumed(jobs)[0] == {200}, "no other is complete"
    agents.at_step = 250
    for _ in range(3):
        agents.step()
    jobs.shelf.save(100)
    jobs.clock.advance(timedelta(minutes=5))
    CheckpointWatch(jobs.database, jobs.clock, jobs.shelf, jobs.terms).run()
    with jobs.database.read() as connection:
        assert job_rows.checkpoint(connection, ["j1"])["j1"].step == 200
