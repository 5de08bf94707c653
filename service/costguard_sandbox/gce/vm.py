"""One simulated VM and its disks: what it is, what state it is in, and when it billed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from costguard_sandbox.gce.operations import Target

NO_MAINTENANCE = "NONE"


class Status(StrEnum):
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


class Load(StrEnum):
    """What the guest does, as Cloud Monitoring would show it."""

    BUSY = "busy"
    IDLE = "idle"
    NO_AGENT = "no-agent"  # idle too, and without the Ops Agent: nobody measures its GPUs


@dataclass(slots=True)
class Run:
    """One billed run of the machine: RUNNING until STOPPING or SUSPENDING."""

    began: datetime
    ended: datetime | None = None
    preempted: bool = False
    shape: Shape | None = None  # as it was: a stopped VM may be given another machine type


@dataclass(slots=True)
class Held:
    """Something that bills while it is kept, such as the memory of a suspended VM."""

    began: datetime
    ended: datetime | None = None


class DiskStatus(StrEnum):
    CREATING = "CREATING"
    READY = "READY"
    DELETING = "DELETING"


@dataclass(slots=True, eq=False)
class Disk:
    """A persistent disk: made with a VM or by itself, kept until it is deleted or goes with its last VM."""

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
    users: list[VM] = field(default_factory=list)  # more than one only where all of them only read
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
    """A disk that a VM held, and from when to when; `ended` is None while it does."""

    disk: Disk
    began: datetime
    ended: datetime | None = None


@dataclass(frozen=True, slots=True)
class Shape:
    """What the machine bills for. Custom types of the N1 family have the family n1."""

    machine_type: str
    family: str
    vcpus: int
    memory_mb: int
    gpu_type: str = ""
    gpu_count: int = 0
    local_ssd_gib: int = 0


@dataclass(slots=True, eq=False)
class VM:
    """`given` is the body of the insert, kept whole; what the cloud itself knows lies beside it."""

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
    held_memory: list[Held] = field(default_factory=list)
    disk_uses: list[DiskUse] = field(default_factory=list)
    loads: list[tuple[datetime, Load]] = field(default_factory=list)  # since when what; busy before the first
    # Each transition gets a number; the steps of one that was overtaken find another number and do nothing.
    transition: int = 0
    busy_until: datetime | None = None
    accepted_until: datetime | None = None  # when the last request that was accepted starts
    run_limit: int = 0  # numbers the run-time limits that were armed, so that an old one cannot fire
    is_preempted: bool = False  # as the metadata server says, from the notice until the next start
    maintenance_event: str = NO_MAINTENANCE
    rendered: dict[str, Any] | None = field(default=None, repr=False)

    @property
    def region(self) -> str:
        return self.zone.rsplit("-", 1)[0]

    @property
    def scheduling(self) -> dict[str, Any]:
        found: dict[str, Any] = self.given["scheduling"]
        return found

    @property
    def is_spot(self) -> bool:
        return bool(self.scheduling.get("preemptible"))

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
        """How long its metadata tell of a preemption before anything else does."""
        return timedelta(seconds=int((self.scheduling.get("preemptionNoticeDuration") or {}).get("seconds", 0)))

    def load_at(self, moment: datetime) -> Load:
        return next((load for since, load in reversed(self.loads) if since <= moment), Load.BUSY)

    def hold(self, held: Attachment, at: datetime) -> None:
        """The disk is attached from now on; the list of a VM's disks is in the order of their indexes."""
        self.attachments = tuple(sorted((*self.attachments, held), key=lambda one: one.index))
        self._take(held, at)

    def take_all(self, at: datetime) -> None:
        """Every disk that the VM was made with is attached from now on."""
        for held in self.attachments:
            self._take(held, at)

    def _take(self, held: Attachment, at: datetime) -> None:
        if held.disk is not None:
            held.disk.users.append(self)
            held.disk.last_attach = at
            self.disk_uses.append(DiskUse(held.disk, at))

    def let_go(self, held: Attachment, at: datetime) -> None:
        """The disk is detached from now on."""
        self.attachments = tuple(one for one in self.attachments if one is not held)
        if held.disk is not None:
            self.end_use(held.disk, at)

    def end_use(self, disk: Disk, at: datetime) -> None:
        """The disk is free; a VM that is deleted goes on naming it."""
        disk.users.remove(self)
        disk.last_detach = at
        for use in self.disk_uses:
            if use.disk is disk and use.ended is None:
                use.ended = at

    def show(self, status: Status) -> None:
        self.status = status
        self.rendered = None

    def begin_run(self, at: datetime) -> None:
        """Billing of the machine begins: only ever at the end of an insert, start, resume or restart."""
        self.release_memory(at)
        self.runs.append(Run(at, shape=self.shape))
        self.is_preempted, self.maintenance_event = False, NO_MAINTENANCE
        self.last_start = at
        self.show(Status.RUNNING)

    def end_run(self, at: datetime, status: Status, *, preempted: bool = False) -> None:
        """Billing of the machine ends, in the very moment that `status` is first shown."""
        if self.runs and self.runs[-1].ended is None:
            self.runs[-1].ended = at
            self.runs[-1].preempted = preempted
        self.show(status)

    def hold_memory(self, at: datetime) -> None:
        self.held_memory.append(Held(at))

    def release_memory(self, at: datetime) -> None:
        if self.held_memory and self.held_memory[-1].ended is None:
            self.held_memory[-1].ended = at
