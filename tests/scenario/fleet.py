"""A fleet that lives for a while on a moved clock: people, Google and chance do things to it."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any
from zlib import crc32

from costguard_sandbox.gce.catalogue.prices import PriceList
from costguard_sandbox.gce.errors import Refused
from costguard_sandbox.gce.vm import VM, Status
from costguard_sandbox.world import World

PROJECTS = ("acme-training", "acme-research")
ZONES = ("us-central1-a", "us-central1-c", "us-east1-c", "europe-west4-a", "asia-east1-c")
PEOPLE = ("ana@example.com", "ben@example.com", "ci@acme-training.iam.gserviceaccount.com")
# Of the 42 regions of the catalogue: those of the zones, those that share SKUs with them, and those of look-alikes.
_PRICED_REGIONS = ("us-central1", "us-east1", "us-west1", "europe-west4", "asia-east1")
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)

_MACHINES: tuple[dict[str, Any], ...] = (
    {"machine": "n1-standard-4", "gpu": ("nvidia-tesla-t4", 1)},
    {"machine": "n1-highmem-8", "gpu": ("nvidia-tesla-v100", 2)},
    {"machine": "n1-custom-6-19968", "gpu": ("nvidia-tesla-t4", 1)},
    {"machine": "a2-highgpu-1g"},
    {"machine": "g2-standard-8"},
    {"machine": "n2-standard-4"},
    {"machine": "e2-medium"},
    {"machine": "e2-micro"},
    {"machine": "f1-micro"},
    {"machine": "c4-standard-4"},
)

TPUS: tuple[dict[str, Any], ...] = (
    {"machine": "ct6e-standard-4t", "zone": "europe-west4-a"},
    {"machine": "ct6e-standard-1t", "zone": "europe-west4-a", "flex": True},
    {"machine": "ct5lp-hightpu-8t", "zone": "us-central1-a"},
    {"machine": "tpu7x-standard-4t", "zone": "us-central1-c"},
)
"""Machines with TPUs, where they are sold; only the lives get them that ask for them."""


def price_list() -> PriceList:
    """The prices of a few regions: with all 42 a guard takes six times as long to read the catalogue."""
    return PriceList(_PRICED_REGIONS)


def body(name: str, zone: str, machine: str, gpu: tuple[str, int] | None = None, **given: Any) -> dict[str, Any]:
    """Makes a client's request: `spot`, `flex`, `labels`, `limit` and `grace` (seconds), `action`, `disk_gib`,
    `disk_type`.
    """
    has_gpu = gpu is not None or machine.startswith(("a2", "a3", "g2", "ct", "tpu"))
    scheduling: dict[str, Any] = {"onHostMaintenance": "TERMINATE" if has_gpu else "MIGRATE"}
    if given.get("flex"):
        scheduling |= {"provisioningModel": "FLEX_START", "automaticRestart": False}
        given = {"limit": 7 * 86_400, "action": "DELETE", **given}
    elif given.get("spot"):
        action = given.get("action", "STOP")
        scheduling |= {"provisioningModel": "SPOT", "automaticRestart": False, "instanceTerminationAction": action}
        scheduling["onHostMaintenance"] = "TERMINATE"
    if "limit" in given:
        scheduling["maxRunDuration"] = {"seconds": str(given["limit"])}
        scheduling.setdefault("instanceTerminationAction", given.get("action", "STOP"))
    if "grace" in given:
        scheduling["gracefulShutdown"] = {"enabled": True, "maxDuration": {"seconds": str(given["grace"])}}
    wanted: dict[str, Any] = {
        "name": name,
        "machineType": f"zones/{zone}/machineTypes/{machine}",
        "disks": [
            {
                "boot": True,
                "autoDelete": True,
                "initializeParams": {
                    "diskSizeGb": str(given.get("disk_gib", 100)),
                    "diskType": f"zones/{zone}/diskTypes/{given.get('disk_type', 'pd-balanced')}",
                    "sourceImage": "projects/debian-cloud/global/images/family/debian-12",
                },
            }
        ],
        "networkInterfaces": [{"network": "global/networks/default", "accessConfigs": _addresses(name)}],
        "scheduling": scheduling,
        "labels": given.get("labels", {}),
    }
    if gpu is not None:
        kind, count = gpu
        wanted["guestAccelerators"] = [
            {"acceleratorType": f"zones/{zone}/acceleratorTypes/{kind}", "acceleratorCount": count}
        ]
    return wanted


def _addresses(name: str) -> list[dict[str, str]]:
    """Every second VM has an ephemeral address. Whether a static one is kept while its VM is off, a look must see."""
    return [{"type": "ONE_TO_ONE_NAT"}] if crc32(name.encode()) % 2 else []


class Life:
    """Everything that happens to the fleet between two moments, decided by one seed."""

    machines = _MACHINES

    def __init__(self, world: World, seed: int, size: int, projects: tuple[str, ...] = PROJECTS) -> None:
        self._world = world
        self._projects = projects
        self._chance = random.Random(seed)
        self._size = size
        self._serial = 0
        self.graceful = 0.0  # the share of VMs that stop gracefully
        self.happened: Counter[str] = Counter()

    def plan(self, start: datetime, end: datetime, every: timedelta) -> None:
        """Put an event about every so often on the world's timeline, at odd seconds."""
        for _ in range(self._size):
            self._world.at(start + self._chance.random() * HOUR, self._create)
        moment = start + HOUR
        while moment < end:
            moment += every * self._chance.expovariate(1)
            self._world.at(moment, self._something)

    def something(self, lot: Callable[[], random.Random]) -> None:
        """Does something, by draws of its own."""
        self._chance = lot()
        self._something()

    def create(self, lot: Callable[[], random.Random]) -> None:
        """A VM, by draws of its own."""
        self._chance = lot()
        self._create()

    def _something(self) -> None:
        acts: list[tuple[int, Callable[[], None]]] = [
            (4, self._create),
            (4, self._verb("stop", Status.RUNNING)),
            (4, self._verb("start", Status.TERMINATED)),
            (3, self._verb("delete", Status.RUNNING)),
            (1, self._verb("delete", Status.TERMINATED)),
            (1, self._verb("suspend", Status.RUNNING)),
            (2, self._verb("resume", Status.SUSPENDED)),
            (4, self._strike("preempt")),
            (1, self._strike("host-error")),
            (1, self._strike("host-maintenance")),
            (2, self._strike("guest-shutdown")),
            (1, self._strike("migrate")),
            (1, self._strike("recreate")),
            (2, self._preempt_in_start),
        ]
        self._chance.choices([act for _, act in acts], [weight for weight, _ in acts])[0]()

    def _create(self) -> None:
        chance = self._chance
        project = chance.choice(self._projects)
        if len(self._world.instances(project)) >= self._size:
            return
        # A handful of names, so that they are used again and again for other VMs.
        name = f"{chance.choice(('train', 'eval', 'notebook', 'sweep'))}-{chance.randrange(self._size)}"
        kind = dict(chance.choice(self.machines))
        given: dict[str, Any] = {"spot": chance.random() < 0.5, "labels": {"owner": chance.choice(("ana", "ben"))}}
        given |= {"disk_gib": chance.choice((50, 100, 500)), "disk_type": chance.choice(("pd-balanced", "pd-ssd"))}
        if chance.random() < 0.2:
            given["limit"] = chance.choice((1800, 7200, 40000))
        if chance.random() < 0.3:
            given["action"] = "DELETE"
        if self.graceful and chance.random() < self.graceful:
            given["grace"] = 600
        drawn = chance.choice(ZONES)
        zone = kind.pop("zone", drawn)
        wanted = body(name, zone, **kind, **given)
        self._try("create", lambda: self._world.insert(project, zone, wanted, self._person()))

    def _verb(self, verb: str, status: Status) -> Callable[[], None]:
        def act() -> None:
            if (vm := self._pick(status)) is not None:
                self._try(verb, lambda: self._world.request(verb, vm.project, vm.zone, vm.name, self._person()))

        return act

    def _strike(self, event: str) -> Callable[[], None]:
        def act() -> None:
            if (vm := self._pick(Status.RUNNING)) is not None:
                self._try(event, lambda: self._world.trigger(event, vm.project, vm.name))

        return act

    def _preempt_in_start(self) -> None:
        """A stopped Spot VM is started, and taken back before the start is done."""
        if (vm := self._pick(Status.TERMINATED)) is not None:

            def act() -> None:
                self._world.trigger_after_notice("preempt-in-start", vm.project, vm.name)
                self._world.request("start", vm.project, vm.zone, vm.name, self._person())

            self._try("preempt-in-start", act)

    def _pick(self, status: Status) -> VM | None:
        fitting = [vm for project in self._projects for vm in self._world.instances(project) if vm.status is status]
        return self._chance.choice(fitting) if fitting else None

    def _person(self) -> str:
        return self._chance.choice(PEOPLE)

    def _try(self, what: str, act: Callable[[], object]) -> None:
        """Google refuses some of it (a zone without that GPU, a Standard VM to preempt), as it would."""
        try:
            act()
        except Refused:
            return
        self.happened[what] += 1
