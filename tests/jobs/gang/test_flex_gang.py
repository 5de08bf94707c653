"""Gangs on flex-start: so many VMs at once by a resize request, in a group of their own that goes with them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import text
from tests.jobs.cloud import never_twice
from tests.jobs.gang_life import GangAgents
from tests.jobs.world import RECIPE, ZONES, World, world

from costguard.jobs.decide.limits.holds import BudgetHold
from costguard.jobs.rows.history import flex_waits
from costguard.model.attempt import AttemptState, Outcome
from costguard.model.buying import FLEX, bought
from costguard.model.instance import ProvisioningModel
from costguard.model.job import JobState
from costguard.model.launch import ResizeState

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
FLEX_GANG = replace(bought(RECIPE, "flex"), zones=ZONES[:2], service_account="vm@acme.iam.gserviceaccount.com")
A, B = ZONES[:2]
NAMES = ["cg-j1-1", "cg-j1-2", "cg-j1-3", "cg-j1-4"]


@contextmanager
def flexible(url: str, **waits: timedelta | None) -> Iterator[World]:
    """Yields a world in which zone `a` and `b` grant after these waits; without one at once."""
    with world(url) as w:
        w.cloud.flex_waits = {{"a": A, "b": B}[name]: wait for name, wait in waits.items()}
        yield w


@pytest.fixture
def jobs(sqlite_url: str) -> Iterator[World]:
    with flexible(sqlite_url) as made:
        yield made


def begun(w: World, **given: Any) -> GangAgents:
    w.submit(nodes=4, recipe=given.pop("recipe", FLEX_GANG), **given)
    agents = GangAgents(w)
    agents.until_running(4)
    return agents


def is_clean(w: World) -> bool:
    """Says whether nothing of any gang is left at Google."""
    return not w.cloud.there() and not w.cloud.groups.groups and not w.cloud.groups.templates


def states(w: World) -> list[AttemptState]:
    return [one.state for one in w.attempts()]


# The request.


def test_all_vms_are_granted_at_once_and_begin_together(database_url: str) -> None:
    """A request of a group names the VMs, and none is inserted alone; the end leaves neither group nor template."""
    with flexible(database_url) as w:
        agents = begun(w)
        assert [name for name, _ in w.cloud.asked_for] == []
        ((_, zone, group),) = w.cloud.groups.groups
        (request,) = w.cloud.groups.groups["acme-training", zone, group].requests.values()
        assert (list(request.wanted.vms), request.state) == (NAMES, ResizeState.SUCCEEDED)
        agents.step()
        tried = w.attempts()
        assert {(one.vm_group, one.resize_request, one.provisioning_model) for one in tried} == {(group, "r1", FLEX)}
        assert "runs on 4 VMs in us-central1-a (flex-start)" in w.job().reason
        for member in agents.running().values():
            agents.finish(member)
        for _ in range(20):
            agents.step()
        assert w.job().state is JobState.SUCCEEDED
        assert is_clean(w)
        assert {one.state for one in w.attempts()} == {AttemptState.OVER}
        never_twice(w.cloud)


def test_what_a_template_says_of_all_vms_holds_nothing_of_one(jobs: World) -> None:
    """No token lies in it, no node, no attempt's name: each agent gets its own for Google's word on its VM."""
    begun(jobs)
    ((_, vm),) = jobs.cloud.groups.templates.values()
    settings = vm.metadata["costguard-attempt"]
    assert vm.metadata["costguard-token"] == ""
    assert not any(jobs.tokens.of(name) in settings or f"'{name}'" in settings for name in NAMES)
    assert "'claim', {'job': 'j1', 'audience': 'https://guard.example.com/jobs/j1'}" in settings
    assert "'gang', {'nodes': '4'}" in settings
    assert {"costguard-attempt", "costguard-node"}.isdisjoint(vm.labels)


def test_a_request_that_waits_bills_nothing_and_is_granted_later(sqlite_url: str) -> None:
    """Queued meanwhile, with how many VMs it waits for, where, since when and until when."""
    with flexible(sqlite_url, a=20 * MINUTE) as w:
        w.submit(nodes=4, recipe=FLEX_GANG)
        w.settle(minutes=5)
        assert states(w) == [AttemptState.WAITING] * 4
        assert w.cloud.there() == []
        assert w.job().state is JobState.QUEUED
        assert "waits in us-central1-a for 4 flex-start VMs at once since 12:0" in w.job().reason
        assert "until 14:0" in w.job().reason
        agents = GangAgents(w)
        agents.until_running(4, turns=150)
        assert {one.zone for one in w.attempts()} == {A}
        never_twice(w.cloud)


def test_what_is_not_granted_in_time_is_asked_for_in_the_next_zone(sqlite_url: str) -> None:
    """The wait is the job's own, for a resize request has none; nothing of the first group stays."""
    with flexible(sqlite_url, a=None) as w:
        w.submit(nodes=4, recipe=replace(FLEX_GANG, wait=10 * MINUTE))
        w.settle(minutes=9)
        assert states(w) == [AttemptState.WAITING] * 4
        w.settle(minutes=4)
        first, later = w.attempts()[:4], w.attempts()[4:]
        assert {(one.outcome, one.reason) for one in first} == {(Outcome.STOCKOUT, "not granted within 10 min")}
        assert {one.zone for one in later} == {B}
        assert [zone for _, zone, _ in w.cloud.groups.groups] == [B]
        assert len(w.cloud.groups.templates) == 1


