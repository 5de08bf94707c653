"""The state machine of a VM, and the times that go with it."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.sandbox.vms import HOUR, MINUTE, PROJECT, SPOT, START, ZONE, body, new_world, up

from costguard_sandbox.clock import pacific
from costguard_sandbox.gce.errors import Refused
from costguard_sandbox.gce.operations import Operation
from costguard_sandbox.gce.render import instance_resource
from costguard_sandbox.gce.vm import VM, Status
from costguard_sandbox.world import World

_SECOND = timedelta(seconds=1)


def statuses(world: World, vm: VM, operation: Operation) -> list[Status]:
    """Every status the VM shows from now until the operation is done, a tenth of a second at a time."""
    seen = [vm.status]
    while not operation.is_done:
        world.advance(_SECOND / 10)
        if vm.status is not seen[-1]:
            seen.append(vm.status)
    return seen


def test_an_insert_takes_seconds_and_ends_in_running() -> None:
    """A new VM is PROVISIONING, then STAGING, and RUNNING 5 to 31 seconds after it was asked for."""
    world = new_world()
    operation = world.insert(PROJECT, ZONE, body())
    vm = world.instance(PROJECT, "vm")
    assert operation.status == "PENDING"
    assert statuses(world, vm, operation) == [Status.PROVISIONING, Status.STAGING, Status.RUNNING]
    assert timedelta(seconds=5) <= operation.ends_at - START <= timedelta(seconds=31)


@pytest.mark.parametrize("again", ["start", "resume"])
def test_last_start_is_the_end_of_the_operation_that_started_it(again: str) -> None:
    """lastStartTimestamp equals the endTime of the insert, start or resume, to the millisecond."""
    world = new_world()
    operation = world.insert(PROJECT, ZONE, body())
    world.advance(MINUTE)
    vm = world.instance(PROJECT, "vm")
    assert vm.last_start == operation.end_time
    world.request("stop" if again == "start" else "suspend", PROJECT, ZONE, "vm")
    world.advance(3 * MINUTE)
    operation = world.request(again, PROJECT, ZONE, "vm")
    world.advance(MINUTE)
    assert (vm.status, vm.last_start) == (Status.RUNNING, operation.end_time)


def test_stopping_begins_with_the_operation_and_last_stop_is_written_just_before_its_end() -> None:
    """Billing ends at the stop's startTime, far before the lastStopTimestamp."""
    world = new_world()
    vm = up(world)
    operation = world.stop(PROJECT, "vm")
    assert statuses(world, vm, operation) == [Status.RUNNING, Status.STOPPING, Status.TERMINATED]
    assert operation.start_time is not None
    assert operation.end_time is not None
    assert vm.runs[0].ended == operation.start_time
    assert vm.last_stop is not None
    assert timedelta(0) < operation.end_time - vm.last_stop <= _SECOND
    assert vm.last_stop - operation.start_time >= timedelta(seconds=20)


def test_last_stop_is_absent_at_first_and_stale_while_the_vm_runs_again() -> None:
    """A start does not clear lastStopTimestamp, so it lies before lastStartTimestamp."""
    world = new_world()
    vm = up(world)
    assert "lastStopTimestamp" not in instance_resource(world.links, vm)
    world.stop(PROJECT, "vm")
    world.advance(3 * MINUTE)
    world.start(PROJECT, "vm")
    world.advance(MINUTE)
    shown = instance_resource(world.links, vm)
    assert shown["status"] == "RUNNING"
    assert vm.last_stop is not None
    assert vm.last_start is not None
    assert shown["lastStopTimestamp"] == pacific(vm.last_stop) < pacific(vm.last_start)


def test_stops_take_as_long_as_they_really_do() -> None:
    """Half of all stops take under about 49 seconds, nine of ten under 57, none over two minutes."""
    world = new_world()
    operations = []
    for number in range(200):
        world.insert(PROJECT, ZONE, body(f"vm-{number}"))
    world.advance(HOUR)
    operations = [world.stop(PROJECT, f"vm-{number}") for number in range(200)]
    world.advance(HOUR)
    lengths = sorted(
        (one.end_time - one.start_time).total_seconds() for one in operations if one.end_time and one.start_time
    )
    assert len(lengths) == 200
    assert 45 <= lengths[100] <= 52
    assert 52 <= lengths[180] <= 75
    assert lengths[-1] <= 120


def test_deleting_a_running_vm_takes_minutes_and_then_it_is_not_found() -> None:
    """It shows STOPPING until the delete ends; after that the name answers 404 and the disk is gone."""
    world = new_world()
    vm = up(world)
    operation = world.delete(PROJECT, "vm")
    assert statuses(world, vm, operation) == [Status.RUNNING, Status.STOPPING, Status.DELETED]
    assert operation.end_time is not None
    assert operation.end_time - operation.insert_time > timedelta(seconds=99)
    assert vm.deleted_at == operation.end_time
    assert world.disks(PROJECT) == []
    with pytest.raises(Refused, match="was not found") as refused:
        world.instance(PROJECT, "vm", ZONE)
    assert refused.value.code == 404


def test_a_disk_without_auto_delete_outlives_its_vm() -> None:
    """It stays, without users, and the next VM can be made from it."""
    world = new_world()
    made = body()
    made["disks"][0]["autoDelete"] = False
    world.insert(PROJECT, ZONE, made)
    world.advance(MINUTE)
    world.delete(PROJECT, "vm")
    world.advance(5 * MINUTE)
    (disk,) = world.disks(PROJECT)
    assert disk.users == []
    world.insert(PROJECT, ZONE, body("next", disks=[{"boot": True, "source": f"zones/{ZONE}/disks/vm"}]))
    assert disk.users == [world.instance(PROJECT, "next")]


