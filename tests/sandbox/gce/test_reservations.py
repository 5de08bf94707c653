"""Reservations of the simulated cloud: who may use one, how its use is counted, and what ends with it."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from tests.sandbox.gce.conformance.discovery import problems, problems_of
from tests.sandbox.vms import HOUR, MINUTE, PROJECT, START, ZONE, body, new_world, up

from costguard_sandbox.gce.belongings import Belonging
from costguard_sandbox.gce.errors import Refused
from costguard_sandbox.gce.insertion import read_insert
from costguard_sandbox.gce.operations import Operation
from costguard_sandbox.gce.render import instance_resource
from costguard_sandbox.gce.vm import VM, Status
from costguard_sandbox.world import World

_MACHINE = "a2-highgpu-1g"
_ENDS = START + 3 * HOUR


def reserve(world: World, name: str = "train", count: int = 1, machine: str = _MACHINE, **fields: Any) -> Belonging:
    """A reservation that must be named."""
    made = {"count": str(count), "inUseCount": "0", "instanceProperties": {"machineType": machine}}
    given = {"status": "READY", "specificReservationRequired": True, "specificReservation": made, **fields}
    one = Belonging("reservation", world.projects[0], ZONE, name, START, given)
    world.belongings.append(one)
    return one


def calendar(world: World, ends: datetime = _ENDS) -> Belonging:
    """A future reservation in calendar mode, and the reservation that Google made of it."""
    one = reserve(world, deleteAtTime=ends.isoformat())
    future = {
        "reservationMode": "CALENDAR",
        "status": {"procurementStatus": "FULFILLED", "autoCreatedReservations": [f"{world.links}/{one.path}"]},
        "timeWindow": {"startTime": START.isoformat(), "endTime": ends.isoformat()},
    }
    world.belongings.append(Belonging("futureReservation", world.projects[0], ZONE, "november", START, future))
    return one


def named(reference: str = "train", model: str = "STANDARD", **more: Any) -> dict[str, Any]:
    """Returns what a VM on a reservation has in its insert."""
    affinity = {
        "consumeReservationType": "SPECIFIC_RESERVATION",
        "key": "compute.googleapis.com/reservation-name",
        "values": [reference],
    }
    scheduling = {"provisioningModel": model, "onHostMaintenance": "TERMINATE", "automaticRestart": False}
    if model == "RESERVATION_BOUND":
        scheduling["instanceTerminationAction"] = "DELETE"
    return {"reservationAffinity": affinity, "scheduling": {**scheduling, **more}}


def ask(world: World, name: str = "vm", machine: str = _MACHINE, **more: Any) -> Operation:
    """An insert whose operation is done."""
    operation = world.insert(PROJECT, ZONE, body(name, machine, **more))
    world.advance(MINUTE)
    assert operation.is_done
    return operation


def in_use(world: World, one: Belonging) -> str:
    shown = world.reservations.resource(one, world.links)
    assert problems_of(shown) == []
    used: str = shown["specificReservation"]["inUseCount"]
    return used


def failure_of(operation: Operation) -> tuple[str, str]:
    assert operation.failure is not None
    return operation.failure.code, operation.failure.message


def test_use_is_counted_while_vms_run() -> None:
    """It rises with a VM, falls when that stops, and what is used up is refused in Google's words."""
    world = new_world()
    one = reserve(world, count=2)
    ask(world, "first", **named())
    assert in_use(world, one) == "1"
    ask(world, "second", **named())
    full = ask(world, "third", **named())
    assert in_use(world, one) == "2"
    assert failure_of(full) == ("CONDITION_NOT_MET", "No available resources in specified reservations 'train'")
    world.stop(PROJECT, "first")
    world.advance(5 * MINUTE)
    assert in_use(world, one) == "1"


def test_vm_names_what_it_consumes() -> None:
    """`resourceStatus.reservationConsumptionInfo`, and no more of it once the VM is down."""
    world = new_world()
    one = reserve(world)
    ask(world, **named())
    vm = world.instance(PROJECT, "vm")
    shown = instance_resource(world.links, vm)
    assert shown["resourceStatus"]["reservationConsumptionInfo"] == {"consumedReservation": one.path}
    assert one.path == f"projects/{PROJECT}/zones/{ZONE}/reservations/train"
    assert problems(shown, "Instance") == []
    world.stop(PROJECT, "vm")
    world.advance(5 * MINUTE)
    assert "reservationConsumptionInfo" not in instance_resource(world.links, vm)["resourceStatus"]