def test_a_request_that_may_not_wait_has_the_time_that_google_takes(sqlite_url: str) -> None:
    """No resize request is granted at once; what is not granted within 90 s goes on elsewhere."""
    with flexible(sqlite_url, a=None, b=20 * timedelta(seconds=1)) as w:
        agents = begun(w, recipe=replace(FLEX_GANG, wait=timedelta(0)))
        assert {one.reason for one in w.attempts() if one.zone == A} == {"not granted within 1 min 30 s"}
        assert {one.zone for one in w.attempts() if one.is_open} == {B}
        assert len(agents.running()) == 4


def test_waits_of_several_vms_are_no_waits_of_one(sqlite_url: str) -> None:
    """Several at once wait for other room, so that plans do not reckon with them."""
    with flexible(sqlite_url, a=20 * MINUTE) as w:
        w.submit(nodes=4, recipe=FLEX_GANG)
        w.settle(minutes=10)
        with w.database.read() as connection:
            assert flex_waits.read(connection, w.clock.now()) == {}


def test_a_request_that_fails_counts_as_no_room_in_its_zone(jobs: World) -> None:
    """The next zone is asked at once, and Google's words are the reason."""
    jobs.cloud.groups.failures[A] = ("ZONE_RESOURCE_POOL_EXHAUSTED", "The zone does not have enough resources.")
    agents = begun(jobs)
    first = [one for one in jobs.attempts() if one.zone == A]
    assert {one.outcome for one in first} == {Outcome.STOCKOUT}
    assert "The zone does not have enough resources" in first[0].reason
    assert {one.zone for one in jobs.attempts() if one.is_open} == {B}
    for _ in range(10):
        agents.step()
    assert [zone for _, zone, _ in jobs.cloud.groups.groups] == [B]


def test_vms_of_a_request_that_failed_half_way_are_given_back(jobs: World) -> None:
    """They would bill for nothing, and the gang is requested elsewhere."""
    jobs.cloud.groups.failures[A] = ("ZONE_RESOURCE_POOL_EXHAUSTED", "The zone does not have enough resources.")
    jobs.cloud.groups.short[A] = 2
    agents = begun(jobs)
    first = [one for one in jobs.attempts() if one.zone == A]
    assert sorted(str(one.outcome) for one in first) == ["moved", "moved", "stockout", "stockout"]
    for _ in range(10):
        agents.step()
    assert {vm.zone for vm in jobs.cloud.there()} == {B}
    assert [zone for _, zone, _ in jobs.cloud.groups.groups] == [B]


