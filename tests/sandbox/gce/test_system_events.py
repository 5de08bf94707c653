"""The cloud acts by itself: preemptions, host errors, run-time limits."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from tests.sandbox.gce.conformance.discovery import problems
from tests.sandbox.vms import HOUR, MINUTE, PROJECT, SPOT, T4, ZONE, body, new_world, up

from costguard_sandbox.clock import zulu
from costguard_sandbox.gce.errors import Refused
from costguard_sandbox.gce.meter import bill
from costguard_sandbox.gce.operations import Operation
from costguard_sandbox.gce.render import instance_resource
from costguard_sandbox.gce.vm import VM, Status
from costguard_sandbox.world import World


def events(world: World) -> list[Operation]:
    return [operation for operation in world.operations.of(PROJECT) if operation.user == "system"]


def test_a_preemption_is_an_operation_of_the_systems_own() -> None:
    """It is over as it appears, has no user to wait for it, and names the incarnation."""
    world = new_world()
    vm = up(world, **SPOT)
    shown = world.preempt(PROJECT, "vm").resource()
    assert shown["name"].startswith("systemevent-")
    assert shown["operationType"] == "compute.instances.preempted"
    assert (shown["user"], shown["status"], shown["progress"]) == ("system", "DONE", 100)
    assert shown["insertTime"] == shown["startTime"] == shown["endTime"]
    assert (shown["statusMessage"], shown["targetId"]) == ("Instance was preempted.", str(vm.id))


def test_a_preempted_vm_is_stopping_with_its_old_last_stop() -> None:
    """Billing ends in the moment of the preemption; lastStop comes only with TERMINATED."""
    world = new_world()
    vm = up(world, **SPOT)
    operation = world.preempt(PROJECT, "vm")
    assert (vm.status, vm.last_stop) == (Status.STOPPING, None)
    assert vm.runs[0].ended == operation.insert_time
    world.advance(MINUTE)
    assert vm.status is Status.TERMINATED
    assert vm.last_stop is not None
    world.start(PROJECT, "vm")
    world.advance(MINUTE)
    stopped = vm.last_stop
    world.preempt(PROJECT, "vm")
    assert (vm.status, vm.last_stop) == (Status.STOPPING, stopped)


def test_a_preemption_honours_the_termination_action() -> None:
    """The VM and its disk are gone within half a minute with DELETE, and no delete operation is written."""
    world = new_world()
    up(world, scheduling={**SPOT["scheduling"], "instanceTerminationAction": "DELETE"})
    world.preempt(PROJECT, "vm")
    world.advance(MINUTE)
    assert world.instances(PROJECT) == []
    assert world.disks(PROJECT) == []
    assert "delete" not in {operation.kind for operation in world.operations.of(PROJECT)}


def test_a_vm_preempted_while_it_is_made_fails_its_insert() -> None:
    """The insert ends in UNSUPPORTED_OPERATION, and nothing was billed."""
    world = new_world()
    operation = world.insert(PROJECT, ZONE, body(**SPOT))
    world.advance(timedelta(seconds=2))
    world.preempt(PROJECT, "vm")
    world.advance(MINUTE)
    assert operation.failure is not None
    assert operation.failure.code == "UNSUPPORTED_OPERATION"
    assert world.instance(PROJECT, "vm").runs == []


@pytest.mark.parametrize(
    ("event", "more", "why"),
    [
        ("preempt", {}, "not a Spot VM"),
        ("migrate", T4, "does not migrate"),
        ("explode", {}, "expected one of preempt"),
    ],
)
def test_impossible_events_are_refused(event: str, more: dict[str, Any], why: str) -> None:
    """An event for the wrong VM is refused."""
    world = new_world()
    up(world, **more)
    with pytest.raises(Refused, match=why):
        world.trigger(event, PROJECT, "vm")


def test_a_host_error_restarts_the_vm() -> None:
    """hostError ends the lifetime; automaticRestart, minutes later, begins the next, with its own lastStart."""
    world = new_world()
    vm = up(world, **T4)
    error = world.trigger("host-error", PROJECT, "vm")
    seen = [vm.status]
    world.advance(5 * MINUTE)
    restart = events(world)[-1]
    assert [one.kind for one in events(world)] == ["compute.instances.hostError", "compute.instances.automaticRestart"]
    assert vm.runs[0].ended == error.insert_time
    assert vm.runs[1].began == restart.insert_time == vm.last_start
    assert [*seen, vm.status] == [Status.REPAIRING, Status.RUNNING]


@pytest.mark.parametrize(
    ("event", "kind"),
    [
        ("guest-shutdown", "guestTerminate"),
        ("host-error", "hostError"),
        ("host-maintenance", "terminateOnHostMaintenance"),
    ],
)
def test_without_automatic_restart_the_vm_stays_down(event: str, kind: str) -> None:
    """The event's operation is the only one, and the VM is TERMINATED."""
    world = new_world()
    vm = up(world, scheduling={"automaticRestart": False})
    world.trigger(event, PROJECT, "vm")
    world.advance(10 * MINUTE)
    assert [one.kind for one in events(world)] == [f"compute.instances.{kind}"]
    assert vm.status is Status.TERMINATED


