"""Observations: what one look at a project showed, and which parts were unreachable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from fractions import Fraction
from typing import Any

from costguard.model.instance import InstanceKey, InstanceKind, ProvisioningModel, SeenInstance, Shape, Status

EARLIEST = datetime(2008, 1, 1, tzinfo=UTC)  # before there was a Compute Engine
LATEST = datetime(3000, 1, 1, tzinfo=UTC)  # a zone, a grace or a month can still be added to it
"""A time that Google gives of a thing is believed from the earliest one on, and before the latest one."""

MOST = 10**9
"""The most of anything that a number of Google's is believed to count: a disk has at most 2**19 GiB."""


class OperationStatus(StrEnum):
    PENDING = "pending"
    RUNNING = "running"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class SeenOperation:
    """An operation on an instance: the only record of its actor, and of the reason why a VM ended.

    `kind` is Google's `operationType`: `insert`, `stop`, `compute.instances.preempted`, ...
    """

    project: str
    operation_id: str
    kind: str
    target_id: str  # the numeric id of the incarnation it was about
    target_name: str
    zone: str
    user: str
    status: OperationStatus
    inserted_at: datetime
    started_at: datetime | None = None
    ended_at: datetime | None = None
    error_code: str | None = None
    error_message: str | None = None
    status_message: str | None = None
    name: str = (
        ""  # `operation-...` or `systemevent-...`: all that an entry of the audit log tells of it; "": not known
    )
    end_from_entry: bool = False  # its end is when a log entry said so, which a list of operations tells better


@dataclass(frozen=True, slots=True)
class FeedMessage:
    """A message of the events' subscription. `data` is its bytes, b"" where they could not be decoded.

    Until `ack_id` is acknowledged the message comes again. A message of a sink holds one Cloud Logging entry as JSON.
    """

    ack_id: str
    data: bytes
    published_at: datetime | None  # None: the envelope does not say
    message_id: str
    attributes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FeedBacklog:
    """The messages that a subscription holds, as Cloud Monitoring counted them; None: it has no point of it."""

    unread: int | None
    oldest: timedelta | None  # the age of the oldest message that is not acknowledged
    measured_at: datetime | None


TPU_NODES = "TPU nodes"
VERTEX = "Vertex AI"


def vertex_scope(region: str) -> str:
    """Returns the part of a project that holds what of Vertex AI runs in a region."""
    return f"{VERTEX} in {region}"


def scopes_of(key: InstanceKey, zone: str) -> frozenset[str]:
    """Returns the parts of a project of which any that is unread leaves this VM, or what bills as one, unknown."""
    if key.kind.is_of_vertex:
        return frozenset({"project", VERTEX, vertex_scope(zone)})
    if key.kind is InstanceKind.TPU_NODE:
        return frozenset({"project", TPU_NODES})
    return frozenset({"project", "instances", zone})


@dataclass(frozen=True, slots=True)
class Unread:
    """A part of a project that could not be read. Unread is not absent."""

    scope: str  # a zone, "instances", "disks", "operations", TPU_NODES, VERTEX, a `vertex_scope`, or "project" for all
    reason: str  # a sentence for people, with what to do next
    code: str  # short and stable, for counting: "unreachable", "permission", "rate_limit", ...

    @property
    def is_whole(self) -> bool:
        """Nothing of the project was read: neither its VMs, nor its disks and operations."""
        return self.scope == "project"


@dataclass(frozen=True, slots=True)
class UnchangedVm:
    """A VM that is as a look of this process showed it whole: all that is kept of it meanwhile."""

    gce_id: str
    fingerprint: str  # as it came with the VM: see SeenInstance
    zone: str
    bills_machine: bool
    may_have_gpu: bool  # it has one, or its machine type is not known
    attempt: str | None  # None: it bears no label of an attempt; "": one that is not its name


@dataclass(frozen=True, slots=True)
class Observation:
    """Everything that one look at one project gave.

    A zone in `unread_zones`, or any zone when `instances_complete` is false, may hold VMs that are in neither
    `instances` nor `unchanged`. `read_at` is the moment before the listing was asked for. No VM is in both: one that is
    `unchanged` comes whole once more after `Cloud.forget`.
    """

    project: str
    read_at: datetime
    instances: tuple[SeenInstance, ...] = ()
    instances_complete: bool = True  # every page came; zones in unread_zones excepted
    unread_zones: frozenset[str] = frozenset()
    operations: tuple[SeenOperation, ...] = ()
    operations_through_at: datetime | None = None  # all operations inserted up to here were read
    unread: tuple[Unread, ...] = ()
    unchanged: tuple[UnchangedVm, ...] = ()
    requests: int = 0  # to Google's lists, tries that failed among them


@dataclass(frozen=True, slots=True)
class Sighting:
    """A VM at this moment, looked up by its address."""

    gce_id: str
    status: Status
    last_started_at: datetime | None
    labels: Mapping[str, str]
    origin: Mapping[str, str] = field(default_factory=dict)  # metadata that says who keeps it: see managed/origin.py
    notice: timedelta = timedelta(0)  # of a preemption


