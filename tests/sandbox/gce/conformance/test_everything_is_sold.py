"""The price list against the machine types, and the machine types against the ways in which Google sells them."""

from __future__ import annotations

from datetime import timedelta
from fractions import Fraction
from typing import Any

import pytest
from tests.sandbox.gce.conformance.fleet import PROJECT, START, ZONE, body
from tests.sandbox.gce.test_reservations import named

from costguard_sandbox.clock import ManualClock
from costguard_sandbox.gce.belongings import Belonging
from costguard_sandbox.gce.catalogue.machine_types import ACCELERATOR_TYPES, MACHINE_TYPES, find
from costguard_sandbox.gce.errors import Refused
from costguard_sandbox.gce.meter import bill
from costguard_sandbox.world import World

CUSTOM = (
    "custom-4-5120",
    "n1-custom-2-4096",
    "n1-custom-2-20480-ext",
    "n2-custom-4-8192",
    "n2d-custom-4-8192",
    "e2-custom-4-8192",
    "e2-custom-micro-1280",
    "e2-custom-small-2048",
    "e2-custom-medium-8192",
)
MODELS: dict[str, dict[str, Any]] = {
    "STANDARD": {"onHostMaintenance": "TERMINATE"},
    "SPOT": {"provisioningModel": "SPOT", "onHostMaintenance": "TERMINATE"},
}


def zone_of(name: str) -> str:
    """Returns where the type is offered: the usual zone, or the first that has its GPU."""
    return ZONE if find(ZONE, name) else next(zone for zone in ACCELERATOR_TYPES if find(zone, name))


def insert(world: World, name: str, scheduling: dict[str, Any], **more: Any) -> None:
    zone = zone_of(name)
    wanted = body(f"vm-{name}", name, scheduling=scheduling, **more)
    wanted["machineType"] = f"zones/{zone}/machineTypes/{name}"
    world.insert(PROJECT, zone, wanted)


@pytest.mark.parametrize("model", MODELS)
def test_whatever_can_be_created_can_be_billed(model: str) -> None:
    """Every machine type that is sold in a model, custom ones too, has a price for each of its parts."""
    world = World(ManualClock(START), projects=[PROJECT])
    sold = [name for name, machine in MACHINE_TYPES.items() if model in machine.models]
    for name in (*sold, *CUSTOM):
        insert(world, name, MODELS[model])
    world.advance(timedelta(minutes=5))
    bills = [bill(vm, world.prices, world.now) for vm in world.every_vm()]
    assert len(bills) == len(sold) + len(CUSTOM)
    assert [(one.vm.name, one.unpriced) for one in bills if one.unpriced or not one.nanos] == []


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("a3-highgpu-1g", "STANDARD"),
        ("a3-highgpu-4g", "STANDARD"),
        ("a3-ultragpu-8g", "STANDARD"),
        ("a4-highgpu-8g", "STANDARD"),
        ("a4x-highgpu-4g", "STANDARD"),
        ("a4x-highgpu-4g", "SPOT"),
    ],
)
def test_type_that_is_not_sold_that_way_is_refused(name: str, model: str) -> None:
    """Google, "GPU machine types": small A3 only as Spot or Flex-start, A3 Ultra and A4 not on demand, A4X reserved."""
    world = World(ManualClock(START), projects=[PROJECT])
    with pytest.raises(Refused, match=rf"provisioningModel be one of the following valid types: .* But was {model}"):
        insert(world, name, MODELS[model])
    assert world.every_vm() == []


@pytest.mark.parametrize(
    "name", ["a3-highgpu-8g", "a3-megagpu-8g", "a3-edgegpu-8g", "g4-standard-48", "a2-ultragpu-1g"]
)
def test_type_that_is_sold_on_demand_is_made(name: str) -> None:
    """The same page has them on demand."""
    world = World(ManualClock(START), projects=[PROJECT])
    insert(world, name, MODELS["STANDARD"])
    assert [vm.shape.machine_type for vm in world.every_vm()] == [name]


def test_reserved_and_flexible_starts_have_prices_of_their_own() -> None:
    """They are billed by SKUs of their own; a part without one is unknown, neither zero nor the on-demand price."""
    world = World(ManualClock(START), projects=[PROJECT])
    for name in ("a4x-highgpu-4g", "a4-highgpu-8g"):
        held = {"count": "1", "instanceProperties": {"machineType": name}}
        dense = {"specificReservationRequired": True, "deploymentType": "DENSE", "specificReservation": held}
        world.belongings.append(Belonging("reservation", PROJECT, zone_of(name), "train", START, dense))
        insert(world, name, **named(model="RESERVATION_BOUND"))
    ends = {"onHostMaintenance": "TERMINATE", "maxRunDuration": {"seconds": "3600"}}
    insert(world, "a3-highgpu-1g", {"provisioningModel": "FLEX_START", **ends})
    world.advance(timedelta(minutes=5))
    unlisted, calendar, flexible = (bill(vm, world.prices, world.now) for vm in world.every_vm())
    assert unlisted.unpriced == ["reservation_bound:gpu:nvidia-gb200"]
    assert set(unlisted.resources) == {"disk:pd-balanced", "external-ip"}
    assert calendar.unpriced == flexible.unpriced == []
    b200 = calendar.resources["reservation_bound:gpu:nvidia-b200"]
    rate, _ = world.prices.rate("reservation_bound:gpu:nvidia-b200", calendar.vm.region, False, world.now)
    assert b200.exact == 8 * rate * Fraction(b200.seconds, 3600)
    assert set(flexible.resources) == {
        *(f"flex_start:{part}" for part in ("a3:core", "a3:ram", "gpu:nvidia-h100-80gb", "local-ssd")),
        *("disk:pd-balanced", "external-ip"),
    }


def test_a_shared_core_bills_a_part_of_one() -> None:
    """An e2-micro shows its guest two vCPUs and bills a quarter of one, as Google says."""
    world = World(ManualClock(START), projects=[PROJECT])
    for name in ("e2-micro", "e2-standard-2"):
        insert(world, name, MODELS["STANDARD"])
    world.advance(timedelta(hours=2))
    micro, whole = (bill(vm, world.prices, world.now).resources["e2:core"] for vm in world.every_vm())
    assert micro.nanos / micro.seconds * 8 == pytest.approx(whole.nanos / whole.seconds)