def test_a_migration_changes_nothing_that_bills() -> None:
    """The operation alone shows it."""
    world = new_world()
    vm = up(world)
    world.trigger("migrate", PROJECT, "vm")
    assert (vm.status, len(vm.runs), len(events(world))) == (Status.RUNNING, 1, 1)


@pytest.mark.parametrize(("action", "kind"), [("STOP", "deferredStop"), ("DELETE", "deferredDelete")])
def test_the_run_time_limit_fires_up_to_half_a_minute_late(action: str, kind: str) -> None:
    """It is counted from the request's start, not from lastStart, and is no user's stop."""
    world = new_world()
    scheduling = {**SPOT["scheduling"], "maxRunDuration": {"seconds": "3600"}, "instanceTerminationAction": action}
    vm = up(world, scheduling=scheduling)
    limit, begun = vm.termination_at, vm.last_start
    assert limit is not None
    assert begun is not None
    assert begun < limit < begun + HOUR
    assert instance_resource(world.links, vm)["resourceStatus"]["scheduling"] == {"terminationTimestamp": zulu(limit)}
    world.advance(2 * HOUR)
    (event,) = events(world)
    assert event.kind == f"compute.instances.{kind}"
    assert timedelta(0) <= event.insert_time - limit <= timedelta(seconds=30)
    assert vm.runs[0].ended == event.insert_time
    assert vm.status is (Status.TERMINATED if action == "STOP" else Status.DELETED)


def test_a_stopped_vm_has_no_limit_until_it_starts_again() -> None:
    """A limit that was armed before the stop never fires afterwards."""
    world = new_world()
    vm = up(world, scheduling={"maxRunDuration": {"seconds": "3600"}})
    world.stop(PROJECT, "vm")
    world.advance(3 * MINUTE)
    assert vm.termination_at is None
    world.advance(30 * MINUTE)
    world.start(PROJECT, "vm")
    world.advance(50 * MINUTE)
    assert (vm.status, events(world)) == (Status.RUNNING, [])
    world.advance(20 * MINUTE)
    assert vm.status is Status.TERMINATED


def test_operations_are_dropped_after_the_retention() -> None:
    """After 14 days the log no longer tells who made the VM, while it runs on."""
    world = new_world()
    up(world)
    world.advance(timedelta(days=13))
    assert [one.kind for one in world.operations.of(PROJECT)] == ["insert"]
    world.advance(timedelta(days=2))
    with world.settled():
        assert list(world.operations.of(PROJECT)) == []
    assert world.instance(PROJECT, "vm").status is Status.RUNNING


def _stopped_spot_vm() -> tuple[World, VM]:
    world = new_world()
    vm = up(world, **SPOT)
    world.stop(PROJECT, "vm")
    world.advance(5 * MINUTE)
    return world, vm


