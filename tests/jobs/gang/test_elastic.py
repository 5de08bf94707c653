"""Elastic gangs, which run with what can be had: they begin with enough VMs, go on without a lost one, and grow."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from tests.jobs.gang_life import GangAgents
from tests.jobs.world import World, world

from costguard.jobs.decide.gang.widths import gain
from costguard.jobs.reports.checkpoints.checkpoint_watch import CheckpointWatch
from costguard.model.attempt import Outcome
from costguard.model.job import JobState


@pytest.fixture
def jobs(sqlite_url: str) -> Iterator[World]:
    with world(sqlite_url) as made:
        yield made


@pytest.fixture
def jobs_of_either(database_url: str) -> Iterator[World]:
    """The same with both databases: the rows of a gang's life are the same in all of its stories."""
    with world(database_url) as made:
        yield made


def begun(jobs: World, least: int = 2, most: int = 4, room: int | None = None, **given: Any) -> GangAgents:
    if room is not None:
        jobs.cloud.room["us-central1-a"] = room
    jobs.submit(nodes=most, least_nodes=least, **{"max_preemptions": 100, **given})
    agents = GangAgents(jobs)
    agents.until_all_of_round()
    return agents


def widths(agents: GangAgents) -> set[int]:
    """The numbers of VMs in the rounds that run now."""
    return {len(one.began[-1][2]) for one in agents.running().values() if one.is_running}


def watched(jobs: World, agents: GangAgents) -> None:
    """Lets ten minutes go on, in which the guard looks at the checkpoints each minute."""
    watch = CheckpointWatch(jobs.database, jobs.clock, jobs.shelf, jobs.terms, workers=1)
    for turn in range(60):
        if turn % 6 == 0:
            watch.run()
        agents.step()


def test_it_begins_at_once_with_those_that_a_full_zone_has_room_for(jobs: World) -> None:
    """Nothing is given back where there are enough, and a zone is not waited for."""
    agents = begun(jobs, room=3)
    together = agents.until_all_of_round()
    assert [one.rank for one in together] == [0, 1, 2]
    assert len({one.began[-1][2] for one in together}) == 1
    assert not [one for one in jobs.attempts() if one.outcome is Outcome.MOVED]
    agents.step()
    assert jobs.job().state is JobState.RUNNING
    assert "runs on 3 of 2..4 VMs in us-central1-a" in jobs.job().reason
    assert "begins on 3 of 2..4 VMs" in jobs.events("GangRoundBegan")[0].text


def test_fewer_than_the_least_are_given_back(jobs_of_either: World) -> None:
    """It is then as a gang of a fixed number: the next zone is asked."""
    agents = begun(jobs_of_either, least=3, room=2)
    assert widths(agents) == {4}
    assert {one.zone for one in jobs_of_either.attempts() if one.is_open} == {"us-central1-b"}
    assert "room for 2 of its 3..4 VMs" in next(
        one.reason for one in jobs_of_either.attempts() if one.outcome is Outcome.MOVED
    )


def test_an_agent_that_does_not_come_up_is_waited_for_five_minutes(jobs: World) -> None:
    """The others begin without it then, and not before."""
    jobs.submit(nodes=4, least_nodes=2)
    agents = GangAgents(jobs)
    agents.slow.add("cg-j1-3")
    agents.until_all_of_round()
    (event,) = jobs.events("GangRoundBegan")
    ready = sorted(one.ready_at for one in jobs.attempts() if one.ready_at is not None)
    assert timedelta(minutes=5) <= event.occurred_at - ready[1] < timedelta(minutes=6)
    assert widths(agents) == {3}


def test_the_others_go_on_at_once_where_a_lost_vm_cannot_be_had(jobs: World) -> None:
    """They begin from the checkpoint with new places, in their zone; the lost one is asked for again and again."""
    agents = begun(jobs)
    jobs.shelf.save(500)
    zone, lost_at = jobs.attempts()[0].zone, jobs.clock.now()
    jobs.cloud.stockouts.add(zone)
    jobs.cloud.preempt(jobs.vm("cg-j1-1"))
    for _ in range(200):
        agents.step()
    together = agents.until_all_of_round()
    assert [one.rank for one in together] == [0, 1, 2]
    assert {one.began[-1][1] for one in together} == {"gs://runs/train/checkpoint-500"}
    began = max(event.occurred_at for event in jobs.events("GangRoundBegan"))
    assert began - lost_at < timedelta(minutes=4)
    stockouts = [one for one in jobs.attempts() if one.outcome is Outcome.STOCKOUT]
    assert len(stockouts) > 2
    assert {one.zone for one in stockouts} == {zone}
    waits = [later.intended_at - one.intended_at for one, later in itertools.pairwise(stockouts)]
    assert waits[-1] > waits[0], "it is asked for less and less often"
    assert jobs.job().state is JobState.RUNNING


