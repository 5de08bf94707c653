"""The price list against the machine types."""

from datetime import timedelta

import pytest
from tests.sandbox.conformance.fleet import PROJECT, START, ZONE, body

from costguard_sandbox.catalogue.machine_types import MACHINE_TYPES
from costguard_sandbox.clock import ManualClock
from costguard_sandbox.meter import bill
from costguard_sandbox.world import World

CUSTOM = ("custom-4-5120", "n1-custom-2-4096", "n2-custom-4-8192", "n2d-custom-4-8192", "e2-custom-4-8192")
SPOT = {"provisioningModel": "SPOT", "onHostMaintenance": "TERMINATE"}


@pytest.mark.parametrize("spot", [False, True], ids=["standard", "spot"])
def test_whatever_can_be_created_can_be_billed(spot: bool) -> None:
    """Every machine type of a zone, custom ones too, has a price for each of its parts, both ways."""
    world = World(ManualClock(START), projects=[PROJECT])
    names = (*MACHINE_TYPES, *CUSTOM)
    for name in names:
        scheduling = SPOT if spot else {"onHostMaintenance": "TERMINATE"}
        world.insert(PROJECT, ZONE, body(f"vm-{name}", name, scheduling=scheduling))
    world.advance(timedelta(minutes=5))
    bills = [bill(vm, world.prices, world.now) for vm in world.every_vm()]
    assert len(bills) == len(names)
    assert [(one.vm.name, one.unpriced) for one in bills if one.unpriced or not one.nanos] == []


def test_a_shared_core_bills_a_part_of_one() -> None:
    """An e2-micro shows its guest two vCPUs and bills a quarter of one, as Google says."""
    world = World(ManualClock(START), projects=[PROJECT])
    for name in ("e2-micro", "e2-standard-2"):
        world.insert(PROJECT, ZONE, body(f"vm-{name}", name))
    world.advance(timedelta(hours=2))
    micro, whole = (bill(vm, world.prices, world.now).resources["e2:core"] for vm in world.every_vm())
    assert micro.nanos / micro.seconds * 8 == pytest.approx(whole.nanos / whole.seconds)
