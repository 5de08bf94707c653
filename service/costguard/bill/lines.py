"""Lines of the comparison: what the ledger and the bill say of one resource of a VM, or of a disk, on one UTC day."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum
from fractions import Fraction
from typing import NamedTuple

from costguard.model.billing.bill import BilledKind
from costguard.model.lifetime import Attribution


class BillState(StrEnum):
    """Where a line, or a day, stands. A day closes 72 h after its end: until then the bill is still to come."""

    OPEN = "open"
    AGREED = "agreed"
    DIFFERS = "differs"


class Reason(StrEnum):
    """The reason why a line differs, or why it is not compared."""

    NONE = ""
    STILL_TO_COME = "still_to_come"
    BEFORE_EXPORT = "before_export"
    NO_EXPORT = "no_export"
    BEFORE_WATCH = "before_watch"
    MISSING = "missing_from_bill"
    UNKNOWN_VM = "unknown_vm"
    UNKNOWN_PART = "unknown_part"
    OTHER_SKU = "other_sku"
    MORE = "more_used"
    LESS = "less_used"
    REPEATED = "repeated_rows"
    PRICE = "price"
    CURRENCY_RATE = "currency_rate"
    CREDIT = "credit_too_high"
    OTHER_PROJECT = "other_project"
    GPU_AND_HOST = "gpu_and_host"
    DISK_HOURS = "disk_hours"
    SHARED_DISK = "shared_disk"
    UNKNOWN_DISK = "unknown_disk"
    NOT_WATCHED = "not_watched"
    UNPRICED = "unpriced"
    VERTEX = "vertex"


EXPLAINED = frozenset(
    {
        *(Reason.GPU_AND_HOST, Reason.DISK_HOURS, Reason.SHARED_DISK, Reason.UNKNOWN_DISK),
        *(Reason.NOT_WATCHED, Reason.UNPRICED, Reason.VERTEX),
    }
)
"""Differences that are neither's error: recorded bills have them, or the ledger does not hold such a resource."""


class BillStanding(StrEnum):
    """The progress of reading the bill of a project for a day."""

    CLOSED = "closed"
    OPEN = "open"
    BEFORE_EXPORT = "before_export"
    NO_EXPORT = "no_export"
    BEFORE_WATCH = "before_watch"  # the guard did not watch the project yet, or has not looked since the day's end


class BilledThing(NamedTuple):
    """A VM or a disk by its numeric id; a disk by its name where the ledger never read its id."""

    kind: BilledKind
    project: str
    id: str


@dataclass(frozen=True, slots=True)
class UseShare:
    """The attribution of a part of a use, with the ledger's charge for it."""

    attribution: Attribution
    provisioning_model: str
    nanos: int
    seconds: int


@dataclass(frozen=True, slots=True)
class LedgerUse:
    """The ledger's charge for one resource of a VM, or for a disk, on one UTC day.

    `used` is in unit-seconds: vCPU-seconds, GPU-seconds, GiB-seconds. `seconds` is its time alone. `holders` counts the
    VMs that a disk is charged to.
    """

    thing: BilledThing
    name: str
    gce_id: str  # of the VM, of a disk's too
    vm_name: str
    zone: str
    resource: str
    used: Fraction
    seconds: int
    nanos: int
    shares: tuple[UseShare, ...] = ()
    holders: int = 1


@dataclass(frozen=True, slots=True)
class Savings:
    """Nano-dollars of the list price that the account does not pay, by what earned them."""

    sustained: int = 0
    committed: int = 0
    contract: int = 0
    other: int = 0

    def __add__(self, other: Savings) -> Savings:
        return Savings(
            self.sustained + other.sustained,
            self.committed + other.committed,
            self.contract + other.contract,
            self.other + other.other,
        )

    @property
    def total(self) -> int:
        return self.sustained + self.committed + self.contract + self.other


@dataclass(frozen=True, slots=True)
class BillLine:
    """A compared line. Amounts are nano-dollars; None for a side that says nothing of it."""

    day: date
    thing: BilledThing
    name: str
    gce_id: str  # of the VM; "" for a disk that no VM of the ledger holds
    vm_name: str
    zone: str
    resource: str
    sku_ids: tuple[str, ...]
    state: BillState
    reason: Reason
    ledger_used: Fraction
    billed_used: Fraction
    ledger_nanos: int | None
    list_nanos: int | None
    effective_nanos: int | None
    savings: Savings = field(default_factory=Savings)
    shares: tuple[UseShare, ...] = ()
    bill_project: str = ""
    seconds: int = 0
    billed_model: str = ""  # as which kind of VM Google sold it, where its SKU says so
    expected_nanos: int | None = None  # the ledger's price of what was billed

    @property
    def difference(self) -> int:
        """The bill less the ledger, at list price."""
        return (self.list_nanos or 0) - (self.ledger_nanos or 0)

    @property
    def is_compared(self) -> bool:
        return self.state is not BillState.OPEN

    @property
    def is_explained(self) -> bool:
        return self.state is BillState.AGREED or self.reason in EXPLAINED


class OutsideKey(NamedTuple):
    """Something that Google bills and the ledger does not hold."""

    project: str
    sku_id: str
    text: str
    is_fee: bool = False  # of a commitment, which is paid whether it is used or not


@dataclass(frozen=True, slots=True)
class DayComparison:
    """A UTC day: its lines, and what was paid (nano-dollars) for what the ledger does not hold."""

    day: date
    lines: tuple[BillLine, ...]
    outside: Mapping[OutsideKey, int]  # fees of commitments among them, less what use took off them
    unused_reservations: Mapping[tuple[str, str], int]  # (project, reservation)
    offsets: Mapping[OutsideKey, int]  # what use took off a fee, zero or less; absent where a fee does not say
    saved_outside: Mapping[str, int]  # project -> what commitments took off usage that is in no line
