"""Gangs on flex-start by Google's client against the simulated cloud over HTTP, with identities that are verified."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest
from tests.jobs.served_gang import A100, PROJECT, ZONES, ServedGang, served_gang

from costguard.db.transaction import Database
from costguard.errors import Forbidden, Unavailable
from costguard.model.attempt import AttemptState, Outcome
from costguard.model.job import JobState
from costguard.reminders import watched_rows
from costguard_sandbox.gce.groups import RequestState
from costguard_sandbox.gce.vm import Status

A, B = ZONES


@pytest.fixture
def gang(sqlite_database: Database) -> Iterator[ServedGang]:
    with served_gang(sqlite_database) as made:
        yield made


def test_a_gang_waits_is_granted_runs_and_leaves_nothing(gang: ServedGang) -> None:
    """The story runs over HTTP from the request to the end: all VMs come at once, for the time that was asked for."""
    gang.cloud_world.faults.add("flex_start", seconds=600, zone=A)
    agents = gang.submit()
    gang.until(lambda: [one.state for one in gang.attempts()] == [AttemptState.WAITING] * 4)
    assert gang.job().state is JobState.QUEUED
    assert gang.cloud_world.instances(PROJECT) == []
    agents.until_running(4, turns=120)
    (group,) = gang.cloud_world.groups.of(PROJECT)
    assert [one.state for one in group.resize_requests.values()] == [RequestState.SUCCEEDED]
    vms = gang.cloud_world.instances(PROJECT)
    assert len({vm.created_at for vm in vms}) == 1
    assert all(vm.is_flex_start and vm.max_run_duration == timedelta(hours=24) for vm in vms)
    assert sorted(one.gce_id for one in gang.attempts()) == sorted(str(vm.id) for vm in vms)
    for member in agents.running().values():
        agents.finish(member)
    gang.until(gang.is_clean)
    gang.step()
    assert gang.job().state is JobState.SUCCEEDED
    gang.until(lambda: {one.state for one in gang.attempts()} == {AttemptState.OVER})


def test_a_failed_request_goes_on_in_the_next_zone(gang: ServedGang) -> None:
    """Google's words of a stock-out are the reason, and the group of the first zone goes."""
    gang.cloud_world.faults.add("flex_start", seconds=5, fails=True, zone=A)
    gang.cloud_world.faults.add("flex_start", seconds=5, zone=B)
    agents = gang.submit()
    agents.until_running(4, turns=120)
    first = [one for one in gang.attempts() if one.zone == A]
    assert {one.outcome for one in first} == {Outcome.STOCKOUT}
    assert "does not have enough resources" in first[0].reason
    gang.until(lambda: gang.groups() == [B])


def test_a_cancel_while_it_waits_leaves_nothing(gang: ServedGang) -> None:
    """Group and template are gone, and no VM ever was."""
    gang.cloud_world.faults.add("flex_start", never=True)
    gang.submit()
    gang.until(lambda: [one.state for one in gang.attempts()] == [AttemptState.WAITING] * 4)
    gang.cancel()
    gang.until(gang.is_clean)
    assert gang.job().state is JobState.CANCELLED
    assert gang.cloud_world.every_vm() == []


def test_one_lost_vm_is_granted_alone_in_the_same_group(gang: ServedGang) -> None:
    """The others stay, and a guard that began again in between goes on."""
    gang.cloud_world.faults.add("flex_start", seconds=5)
    agents = gang.submit()
    agents.until_running(4, turns=120)
    gang.save(40)
    lost = gang.vm("cg-j1-2")
    gang.cloud_world.trigger("host-error", PROJECT, lost.name)
    gang.guard()
    gang.until(lambda: len(gang.attempts()) == 5, turns=90)
    gang.guard()
    together = agents.until_running(4, turns=120)
    assert {one.round for one in together} == {2}
    (group,) = gang.cloud_world.groups.of(PROJECT)
    assert sorted(group.resize_requests) == ["r1", "r5"]
    assert {vm.name for vm in gang.cloud_world.instances(PROJECT)} == {"cg-j1-1", "cg-j1-3", "cg-j1-4", "cg-j1-5"}
    assert gang.cloud_world.groups.repairs == 0


