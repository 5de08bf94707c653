"""The meter against bills worked out by hand from the price list."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any

import pytest
from tests.sandbox.vms import ADDRESS, HOUR, MINUTE, PROJECT, SPOT, START, ZONE, body, new_world, up

from costguard_sandbox.gce.meter import bill, disk_bills
from costguard_sandbox.gce.vm import VM, Run
from costguard_sandbox.world import World


def seconds(one: datetime | None, other: datetime | None) -> int:
    """Billed seconds between two moments: whole epoch seconds, rounded down at both ends."""
    assert one is not None
    assert other is not None
    return int(other.timestamp()) - int(one.timestamp())


NOVEMBER = 2_595_600
"""Seconds of a November in US Pacific time: 30 days and the hour that daylight saving gives back."""


def cost(nanos: int, quantity: int, used: int, per: int = 3600) -> int:
    """Exact, then rounded once."""
    return round(Fraction(nanos * quantity * used, per))


def billed(world: World, vm: VM, resource: str) -> tuple[int, int]:
    billed = bill(vm, world.prices, world.now).resources[resource]
    return billed.seconds, billed.nanos


def test_a_run_is_billed_from_running_to_stopping() -> None:
    """Neither the way up nor the way down costs anything but the disk."""
    world = new_world()
    vm = up(world)
    world.advance(HOUR)
    stop = world.stop(PROJECT, "vm")
    world.advance(HOUR)
    ran = seconds(vm.last_start, stop.start_time)
    # 4 vCPUs at 0.031611 and 15 GiB at 0.004237 dollars an hour.
    assert billed(world, vm, "n1:core") == (ran, cost(31_611_000, 4, ran))
    assert billed(world, vm, "n1:ram") == (ran, cost(4_237_000, 15, ran))


def test_a_disk_is_billed_from_creation_to_the_end_of_the_delete() -> None:
    """The disk bills while the VM is stopped too; 50 GiB at 0.10 dollars for the whole of November."""
    world = new_world()
    vm = up(world)
    world.stop(PROJECT, "vm")
    world.advance(5 * HOUR)
    delete = world.delete(PROJECT, "vm")
    world.advance(HOUR)
    kept = seconds(START, delete.end_time)
    assert billed(world, vm, "disk:pd-balanced") == (kept, cost(100_000_000, 50, kept, NOVEMBER))


def test_a_bill_does_not_depend_on_when_it_is_read() -> None:
    """A deleted VM costs nothing more, and a charge is never moved between looks."""
    world = new_world()
    vm = up(world)
    world.delete(PROJECT, "vm")
    world.advance(HOUR)
    first = bill(vm, world.prices, world.now)
    world.advance(timedelta(days=40))
    assert bill(vm, world.prices, world.now).shown() == first.shown()


def _half_minute(**more: Any) -> tuple[World, VM]:
    world = new_world()
    operation = world.insert(PROJECT, ZONE, body(**more))
    vm = world.instance(PROJECT, "vm")
    while not operation.is_done:
        world.advance(timedelta(seconds=1))
    world.advance(timedelta(seconds=20))
    return world, vm


def test_a_short_run_costs_a_minute() -> None:
    """Stopped after twenty seconds: sixty are billed."""
    world, vm = _half_minute()
    world.stop(PROJECT, "vm")
    world.advance(5 * MINUTE)
    assert billed(world, vm, "n1:core")[0] == 60


def test_a_spot_vm_preempted_in_its_first_minute_costs_only_its_disk() -> None:
    """A preemption later than that is billed, and so is a short run that its owner stopped."""
    world, vm = _half_minute(**SPOT)
    world.preempt(PROJECT, "vm")
    world.advance(5 * MINUTE)
    assert set(bill(vm, world.prices, world.now).resources) == {"disk:pd-balanced"}
    world.start(PROJECT, "vm")
    world.advance(10 * MINUTE)
    event = world.preempt(PROJECT, "vm")
    world.advance(5 * MINUTE)
    assert billed(world, vm, "n1:core")[0] == seconds(vm.last_start, event.insert_time)


def test_a_spot_vm_has_spot_prices_for_its_machine_and_none_for_its_disk() -> None:
    """0.0080110 a core and hour instead of 0.031611; the disk costs what every disk costs."""
    world = new_world()
    vm = up(world, **SPOT)
    world.advance(HOUR)
    ran = seconds(vm.last_start, world.now)
    assert billed(world, vm, "n1:core") == (ran, cost(8_011_000, 4, ran))
    kept = seconds(START, world.now)
    assert billed(world, vm, "disk:pd-balanced")[1] == cost(100_000_000, 50, kept, NOVEMBER)


def test_total_is_rounded_once() -> None:
    """The bill is off by less than a nano-dollar, however many days, months and prices it spans."""
    world = new_world(datetime(2026, 11, 20, 23, 0, tzinfo=UTC))
    vm = up(world)
    world.advance(26 * HOUR)
    used = seconds(datetime(2026, 11, 20, 23, 0, tzinfo=UTC), world.now)
    assert billed(world, vm, "disk:pd-balanced") == (used, cost(100_000_000, 50, used, NOVEMBER))


def test_disk_is_divided_by_each_month_that_it_lives_in() -> None:
    """Eight hours around the end of a Pacific November: its seconds are of 721 hours, December's of 744."""
    world = new_world(datetime(2026, 12, 1, 4, 0, tzinfo=UTC))
    vm = up(world)
    world.advance_to(datetime(2026, 12, 1, 12, 0, tzinfo=UTC))
    expected = Fraction(100_000_000 * 50 * 4 * 3600, NOVEMBER) + Fraction(100_000_000 * 50 * 4 * 3600, 744 * 3600)
    assert billed(world, vm, "disk:pd-balanced") == (8 * 3600, round(expected))