def test_reservation_that_is_not_there() -> None:
    """Google's words, as kubernetes/autoscaler matches them."""
    world = new_world()
    assert failure_of(ask(world, **named("none"))) == (
        "CONDITION_NOT_MET",
        "Specified reservation 'none' does not exist.",
    )


def test_reservation_of_another_machine_type() -> None:
    """Google: the VM's properties and the reservation's must match."""
    world = new_world()
    reserve(world, machine="a2-highgpu-2g")
    assert failure_of(ask(world, **named()))[1] == "No available resources in specified reservations 'train'"


def test_open_reservation_cannot_be_named_and_is_used_by_itself() -> None:
    """Recorded in skypilot-org/skypilot issue 3327; VMs that name nothing use it while it has room."""
    world = new_world()
    one = reserve(world, specificReservationRequired=False)
    assert "can not be targeted as specificReservationRequired is not set" in failure_of(ask(world, **named()))[1]
    for name in ("first", "second"):
        up(world, name, _MACHINE, scheduling={"onHostMaintenance": "TERMINATE"})
    assert in_use(world, one) == "1"


def test_reservation_holds_capacity_in_a_stockout() -> None:
    """A VM on it is made where stock has run out for all others."""
    world = new_world()
    reserve(world)
    world.faults.add("stockout", zone=ZONE)
    assert ask(world, **named()).failure is None
    assert ask(world, "other", scheduling={"onHostMaintenance": "TERMINATE"}).failure is not None


@pytest.mark.parametrize(("model", "is_accepted"), [("STANDARD", False), ("RESERVATION_BOUND", True)])
def test_calendar_reservation_takes_bound_vms_alone(model: str, is_accepted: bool) -> None:
    """`gcloud compute instances create --help`: "either a calendar reservation mode or a dense deployment type"."""
    world = new_world()
    calendar(world)
    assert (ask(world, **named(model=model)).failure is None) is is_accepted
    ordinary = new_world()
    reserve(ordinary)
    assert (ask(ordinary, **named(model=model)).failure is None) is not is_accepted


def _running_until(world: World, vm: VM, moment: timedelta) -> bool:
    world.advance_to(_ENDS + moment)
    return vm.status is Status.RUNNING


def test_calendar_reservation_ends_its_vms() -> None:
    """The discovery document's CALENDAR: "terminated at specified end time along with terminating the VMs running"."""
    world = new_world()
    calendar(world)
    ask(world, **named(model="RESERVATION_BOUND"))
    vm = world.instance(PROJECT, "vm")
    assert _running_until(world, vm, -MINUTE)
    assert not _running_until(world, vm, timedelta(seconds=1))
    world.advance(5 * MINUTE)
    assert vm.status is Status.DELETED
    assert world.reservations.of(PROJECT) == []


def test_ordinary_reservation_leaves_its_vms() -> None:
    """The discovery document's DEFAULT: "do not terminate VMs at the end of reservations"."""
    world = new_world()
    reserve(world, deleteAtTime=_ENDS.isoformat())
    ask(world, **named())
    assert _running_until(world, world.instance(PROJECT, "vm"), HOUR)
    assert world.reservations.of(PROJECT) == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"scheduling": {"provisioningModel": "RESERVATION_BOUND", "onHostMaintenance": "TERMINATE"}},
        named(model="SPOT"),
        {**named(), "reservationAffinity": {"consumeReservationType": "SPECIFIC_RESERVATION"}},
    ],
)
def test_what_does_not_go_together_is_refused(wrong: dict[str, Any]) -> None:
    """RESERVATION_BOUND must name a reservation, Spot cannot, and the name has its key."""
    with pytest.raises(Refused, match="reservationAffinity"):
        read_insert(ZONE, body(machine=_MACHINE, **wrong))