def test_a_refused_template_ends_the_job_with_googles_words(jobs: World) -> None:
    """Google would refuse again what it refuses for what it says."""
    jobs.submit(nodes=4, recipe=replace(FLEX_GANG, max_run=10 * MINUTE), max_preemptions=0)
    jobs.cloud.groups.failures[A] = jobs.cloud.groups.failures[B] = ("INVALID_FIELD", "The image is not there.")
    jobs.settle(minutes=3)
    assert jobs.job().state is JobState.FAILED
    assert "The image is not there" in jobs.job().reason
    jobs.settle(minutes=6)
    assert is_clean(jobs)


# Giving it up.


def test_a_cancel_takes_the_request_back_while_it_waits(database_url: str) -> None:
    """Group, request and template are gone within a minute or two."""
    with flexible(database_url, a=None) as w:
        w.submit(nodes=4, recipe=FLEX_GANG)
        w.settle(minutes=3)
        w.cancel()
        w.settle(minutes=2)
        assert w.job().state is JobState.CANCELLED
        assert {one.outcome for one in w.attempts()} == {Outcome.CANCELLED}
        assert is_clean(w)
        assert w.cloud.all == []


def test_a_grant_that_crosses_the_cancel_is_given_back(sqlite_url: str) -> None:
    """VMs that Google is making are waited for, and then deleted: the group cannot go before."""
    with flexible(sqlite_url, a=3 * MINUTE) as w:
        w.submit(nodes=4, recipe=FLEX_GANG)
        w.settle(minutes=2)
        w.cloud.groups.groups[next(iter(w.cloud.groups.groups))].requests["r1"].due_at = w.clock.now()
        w.cancel()
        w.settle(minutes=5)
        assert w.job().state is JobState.CANCELLED
        assert len(w.cloud.all) in (0, 4)
        assert is_clean(w)


def test_a_spent_budget_takes_the_request_back(sqlite_url: str) -> None:
    """Were it granted, its VMs would bill; it is asked for again once there is money."""
    with flexible(sqlite_url, a=None) as w:
        w.submit(nodes=4, recipe=FLEX_GANG)
        w.settle(minutes=3)
        w.held = {"j1": BudgetHold("the budget lab is spent")}
        w.settle(minutes=4)
        assert {one.outcome for one in w.attempts()} == {Outcome.PAUSED}
        assert is_clean(w)
        w.held = {}
        w.settle(minutes=10)
        assert [one.state for one in w.attempts()[-4:]] == [AttemptState.WAITING] * 4


def test_on_demand_is_used_where_no_zone_granted_and_the_recipe_falls_back(sqlite_url: str) -> None:
    """Each zone once, then single inserts as for any gang."""
    with flexible(sqlite_url, a=None, b=None) as w:
        recipe = replace(FLEX_GANG, falls_back_to_on_demand=True, wait=3 * MINUTE)
        agents = begun(w, recipe=recipe)
        assert {one.provisioning_model for one in w.attempts() if one.is_open} == {ProvisioningModel.STANDARD}
        for _ in range(10):
            agents.step()
        assert not w.cloud.groups.groups
        assert not w.cloud.groups.templates


# One VM lost.


def test_a_lost_vm_is_requested_alone_in_the_same_group(jobs: World) -> None:
    """The others stay; all begin again from one checkpoint, and the lost VM was deleted by its group."""
    agents = begun(jobs)
    jobs.shelf.save(500)
    group = jobs.attempts()[0].vm_group
    jobs.cloud.preempt(jobs.vm("cg-j1-3"))
    together = agents.until_running(4)
    assert {one.round for one in together} == {2}
    assert {one.began[-1][1] for one in together} == {"gs://runs/train/checkpoint-500"}
    new = next(one for one in jobs.attempts() if one.number == 5)
    assert (new.vm_group, new.resize_request, new.node) == (group, "r5", 2)
    requests = jobs.cloud.groups.groups["acme-training", new.zone, group].requests
    assert [list(one.wanted.vms) for one in requests.values()] == [NAMES, ["cg-j1-5"]]
    never_twice(jobs.cloud)


