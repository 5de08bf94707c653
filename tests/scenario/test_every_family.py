"""Every machine type that the simulated cloud sells costs the ledger what its meter says, in each way it is sold."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from fractions import Fraction

import pytest
from tests.gce.conftest import Waits
from tests.sandbox.gce.conformance.fleet import PROJECT
from tests.sandbox.gce.conformance.test_everything_is_sold import CUSTOM, MODELS, insert

from costguard.gce.client import ComputeCloud
from costguard.gce.prices import CatalogPrices
from costguard.ledger.price_book import PriceBook
from costguard.ledger.pricing import bill_lifetime
from costguard.model.instance import ProvisioningModel, SeenInstance
from costguard.model.lifetime import Lifetime
from costguard_sandbox.clock import ManualClock
from costguard_sandbox.gce.catalogue.machine_types import MACHINE_TYPES
from costguard_sandbox.gce.meter import bill
from costguard_sandbox.gce.meter.bill import Bill
from costguard_sandbox.server import running
from costguard_sandbox.world import World

START = datetime(2026, 11, 16, 9, tzinfo=UTC)
_A_CENT = 10_000_000


@pytest.mark.parametrize("model", MODELS)
def test_ledger_and_meter_price_every_type_alike(model: str) -> None:
    """The VMs are read and priced over HTTP, as Google's would be; the meter never saw the guard's code."""
    world = World(ManualClock(START), projects=[PROJECT])
    sold = [name for name, machine in MACHINE_TYPES.items() if model in machine.models]
    for name in (*sold, *CUSTOM):
        insert(world, name, MODELS[model])
    world.advance(timedelta(hours=6))
    with running(world) as url:
        cloud = ComputeCloud(url, ManualClock(world.now), wait=Waits())
        seen = {vm.name: vm for vm in cloud.observe(PROJECT, None).instances}
        book = PriceBook(CatalogPrices(url).fetch())
        cloud.close()
    assert len(seen) == len(sold) + len(CUSTOM)
    unlike = {}
    for vm in world.every_vm():
        metered = bill(vm, world.prices, world.now)
        meters = machine(metered)
        ours = _bill(seen[vm.name], book, world.now)
        if abs(ours - meters) >= _A_CENT or metered.unpriced:
            unlike[vm.name] = (ours, round(meters), metered.unpriced)
    assert unlike == {}


def test_tpus_by_flex_start_cost_what_the_meter_says() -> None:
    """TPU v6e has a flex-start price in the catalogue; v5p and TPU7x have none there. V5e is not sold so."""
    world = World(ManualClock(START), projects=[PROJECT])
    flexible = {
        "provisioningModel": "FLEX_START", "onHostMaintenance": "TERMINATE", "automaticRestart": False,
        "instanceTerminationAction": "DELETE", "maxRunDuration": {"seconds": "604800"},
    }  # fmt: skip
    for name in [
        name
        for name, machine in MACHINE_TYPES.items()
        if machine.accelerators[:1] and name.startswith(("ct5p", "ct6e", "tpu7x"))
    ]:
        insert(world, name, flexible)
    world.advance(timedelta(hours=6))
    with running(world) as url:
        cloud = ComputeCloud(url, ManualClock(world.now), wait=Waits())
        seen = {vm.name: vm for vm in cloud.observe(PROJECT, None).instances}
        book = PriceBook(CatalogPrices(url).fetch())
        cloud.close()
    priced = {}
    for vm in world.every_vm():
        metered = bill(vm, world.prices, world.now)
        ours = bill_lifetime(_run(seen[vm.name]), book, world.now)
        if metered.unpriced:
            assert ours.unpriced.startswith("No price is known for gpu:"), vm.name
            assert ours.charges == ()
        else:
            priced[vm.shape.machine_type] = ours.amount.nanos
            assert abs(ours.amount.nanos - machine(metered)) < _A_CENT
    assert set(priced) == {f"ct6e-standard-{n}t" for n in (1, 4, 8)}


def machine(metered: Bill) -> Fraction:
    """The meter's sum without disks and addresses, which have spans of their own in the ledger."""
    parts = [one.exact for name, one in metered.resources.items() if not name.startswith(("disk:", "external-ip"))]
    return sum(parts, Fraction(0))


def _run(vm: SeenInstance) -> Lifetime:
    assert vm.last_started_at is not None
    return Lifetime(vm.key, vm.last_started_at, vm.shape, vm.provisioning_model, vm.zone)


def _bill(vm: SeenInstance, book: PriceBook, until: datetime) -> int:
    assert vm.provisioning_model in (ProvisioningModel.STANDARD, ProvisioningModel.SPOT)
    charge = bill_lifetime(_run(vm), book, until)
    assert charge.unpriced == "", vm.name
    assert charge.amount.nanos > 0, vm.name
    return charge.amount.nanos