def test_a_preemption_may_fall_inside_a_start() -> None:
    """Recorded: 23:00:14.262 with the start done at about :15. The start is DONE without an error all the same."""
    world, vm = _stopped_spot_vm()
    assert world.trigger_after_notice("preempt-in-start", PROJECT, "vm") is None
    start = world.start(PROJECT, "vm")
    world.advance(2 * MINUTE)
    (event,) = (one for one in world.operations.of(PROJECT) if one.kind == "compute.instances.preempted")
    assert start.start_time is not None
    assert start.end_time is not None
    assert start.start_time < event.insert_time < start.end_time
    assert start.failure is None
    assert vm.last_start == start.end_time
    assert vm.status is Status.TERMINATED
    assert len(vm.runs) == 1


def test_a_stop_of_a_vm_that_was_preempted_in_its_start_does_nothing() -> None:
    """DONE without an error in under two seconds; the VM's stamps and its bill stay as they were."""
    world, vm = _stopped_spot_vm()
    world.trigger_after_notice("preempt-in-start", PROJECT, "vm")
    world.start(PROJECT, "vm")
    world.advance(HOUR)
    before = (vm.last_start, vm.last_stop, bill(vm, world.prices, world.now).resources["n1:core"])
    stop = world.stop(PROJECT, "vm")
    world.advance(MINUTE)
    assert stop.end_time is not None
    assert stop.failure is None
    assert stop.end_time - stop.insert_time < timedelta(seconds=2)
    assert (vm.last_start, vm.last_stop, bill(vm, world.prices, world.now).resources["n1:core"]) == before


def test_a_preemption_in_a_start_happens_once() -> None:
    """The start after it comes up, and one that is not Spot cannot be chosen for it."""
    world, vm = _stopped_spot_vm()
    world.trigger_after_notice("preempt-in-start", PROJECT, "vm")
    for _ in range(2):
        world.start(PROJECT, "vm")
        world.advance(2 * MINUTE)
    assert vm.status is Status.RUNNING
    up(world, "standard")
    with pytest.raises(Refused, match="not a Spot VM"):
        world.trigger_after_notice("preempt-in-start", PROJECT, "standard")


def test_a_group_recreates_its_vm_as_recorded() -> None:
    """The operation is named repair- with no user, over as it appears; lastStop 54 s and lastStart 66 s after it."""
    world = new_world()
    vm = up(world)
    world.advance(HOUR)
    event = world.trigger("recreate", PROJECT, "vm")
    shown = event.resource()
    assert shown["operationType"] == "compute.instances.repair.recreateInstance"
    assert shown["name"].startswith("repair-")
    assert "user" not in shown
    assert (shown["status"], shown["insertTime"], shown["startTime"]) == ("DONE", shown["endTime"], shown["endTime"])
    assert "initiated recreateInstance on instance" in shown["statusMessage"]
    assert problems(shown, "Operation") == []
    assert vm.status is Status.RUNNING
    world.advance(2 * MINUTE)
    assert vm.last_stop == event.insert_time + timedelta(seconds=54)
    assert vm.last_start == event.insert_time + timedelta(seconds=66)
    assert vm.status is Status.RUNNING


def test_a_recreated_vm_is_inserted_again() -> None:
    """Recorded: after the repair comes an insert, by the project's own agent, that ends as the VM is up."""
    world = new_world()
    vm = up(world)
    world.trigger("recreate", PROJECT, "vm")
    world.advance(2 * MINUTE)
    first, again = (one for one in world.operations.of(PROJECT) if one.kind == "insert")
    assert first.target_id == again.target_id == vm.id
    assert again.end_time == vm.last_start
    assert again.failure is None
    assert again.user.endswith("@cloudservices.gserviceaccount.com")


def test_a_recreated_vm_is_not_billed_while_it_is_down() -> None:
    """Uptime ends with the stop stamp, 54 s after the operation, and begins at the new start; id and disk stay."""
    world = new_world()
    vm = up(world)
    world.advance(HOUR)
    event = world.trigger("recreate", PROJECT, "vm")
    world.advance(HOUR)
    first, second = vm.runs
    assert first.ended == event.insert_time + timedelta(seconds=54)
    assert second.began == event.insert_time + timedelta(seconds=66)
    assert world.instance(PROJECT, "vm") is vm
    assert bill(vm, world.prices, world.now).resources["disk:pd-balanced"].seconds == HOUR.seconds * 2 + MINUTE.seconds
