"""Flex-start requests of the simulated cloud: what is accepted, how they wait, and what they cost meanwhile."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.sandbox.gce.conformance.discovery import problems
from tests.sandbox.vms import HOUR, MINUTE, PROJECT, START, ZONE, body, new_world

from costguard_sandbox.gce.errors import Refused
from costguard_sandbox.gce.insertion import read_insert
from costguard_sandbox.gce.meter.usage import spans
from costguard_sandbox.gce.operations import Operation
from costguard_sandbox.gce.render import instance_resource
from costguard_sandbox.gce.vm import VM, Status
from costguard_sandbox.world import World

_FACTS = Path(__file__).resolve().parents[4] / "shared/outside/capacity/facts.json"


def flex(
    wait_s: int | None = 7200, run_s: int | None = 28800, machine: str = "a2-highgpu-1g", **more: Any
) -> dict[str, Any]:
    """The body of an insert as public programs send it."""
    scheduling: dict[str, Any] = {
        "provisioningModel": "FLEX_START",
        "instanceTerminationAction": "DELETE",
        "onHostMaintenance": "TERMINATE",
        "automaticRestart": False,
        **({"maxRunDuration": {"seconds": str(run_s)}} if run_s is not None else {}),
        **more.pop("scheduling", {}),
    }
    wait = {} if wait_s is None else {"params": {"requestValidForDuration": {"seconds": str(wait_s)}}}
    affinity = {"reservationAffinity": {"consumeReservationType": "NO_RESERVATION"}}
    made: dict[str, Any] = body(machine=machine, scheduling=scheduling, **{**wait, **affinity, **more})
    return made


def asked(world: World, wait_s: int | None = 7200, **more: Any) -> tuple[Operation, VM]:
    """A request that waits, a second after it was sent."""
    operation = world.insert(PROJECT, ZONE, flex(wait_s, **more))
    world.advance(timedelta(seconds=1))
    return operation, world.instance(PROJECT, "vm")


def parts(vm: VM, world: World) -> set[str]:
    return {span.resource.partition(":")[0] for span in spans(vm, world.now)}


def test_recorded_requests_are_accepted() -> None:
    """The acceptance test of Google's Terraform provider, and the shape of two public programs that queue."""
    if not _FACTS.exists():
        pytest.skip("the recorded facts about capacity (shared/outside/capacity) are not here")
    facts = {fact["id"]: fact["data"] for fact in json.loads(_FACTS.read_text())}
    read_insert(ZONE, {**body(), **facts["flex-request"]})
    read_insert(ZONE, {**body(machine="a2-highgpu-1g"), **facts["flex-queue"]})


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"run_s": None}, "maxRunDuration"),
        ({"run_s": 599}, "maxRunDuration"),
        ({"run_s": 604_801}, "maxRunDuration"),
        ({"wait_s": 7201}, "requestValidForDuration"),
        ({"machine": "n1-standard-4"}, "provisioningModel"),
        ({"scheduling": {"onHostMaintenance": "MIGRATE"}}, "live migration"),
        ({"scheduling": {"automaticRestart": True}}, "automaticRestart"),
        ({"scheduling": {"preemptionNoticeDuration": {"seconds": "120"}}}, "preemptionNoticeDuration"),
        ({"reservationAffinity": {"consumeReservationType": "ANY_RESERVATION"}}, "reservationAffinity"),
        ({"scheduling": {"provisioningModel": "STANDARD"}}, "requestValidForDuration"),
    ],
)
def test_what_google_does_not_sell_is_refused(wrong: dict[str, Any], field: str) -> None:
    """10 minutes to 7 days of running, at most 2 hours of waiting, no migration, no reservation, its series alone."""
    read_insert(ZONE, flex())
    with pytest.raises(Refused, match=field):
        read_insert(ZONE, flex(**wrong))


def test_the_bounds_themselves_are_accepted() -> None:
    """Google's Terraform provider, ResizeRequest.yaml: 600 to 604800 s, both included."""
    for run_s in (600, 604_800):
        read_insert(ZONE, flex(run_s=run_s))


