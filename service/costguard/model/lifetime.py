"""The ledger's nouns: lifetimes, storage spans and charges."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, timedelta
from enum import StrEnum
from fractions import Fraction

from costguard.model.duration import elapsed
from costguard.model.instance import InstanceKey, ProvisioningModel, Shape
from costguard.model.money import Money


class EndReason(StrEnum):
    STOPPED = "stopped"
    SUSPENDED = "suspended"
    DELETED = "deleted"
    PREEMPTED = "preempted"
    HOST_ERROR = "host_error"
    HOST_MAINTENANCE = "host_maintenance"
    RUN_TIME_LIMIT = "run_time_limit"
    GUEST_SHUTDOWN = "guest_shutdown"
    RECREATED = "recreated"  # by the managed instance group that it is in
    UNKNOWN = "unknown"  # it ended, and no operation says why


@dataclass(frozen=True, slots=True)
class Attribution:
    """The preset, owner and job that a cost belongs to. Empty strings stand for none, so that they group."""

    preset: str = "other"
    owner: str = ""
    job: str = ""


@dataclass(frozen=True, slots=True)
class Lifetime:
    """A continuous billed run of an instance, keyed by (instance, started_at)."""

    key: InstanceKey
    started_at: datetime
    shape: Shape
    provisioning_model: ProvisioningModel
    zone: str
    ended_at: datetime | None = None
    end_reason: EndReason | None = None
    ended_by: str = ""  # an account, "system", or "" when nobody knows
    end_is_estimate: bool = False  # no operation told; ended_at is the latest moment it can have been
    id: int | None = None  # None until stored
    age_from: datetime | None = None  # when a person last started it, where Google alone began it again since

    @property
    def counts_from(self) -> datetime:
        """Returns the moment from which a limit of hours counts."""
        return self.age_from or self.started_at

    @property
    def is_open(self) -> bool:
        return self.ended_at is None

    def ran(self, now: datetime) -> timedelta:
        """Returns the time that it lasted, or has lasted by now, in whole billed seconds."""
        return elapsed(self.started_at, self.ended_at or now)


ADDRESS = "external address"  # no disk can have this name
ONE_ADDRESS = 1024
"""The size of a span for each of its external addresses: a GiB bills as one, and so does an address."""


@dataclass(frozen=True, slots=True)
class StorageSpan:
    """A time during which storage of one kind and size, or external addresses, were billed to a VM.

    `resource` is a billed resource such as `disk:pd-balanced`, `suspended-memory` or `external-ip`.
    """

    key: InstanceKey
    name: str  # the disk's name, "saved memory" of a suspended VM, or ADDRESS
    resource: str | None  # None: the disk's type is not known, so it cannot be priced
    size_mib: int  # whole disks are GiB, but memory need not be; ONE_ADDRESS for each address
    zone: str
    started_at: datetime
    ended_at: datetime | None = None
    id: int | None = None
    disk_id: str | None = None  # Google's; None: no disk, or the list of disks did not say it

    @property
    def stored_mib(self) -> int:
        """Returns the size of the storage; 0 of addresses."""
        return 0 if self.name == ADDRESS else self.size_mib

    @property
    def addresses(self) -> int:
        """Returns how many external addresses it is; 0 of storage."""
        return self.size_mib // ONE_ADDRESS if self.name == ADDRESS else 0


@dataclass(frozen=True, slots=True)
class Charge:
    """The cost of one billed resource of one span between two moments of one UTC day, at one price."""

    resource: str
    day: date
    started_at: datetime
    ended_at: datetime
    seconds: int
    quantity: Fraction
    price_id: int
    amount: Money
