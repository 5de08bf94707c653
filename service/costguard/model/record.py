"""The ledger's record of one VM."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from costguard.model.instance import AttachedDisk, InstanceKey, ProvisioningModel, Shape, Status
from costguard.model.keeper import Keeper
from costguard.model.lifetime import Attribution, Lifetime, StorageSpan


@dataclass(frozen=True, slots=True)
class InstanceRecord:
    """A VM as the ledger knows it, present or gone."""

    key: InstanceKey
    name: str
    zone: str
    status: Status
    created_at: datetime
    shape: Shape
    provisioning_model: ProvisioningModel
    attribution: Attribution
    fingerprint: str
    first_seen_at: datetime
    owner_source: str = ""
    created_by: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    origin: Mapping[str, str] = field(default_factory=dict)  # metadata that says who keeps it: see managed/origin.py
    keeper: Keeper | None = None  # None: not read yet
    last_started_at: datetime | None = None
    last_stopped_at: datetime | None = None
    termination_at: datetime | None = None
    gone_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class VmRequested:
    """A VM as it was requested from Google: by a job's recipe, by the entry of its insert in the audit log, or as
    Google's history of assets has it.

    A shape without vCPUs is one whose machine type could not be read. A disk without a name has that of its VM.
    """

    shape: Shape
    provisioning_model: ProvisioningModel
    labels: Mapping[str, str] = field(default_factory=dict)
    disks: tuple[AttachedDisk, ...] = ()
    addresses: int = 0  # external
    ran_from: datetime | None = None  # by Google's history of assets, where it was asked
    gone_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class LaunchedFor:
    """The job that a VM was launched for, and whose it is. `ran_from`: when it was seen up, if its agent reported."""

    job: str
    owner: str
    provisioning_model: ProvisioningModel
    has_address: bool | None = None  # external; None: nothing was decided about it
    ran_from: datetime | None = None


@dataclass(frozen=True, slots=True)
class KnownInstance:
    """A stored record with its row id and all of its lifetimes and storage spans, oldest first."""

    id: int
    record: InstanceRecord
    lifetimes: tuple[Lifetime, ...] = ()
    storage: tuple[StorageSpan, ...] = ()


@dataclass(frozen=True, slots=True)
class RefusedChange:
    """A change of a span whose charges are archived: the span stays as it was billed."""

    record: InstanceRecord
    disk: str  # "" for a run
    started_at: datetime
    ended_at: datetime | None  # as Google tells it now