def test_a_new_price_holds_from_its_moment_on() -> None:
    """The use before keeps the price of its time."""
    world = new_world()
    vm = up(world)
    world.advance(HOUR)
    changed = world.now
    world.prices.change("n1:core", "us-central1", False, 60_000_000, changed)
    world.advance(HOUR)
    before, after = seconds(vm.last_start, changed), seconds(changed, world.now)
    expected = cost(31_611_000, 4, before) + cost(60_000_000, 4, after)
    assert billed(world, vm, "n1:core") == (before + after, expected)


def test_saved_memory_is_billed_until_the_vm_is_up_again() -> None:
    """The memory bills from the suspend's start to the resume's end; the machine costs nothing in between."""
    world = new_world()
    vm = up(world)
    suspend = world.suspend(PROJECT, "vm")
    world.advance(HOUR)
    resume = world.resume(PROJECT, "vm")
    world.advance(HOUR)
    assert billed(world, vm, "suspended-memory")[0] == seconds(suspend.start_time, resume.end_time)
    ran = seconds(vm.runs[0].began, suspend.start_time) + seconds(resume.end_time, world.now)
    # Two runs of one minute's minimum each: the first ended within its first minute.
    short = max(0, 60 - seconds(vm.runs[0].began, suspend.start_time))
    assert billed(world, vm, "n1:core")[0] == ran + short


def test_a_vm_that_was_never_made_costs_nothing() -> None:
    """A stockout bills neither machine nor disk."""
    world = new_world()
    world.faults.add("stockout")
    world.insert(PROJECT, ZONE, body())
    world.advance(HOUR)
    assert world.every_vm() == []


@pytest.mark.parametrize(
    ("machine", "more", "resources"),
    [
        ("a2-highgpu-1g", {}, {"a2:core", "a2:ram", "gpu:nvidia-tesla-a100"}),
        (
            "n1-standard-8",
            {"guestAccelerators": [{"acceleratorType": "nvidia-tesla-t4", "acceleratorCount": 2}]},
            {"n1:core", "n1:ram", "gpu:nvidia-tesla-t4"},
        ),
        ("n1-custom-4-8192", {}, {"n1-custom:core", "n1-custom:ram"}),
    ],
)
def test_each_part_of_a_machine_has_its_own_line(machine: str, more: dict[str, Any], resources: set[str]) -> None:
    """Cores, memory and GPUs, built in or attached; custom types have prices of their own."""
    world = new_world()
    vm = up(world, machine=machine, scheduling={"onHostMaintenance": "TERMINATE"}, **more)
    world.advance(HOUR)
    billed = bill(vm, world.prices, world.now)
    assert (set(billed.resources), billed.unpriced) == (resources | {"disk:pd-balanced"}, [])


