"""A gang whose VMs stand close together: its placement policy is there before them, and gone after them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.builders import PROJECT
from tests.jobs.gang_life import GangAgents
from tests.jobs.world import RECIPE, CrashPoint, Killed, World, world

from costguard.errors import PermissionDenied
from costguard.jobs.rows.gang import placement_rows
from costguard.model.job import JobState
from costguard.model.launch import Placement

CLOSE: dict[str, Any] = {
    "placement": Placement.COMPACT,
    "recipe": replace(RECIPE, machine_type="g2-standard-8", attaches_gpus=False),
}
POLICY = (PROJECT, "us-central1", "cg-j1")


@pytest.fixture
def jobs(sqlite_url: str) -> Iterator[World]:
    with world(sqlite_url) as made:
        yield made


@pytest.fixture
def jobs_of_either(database_url: str) -> Iterator[World]:
    """The same with both databases: the rows of a policy are the same in all of its stories."""
    with world(database_url) as made:
        yield made


def finish(jobs: World, agents: GangAgents) -> None:
    for member in agents.until_running(3):
        agents.finish(member)
    until_gone(jobs, agents.step)
    assert jobs.job().state is JobState.SUCCEEDED


def until_gone(jobs: World, step: Callable[[], object]) -> None:
    """Lets time go on until neither VMs nor policies are left, and for six more turns, which make nothing more."""
    for _ in range(60):
        step()
        if jobs.job().state.is_over and not jobs.cloud.there() and not jobs.cloud.policies.there:
            break
    for _ in range(6):
        step()


def test_a_policy_is_made_before_the_vms_and_deleted_after_them(jobs_of_either: World) -> None:
    """Every VM names the one policy from its request on; nobody keeps it once the job is over."""
    jobs = jobs_of_either
    jobs.submit(nodes=3, **CLOSE)
    jobs.step()
    assert jobs.cloud.all == []
    assert "its placement policy cg-j1 in us-central1 is made before its VMs" in jobs.job().reason
    agents = GangAgents(jobs)
    agents.until_running(3)
    assert jobs.cloud.policies.made == [POLICY]
    assert {vm.request.placement_policy for vm in jobs.cloud.all} == {"cg-j1"}
    assert [event.text for event in jobs.events("PlacementPolicyMade")] == [
        "The placement policy cg-j1 was made in us-central1 for job bert: its VMs there stand close together."
    ]
    finish(jobs, agents)
    assert jobs.cloud.policies.there == {}
    assert len(jobs.events("PlacementPolicyDeleted")) == 1


def test_a_lost_vm_is_replaced_under_the_same_policy(jobs: World) -> None:
    """It stands near the others, as the first one did."""
    jobs.submit(nodes=3, **CLOSE)
    agents = GangAgents(jobs)
    agents.until_running(3)
    jobs.cloud.preempt(jobs.vm("cg-j1-2"))
    agents.until_running(3)
    assert [vm.request.placement_policy for vm in jobs.cloud.all] == ["cg-j1"] * 4
    assert jobs.cloud.policies.made == [POLICY]


def test_a_gang_that_moves_has_a_policy_in_each_region(jobs: World) -> None:
    """It is recovering while the second one is made, and both are deleted in the end."""
    jobs.submit(nodes=3, **{**CLOSE, "recipe": replace(CLOSE["recipe"], zones=("us-central1-a", "us-east1-c"))})
    agents = GangAgents(jobs)
    agents.until_running(3)
    jobs.cloud.stockouts.add("us-central1-a")
    jobs.cloud.preempt(jobs.vm("cg-j1-2"))
    states = set()
    for _ in range(90):
        agents.step()
        states |= {jobs.job().state} if "is made before its VMs" in jobs.job().reason else set()
    assert states == {JobState.RECOVERING}
    agents.until_running(3)
    assert jobs.cloud.policies.made == [POLICY, (PROJECT, "us-east1", "cg-j1")]
    finish(jobs, agents)
    assert jobs.cloud.policies.there == {}


def test_a_policy_that_google_refuses_ends_the_job_by_its_name(jobs: World) -> None:
    """No VM was asked for, and nothing was spent."""
    jobs.cloud.policies.refusal = "Quota 'RESOURCE_POLICIES' exceeded. Limit: 10.0 in region us-central1."
    jobs.submit(nodes=3, **CLOSE)
    for _ in range(5):
        jobs.step()
    assert jobs.job().state is JobState.FAILED
    assert jobs.job().reason.startswith(
        "Google refused its placement policy cg-j1 in us-central1: Quota 'RESOURCE_POLICIES' exceeded"
    )
    assert jobs.cloud.all == []


def test_a_policy_of_another_owner_is_left_alone(jobs: World) -> None:
    """The name is taken: the job ends, and the policy stays."""
    jobs.cloud.policies.make(POLICY, "of another installation")
    jobs.submit(nodes=3, **CLOSE)
    jobs.settle(15)
    assert "a policy that this installation did not make" in jobs.job().reason
    assert jobs.job().state is JobState.FAILED
    assert POLICY in jobs.cloud.policies.there


def test_a_missing_permission_is_told_and_asked_again(jobs: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The job waits, with what Google said, and goes on once the role has the permission."""
    make = jobs.cloud.policies.make

    def denied(*_: object) -> None:
        raise PermissionDenied("Required 'compute.resourcePolicies.create' permission", "Grant it.")

    monkeypatch.setattr(jobs.cloud.policies, "make", denied)
    jobs.submit(nodes=3, **CLOSE)
    for _ in range(6):
        jobs.step(20)
    assert "compute.resourcePolicies.create" in jobs.job().reason
    monkeypatch.setattr(jobs.cloud.policies, "make", make)
    GangAgents(jobs).until_running(3)