def test_below_the_least_the_lost_vm_is_waited_for_and_then_all_move(jobs: World) -> None:
    """Two lost of four leave fewer than three."""
    agents = begun(jobs, least=3)
    jobs.shelf.save(500)
    zone = jobs.attempts()[0].zone
    jobs.cloud.stockouts.add(zone)
    jobs.cloud.preempt(jobs.vm("cg-j1-1"), jobs.vm("cg-j1-2"))
    for _ in range(120):
        agents.step()
    together = agents.until_all_of_round()
    assert len(together) == 4
    moved = [one for one in jobs.attempts() if one.outcome is Outcome.MOVED]
    assert {one.zone for one in moved} == {zone}
    assert "fewer than 3 of its 3..4 VMs" in moved[0].reason


def test_it_grows_soon_after_a_checkpoint_where_that_saves_time(jobs: World) -> None:
    """The VM that came later joins from the new checkpoint; before it, the others would do much again."""
    jobs.shelf.save(300)
    agents = begun(jobs, room=3, work=timedelta(hours=30))
    jobs.cloud.room.clear()
    watched(jobs, agents)
    for _ in range(47):
        agents.step(30)
    assert widths(agents) == {3}, "this round has not saved yet"
    assert len(agents.running()) == 4
    jobs.shelf.save(700)
    watched(jobs, agents)
    together = agents.until_all_of_round()
    assert [one.rank for one in together] == [0, 1, 2, 3]
    assert {one.began[-1][1] for one in together} == {"gs://runs/train/checkpoint-700"}
    assert jobs.interruptions() == []
    assert "4 finish sooner than 3" in jobs.events("GangRoundOver")[-1].text


def test_it_does_not_end_a_round_where_the_work_left_is_unknown(jobs: World) -> None:
    """The VM stands by for the next round that comes anyway."""
    agents = begun(jobs, room=3)
    jobs.cloud.room.clear()
    for _ in range(30):
        agents.step()
    jobs.shelf.save(700)
    watched(jobs, agents)
    assert widths(agents) == {3}
    jobs.cloud.stockouts.add(jobs.attempts()[0].zone)
    jobs.cloud.preempt(jobs.vm("cg-j1-1"))
    for _ in range(60):
        agents.step()
    assert widths(agents) == {3}, "the VM that stood by took the place of the lost one"
    assert {one.round for one in agents.running().values()} == {2}


def test_a_vm_that_stands_by_in_vain_is_given_back(jobs: World) -> None:
    """Half an hour after it was ready it is, where nobody knows the work left; it is asked for in the next round."""
    agents = begun(jobs, room=3)
    jobs.cloud.room.clear()
    for _ in range(134):
        agents.step(30)
    (spare,) = [one for one in jobs.attempts() if one.outcome is Outcome.CANCELLED]
    assert spare.ready_at is not None
    assert spare.ended_at is not None
    assert timedelta(minutes=30) <= spare.ended_at - spare.ready_at < timedelta(minutes=32)
    assert "how much work is left is not known" in spare.reason
    assert "--work" in spare.reason
    assert len(agents.running()) == 3
    assert jobs.job().state is JobState.RUNNING
    assert f"node {spare.node} again at the next round" in jobs.job().reason
    count = len(jobs.attempts())
    jobs.shelf.save(500)
    jobs.cloud.preempt(jobs.vm("cg-j1-1"))
    for _ in range(60):
        agents.step()
    assert {one.node for one in jobs.attempts() if one.number > count} == {0, spare.node}
    assert widths(agents) == {4}


