"""The VMs of a scenario: their keys as the body of an insert, and how they run as local processes."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from costguard_sandbox.gce.catalogue.regions import ZONES
from costguard_sandbox.gce.cloud import DEFAULT_USER
from costguard_sandbox.gce.errors import Refused
from costguard_sandbox.gce.insertion import read_insert
from costguard_sandbox.gce.vm import Load
from costguard_sandbox.guest.local import DOCKERS, LocalGuestSettings
from costguard_sandbox.scenarios.keys import Keys
from costguard_sandbox.world import World


@dataclass(frozen=True, slots=True)
class ScenarioVM:
    project: str
    zone: str
    name: str
    creator: str
    body: dict[str, Any]
    started_ago: timedelta = timedelta(0)
    stopped_ago: timedelta | None = None
    load: Load = Load.BUSY

    def insert(self, world: World) -> None:
        world.insert(self.project, self.zone, self.body, self.creator)
        with suppress(Refused):  # the insert may have failed
            world.set_load(self.project, self.name, self.load)

    def stop(self, world: World) -> None:
        world.stop(self.project, self.name, self.creator)


def read_vm(keys: Keys, projects: tuple[str, ...], *, in_past: bool = True) -> ScenarioVM:
    """`in_past`: part of the initial fleet, with `started` and perhaps `stopped`."""
    project, name = keys.choice("project", projects), keys.text("name")
    zone = keys.text("zone")
    if zone not in ZONES:
        raise keys.wrong("zone", f"a zone of Google's such as us-central1-a, not {zone!r}")
    creator = keys.text("creator", DEFAULT_USER)
    started = keys.duration("started", ago=True) if in_past else timedelta(0)
    stopped = keys.duration("stopped", None, ago=True) if in_past else None
    if stopped is not None and stopped >= started:
        raise keys.wrong("stopped", "a time after it was started")
    load = read_load(keys) if keys.has("load") else Load.BUSY
    body = _checked(keys, zone, name)
    keys.done()
    return ScenarioVM(project, zone, name, creator, body, started, stopped, load)


def read_template(keys: Keys, zone: str) -> dict[str, Any]:
    """Reads what a group makes its VMs of: the body of an insert, whose name is the group's to give."""
    return _checked(keys, zone, "template")


def _checked(keys: Keys, zone: str, name: str) -> dict[str, Any]:
    body = _body(keys, zone, name)
    try:
        read_insert(zone, body)
    except Refused as refused:
        raise keys.wrong(
            "machine_type", f"a VM that Compute Engine would create, but it answers: {refused.message}"
        ) from None
    return body


def read_load(keys: Keys) -> Load:
    return Load(keys.choice("load", tuple(Load)))


def _body(keys: Keys, zone: str, name: str) -> dict[str, Any]:
    machine_type, gpu = keys.text("machine_type"), keys.text("gpu", "")
    gpus = keys.whole("gpus", 1 if gpu else 0)
    labels = keys.labels("labels")
    if owner := keys.text("owner", ""):
        labels["owner"] = owner
    body: dict[str, Any] = {
        "name": name,
        "machineType": f"zones/{zone}/machineTypes/{machine_type}",
        "labels": labels,
        "disks": [
            {
                "boot": True,
                "autoDelete": True,
                "initializeParams": {
                    "diskSizeGb": str(keys.whole("disk_gb", 50)),
                    "diskType": f"zones/{zone}/diskTypes/{keys.text('disk_type', 'pd-balanced')}",
                    "sourceImage": "projects/debian-cloud/global/images/family/debian-12",
                },
            }
        ],
        "networkInterfaces": [{"network": "global/networks/default", "accessConfigs": [{"type": "ONE_TO_ONE_NAT"}]}],
        "serviceAccounts": [{"email": "default", "scopes": ["https://www.googleapis.com/auth/cloud-platform"]}],
        "scheduling": _scheduling(
            keys, has_gpu=bool(gpu) or machine_type.startswith(("a2-", "a3-", "a4", "g2-", "g4-"))
        ),
    }
    if gpu:
        body["guestAccelerators"] = [{"acceleratorType": gpu, "acceleratorCount": gpus}]
    return body


def _scheduling(keys: Keys, *, has_gpu: bool) -> dict[str, Any]:
    spot = keys.flag("spot")
    limit = keys.duration("max_run", None)
    action = keys.choice("termination_action", ("stop", "delete"), "stop")
    scheduling: dict[str, Any] = {"automaticRestart": not spot}
    if spot:
        scheduling |= {"provisioningModel": "SPOT", "preemptible": True}
    scheduling["onHostMaintenance"] = "TERMINATE" if spot or has_gpu else "MIGRATE"
    if limit is not None:
        scheduling["maxRunDuration"] = {"seconds": str(int(limit.total_seconds())), "nanos": 0}
    if spot or limit is not None:
        scheduling["instanceTerminationAction"] = action.upper()
    return scheduling


def default_local_vms() -> LocalGuestSettings:
    """Returns settings with this process's PATH and language."""
    return LocalGuestSettings(path=os.environ.get("PATH", os.defpath), language=os.environ.get("LANG", "C.UTF-8"))


def read_local_vms(keys: Keys) -> tuple[bool, LocalGuestSettings]:
    """The table [local_vms]: whether VMs run, which an option of the program can turn on, too, and how."""
    runs = keys.flag("run")
    folder = keys.text("folder", "")
    usual = default_local_vms()
    settings = replace(
        usual,
        folder=Path(folder).expanduser() if folder else None,
        boot=keys.duration("boot", usual.boot),
        preemption_grace=keys.duration("preemption_grace", usual.preemption_grace),
        stop_grace=keys.duration("stop_grace", usual.stop_grace),
        docker=keys.choice("docker", DOCKERS, usual.docker),
        gpus=keys.flag("gpus"),
    )
    keys.done()
    return runs, settings