def test_a_request_waits_and_is_granted() -> None:
    """PENDING until the grant, then PROVISIONING, STAGING and RUNNING; its operation lasts until it runs."""
    world = new_world()
    world.faults.add("flex_start", seconds=3000)
    operation, vm = asked(world)
    assert (vm.status, operation.status) == (Status.PENDING, "RUNNING")
    world.advance_to(START + timedelta(seconds=2999))
    seen = [vm.status]
    world.advance_to(START + timedelta(seconds=3001))
    seen.append(vm.status)
    world.advance(MINUTE)
    seen.append(vm.status)
    assert seen == [Status.PENDING, Status.PROVISIONING, Status.RUNNING]
    assert (operation.status, operation.failure) == ("DONE", None)


def test_a_request_that_waits_is_listed_and_shows_no_wait() -> None:
    """`InstanceParams` of the discovery document is "not persisted as part of resource payload"."""
    world = new_world()
    world.faults.add("flex_start", never=True)
    _, vm = asked(world)
    shown = instance_resource(world.links, vm)
    assert [one.name for one in world.instances(PROJECT)] == ["vm"]
    assert shown["status"] == "PENDING"
    assert "params" not in shown
    assert problems(shown, "Instance") == []


def test_waiting_costs_the_disk_alone() -> None:
    """Google, "Compute Engine instance lifecycle", "Pricing": attached resources are charged in any state."""
    world = new_world()
    world.faults.add("flex_start", seconds=3600)
    _, vm = asked(world)
    world.advance(30 * MINUTE)
    assert parts(vm, world) == {"disk"}
    assert not vm.runs
    world.advance(HOUR)
    assert parts(vm, world) > {"disk"}
    assert vm.runs[0].began >= START + HOUR


def test_a_request_that_is_never_granted_ends_with_its_wait() -> None:
    """An error on the operation, and the VM and its disk are gone."""
    world = new_world()
    world.faults.add("flex_start", never=True)
    operation, vm = asked(world, wait_s=600)
    world.advance_to(START + timedelta(seconds=599))
    assert not operation.is_done
    world.advance_to(START + timedelta(seconds=601))
    assert operation.failure is not None
    assert operation.failure.code == "ZONE_RESOURCE_POOL_EXHAUSTED"
    assert vm.status is Status.DELETED
    assert world.instances(PROJECT) == []
    assert world.disks(PROJECT) == []


def test_the_operation_may_end_before_the_grant() -> None:
    """No page of Google's says which: with `ends_inserts` it is done while the VM is PENDING."""
    world = new_world()
    world.flex_start.ends_inserts = True
    world.faults.add("flex_start", seconds=600)
    operation, vm = asked(world)
    assert (operation.status, operation.failure, vm.status) == ("DONE", None, Status.PENDING)
    world.advance(15 * MINUTE)
    assert vm.status is Status.RUNNING


def test_the_vm_vanishes_when_the_operation_ended_before() -> None:
    """A request that is never granted then leaves no error: its VM is gone."""
    world = new_world()
    world.flex_start.ends_inserts = True
    world.faults.add("flex_start", never=True)
    operation, vm = asked(world, wait_s=600)
    world.advance(HOUR)
    assert (operation.failure, vm.status) == (None, Status.DELETED)


@pytest.mark.parametrize("wait_s", [None, 0, 89])
def test_below_90_seconds_it_is_now_or_fail(wait_s: int | None) -> None:
    """Granted like any VM where there is room, and refused at once where it would have to wait."""
    world = new_world()
    operation, vm = asked(world, wait_s)
    assert vm.status is not Status.PENDING
    world.advance(MINUTE)
    assert (vm.status, operation.failure) == (Status.RUNNING, None)
    world.faults.add("flex_start", seconds=60)
    failed = world.insert(PROJECT, ZONE, {**flex(wait_s), "name": "other"})
    world.advance(MINUTE)
    assert failed.failure is not None
    assert failed.failure.code == "ZONE_RESOURCE_POOL_EXHAUSTED"
    assert [one.name for one in world.instances(PROJECT)] == ["vm"]