def test_a_vm_that_would_save_time_waits_two_hours_for_a_checkpoint(jobs: World) -> None:
    """A job may save once an hour; one that saves nothing at all pays for it no longer."""
    agents = begun(jobs, room=3, work=timedelta(hours=30))
    jobs.cloud.room.clear()
    for _ in range(60):
        agents.step(60)
    assert len(agents.running()) == 4
    for _ in range(75):
        agents.step(60)
    (spare,) = [one for one in jobs.attempts() if one.outcome is Outcome.CANCELLED]
    assert "no checkpoint of the round was seen" in spare.reason
    assert len(agents.running()) == 3


def test_a_cancelled_gang_ends_though_a_vm_was_given_back(jobs: World) -> None:
    """The VM that stood by in vain does not speak for the job, and does not hold up its end."""
    agents = begun(jobs, room=3)
    jobs.cloud.room.clear()
    for _ in range(70):
        agents.step(60)
    jobs.cancel()
    for _ in range(60):
        agents.step()
    assert jobs.job().state is JobState.CANCELLED
    assert jobs.cloud.there() == []


def test_no_vm_is_asked_for_where_the_work_is_nearly_done(jobs: World) -> None:
    """Another VM would bill and come too late."""
    agents = begun(jobs, room=3, work=timedelta(minutes=12))
    jobs.cloud.room.clear()
    count = len(jobs.attempts())
    for _ in range(30):
        agents.step()
    assert len(jobs.attempts()) == count
    assert len(agents.running()) == 3


def test_success_of_the_round_is_that_of_the_job(jobs: World) -> None:
    """A VM that waits for the next round goes with it."""
    agents = begun(jobs, room=3)
    jobs.cloud.room.clear()
    for _ in range(60):
        agents.step()
    assert len(agents.running()) == 4
    for member in agents.until_all_of_round():
        agents.finish(member)
    for _ in range(30):
        agents.step()
    assert jobs.job().state is JobState.SUCCEEDED
    assert jobs.cloud.there() == []


def test_a_cancel_after_a_checkpoint_waits_for_it_while_a_vm_is_missing(jobs: World) -> None:
    """The request of a VM that failed does not speak for those that run."""
    agents = begun(jobs, room=3)
    jobs.cloud.stockouts.add("us-central1-a")
    for _ in range(60):
        agents.step()
    last = jobs.attempts()[-1]
    assert last.is_open
    assert last.round == 1


def test_more_vms_save_their_share_of_what_is_left() -> None:
    """Four instead of three do 8 hours in 6."""
    assert gain(timedelta(hours=8), 3, 1) == timedelta(hours=2)


def test_one_of_those_that_stay_publishes_what_the_lost_first_node_left(jobs: World) -> None:
    """It is the first of those that ran the round."""
    agents = begun(jobs)
    first = min(jobs.attempts(), key=lambda one: one.node)
    jobs.cloud.preempt(jobs.vm(first.name))
    for _ in range(30):
        agents.step()
    nodes = {one.name: one.node for one in jobs.attempts()}
    publishes_by_node = {nodes[one.name]: one.publishes for one in agents.members.values() if one.name != first.name}
    assert {node for node, publishes in publishes_by_node.items() if publishes} == {1}


def test_a_vm_that_still_runs_the_round_before_is_waited_for(jobs: World) -> None:
    """The others, though they are enough, begin after its command has saved and stopped."""
    agents = begun(jobs)
    lost, saving, *_ = agents.running().values()
    agents.silent.add(saving.name)
    jobs.cloud.preempt(jobs.vm(lost.name))
    for _ in range(50):
        agents.step()
        jobs.say(saving.name, ("heartbeat", {"run": 1, "round": 1, "address": saving.address, "is_running": True}))
    assert jobs.job().gang_round == 2
    assert len(jobs.events("GangRoundBegan")) == 1
    agents.silent.clear()
    together = agents.until_all_of_round()
    assert {one.round for one in together} == {2}
    assert saving in together


def test_those_that_stay_do_not_wait_for_the_vm_that_replaces_a_lost_one(jobs: World) -> None:
    """They are ready before its agent comes up."""
    agents = begun(jobs)
    agents.slow.add("cg-j1-5")
    lost_at = jobs.clock.now()
    jobs.cloud.preempt(jobs.vm("cg-j1-1"))
    for _ in range(30):
        agents.step()
    assert len(agents.until_all_of_round()) == 3
    assert max(event.occurred_at for event in jobs.events("GangRoundBegan")) - lost_at < timedelta(minutes=4)
    assert jobs.is_up("cg-j1-5")