def test_a_job_without_placement_makes_no_policy(jobs: World) -> None:
    """The default asks for the places that there are."""
    jobs.submit(nodes=3)
    GangAgents(jobs).until_running(3)
    assert jobs.cloud.policies.made == []
    assert {vm.request.placement_policy for vm in jobs.cloud.all} == {""}


@pytest.mark.parametrize("lost", ["deaf", "mute"])
def test_a_lost_call_makes_no_second_policy(jobs: World, lost: str) -> None:
    """A look finds out whether Google heard it."""
    setattr(jobs.cloud, lost, 1)
    jobs.submit(nodes=3, **CLOSE)
    agents = GangAgents(jobs)
    agents.until_running(3)
    assert jobs.cloud.policies.made == [POLICY]
    finish(jobs, agents)
    assert jobs.cloud.policies.there == {}


def test_a_cancel_while_the_policy_is_made_leaves_none(jobs: World) -> None:
    """The call may have been heard after its answer was lost: it is looked for until it cannot appear any more."""
    jobs.cloud.mute = 1
    jobs.submit(nodes=3, **CLOSE)
    jobs.step()
    jobs.cancel()
    jobs.settle(10)
    assert jobs.job().state is JobState.CANCELLED
    assert jobs.cloud.policies.made == jobs.cloud.policies.deleted == [POLICY]


def test_a_call_that_is_heard_late_leaves_no_policy(jobs: World) -> None:
    """Google may still make it after nobody wants it: it is looked for until that cannot be."""
    jobs.cloud.deaf = 100
    jobs.submit(nodes=3, **CLOSE)
    jobs.step()
    jobs.cancel()
    jobs.settle(1.5)
    jobs.cloud.deaf = 0
    jobs.cloud.policies.make(POLICY, "Costguard g1: VMs of job j1")
    jobs.settle(10)
    assert jobs.cloud.policies.deleted == [POLICY]


def test_a_guard_that_ends_at_any_step_makes_one_policy_and_leaves_none(sqlite_url: str) -> None:
    """The guard is killed before and after commits and calls of the first turns, and of those after the cancel."""
    points, after_delete = 0, 0
    with world(sqlite_url) as first:
        first.submit(nodes=3, **CLOSE)
        outside, source = copy.deepcopy(first.outside), Path(sqlite_url.removeprefix("sqlite:///"))
        first.database.close()
        stored = source.read_bytes()
    for when in ("made", "deleted"):
        for point in range(1, 400, 3):
            source.write_bytes(stored)
            with world(sqlite_url, outside=copy.deepcopy(outside)) as jobs:
                was_deleted = _lived(jobs, when, point)
                if was_deleted is None:
                    break
                points += 1
                after_delete += was_deleted
    assert points > 20
    assert after_delete > 0, "none of them was after Google had deleted the policy"


def _lived(jobs: World, when: str, point: int) -> bool | None:
    """Lives a job whose guard ends once, at this step after its launch or its cancel. Returns whether the policy was
    deleted by then; None: it did not come to that step.
    """
    fuse = CrashPoint(point)
    if when == "deleted":
        jobs.settle(1)
        jobs.cancel()
    jobs.guard(fuse)
    for _ in range(5):
        try:
            jobs.step(40 if when == "deleted" else 5)
        except Killed:
            break
    was_deleted = bool(jobs.cloud.policies.deleted) if fuse.is_blown else None
    jobs.guard()
    if when == "made":
        jobs.settle(1)
        jobs.cancel()
    until_gone(jobs, partial(jobs.step, 40, passing=True))
    assert jobs.job().state is JobState.CANCELLED
    assert jobs.cloud.there() == []
    assert jobs.cloud.policies.made == jobs.cloud.policies.deleted == [POLICY]
    with jobs.database.read() as connection:
        assert placement_rows.unused(connection, jobs.clock.now() + timedelta(days=1)) == []
    return was_deleted