def test_a_vm_that_is_given_up_alone_is_deleted_by_its_group(jobs: World) -> None:
    """An instance is never deleted behind its group's back."""
    agents = begun(jobs)
    silent = agents.running()["cg-j1-2"]
    agents.silent.add(silent.name)
    for member in [one for one in agents.running().values() if one is not silent]:
        agents.fail(member, output="RuntimeError: NCCL error: remote process exited")
    agents.until_running(4, turns=120)
    assert jobs.cloud.groups.deleted_by_group == ["cg-j1-2"]
    assert jobs.cloud.calls["delete"] == 0


def test_a_gang_moves_as_a_whole_where_the_lost_vm_is_not_granted(sqlite_url: str) -> None:
    """After five minutes all are requested in another zone, and the old group is gone with what waited in it."""
    with flexible(sqlite_url) as w:
        agents = begun(w)
        w.shelf.save(500)
        w.cloud.flex_waits[A] = None
        w.cloud.preempt(w.vm("cg-j1-2"))
        together = agents.until_running(4, turns=120)
        assert {one.began[-1][1] for one in together} == {"gs://runs/train/checkpoint-500"}
        assert {one.zone for one in w.attempts() if one.is_open} == {B}
        for _ in range(10):
            agents.step()
        assert [zone for _, zone, _ in w.cloud.groups.groups] == [B]
        assert {vm.zone for vm in w.cloud.there()} == {B}
        never_twice(w.cloud)


def test_a_replacement_that_is_not_wanted_any_more_is_cancelled(sqlite_url: str) -> None:
    """While the others stay, their group stays too: the request alone is taken back."""
    with flexible(sqlite_url) as w:
        begun(w, recipe=replace(FLEX_GANG, wait=2 * MINUTE))
        w.cloud.flex_waits[A] = None
        w.cloud.preempt(w.vm("cg-j1-2"))
        agents = GangAgents(w)
        agents.silent = set()
        w.settle(minutes=4, every=10)
        assert w.cloud.groups.cancelled[:1] == ["r5"]


# Google and people.


def test_a_request_that_somebody_cancelled_is_asked_for_again(sqlite_url: str) -> None:
    """It is no stock-out, for nothing says so."""
    with flexible(sqlite_url, a=None, b=None) as w:
        w.submit(nodes=4, recipe=FLEX_GANG)
        w.settle(minutes=3)
        (group,) = w.cloud.groups.groups.values()
        group.requests["r1"].state = ResizeState.CANCELLED
        w.settle(minutes=2)
        assert {one.outcome for one in w.attempts()[:4]} == {Outcome.LOST}
        w.settle(minutes=8)
        assert w.attempts()[-1].state is AttemptState.WAITING


def test_lost_answers_make_nothing_twice(sqlite_url: str) -> None:
    """A call may be lost after it had its effect, whichever it is."""
    with flexible(sqlite_url) as w:
        w.submit(nodes=4, recipe=FLEX_GANG)
        for _ in range(6):
            w.cloud.mute = 1
            w.step(10)
        w.cloud.mute = 0
        agents = GangAgents(w)
        agents.until_running(4)
        assert len(w.cloud.groups.groups) == len(w.cloud.groups.templates) == 1
        never_twice(w.cloud)


def test_an_orphan_of_a_group_goes_with_it(jobs: World) -> None:
    """A ledger that is done with the gang, as after a restore, leaves neither VMs nor their group running."""
    begun(jobs)
    with jobs.database.write() as connection:
        over = "UPDATE attempts SET state = 'over', outcome = 'lost', ended_at = made_at, gone_at = made_at"
        connection.execute(text(over))
        connection.execute(text("UPDATE jobs SET state = 'cancelled'"))
    jobs.settle(30)
    assert jobs.cloud.there() == []
    assert jobs.cloud.groups.groups == {}
    assert jobs.cloud.calls["delete"] == 0
