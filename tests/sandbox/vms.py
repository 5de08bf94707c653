"""Worlds and insert bodies for the tests of the simulated cloud."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from costguard_sandbox.clock import ManualClock
from costguard_sandbox.gce.vm import VM
from costguard_sandbox.world import World

PROJECT, ZONE = "acme-training", "us-central1-a"
START = datetime(2026, 11, 20, 9, 0, tzinfo=UTC)
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
T4: dict[str, Any] = {
    "guestAccelerators": [{"acceleratorType": f"zones/{ZONE}/acceleratorTypes/nvidia-tesla-t4", "acceleratorCount": 1}],
    "scheduling": {"onHostMaintenance": "TERMINATE"},
}
SPOT: dict[str, Any] = {"scheduling": {"provisioningModel": "SPOT", "onHostMaintenance": "TERMINATE"}}


ADDRESS: dict[str, Any] = {
    "networkInterfaces": [{"network": "global/networks/default", "accessConfigs": [{"type": "ONE_TO_ONE_NAT"}]}]
}


def new_world(start: datetime = START, **options: Any) -> World:
    return World(ManualClock(start), projects=[PROJECT, "acme-research"], **options)


def body(
    name: str = "vm", machine: str = "n1-standard-4", disk: dict[str, Any] | None = None, zone: str = ZONE, **more: Any
) -> Any:
    """Returns a client's request for a VM with one disk of 50 GiB."""
    params = {"diskSizeGb": "50", "diskType": f"zones/{zone}/diskTypes/pd-balanced", **(disk or {})}
    return {
        "name": name,
        "machineType": f"zones/{zone}/machineTypes/{machine}",
        "disks": [{"boot": True, "autoDelete": True, "initializeParams": params}],
        "networkInterfaces": [{"network": "global/networks/default"}],
        **more,
    }


def up(world: World, name: str = "vm", machine: str = "n1-standard-4", zone: str = ZONE, **more: Any) -> VM:
    """A VM that has been inserted and is RUNNING; a minute has passed."""
    world.insert(PROJECT, zone, body(name, machine, zone=zone, **more))
    world.advance(MINUTE)
    return world.instance(PROJECT, name, zone)
