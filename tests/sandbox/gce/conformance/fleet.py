"""A fleet that shows every kind of VM and state that the simulated cloud can have."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from costguard_sandbox.clock import ManualClock
from costguard_sandbox.gce.operations import Operation
from costguard_sandbox.world import World

PROJECT, ZONE = "demo", "us-central1-a"
START = datetime(2026, 11, 20, 9, 0, tzinfo=UTC)
BOOT: dict[str, Any] = {
    "boot": True,
    "autoDelete": True,
    "initializeParams": {
        "diskSizeGb": "50",
        "diskType": f"projects/{PROJECT}/zones/{ZONE}/diskTypes/pd-balanced",
        "sourceImage": "projects/debian-cloud/global/images/family/debian-12",
    },
}


def body(name: str, machine_type: str = "n1-standard-4", **more: Any) -> dict[str, Any]:
    """The body of an insert, as a client sends it."""
    return {
        "name": name,
        "machineType": f"zones/{ZONE}/machineTypes/{machine_type}",
        "disks": [BOOT],
        "networkInterfaces": [{"network": "global/networks/default", "accessConfigs": [{"type": "ONE_TO_ONE_NAT"}]}],
        **more,
    }


def spot_t4(name: str) -> dict[str, Any]:
    return body(
        name,
        guestAccelerators=[
            {"acceleratorType": f"zones/{ZONE}/acceleratorTypes/nvidia-tesla-t4", "acceleratorCount": 1}
        ],
        scheduling={
            "provisioningModel": "SPOT",
            "preemptible": True,
            "automaticRestart": False,
            "onHostMaintenance": "TERMINATE",
            "instanceTerminationAction": "STOP",
            "maxRunDuration": {"seconds": "14400"},
        },
        labels={"owner": "ana"},
        tags={"items": ["gpu"]},
        metadata={"items": [{"key": "startup-script", "value": "#!/bin/sh"}]},
        serviceAccounts=[{"email": "default", "scopes": ["https://www.googleapis.com/auth/cloud-platform"]}],
        shieldedInstanceConfig={"enableSecureBoot": True},
        minCpuPlatform="Intel Skylake",
        description="trains",
        deletionProtection=False,
    )


def make_world() -> World:
    """Makes one VM per state, each with the operations that led there, a failed insert among them."""
    world = World(ManualClock(START), projects=[PROJECT])
    scratch = {"type": "SCRATCH", "interface": "NVME", "autoDelete": True}
    for name in ("t4", "struck", "labelled", "gone"):
        world.insert(PROJECT, ZONE, spot_t4(name))
    for name in ("stopped", "asleep", "repaired", "plain"):
        world.insert(PROJECT, ZONE, body(name))
    a100 = body("a100", "a2-highgpu-1g", scheduling={"onHostMaintenance": "TERMINATE"}, disks=[BOOT, scratch])
    world.insert(PROJECT, ZONE, a100)
    world.faults.add("stockout", gpu="nvidia-tesla-v100")
    world.insert(PROJECT, ZONE, body("stocked-out", **_v100()))
    world.faults.clear()
    world.storage.insert(PROJECT, ZONE, {"name": "data", "description": "spare"}, "ana@example.com")
    world.advance(timedelta(minutes=5))
    world.stop(PROJECT, "stopped")
    world.suspend(PROJECT, "asleep")
    world.delete(PROJECT, "gone")
    world.advance(timedelta(minutes=10))
    world.trigger("host-error", PROJECT, "repaired")
    world.preempt(PROJECT, "struck")
    world.insert(PROJECT, ZONE, body("coming"))
    return world


def _v100() -> dict[str, Any]:
    return {
        "guestAccelerators": [{"acceleratorType": "nvidia-tesla-v100", "acceleratorCount": 1}],
        "scheduling": {"onHostMaintenance": "TERMINATE"},
    }


def every_operation(world: World) -> Iterator[Operation]:
    return world.operations.of(PROJECT)