@pytest.mark.parametrize(
    ("machine", "resources", "quantities"),
    [
        ("f1-micro", {"shared:f1-micro"}, (1,)),
        ("g1-small", {"shared:g1-small"}, (1,)),
        ("e2-micro", {"e2:core", "e2:ram"}, (Fraction(1, 4), 1)),
        ("e2-small", {"e2:core", "e2:ram"}, (Fraction(1, 2), 2)),
        ("e2-medium", {"e2:core", "e2:ram"}, (1, 4)),
        ("e2-custom-4-8192", {"e2-custom:core", "e2-custom:ram"}, (4, 8)),
        ("n1-custom-2-20480-ext", {"n1-custom:core", "n1-custom:ram", "n1-custom-extended:ram"}, (7, 2, 13)),
        ("n2-custom-2-16384-ext", {"n2-custom:core", "n2-custom:ram"}, (2, 16)),
        ("n2d-custom-2-20480-ext", {"n2d-custom:core", "n2d-custom:ram", "n2d-custom-extended:ram"}, (4, 2, 16)),
    ],
)
def test_cores_and_memory_bill_as_google_says(
    machine: str, resources: set[str], quantities: tuple[Fraction, ...]
) -> None:
    """Shared cores: N1's have one price, E2's are parts of a core. Memory above 6.5 or 8 GiB a vCPU is extended."""
    world = new_world()
    vm = up(world, machine=machine)
    world.advance(HOUR)
    billed = bill(vm, world.prices, world.now).resources
    assert set(billed) == resources | {"disk:pd-balanced"}
    for resource, quantity in zip(sorted(resources), quantities, strict=True):
        rate, _ = world.prices.rate(resource, "us-central1", False, world.now)
        assert billed[resource].exact == rate * quantity * billed[resource].seconds / Fraction(3600)


def test_preemption_after_a_minute_is_billed() -> None:
    """Free is only what lasted less than a minute; sixty seconds are charged, and not a second more."""
    world = new_world()
    vm = up(world, **SPOT)
    vm.runs = [Run(START, START + timedelta(seconds=60), preempted=True)]
    assert billed(world, vm, "n1:core")[0] == 60
    vm.runs = [Run(START, START + timedelta(seconds=59, milliseconds=999), preempted=True)]
    assert "n1:core" not in bill(vm, world.prices, world.now).resources


def test_owner_who_stops_a_spot_vm_at_once_pays_the_minute() -> None:
    """Google's own preemption alone is free."""
    world, vm = _half_minute(**SPOT)
    world.stop(PROJECT, "vm")
    world.advance(5 * MINUTE)
    assert billed(world, vm, "n1:core")[0] == 60


def test_preemption_while_the_vm_comes_up_bills_no_uptime() -> None:
    """It never reached RUNNING: only its disk costs anything."""
    world = new_world()
    world.insert(PROJECT, ZONE, body(**SPOT))
    world.advance(timedelta(seconds=2))
    vm = world.instance(PROJECT, "vm")
    world.preempt(PROJECT, "vm")
    world.advance(HOUR)
    assert vm.runs == []
    assert set(bill(vm, world.prices, world.now).resources) == {"disk:pd-balanced"}


def test_repair_ends_one_uptime_and_begins_another() -> None:
    """A host error bills until the failure; the seconds of the repair cost nothing."""
    world = new_world()
    vm = up(world)
    world.advance(HOUR)
    event = world.trigger("host-error", PROJECT, "vm")
    world.advance(HOUR)
    first, second = vm.runs
    assert first.ended == event.insert_time
    assert billed(world, vm, "n1:core")[0] == seconds(first.began, first.ended) + seconds(second.began, world.now)