def test_suspend_and_resume() -> None:
    """SUSPENDING, SUSPENDED, and then up again by way of PROVISIONING; the memory is held in between."""
    world = new_world()
    vm = up(world)
    operation = world.suspend(PROJECT, "vm")
    assert statuses(world, vm, operation) == [Status.RUNNING, Status.SUSPENDING, Status.SUSPENDED]
    assert vm.last_suspend == operation.end_time
    assert vm.saved_memory[0].began == operation.start_time == vm.runs[0].ended
    operation = world.resume(PROJECT, "vm")
    assert statuses(world, vm, operation) == [
        Status.SUSPENDED,
        Status.PROVISIONING,
        Status.STAGING,
        Status.RUNNING,
    ]
    assert vm.saved_memory[0].ended == operation.end_time


def test_stopping_a_stopped_vm_is_done_at_once_and_without_error() -> None:
    """Starting a running VM is done at once too: nothing changes, no new lifetime begins."""
    world = new_world()
    vm = up(world)
    again = world.start(PROJECT, "vm")
    world.advance(MINUTE)
    assert (again.status, again.failure, len(vm.runs)) == ("DONE", None, 1)
    world.stop(PROJECT, "vm")
    world.advance(3 * MINUTE)
    before = vm.last_stop
    again = world.stop(PROJECT, "vm")
    world.advance(2 * _SECOND)
    assert (again.status, again.failure, vm.last_stop) == ("DONE", None, before)


def test_starting_a_vm_that_is_stopping_is_not_ready() -> None:
    """The request is accepted, and its operation fails."""
    world = new_world()
    up(world)
    world.stop(PROJECT, "vm")
    world.advance(5 * _SECOND)
    operation = world.start(PROJECT, "vm")
    world.advance(5 * _SECOND)
    assert operation.failure is not None
    assert (operation.failure.code, operation.failure.http) == ("RESOURCE_NOT_READY", 400)


def test_a_delete_waits_for_an_insert_under_way() -> None:
    """Requests of one VM are worked off one after another."""
    world = new_world()
    insert = world.insert(PROJECT, ZONE, body())
    delete = world.delete(PROJECT, "vm")
    world.advance(5 * MINUTE)
    assert insert.end_time is not None
    assert delete.start_time is not None
    assert delete.start_time >= insert.end_time


def test_a_second_delete_finds_nothing() -> None:
    """The operation ends in RESOURCE_NOT_FOUND."""
    world = new_world()
    up(world)
    world.delete(PROJECT, "vm")
    second = world.delete(PROJECT, "vm")
    world.advance(10 * MINUTE)
    assert second.failure is not None
    assert second.failure.code == "RESOURCE_NOT_FOUND"


def test_a_graceful_stop_shows_pending_stop_and_bills_until_stopping() -> None:
    """The guest still runs after the stop has started, with gracefulShutdown."""
    world = new_world()
    graceful = {"gracefulShutdown": {"enabled": True, "maxDuration": {"seconds": "120"}}}
    vm = up(world, scheduling=graceful)
    operation = world.stop(PROJECT, "vm")
    assert statuses(world, vm, operation) == [
        Status.RUNNING,
        Status.PENDING_STOP,
        Status.STOPPING,
        Status.TERMINATED,
    ]
    assert operation.start_time is not None
    assert vm.runs[0].ended is not None
    assert timedelta(seconds=4) < vm.runs[0].ended - operation.start_time <= timedelta(seconds=120)


def test_a_name_used_again_is_another_instance() -> None:
    """Ids are uint64, sent as text, and never come twice."""
    world = new_world()
    first = up(world)
    world.delete(PROJECT, "vm")
    world.advance(5 * MINUTE)
    second = up(world)
    assert first.id != second.id
    assert instance_resource(world.links, second)["id"] == str(second.id)
    assert 0 < second.id < 2**64


def test_times_are_written_in_pacific_time() -> None:
    """Milliseconds and the offset of Los Angeles, winter and summer; only the run-time limit is in UTC."""
    winter = instance_resource("x", up(new_world()))
    assert winter["creationTimestamp"] == "2026-11-20T01:00:00.000-08:00"
    summer_world = new_world(START.replace(month=7))
    scheduling = {**SPOT["scheduling"], "maxRunDuration": {"seconds": "3600"}}
    summer = instance_resource("x", up(summer_world, scheduling=scheduling))
    assert summer["creationTimestamp"] == "2026-07-20T02:00:00.000-07:00"
    assert summer["resourceStatus"]["scheduling"]["terminationTimestamp"].startswith("2026-07-20T10:00:00.")
    assert summer["resourceStatus"]["scheduling"]["terminationTimestamp"].endswith("Z")


def test_one_seed_is_one_history() -> None:
    """The same requests at the same times give the same ids and times; another seed gives others."""

    def history(seed: int) -> list[object]:
        world = new_world(seed=seed)
        vm = up(world)
        world.stop(PROJECT, "vm")
        world.advance(HOUR)
        return [vm.id, vm.last_start, vm.last_stop]

    assert history(1) == history(1) != history(2)


def test_clock_steps_do_not_change_the_history() -> None:
    """A long step does all that many short ones do, at the same moments."""

    def history(steps: int) -> list[object]:
        world = new_world()
        world.insert(PROJECT, ZONE, body())

        def stop() -> None:
            world.stop(PROJECT, "vm")

        world.at(START + 2 * MINUTE, stop)
        for _ in range(steps):
            world.advance(HOUR / steps)
        vm = world.instance(PROJECT, "vm")
        return [vm.last_start, vm.runs[0].ended, vm.last_stop]

    assert history(1) == history(360)