def test_a_request_that_waits_can_be_deleted() -> None:
    """Google: "optionally delete the Flex-start VM before the wait time ends"; its insert ends with an error."""
    world = new_world()
    world.faults.add("flex_start", seconds=600)
    operation, vm = asked(world)
    deleted = world.delete(PROJECT, "vm")
    world.advance(MINUTE)
    assert (deleted.status, deleted.failure) == ("DONE", None)
    assert operation.is_done
    assert operation.failure is not None
    assert vm.status is Status.DELETED
    world.advance(HOUR)
    assert world.instances(PROJECT) == []
    assert vm.runs == []


@pytest.mark.parametrize("verb", ["start", "stop", "suspend", "reset"])
def test_nothing_else_can_be_done_to_it(verb: str) -> None:
    """A request that waits has no VM yet that could stop or start."""
    world = new_world()
    world.faults.add("flex_start", seconds=600)
    _, vm = asked(world)
    operation = world.request(verb, PROJECT, ZONE, "vm")
    world.advance(MINUTE)
    assert operation.failure is not None
    assert vm.status is Status.PENDING


def test_flex_start_is_never_preempted() -> None:
    """Google, "About Flex-start VMs": it runs uninterrupted, until its own end deletes it."""
    world = new_world()
    world.faults.add("flex_start", seconds=0)
    _, vm = asked(world)
    world.advance(10 * MINUTE)
    with pytest.raises(Refused, match="never preempted"):
        world.preempt(PROJECT, "vm")
    world.advance(8 * HOUR + 5 * MINUTE)
    assert vm.status is Status.DELETED


def _limit(world: World, metric: str, limit: int) -> None:
    world.faults.add("quota", metric=metric, limit=limit, region="us-central1")


def test_it_takes_preemptible_quota_first() -> None:
    """Google: flex-start VMs consume preemptible quota."""
    world = new_world()
    world.faults.add("flex_start", seconds=0)
    _limit(world, "PREEMPTIBLE_NVIDIA_A100_GPUS", 1)
    _limit(world, "NVIDIA_A100_GPUS", 0)
    asked(world)
    world.advance(5 * MINUTE)
    used = world.usage.of(PROJECT, "us-central1")
    assert (used["PREEMPTIBLE_NVIDIA_A100_GPUS"], used["NVIDIA_A100_GPUS"]) == (1, 0)


def test_it_takes_standard_quota_where_preemptible_lacks() -> None:
    """Google: else standard quota; while it waits it uses none."""
    world = new_world()
    world.faults.add("flex_start", seconds=600)
    _limit(world, "PREEMPTIBLE_NVIDIA_A100_GPUS", 0)
    _limit(world, "NVIDIA_A100_GPUS", 1)
    _, vm = asked(world)
    assert world.usage.of(PROJECT, "us-central1").get("NVIDIA_A100_GPUS", 0) == 0
    world.advance(15 * MINUTE)
    assert vm.status is Status.RUNNING
    assert world.usage.of(PROJECT, "us-central1")["NVIDIA_A100_GPUS"] == 1


def test_it_waits_for_quota_as_for_stock() -> None:
    """Google: PENDING until there is capacity "and you have sufficient quota"; the error says which lacked."""
    world = new_world()
    world.faults.add("flex_start", seconds=60)
    _limit(world, "PREEMPTIBLE_NVIDIA_A100_GPUS", 0)
    _limit(world, "NVIDIA_A100_GPUS", 0)
    operation, vm = asked(world, wait_s=600)
    world.advance(5 * MINUTE)
    assert vm.status is Status.PENDING
    world.advance(6 * MINUTE)
    assert operation.failure is not None
    assert operation.failure.code == "QUOTA_EXCEEDED"


def test_without_a_fault_the_wait_depends_on_the_seed_alone() -> None:
    """Two worlds of one seed grant at the same moment, within 25 minutes."""
    began = []
    for _ in range(2):
        world = new_world()
        _, vm = asked(world)
        world.advance(26 * MINUTE)
        began.append(vm.runs[0].began)
    assert began[0] == began[1]