def test_a_local_ssd_bills_with_the_vm() -> None:
    """While the machine runs, by GiB and month, to the second: the minute is for cores, memory and GPUs alone."""
    world = new_world()
    wanted = body()
    wanted["disks"].append({"type": "SCRATCH", "interface": "NVME", "autoDelete": True})
    world.insert(PROJECT, ZONE, wanted)
    world.advance(MINUTE)
    vm = world.instance(PROJECT, "vm")
    stop = world.stop(PROJECT, "vm")
    world.advance(HOUR)
    assert vm.shape.local_ssd_gib == 375
    used = seconds(vm.last_start, stop.start_time)
    assert used < 60
    assert billed(world, vm, "n1:core")[0] == 60
    assert billed(world, vm, "local-ssd") == (used, cost(80_000_000, 375, used, NOVEMBER))


def test_disk_that_outlives_its_vm_bills_on() -> None:
    """The disk is on no VM's bill: from the VM's deletion to its own, and before it was first attached."""
    world = new_world()
    wanted = body()
    wanted["disks"][0]["autoDelete"] = False
    world.insert(PROJECT, ZONE, wanted)
    vm_until = world.delete(PROJECT, "vm")
    world.advance(5 * HOUR)
    (disk,) = world.storage.ever
    gone = world.storage.delete(PROJECT, ZONE, "vm", "ana@example.com")
    world.advance(HOUR)
    (loose,) = disk_bills([disk], world.every_vm(), world.prices, world.now)
    alone = seconds(vm_until.end_time, gone.end_time)
    assert alone > 4 * HOUR.seconds
    assert loose.resources["disk:pd-balanced"].seconds == alone
    assert loose.nanos == cost(100_000_000, 50, alone, NOVEMBER)
    vm = world.every_vm()[0]
    assert billed(world, vm, "disk:pd-balanced")[0] + alone == seconds(START, gone.end_time)


def test_disk_of_its_own_bills_before_it_is_attached() -> None:
    """The disk costs what it costs attached; while a VM holds it, it is on the VM's bill."""
    world = new_world()
    made = world.storage.insert(PROJECT, ZONE, {"name": "data", "sizeGb": "200"}, "ana@example.com")
    world.advance(HOUR)
    vm = up(world)
    attach = world.storage.attach(vm, {"source": f"zones/{ZONE}/disks/data"}, "ana@example.com")
    world.advance(HOUR)
    (loose,) = disk_bills(world.storage.ever, world.every_vm(), world.prices, world.now)
    assert loose.disk.name == "data"
    assert loose.resources["disk:pd-standard"].seconds == seconds(made.insert_time, attach.end_time)
    assert billed(world, vm, "disk:pd-standard")[0] == seconds(attach.end_time, world.now)


def test_an_ephemeral_address_is_billed_while_its_vm_runs() -> None:
    """Each second counts, at 0.005 dollars an hour: there is no least minute."""
    world = new_world()
    vm = up(world, **ADDRESS)
    world.advance(HOUR)
    stop = world.stop(PROJECT, "vm")
    world.advance(HOUR)
    ran = seconds(vm.last_start, stop.start_time)
    assert billed(world, vm, "external-ip") == (ran, cost(5_000_000, 1, ran))


def test_an_address_costs_a_spot_vm_half() -> None:
    """The catalogue has an SKU of its own for it."""
    world = new_world()
    vm = up(world, **ADDRESS, **SPOT)
    world.advance(HOUR)
    ran = seconds(vm.last_start, world.now)
    assert billed(world, vm, "external-ip") == (ran, cost(2_500_000, 1, ran))


def test_a_static_address_is_billed_while_its_vm_is_stopped() -> None:
    """Google: in use "whether the instance is running or stopped"."""
    world = new_world()
    interface = {"network": "global/networks/default", "accessConfigs": [{"natIP": "203.0.113.9"}]}
    vm = up(world, networkInterfaces=[interface])
    world.stop(PROJECT, "vm")
    world.advance(HOUR)
    had = seconds(vm.last_start, world.now)
    assert billed(world, vm, "external-ip") == (had, cost(5_000_000, 1, had))