class Presence(StrEnum):
    """The answer to "is this very VM still there?"."""

    THERE = "there"
    GONE = "gone"  # 404, or the name now belongs to another id
    NOT_KNOWN = "not_known"


class LooseKind(StrEnum):
    DISK = "disk"
    ADDRESS = "address"
    SNAPSHOT = "snapshot"
    IMAGE = "image"
    RESERVATION = "reservation"
    FUTURE_RESERVATION = "future_reservation"  # never loose: it bills once it is a reservation
    QUEUED_RESOURCE = "queued_resource"  # of the Cloud TPU API: a dead one costs nothing, and holds its quota

    @property
    def words(self) -> str:
        return self.value.replace("_", " ")

    @property
    def collection(self) -> str:
        """Google's name for the list of them, in addresses, permissions and gcloud's commands."""
        if self is LooseKind.FUTURE_RESERVATION:
            return "futureReservations"
        return f"{self.value}es" if self is LooseKind.ADDRESS else f"{self.value}s"


_MOST_OF_COMPUTE = frozenset((LooseKind.DISK, LooseKind.ADDRESS, LooseKind.SNAPSHOT, LooseKind.RESERVATION))


@dataclass(frozen=True, slots=True)
class LooseThing:
    """A thing that nothing uses, as its list showed it.

    `resource` is a billed resource, of which it is `quantity`, in `region`; None: none whose price is known. Of a
    reservation `shape` is a VM of it, `quantity` the VMs that nobody uses, `used` those that are used, `model` the one
    at whose prices it is paid, and `ends_at` when Google deletes it; None: when a person does.
    """

    kind: LooseKind
    project: str
    scope: str  # `zones/us-central1-a`, `regions/us-central1` or `global`
    name: str
    what: str  # in words: `pd-ssd disk, 100 GiB`
    created_at: datetime
    unused_since: datetime | None = None  # None: the list does not say
    labels: Mapping[str, str] = field(default_factory=dict)
    resource: str | None = None
    region: str = ""
    quantity: Fraction = Fraction(1)
    shape: Shape | None = None
    used: int = 0
    ends_at: datetime | None = None
    model: ProvisioningModel = ProvisioningModel.STANDARD


@dataclass(frozen=True, slots=True)
class PlannedReservation:
    """A future reservation: what is reserved from when to when. It bills from its start, used or not."""

    project: str
    scope: str
    name: str
    what: str  # in words: `8 a3-megagpu-8g`
    is_calendar: bool
    state: str  # Google's procurement status in lower case: `fulfilled`
    starts_at: datetime
    ends_at: datetime | None  # None: the window has no end
    reservation_ends_at: datetime | None  # when Google deletes the reservations that it made; None: no such time
    count: int
    region: str
    shape: Shape | None  # of one VM; None: a template says it
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class UnreadList:
    """A list that could not be read, or not whole: what is in it is unknown, never nothing."""

    project: str
    kind: LooseKind
    reason: str
    permission: str  # which it takes


@dataclass(frozen=True, slots=True)
class LooseListing:
    """The loose things of one project. `cluster_disks` are unattached disks that a cluster's volumes may need."""

    project: str
    things: tuple[LooseThing, ...] = ()
    cluster_disks: int = 0
    unread: tuple[UnreadList, ...] = ()
    planned: tuple[PlannedReservation, ...] = ()

    @property
    def is_unread(self) -> bool:
        """Says whether nothing of the project is known. Its images alone, which are often shared, do not count."""
        has_some = self.things or self.cluster_disks or self.planned
        return not has_some and {one.kind for one in self.unread} >= _MOST_OF_COMPUTE


@dataclass(frozen=True, slots=True)
class FoundProject:
    """A project in which a search found what bills. `project` is its id; "" where the search named only its number."""

    number: str
    project: str = ""


@dataclass(frozen=True, slots=True)
class PlaceSearch:
    """The result of one search of an organisation or a folder, `organizations/N` or `folders/N`.

    `unread` is None only where every page came: else `projects` holds nothing, and nothing is known to be absent.
    """

    place: str
    projects: tuple[FoundProject, ...] = ()
    unread: Unread | None = None


@dataclass(frozen=True, slots=True)
class AssetState:
    """A state of an asset since `from_at`. `resource` is what its own API showed then; empty of one that is deleted."""

    name: str  # the full one: //compute.googleapis.com/projects/P/zones/Z/instances/N
    resource: Mapping[str, Any]
    from_at: datetime | None
    deleted: bool = False


@dataclass(frozen=True, slots=True)
class AssetAnswer:
    """The states of assets by Google's history. Of a name that is answered and has no state it knows nothing."""

    states: tuple[AssetState, ...]
    answered: frozenset[str]
    calls_left: int
