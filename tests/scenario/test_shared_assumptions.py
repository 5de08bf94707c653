"""Lists what the guard's ledger and the simulated meter take for granted alike, where no outside source decides.

The two share no code, table or figure (tests/sandbox/gce/test_meter_independence.py). Where Google's words and the
recorded bills leave something open, both had to choose, and chose the same: those choices are listed here, each with
the reason why nothing decides it, and each is tried on both sides. A difference that is not on the list would show in
the tests of their sums.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import select
from tests.fakes import HandClock
from tests.sandbox.vms import PROJECT, SPOT, ZONE, body, new_world

from costguard.access.rules import Rules
from costguard.daemon.reconcile import Reconciler
from costguard.db.tables import charges, instances, lifetimes, storage_spans
from costguard.db.transaction import Database
from costguard.gce.client import ComputeCloud
from costguard.gce.prices import CatalogPrices
from costguard.ledger import price_refresh
from costguard.ledger.observe import Belonging
from costguard.ledger.owner import OwnerRules
from costguard_sandbox.gce.meter import bill
from costguard_sandbox.gce.meter.usage import spans
from costguard_sandbox.gce.operations import Operation
from costguard_sandbox.gce.vm import VM
from costguard_sandbox.server import running
from costguard_sandbox.world import World

START = datetime(2026, 11, 20, 9, 0, tzinfo=UTC)
Edges = tuple[datetime, datetime | None]


@dataclass
class Lives:
    """A few short lives, and what each side has of them: what was billed, from when to when, and for how long."""

    world: World
    operations: dict[str, Operation]
    price_changed_at: datetime
    meter: dict[tuple[str, str], list[Edges]]
    guard: dict[tuple[str, str], list[Edges]]
    meter_seconds: dict[tuple[str, str], int]
    guard_seconds: dict[tuple[str, str], int]
    meter_nanos: dict[str, int]
    guard_nanos: dict[str, int]

    def both(self, vm: str, resource: str) -> tuple[list[Edges], list[Edges]]:
        return self.meter[vm, resource], self.guard[vm, resource]


def _ends(operation: Operation) -> datetime:
    assert operation.end_time is not None
    return operation.end_time


def _starts(operation: Operation) -> datetime:
    assert operation.start_time is not None
    return operation.start_time


def _a_run_begins_as_the_start_ends(lives: Lives) -> bool:
    began = _ends(lives.operations["insert plain"])
    return all(edges[0][0] == began for edges in lives.both("plain", "machine"))


def _a_run_ends_as_the_stop_begins(lives: Lives) -> bool:
    ended = _starts(lives.operations["stop plain"])
    return all(edges[0][1] == ended for edges in lives.both("plain", "machine"))


def _memory_is_held_from_suspending_until_resumed(lives: Lives) -> bool:
    held = (_starts(lives.operations["suspend asleep"]), _ends(lives.operations["resume asleep"]))
    return all(edges == [held] for edges in lives.both("asleep", "suspended-memory"))


def _a_disk_is_there_until_its_deletion_ends(lives: Lives) -> bool:
    kept = (lives.operations["insert plain"].insert_time, _ends(lives.operations["delete plain"]))
    return all(edges == [kept] for edges in lives.both("plain", "disk"))


def _a_second_is_whole_and_belongs_to_its_beginning(lives: Lives) -> bool:
    began, ended = lives.meter["plain", "machine"][0]
    assert ended is not None
    seconds = int(ended.timestamp()) - int(began.timestamp())
    return lives.meter_seconds["plain", "n1:core"] == lives.guard_seconds["plain", "n1:core"] == seconds


def _the_free_minute_counts_from_running(lives: Lives) -> bool:
    """This one was made 66 seconds before it was preempted, and ran for fewer than 60."""
    event = lives.operations["preempt young"]
    made, began = lives.operations["insert young"].insert_time, _ends(lives.operations["insert young"])
    assert event.insert_time - made > timedelta(seconds=60) > event.insert_time - began
    key = ("young", "n1:core")
    return not lives.meter_seconds.get(key) and not lives.guard_seconds.get(key)


ASSUMPTIONS: Mapping[str, tuple[Callable[[Lives], bool], str]] = {
    "a run begins as the start operation ends": (
        _a_run_begins_as_the_start_ends,
        'Google counts "from when you start an instance": the request, or RUNNING? No recorded row has both.',
    ),
    "a run ends as the stop operation begins": (
        _a_run_ends_as_the_stop_begins,
        "Google counts until the state is STOPPING, and records no moment of that; no recorded row has it either.",
    ),
    "memory is held from the suspend's beginning to the resume's end": (
        _memory_is_held_from_suspending_until_resumed,
        "Google bills what is preserved; since when it is, on the way in and out, is said nowhere.",
    ),
    "a disk is there until the delete operation ends": (
        _a_disk_is_there_until_its_deletion_ends,
        'Google bills "until you relinquish it": as the deletion is asked for, or done? Disk rows are ragged anyway.',
    ),
    "a second belongs to what was in use as it began": (
        _a_second_is_whole_and_belongs_to_its_beginning,
        "Recorded seconds are whole; which way a part of one falls is not recorded.",
    ),
    "the free minute of a preempted Spot VM counts from RUNNING": (
        _the_free_minute_counts_from_running,
        'Google\'s page says "after they are created" for the VM and "after they start running" for its GPUs.',
    ),
}


@pytest.fixture
def lives(sqlite_database: Database) -> Lives:
    """A VM that is stopped and deleted, one that sleeps for a while, and a Spot VM that Google takes back at once."""
    world, clock = new_world(START), HandClock(START)
    operations: dict[str, Operation] = {}
    changed_at = START + timedelta(minutes=30)
    with running(world) as url:
        cloud = ComputeCloud(url, clock, wait=lambda _seconds: False)
        rules, belonging = Rules({}), Belonging((), OwnerRules())
        guard = Reconciler(sqlite_database, cloud, clock, lambda: (PROJECT,), rules, belonging)
        prices = CatalogPrices(url)

        def look(seconds: float) -> None:
            world.advance(timedelta(seconds=seconds))
            clock.moment = world.now
            guard.run()

        try:
            price_refresh.refresh(sqlite_database, prices, START)
            guard.run()
            operations["insert plain"] = world.insert(PROJECT, ZONE, body("plain"))
            operations["insert asleep"] = world.insert(PROJECT, ZONE, body("asleep"))
            operations["insert young"] = world.insert(PROJECT, ZONE, body("young", **SPOT))
            world.advance_to(_young_enough(world, operations["insert young"]))
            operations["preempt young"] = world.preempt(PROJECT, "young")
            look(100.5)
            operations["suspend asleep"] = world.suspend(PROJECT, "asleep")
            look(300.25)
            operations["resume asleep"] = world.resume(PROJECT, "asleep")
            look(300.25)
            world.advance_to(changed_at)
            world.prices.change("n1:ram", "us-central1", False, 9_000_000, changed_at)
            price_refresh.refresh(sqlite_database, prices, world.now)
            look(200.7)
            operations["stop plain"] = world.stop(PROJECT, "plain")
            look(400)
            operations["delete plain"] = world.delete(PROJECT, "plain")
            world.delete(PROJECT, "asleep")
            world.delete(PROJECT, "young")
            look(400)
            look(86_400)
        finally:
            cloud.close()
    lives = Lives(world, operations, changed_at, {}, {}, {}, {}, {}, {})
    for vm in world.every_vm():
        _metered(lives, vm)
    _booked(lives, sqlite_database)
    return lives


def _young_enough(world: World, insert: Operation) -> datetime:
    """More than a minute after it was made, less than a minute after it ran."""
    while not insert.is_done:
        world.advance(timedelta(seconds=1))
    return max(world.now, insert.insert_time + timedelta(seconds=61))


def _metered(lives: Lives, vm: VM) -> None:
    made = bill(vm, lives.world.prices, lives.world.now)
    lives.meter_nanos[vm.name] = made.nanos
    lives.meter_seconds |= {(vm.name, resource): one.seconds for resource, one in made.resources.items()}
    lives.meter[vm.name, "machine"] = [(run.began, run.ended) for run in vm.runs]
    for span in spans(vm, lives.world.now):
        if span.resource == "suspended-memory" or span.resource.startswith("disk:"):
            kind = span.resource.partition(":")[0]
            lives.meter.setdefault((vm.name, kind), []).append((span.began, span.ended))


def _booked(lives: Lives, database: Database) -> None:
    """The guard's own: from its tables."""
    with database.read() as connection:
        names = {row.id: row.name for row in connection.execute(select(instances))}
        runs = {row.id: row for row in connection.execute(select(lifetimes).order_by(lifetimes.c.started_at))}
        kept = {row.id: row for row in connection.execute(select(storage_spans).order_by(storage_spans.c.started_at))}
        for row in runs.values():
            lives.guard.setdefault((names[row.instance_id], "machine"), []).append((row.started_at, row.ended_at))
        for row in kept.values():
            kind = str(row.resource).partition(":")[0]
            if row.started_at != row.ended_at:
                lives.guard.setdefault((names[row.instance_id], kind), []).append((row.started_at, row.ended_at))
        for charge in connection.execute(select(charges)):
            name = names[(runs if charge.span == "lifetime" else kept)[charge.span_id].instance_id]
            key = (name, str(charge.resource))
            lives.guard_seconds[key] = lives.guard_seconds.get(key, 0) + charge.seconds
            lives.guard_nanos[name] = lives.guard_nanos.get(name, 0) + charge.amount_nanos


def test_shared_assumptions_are_those_listed(lives: Lives) -> None:
    """Each holds on both sides. The goal is none: a recorded bill that decides one takes it off the list."""
    assert [name for name, (holds, _) in ASSUMPTIONS.items() if not holds(lives)] == []
    assert all(why for _, why in ASSUMPTIONS.values())
    assert len(ASSUMPTIONS) == 6


def test_nothing_else_separates_them(lives: Lives) -> None:
    """Down to the rounding of single charges: what one side rounds day by day, the other adds up exactly."""
    assert lives.guard_nanos.keys() == lives.meter_nanos.keys()
    for name, nanos in lives.meter_nanos.items():
        assert abs(lives.guard_nanos[name] - nanos) <= 20, name


def test_a_price_holds_from_its_effective_time_on_both_sides(lives: Lives) -> None:
    """Google's PricingInfo says so: the memory of one VM is charged at two prices, cut at the same second."""
    assert lives.price_changed_at < _starts(lives.operations["stop plain"])
    assert lives.guard_seconds["plain", "n1:ram"] == lives.meter_seconds["plain", "n1:ram"]
