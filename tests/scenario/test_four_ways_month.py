"""A month of VMs bought in four ways, with external addresses: to the cent what the meter says, and the bill agrees."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from sqlalchemy import select
from tests.gce.conftest import Waits
from tests.sandbox.gce.test_reservations import named
from tests.scenario.books import assert_consistent, estimates, total_spend
from tests.scenario.fleet import body
from tests.within import charge_due

from costguard.access.rules import Rules
from costguard.bill.comparing import BillComparer
from costguard.bill.export_row import read_row
from costguard.bill.export_sums import ExportSums
from costguard.bill.lines import EXPLAINED, Reason
from costguard.bill.store import store
from costguard.daemon.looker import LookPace
from costguard.daemon.reconcile import Reconciler
from costguard.db.tables import bill_differences, instances, lifetimes
from costguard.db.transaction import Database
from costguard.gce.client import ComputeCloud
from costguard.gce.prices import CatalogPrices
from costguard.ledger.observe import Belonging
from costguard.ledger.owner import OwnerRules
from costguard.ledger.price_refresh import refresh
from costguard.main.bill import sold_as
from costguard_sandbox.clock import ManualClock
from costguard_sandbox.gce import belongings
from costguard_sandbox.gce.billing import ExportOptions, billing_export
from costguard_sandbox.gce.catalogue.prices import PriceList
from costguard_sandbox.gce.catalogue.skus import sku_names
from costguard_sandbox.gce.meter import bills
from costguard_sandbox.gce.vm import Status
from costguard_sandbox.server import running
from costguard_sandbox.world import World

START = datetime(2026, 10, 30, 17, tzinfo=UTC)  # the clocks of Google's own zone go back on 1 November
HOUR, CENT = timedelta(hours=1), 10_000_000
PROJECT = "acme-training"
WAYS = ("STANDARD", "SPOT", "FLEX_START", "RESERVATION_BOUND")
# a4-highgpu-8g is not sold on demand, and calendar mode has whole prices of it alone.
MACHINES = {
    "STANDARD": ("a2-highgpu-1g", "a2-ultragpu-1g", "g2-standard-8"),
    "SPOT": ("a2-highgpu-1g", "a3-highgpu-1g", "a4-highgpu-8g"),
    "FLEX_START": ("a2-highgpu-1g", "a2-ultragpu-1g", "a3-highgpu-8g", "a4-highgpu-8g", "g2-standard-8"),
    "RESERVATION_BOUND": ("a4-highgpu-8g",),
}


def _zone(machine: str) -> str:
    return "us-central1-b" if machine.startswith("a4") else "us-central1-a"


def _given(name: str, machine: str, way: str, limit: int = 7 * 86_400) -> dict[str, Any]:
    """Makes a client's request. A flex-start VM names a limit and no reservation; a bound one names its own."""
    given = body(name, _zone(machine), machine)
    scheduling: dict[str, Any] = {"provisioningModel": way, "onHostMaintenance": "TERMINATE", "automaticRestart": False}
    if way == "FLEX_START":
        scheduling |= {"maxRunDuration": {"seconds": str(limit)}, "instanceTerminationAction": "DELETE"}
        given["reservationAffinity"] = {"consumeReservationType": "NO_RESERVATION"}
    if way == "RESERVATION_BOUND":
        return {**given, **named(model=way)}
    return {**given, "scheduling": scheduling}


def _reserved(world: World) -> None:
    """Gives the project a dense reservation for each machine that is bound to one."""
    for machine in MACHINES["RESERVATION_BOUND"]:
        held = {"count": "500", "instanceProperties": {"machineType": machine}}
        dense = {"specificReservationRequired": True, "deploymentType": "DENSE", "specificReservation": held}
        world.belongings.append(belongings.Belonging("reservation", PROJECT, _zone(machine), "train", START, dense))


@contextmanager
def _guarded(database: Database, world: World) -> Iterator[Reconciler]:
    belonging = Belonging((), OwnerRules(domain="example.com"))
    with running(world) as url, closing(ComputeCloud(url, world.clock, wait=Waits())) as cloud:
        refresh(database, CatalogPrices(url), world.now)
        yield Reconciler(database, cloud, world.clock, lambda: (PROJECT,), Rules({}), belonging, LookPace(1))


class _Life:
    """VMs are made in each way in turn, stop, start and go, at odd seconds; a flex-start one runs for days at most."""

    def __init__(self, world: World, seed: int) -> None:
        self._world, self._chance, self._number = world, random.Random(seed), 0

    def plan(self, until: datetime) -> None:
        moment = START
        while moment < until:
            moment += timedelta(hours=self._chance.uniform(3.5, 9))
            self._world.at(moment, self._something)

    def _something(self) -> None:
        running_vms = [vm for vm in self._world.instances(PROJECT) if vm.status is Status.RUNNING]
        if len(running_vms) < 6:
            self._create()
            return
        vm = self._chance.choice(running_vms)
        verb = self._chance.choice(("stop", "delete"))
        self._world.request(verb, PROJECT, vm.zone, vm.name, "ana@example.com")

    def _create(self) -> None:
        self._number += 1
        way = WAYS[self._number % 4]
        machine = self._chance.choice(MACHINES[way])
        limit = self._chance.randrange(3600, 3 * 86_400)
        self._world.insert(PROJECT, _zone(machine), _given(f"vm-{self._number}", machine, way, limit))