def test_a_vm_of_a_gangs_group_stays_a_vm_of_its_job(gang: ServedGang) -> None:
    """The ledger, the reminders and the stop see a job's VM, and no instance group's."""
    gang.cloud_world.faults.add("flex_start", seconds=5)
    agents = gang.submit()
    agents.until_running(4, turns=120)
    gang.step()
    with gang.database.read() as connection:
        rows = watched_rows.read(connection)
    assert {(row.name, row.job) for row in rows} == {(f"cg-j1-{number}", "j1") for number in (1, 2, 3, 4)}
    assert {row.keeper for row in rows} == {None}


def test_a_person_who_deletes_one_vm_cancels_the_job(gang: ServedGang) -> None:
    """The rule is that of any gang; its group repairs nothing, and goes."""
    gang.cloud_world.faults.add("flex_start", seconds=5)
    agents = gang.submit()
    agents.until_running(4, turns=120)
    gang.cloud_world.delete(PROJECT, "cg-j1-3", "ana@example.com")
    for _ in range(60):
        agents.step()
        if gang.is_clean():
            break
    assert gang.is_clean()
    assert gang.job().state is JobState.CANCELLED
    assert len(gang.cloud_world.every_vm()) == 4


def test_the_end_of_the_run_duration_is_the_end_of_all_vms(gang: ServedGang) -> None:
    """Google ends them together, which is no failure of any: all are requested again."""
    gang.cloud_world.faults.add("flex_start", seconds=5)
    agents = gang.submit(replace(A100, max_run=timedelta(minutes=30)))
    agents.until_running(4, turns=120)
    gang.save(40)
    for _ in range(80):
        agents.step(30)
        if len(gang.attempts()) > 4:
            break
    agents.until_running(4, turns=120)
    assert {one.outcome for one in gang.attempts() if one.number <= 4} == {Outcome.TIME_LIMIT}
    assert {one.outcome for one in gang.attempts() if one.number > 4} == {None}


# Identities.


def test_each_vm_is_answered_once_and_a_repeat_alike(gang: ServedGang) -> None:
    """The same agent may ask again, with a new document; another secret gets nothing."""
    gang.cloud_world.faults.add("flex_start", seconds=5)
    gang.submit()
    gang.until(lambda: {one.state for one in gang.attempts()} == {AttemptState.BOOTING} and len(gang.attempts()) == 4)
    vms = gang.cloud_world.instances(PROJECT)
    answers = [gang.claim(vm) for vm in vms]
    assert [one.attempt for one in answers] == [vm.name for vm in vms]
    assert [one.node for one in answers] == [0, 1, 2, 3]
    assert [one.token for one in answers] == [gang.tokens.of(vm.name) for vm in vms]
    gang.step(600, passing=False)
    assert gang.claim(vms[0]) == answers[0]
    with pytest.raises(Forbidden, match="was given to its agent before"):
        gang.claim(vms[0], secret="of another process".ljust(32, "."))


def test_a_vm_that_the_guard_has_not_seen_is_asked_to_wait(gang: ServedGang) -> None:
    """The id is compared with what the guard's own look at the group's VM says, and never with its name alone."""
    gang.cloud_world.faults.add("flex_start", seconds=60)
    gang.submit()
    gang.until(lambda: [one.state for one in gang.attempts()] == [AttemptState.WAITING] * 4)
    gang.cloud_world.advance(timedelta(minutes=2))
    vm = gang.vm("cg-j1-1")
    assert vm.status is Status.RUNNING
    with pytest.raises(Unavailable, match="has not seen VM"):
        gang.claim(vm)
    gang.until(lambda: {one.state for one in gang.attempts()} == {AttemptState.BOOTING})
    assert gang.claim(vm).attempt == "cg-j1-1"
