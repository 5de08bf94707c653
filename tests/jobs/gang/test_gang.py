"""Gangs, the jobs of several VMs: all or nothing in one place, rounds that begin together, and what a loss means."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from tests.jobs.gang_life import GangAgents
from tests.jobs.world import World, world

from costguard.ledger.accrual import accrual_at
from costguard.messages.job_update import card, read_scene
from costguard.model.attempt import Outcome
from costguard.model.job import JobState
from costguard.model.money import Money

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


def begun(jobs: World, nodes: int = 4, **given: Any) -> GangAgents:
    jobs.submit(nodes=nodes, **given)
    agents = GangAgents(jobs)
    agents.until_running(nodes)
    return agents


def test_all_vms_are_requested_in_one_zone_and_begin_together(jobs: World) -> None:
    """All VMs get the same round, addresses and secret, once all of them stand by."""
    agents = begun(jobs)
    tried = jobs.attempts()
    assert len({one.zone for one in tried}) == 1
    assert sorted(one.node for one in tried) == [0, 1, 2, 3]
    began = [member.began for member in agents.running().values()]
    rounds, _, addresses, secrets = zip(*(one[0] for one in began), strict=True)
    assert set(rounds) == {1}
    assert len(set(addresses)) == 1
    assert len(addresses[0]) == 4
    assert len(set(secrets)) == 1
    assert len(secrets[0]) == 64
    agents.step()
    assert jobs.job().state is JobState.RUNNING
    assert "runs on 4 VMs in us-central1-" in jobs.job().reason


def test_a_job_is_done_once_all_of_its_vms_are(jobs: World) -> None:
    """The success of some is not that of the job."""
    agents = begun(jobs)
    for member in list(agents.running().values())[:3]:
        agents.finish(member)
        agents.step()
    assert jobs.job().state is JobState.RUNNING
    for member in agents.running().values():
        agents.finish(member)
    for _ in range(20):
        agents.step()
    assert jobs.job().state is JobState.SUCCEEDED
    assert jobs.cloud.there() == []


def test_one_lost_vm_is_replaced_where_the_others_stay(jobs_of_either: World) -> None:
    """The others keep their VMs, and all go on from one checkpoint."""
    jobs = jobs_of_either
    agents = begun(jobs)
    jobs.shelf.save(500)
    before = {one.name: one for one in jobs.attempts()}
    zone, lost = jobs.attempts()[0].zone, jobs.vm("cg-j1-3")
    jobs.cloud.preempt(lost)
    together = agents.until_running(4)
    assert {one.round for one in together} == {2}
    assert {one.began[-1][1] for one in together} == {"gs://runs/train/checkpoint-500"}
    secrets = {began[3] for one in together for began in one.began}
    assert len(secrets) == 2, "each round has its own"
    after = [one for one in jobs.attempts() if one.is_open]
    new = [one for one in after if one.name not in before]
    assert [(one.node, one.zone) for one in new] == [(before["cg-j1-3"].node, zone)]
    assert len(after) == 4
    assert [one.outcome for one in jobs.interruptions()] == [Outcome.PREEMPTED]
    assert jobs.interruptions()[0].lost_cost is not None
    agents.step()
    (resumed,) = jobs.events("JobResumed")
    assert "works again in us-central1-" in resumed.text


def test_a_notice_to_one_vm_has_the_others_save_once(jobs: World) -> None:
    """A preemption that is announced to one VM is one save of the others."""
    plan = jobs.submit("j0").spec.checkpoint
    assert plan is not None
    jobs.cancel("j0")
    agents = begun(jobs, checkpoint=replace(plan, save_on="SIGUSR1"))
    first, *others = agents.running().values()
    agents.notice(first)
    for _ in range(2):
        for member in others:
            agents.beat(member)
    assert [member.saves[:1] for member in others] == [[1], [1], [1]]
    assert first.saves == []


def test_a_command_that_fails_on_one_vm_counts_once(jobs: World) -> None:
    """The failure of the VM that failed by itself counts, and not those of its peers; no VM is replaced for it."""
    agents = begun(jobs, max_crashes=1)
    jobs.shelf.save(500)
    for _ in range(70):
        agents.step()
    for number, member in enumerate(agents.running().values()):
        agents.fail(member, output="step 700" if number == 2 else PEER)
    together = agents.until_running(4)
    assert {one.round for one in together} == {2}
    assert [one.outcome for one in jobs.interruptions()] == [Outcome.CRASHED]
    assert len(jobs.attempts()) == 4, "no VM was replaced"
    for _ in range(70):
        agents.step()
    for member in agents.running().values():
        agents.fail(member, output="step 900")
    for _ in range(20):
        agents.step()
    assert jobs.job().state is JobState.FAILED
    assert jobs.cloud.there() == []


def test_vms_that_only_lost_each_other_begin_again(jobs: World) -> None:
    """Where nobody failed by itself, it is no crash of the command."""
    agents = begun(jobs, max_crashes=0)
    for member in agents.running().values():
        agents.fail(member, output=PEER)
    together = agents.until_running(4)
    assert {one.round for one in together} == {2}
    assert [one.outcome for one in jobs.interruptions()] == [Outcome.LOST]


def test_a_silent_vm_is_no_crash_of_the_others(jobs: World) -> None:
    """While one VM is silent, nothing is concluded from the failures of the others."""
    agents = begun(jobs, max_crashes=0)
    jobs.cloud.delete_takes = timedelta(minutes=3)
    silent, *others = agents.running().values()
    agents.silent.add(silent.name)
    for member in others:
        agents.fail(member, output="RuntimeError: NCCL error: remote process exited")
    together = agents.until_running(4, turns=120)
    assert {one.round for one in together} == {2}
    assert silent.name not in {one.name for one in together}
    (lost,) = jobs.cloud.ever(silent.name)
    began = max(event.occurred_at for event in jobs.events("GangRoundBegan"))
    assert lost.gone_at is not None
    assert lost.gone_at <= began, "it could still write"
    assert [one.outcome for one in jobs.interruptions()] == [Outcome.LOST]


def test_a_partial_grant_is_given_back_and_asked_elsewhere(jobs_of_either: World) -> None:
    """VMs that came bill for five minutes at most without the rest."""
    jobs = jobs_of_either
    jobs.cloud.room["us-central1-a"] = 3
    agents = GangAgents(jobs)
    jobs.submit(nodes=4)
    agents.until_running(4)
    tried = jobs.attempts()
    given_back = [one for one in tried if one.outcome is Outcome.MOVED]
    assert len(given_back) == 3
    assert {one.zone for one in given_back} == {"us-central1-a"}
    assert {one.zone for one in tried if one.is_open} == {"us-central1-b"}
    for one in given_back:
        assert one.made_at is not None
        assert one.ended_at is not None
        assert (one.ended_at - one.made_at).total_seconds() <= 300
    assert "3 of its 4 VMs" in given_back[0].reason


def test_a_gang_moves_as_a_whole_where_the_lost_vm_cannot_be_had(jobs: World) -> None:
    """After five minutes without the lost VM, all are requested in another zone."""
    agents = begun(jobs)
    jobs.shelf.save(500)
    zone = jobs.attempts()[0].zone
    jobs.cloud.stockouts.add(zone)
    jobs.cloud.preempt(jobs.vm("cg-j1-2"))
    together = agents.until_running(4, turns=90)
    assert {one.began[-1][1] for one in together} == {"gs://runs/train/checkpoint-500"}
    open_now = [one for one in jobs.attempts() if one.is_open]
    assert len({one.zone for one in open_now}) == 1
    assert open_now[0].zone != zone
    moved = [one for one in jobs.attempts() if one.outcome is Outcome.MOVED]
    assert len(moved) == 3
    assert len([vm for vm in jobs.cloud.there() if vm.zone == zone]) == 0


def test_a_cancel_stops_all_vms(jobs: World) -> None:
    """Every VM hears the cancel, and none is left."""
    agents = begun(jobs)
    jobs.cancel()
    for _ in range(20):
        agents.step()
    assert jobs.job().state is JobState.CANCELLED
    assert jobs.cloud.there() == []
    assert {one.outcome for one in jobs.attempts()} == {Outcome.CANCELLED}


def test_its_ceiling_counts_all_vms(jobs: World) -> None:
    """The same ceiling pays four VMs for a quarter of the time."""
    jobs.submit("one", ceiling=Money.of(2))
    jobs.submit("four", nodes=4, ceiling=Money.of(2))
    jobs.step()
    rest = {job_id: jobs.attempts(job_id)[0].max_run for job_id in ("one", "four")}
    assert rest["four"] * 4 <= rest["one"] * 1.0001


def test_vms_lost_together_are_one_preemption(jobs: World) -> None:
    """A round ends once, however many VMs were lost in it."""
    agents = begun(jobs, max_preemptions=1)
    jobs.cloud.preempt(jobs.vm("cg-j1-1"), jobs.vm("cg-j1-2"), jobs.vm("cg-j1-3"))
    agents.until_running(4)
    jobs.cloud.preempt(*(vm for vm in jobs.cloud.running() if vm.name != "cg-j1-4"))
    for _ in range(30):
        agents.step()
    assert jobs.job().state is JobState.FAILED
    assert "preempted 2 times, and 1 were allowed" in jobs.job().reason


def test_no_two_rounds_live_at_once_whatever_kills_the_guard(jobs: World) -> None:
    """A new guard goes on where the one before stood."""
    agents = begun(jobs)
    jobs.guard()
    jobs.cloud.preempt(jobs.vm("cg-j1-1"), jobs.vm("cg-j1-4"))
    jobs.guard()
    together = agents.until_running(4)
    assert {one.round for one in together} == {2}
    assert len([one for one in jobs.attempts() if one.is_open]) == 4
    assert len(jobs.interruptions()) == 2


def test_slack_shows_one_job_of_several_vms(jobs: World) -> None:
    """The card counts the VMs, and has those that are there where one is missing."""
    agents = begun(jobs)
    assert _figures(jobs)["VMs"].startswith("4 in us-central1-")
    jobs.cloud.preempt(jobs.vm("cg-j1-3"))
    shown = []
    for _ in range(4):
        agents.step()
        shown.append(_figures(jobs)["VMs"])
    assert any(one.startswith("3 of 4 in us-central1-") for one in shown)


def _figures(jobs: World) -> Mapping[str, str]:
    with jobs.database.read() as connection:
        scene = read_scene(connection, accrual_at(connection, jobs.clock.now()), "j1")
    assert scene is not None
    return card(scene, "").figures
