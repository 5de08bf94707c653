"""A simulated VM and its disks: configuration, state and billed times."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from costguard_sandbox.gce.belongings import Belonging
from costguard_sandbox.gce.operations import Target

NO_MAINTENANCE = "NONE"


class Status(StrEnum):
    PENDING = "PENDING"  # a flex-start request waits for capacity
    PROVISIONING = "PROVISIONING"
    STAGING = "STAGING"
    RUNNING = "RUNNING"
    PENDING_STOP = "PENDING_STOP"
    STOPPING = "STOPPING"
    TERMINATED = "TERMINATED"
    SUSPENDING = "SUSPENDING"
    SUSPENDED = "SUSPENDED"
    REPAIRING = "REPAIRING"
    DELETED = "DELETED"  # never shown: a deleted VM answers 404


_USES_NOTHING = frozenset({Status.PENDING, Status.TERMINATED, Status.SUSPENDED, Status.DELETED})


class Load(StrEnum):
    """The load of the guest, as Cloud Monitoring would show it."""

    BUSY = "busy"
    IDLE = "idle"
    NO_AGENT = "no-agent"  # idle, and without the Ops Agent, so its GPUs are not measured
    SPIN = "spin"  # a kernel without end on a single multiprocessor (SM); no DCGM on the VM
    SPIN_DCGM = "spin-dcgm"  # the same, measured by version 2 of the Ops Agent's DCGM receiver
    BUSY_DCGM = "busy-dcgm"  # work, measured by version 1 of that receiver


@dataclass(slots=True)
class Run:
    """A billed run of the VM: from RUNNING until STOPPING or SUSPENDING."""

    began: datetime
    ended: datetime | None = None
    preempted: bool = False
    shape: Shape | None = None  # a stopped VM may get another machine type


@dataclass(slots=True)
class SavedMemory:
    """The memory of a suspended VM, billed while it is kept."""

    began: datetime
    ended: datetime | None = None


class DiskStatus(StrEnum):
    CREATING = "CREATING"
    READY = "READY"
    DELETING = "DELETING"


@dataclass(slots=True, eq=False)
class Disk:
    """A persistent disk, kept until it is deleted, by itself or with its last VM."""

    id: int
    project: str
    zone: str
    name: str
    size_gib: int
    disk_type: str
    created_at: datetime
    source_image: str = ""
    licenses: tuple[str, ...] = ()
    labels: dict[str, str] = field(default_factory=dict)
    description: str = ""
    status: DiskStatus = DiskStatus.READY
    users: list[VM] = field(default_factory=list)  # several only where all of them only read
    last_attach: datetime | None = None
    last_detach: datetime | None = None
    deleted_at: datetime | None = None

    @property
    def target(self) -> Target:
        return Target(self.project, f"zones/{self.zone}", f"disks/{self.name}", self.id)


@dataclass(frozen=True, slots=True)
class Attachment:
    """A disk as its VM holds it; `disk` is None for a local SSD."""

    disk: Disk | None
    index: int
    device_name: str
    boot: bool
    auto_delete: bool
    size_gib: int
    given: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class DiskUse:
    """A time during which a VM held a disk; `ended` is None while it still does."""

    disk: Disk
    began: datetime
    ended: datetime | None = None


@dataclass(frozen=True, slots=True)
class Shape:
    """The billed parts of a running VM. Custom types of the N1 family have the family n1."""

    machine_type: str
    family: str
    vcpus: int
    memory_mb: int
    gpu_type: str = ""
    gpu_count: int = 0
    local_ssd_gib: int = 0


@dataclass(slots=True, eq=False)
class VM:
    """A VM. `given` is the body of its insert with later changes; the other fields are the cloud's own."""

    id: int
    project: str
    zone: str
    name: str
    shape: Shape
    given: dict[str, Any]
    attachments: tuple[Attachment, ...]
    created_at: datetime
    cpu_platform: str
    network_ip: str
    nat_ip: str
    status: Status = Status.PROVISIONING
    last_start: datetime | None = None
    last_stop: datetime | None = None
    last_suspend: datetime | None = None
    deleted_at: datetime | None = None
    termination_at: datetime | None = None
    runs: list[Run] = field(default_factory=list)
    saved_memory: list[SavedMemory] = field(default_factory=list)
    disk_uses: list[DiskUse] = field(default_factory=list)
    loads: list[tuple[datetime, Load]] = field(default_factory=list)  # (since, load); busy before the first
    # Transitions are numbered, so that the remaining steps of a superseded one do nothing.
    transition: int = 0
    busy_until: datetime | None = None
    accepted_until: datetime | None = None  # when the last accepted request starts
    reservation: Belonging | None = None  # the one that it consumes, kept while it is stopped
    is_on_preemptible_quota: bool = False
    run_limit: int = 0  # the number of the run-time limit in force, so that an earlier one cannot fire
    is_preempted: bool = False  # as the metadata server shows it, from the notice until the next start
    maintenance_event: str = NO_MAINTENANCE
    rendered: dict[str, Any] | None = field(default=None, repr=False)

    @property
    def region(self) -> str:
        return self.zone.rsplit("-", 1)[0]

    @property
    def scheduling(self) -> dict[str, Any]:
        scheduling: dict[str, Any] = self.given["scheduling"]
        return scheduling

    @property
    def is_spot(self) -> bool:
        return bool(self.scheduling.get("preemptible"))

    @property
    def is_flex_start(self) -> bool:
        return self.scheduling.get("provisioningModel") == "FLEX_START"

    @property
    def uses_capacity(self) -> bool:
        """Says whether quotas and reservations count it: not while its request waits, nor when it is down."""
        return self.status not in _USES_NOTHING

    @property
    def request_wait(self) -> timedelta:
        """Returns how long the request may wait for capacity: `params` of the insert, which are kept out of answers."""
        params = self.given.get("params") or {}
        return timedelta(seconds=int((params.get("requestValidForDuration") or {}).get("seconds", 0)))

    @property
    def is_confidential(self) -> bool:
        config = self.given.get("confidentialInstanceConfig") or {}
        return bool(config.get("enableConfidentialCompute") or config.get("confidentialInstanceType"))

    @property
    def disks(self) -> tuple[Disk, ...]:
        return tuple(attachment.disk for attachment in self.attachments if attachment.disk is not None)

    @property
    def target(self) -> Target:
        return Target(self.project, f"zones/{self.zone}", f"instances/{self.name}", self.id)

    @property
    def boot_disk(self) -> Disk | None:
        return next((held.disk for held in self.attachments if held.boot), None)

    @property
    def max_run_duration(self) -> timedelta | None:
        limit = self.scheduling.get("maxRunDuration")
        if not limit:
            return None
        return timedelta(seconds=int(limit.get("seconds", 0)), microseconds=int(limit.get("nanos", 0)) // 1000)

    @property
    def preemption_notice(self) -> timedelta:
        """Returns the time for which the metadata show a preemption in advance."""
        return timedelta(seconds=int((self.scheduling.get("preemptionNoticeDuration") or {}).get("seconds", 0)))

    def load_at(self, moment: datetime) -> Load:
        return next((load for since, load in reversed(self.loads) if since <= moment), Load.BUSY)

    def attach(self, held: Attachment, at: datetime) -> None:
        """Attach one more disk; a VM's disks are ordered by index."""
        self.attachments = tuple(sorted((*self.attachments, held), key=lambda one: one.index))
        self._begin_use(held, at)

    def attach_all(self, at: datetime) -> None:
        """Attach the disks that the VM is created with."""
        for held in self.attachments:
            self._begin_use(held, at)

    def _begin_use(self, held: Attachment, at: datetime) -> None:
        if held.disk is not None:
            held.disk.users.append(self)
            held.disk.last_attach = at
            self.disk_uses.append(DiskUse(held.disk, at))

    def detach(self, held: Attachment, at: datetime) -> None:
        self.attachments = tuple(one for one in self.attachments if one is not held)
        if held.disk is not None:
            self.release(held.disk, at)

    def release(self, disk: Disk, at: datetime) -> None:
        """The disk is free; a deleted VM still lists it."""
        disk.users.remove(self)
        disk.last_detach = at
        for use in self.disk_uses:
            if use.disk is disk and use.ended is None:
                use.ended = at

    def set_status(self, status: Status) -> None:
        self.status = status
        self.rendered = None

    def begin_run(self, at: datetime) -> None:
        """Billing begins: only ever at the end of an insert, start, resume or restart."""
        self.release_memory(at)
        self.runs.append(Run(at, shape=self.shape))
        self.is_preempted, self.maintenance_event = False, NO_MAINTENANCE
        self.last_start = at
        self.set_status(Status.RUNNING)

    def end_run(self, at: datetime, status: Status, *, preempted: bool = False) -> None:
        """Billing ends at the moment that `status` is first shown."""
        if self.runs and self.runs[-1].ended is None:
            self.runs[-1].ended = at
            self.runs[-1].preempted = preempted
        self.set_status(status)

    def save_memory(self, at: datetime) -> None:
        self.saved_memory.append(SavedMemory(at))

    def release_memory(self, at: datetime) -> None:
        if self.saved_memory and self.saved_memory[-1].ended is None:
            self.saved_memory[-1].ended = at