def test_a_month_in_four_ways_costs_what_the_meter_says(sqlite_database: Database) -> None:
    """Flex-start, reserved, Spot and on demand, half of them with an address: no part is unpriced or an estimate."""
    world = World(ManualClock(START), projects=[PROJECT])
    world.prices = PriceList(("us-central1",))
    _reserved(world)
    _Life(world, 11).plan(START + timedelta(days=30))
    with _guarded(sqlite_database, world) as guard:
        for _ in range(30 * 8):
            world.advance(3 * HOUR)
            guard.run()
    with sqlite_database.write() as connection:
        assert charge_due(connection, world.now).charges == 0
        assert_consistent(connection)
        assert estimates(connection) == 0
        spent = total_spend(connection, START.date(), world.now)
        assert connection.execute(select(lifetimes.c.id).where(lifetimes.c.unpriced != "")).all() == []
        models = Counter(row.provisioning_model for row in connection.execute(select(instances)))
    metered = bills(world.every_vm(), world.prices, world.now)
    assert not any(one.unpriced for one in metered)
    assert {way.lower() for way in WAYS} == set(models)
    assert min(models.values()) > 4
    assert any("external-ip" in one.resources for one in metered)
    assert any("flex_start:local-ssd" in one.resources for one in metered)
    assert spent > 1_000_000 * CENT
    assert abs(spent - sum(one.nanos for one in metered)) < CENT // 2


@pytest.fixture
def billed(sqlite_database: Database) -> tuple[Database, World, datetime]:
    """Makes a ledger of each machine in each way for five days, as the guard recorded it."""
    world = World(ManualClock(START), projects=[PROJECT])
    world.prices = PriceList(("us-central1",))
    _reserved(world)
    world.advance(timedelta(days=1))
    made_at = world.now
    with _guarded(sqlite_database, world) as guard:
        guard.run()
        for way in WAYS:
            for machine in MACHINES[way]:
                given = _given(f"{way.lower().replace('_', '-')}-{machine}", machine, way)
                world.insert(PROJECT, _zone(machine), given)
        for _ in range(10):
            world.advance(12 * HOUR)
            guard.run()
    with sqlite_database.write() as connection:
        charge_due(connection, world.now)
    return sqlite_database, world, made_at


def _exported(world: World, since: datetime) -> list[Mapping[str, Any]]:
    options = ExportOptions(seed=3, currency="EUR", rate=Decimal("0.93"))
    since -= timedelta(days=1)
    export = billing_export(world.every_vm(), world.storage.ever, world.prices, since, world.now, options)
    return export.until(world.now + timedelta(days=2))


def _differing(database: Database, exported: list[Mapping[str, Any]], now: datetime) -> list[Any]:
    """The lines that differ without an explanation."""
    sums = ExportSums()
    sums.add(map(read_row, exported))
    store(database, sums.partitions(), "test", now, is_whole=True)
    BillComparer(database, sold_as).run(now)
    with database.read() as connection:
        rows = list(connection.execute(select(bill_differences)))
    return [row for row in rows if Reason(row.reason) not in EXPLAINED]


def test_the_bill_of_four_ways_agrees_with_the_ledger(billed: tuple[Database, World, datetime]) -> None:
    """Rows of flex-start and calendar mode are read as such, by id; the words alone say the same."""
    database, world, made_at = billed
    rows = _exported(world, made_at)
    words = {row["sku"]["description"] for row in rows}
    assert {sold_as(text) for text in words if "DWS" in text} >= {
        ("gpu:nvidia-b200:whole", "flex_start"),
        ("gpu:nvidia-b200:whole", "reservation_bound"),
        ("local-ssd", "flex_start"),
    }
    assert _differing(database, rows, world.now + timedelta(days=2)) == []


def test_flex_start_vms_billed_on_demand_differ_in_price(billed: tuple[Database, World, datetime]) -> None:
    """A group's template that leaves the model out makes standard VMs: the line says so, and what they cost more."""
    database, world, made_at = billed
    names = sku_names(world.prices, world.now)
    flex_id, _ = names["flex_start:a2:core", "us-central1", False]
    identity, text = names["a2:core", "us-central1", False]
    rows = []
    for row in _exported(world, made_at):
        if row["sku"]["id"] == flex_id:
            cost = f"{Decimal(row['cost']) * 31_611 / 17_390:.6f}"
            price = {**row["price"], "effective_price": "0.029398", "list_price": "0.029398"}
            row = {
                **row,
                "sku": {"id": identity, "description": text},
                "cost": cost,
                "cost_at_list": cost,
                "price": price,
            }
        rows.append(row)
    differing = _differing(database, rows, world.now + timedelta(days=2))
    assert {(row.resource, row.reason, row.billed_model) for row in differing} == {("a2:core", "price", "standard")}
    assert {row.vm_name for row in differing} == {"flex-start-a2-highgpu-1g", "flex-start-a2-ultragpu-1g"}
    for row in differing:
        assert row.list_nanos / row.expected_nanos == pytest.approx(31_611 / 17_390, rel=1e-3)
