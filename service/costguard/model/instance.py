"""Instances: a VM as observed, its shape and its disks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

from costguard.model.managed.machines import ManagedMachines


class Status(StrEnum):
    """The status of a VM, in plainer words than Compute Engine's."""

    PENDING = "pending"
    PROVISIONING = "provisioning"
    STAGING = "staging"
    RUNNING = "running"
    PENDING_STOP = "pending_stop"  # a graceful stop: the guest still runs, and bills
    STOPPING = "stopping"
    STOPPED = "stopped"  # Google says TERMINATED: the disks remain, and bill
    SUSPENDING = "suspending"
    SUSPENDED = "suspended"
    REPAIRING = "repairing"
    DEPROVISIONING = "deprovisioning"
    UNKNOWN = "unknown"  # a word that this version does not know

    @property
    def bills_machine(self) -> bool:
        """Says whether machine parts are billed (cloud.google.com/compute/docs/instances/instance-life-cycle)."""
        return self in _BILLS_MACHINE


_BILLS_MACHINE = frozenset({Status.RUNNING, Status.PENDING_STOP})


class ProvisioningModel(StrEnum):
    """The way in which a VM is sold (cloud.google.com/compute/docs/instances/provisioning-models).

    Each has prices of its own. Disks and addresses cost the same in all but Spot, whose address costs half.
    """

    STANDARD = "standard"  # on demand, or in a reservation that is billed at the on-demand price
    SPOT = "spot"
    FLEX_START = "flex_start"
    RESERVATION_BOUND = "reservation_bound"  # ends with a reservation of calendar mode or of AI Hypercomputer

    @property
    def in_words(self) -> str:
        """Returns the model as a word in a sentence: `Spot`, `on-demand`."""
        return _IN_WORDS[self]


_IN_WORDS = {
    ProvisioningModel.STANDARD: "on-demand",
    ProvisioningModel.SPOT: "Spot",
    ProvisioningModel.FLEX_START: "flex-start",
    ProvisioningModel.RESERVATION_BOUND: "reservation-bound",
}
LIST_PRICED = (ProvisioningModel.STANDARD, ProvisioningModel.SPOT, ProvisioningModel.FLEX_START)
"""The models whose prices Google's catalogue lists for everybody, whichever VM is bought."""


class InstanceKind(StrEnum):
    """The kind of a thing that bills as VMs do. All but the first run in projects of Google's."""

    INSTANCE = "instance"  # of Compute Engine
    TPU_NODE = "tpu_node"  # of the Cloud TPU API
    CUSTOM_JOB = "custom_job"  # of Vertex AI, the trials of its tuning jobs among them
    PERSISTENT_RESOURCE = "persistent_resource"  # of Vertex AI: machines that wait for its jobs
    DEPLOYED_MODEL = "deployed_model"  # on an endpoint of Vertex AI
    DEPLOYMENT_POOL = "deployment_pool"  # of Vertex AI: machines that several deployed models share
    COLAB_RUNTIME = "colab_runtime"  # of Colab Enterprise

    @property
    def is_of_vertex(self) -> bool:
        """Says whether the API of Vertex AI lists it."""
        return self in _COLLECTIONS

    @property
    def collection(self) -> str:
        """Returns the name of its list in the API of Vertex AI; "" of any other."""
        return _COLLECTIONS.get(self, "")

    @property
    def in_words(self) -> str:
        """`VM`, `custom job`"""
        return _KINDS.get(self, self.value.replace("_", " "))


_KINDS = {
    InstanceKind.INSTANCE: "VM",
    InstanceKind.TPU_NODE: "TPU node",
    InstanceKind.COLAB_RUNTIME: "Colab Enterprise runtime",
}


def noun_of(kinds: Iterable[InstanceKind]) -> str:
    """`VM` or another kind's own word where all are of that kind; `resource` of several; `VM` where there are none."""
    distinct = set(kinds)
    if len(distinct) > 1:
        return "resource"
    return next(iter(distinct), InstanceKind.INSTANCE).in_words


_COLLECTIONS = {
    InstanceKind.CUSTOM_JOB: "customJobs",
    InstanceKind.PERSISTENT_RESOURCE: "persistentResources",
    InstanceKind.DEPLOYED_MODEL: "endpoints",
    InstanceKind.DEPLOYMENT_POOL: "deploymentResourcePools",
    InstanceKind.COLAB_RUNTIME: "notebookRuntimes",
}
_OF_COLLECTION = {collection: kind for kind, collection in _COLLECTIONS.items()}


def kind_of_collection(collection: str) -> InstanceKind | None:
    """Returns the kind of what a list of the API of Vertex AI holds; None of a list that no kind has."""
    return _OF_COLLECTION.get(collection)


TPU_NODE_ID = "tpu."
"""Begins the id of a TPU node, which Google numbers by itself. The name of no VM has a dot."""
_VERTEX_ID = "vertex."
_IS_VERTEX_ID = re.compile(rf"vertex\.({'|'.join(_OF_COLLECTION)})\.[a-z0-9-]+\.[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)?")


def vertex_id(kind: InstanceKind, region: str, resource: str, part: str = "") -> str:
    """Returns the id of a resource of Vertex AI, whose own ids are unique in one list of one region alone.

    `part` tells apart what is billed by itself: a deployed model of an endpoint, or the second kind of machine of a
    job. `vertex.endpoints.us-central1.4567.89`
    """
    return ".".join(filter(None, (_VERTEX_ID[:-1], kind.collection, region, resource, part)))


def vertex_path(gce_id: str) -> str:
    """Returns the end of the name of a resource of Vertex AI, by its id here: `customJobs/4567`."""
    _, collection, _, resource, *_ = gce_id.split(".")
    return f"{collection}/{resource}"


def measured_as(gce_id: str) -> str:
    """Returns what Cloud Monitoring's series are of: a VM's id; `customJobs/4567`, `endpoints/88/99` of Vertex AI."""
    if not gce_id.startswith(_VERTEX_ID):
        return gce_id
    _, collection, _, *numbers = gce_id.split(".")
    return "/".join((collection, *numbers))


@dataclass(frozen=True, slots=True, order=True)
class InstanceKey:
    """The permanent identity of a VM, or of what bills as VMs do. Names and zones are an address, and are reused."""

    project: str
    gce_id: str

    @property
    def kind(self) -> InstanceKind:
        if self.gce_id.startswith(_VERTEX_ID):
            return _OF_COLLECTION[self.gce_id.split(".", 2)[1]]
        return InstanceKind.TPU_NODE if self.gce_id.startswith(TPU_NODE_ID) else InstanceKind.INSTANCE


def is_id(named: str) -> bool:
    """Says whether this is the id of a VM, TPU node or resource of Vertex AI, and not its name."""
    return named.removeprefix(TPU_NODE_ID).isdecimal() or _IS_VERTEX_ID.fullmatch(named) is not None


def joined_types(types: Iterable[str]) -> str:
    """Returns the type of a VM's accelerators; types that are not all one are joined by `+`.

    No price list has such a type, so the price is unknown, and not that of one of them.
    """
    return "+".join(dict.fromkeys(types))


def region_of(place: str) -> str:
    """Returns the region of a zone (`us-central1` of `us-central1-a`), or of what has no zone: its region itself.

    A zone is its region with one part more (cloud.google.com/compute/docs/regions-zones), and a region has two.
    """
    region, _, last = place.rpartition("-")
    return region if "-" in region or not last else place


@dataclass(frozen=True, slots=True)
class Shape:
    """The parts of a VM, as far as they are known and billed.

    `vcpus` and `memory_mib` are 0 where they are not known: such a VM can be priced by its TPU chips alone. The GPU
    type of a VM with TPUs is their generation (`v6e`), and the count is of chips. The machine type of a TPU node is its
    accelerator type (`v5litepod-8`).
    """

    machine_type: str
    vcpus: int
    memory_mib: int
    gpu_type: str | None = None
    gpu_count: int = 0
    local_ssd_gib: int = 0

    @property
    def is_known(self) -> bool:
        """Says whether it is known what is billed."""
        return (self.vcpus > 0 and self.memory_mib > 0) or self.has_tpus

    @property
    def has_tpus(self) -> bool:
        return self.gpu_type in TPUS and self.gpu_count > 0

    @property
    def family(self) -> str:
        """`a2` of `a2-highgpu-1g`; custom types without a family are N1 (`custom-4-5120`)."""
        managed = ManagedMachines.read(self.machine_type)
        first = (managed.machine_type if managed is not None else self.machine_type).split("-", 1)[0]
        return "n1" if first in {"custom", "f1", "g1"} else first


TPUS = frozenset({"v2", "v3", "v4", "v5e", "v5p", "v6e", "tpu7x"})
"""The generations of TPU, as Google's documents write them: accelerator types that are no GPUs."""


CAPACITY_OPTIMIZED = "-capacity-optimized"
"""Ends the machine type of a TPU node that is sold so: the SKUs ("Capacity Optimized TpuV6e") are others."""


def accelerator_words(shapes: Iterable[Shape]) -> str:
    """`GPUs`, `TPUs`, or `GPUs and TPUs`; of none of either, `GPUs or TPUs`."""
    kinds = {"TPUs" if shape.has_tpus else "GPUs" for shape in shapes if shape.gpu_count}
    return " and ".join(sorted(kinds)) or "GPUs or TPUs"


def gpu_name(gpu_type: str) -> str:
    """An accelerator type without its maker: `t4`, `h100-80gb`, `v6e`."""
    return gpu_type.removeprefix("nvidia-").removeprefix("tesla-")


def gpu_words(gpu_type: str) -> str:
    """`T4`, `H100 80GB`, `v6e`"""
    return gpu_type if gpu_type in TPUS else gpu_name(gpu_type).replace("-", " ").upper()


@dataclass(frozen=True, slots=True)
class AttachedDisk:
    """A persistent disk of a VM; local SSDs are part of the shape."""

    name: str
    size_gib: int
    disk_type: str | None  # None: the list of disks could not be read, or does not hold it
    created_at: datetime | None
    boot: bool = False
    auto_delete: bool = False
    gce_id: str | None = None  # None: as with its type


@dataclass(frozen=True, slots=True)
class SeenInstance:
    """A VM as one listing showed it."""

    key: InstanceKey
    name: str
    zone: str
    status: Status
    created_at: datetime
    shape: Shape
    provisioning_model: ProvisioningModel
    fingerprint: str  # equal fingerprints: nothing that the ledger records has changed
    last_started_at: datetime | None = None
    last_stopped_at: datetime | None = None
    last_suspended_at: datetime | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    disks: tuple[AttachedDisk, ...] = ()
    termination_at: datetime | None = None  # when Google's run-time limit will fire
    max_run_duration: timedelta | None = None
    graceful_stop: bool = False  # a stop operation starts before billing ends
    origin: Mapping[str, str] = field(default_factory=dict)  # metadata that says who keeps it: see managed/origin.py
    external_addresses: int = 0  # IPv4, which it has while it runs
    kept_addresses: int = 0  # those of a VM that is off: they are static
    reservation: str = ""  # that it consumes, as Google writes it: projects/P/zones/Z/reservations/NAME; "" is none

    @property
    def region(self) -> str:
        return region_of(self.zone)


class ProvenVm(NamedTuple):
    """A VM that Google says a document was made on. `gce_id` is its numeric id, as text."""

    project: str
    zone: str
    name: str
    gce_id: str


def audience_of(guard_url: str, job_id: str) -> str:
    """Returns the audience of the documents by which the VMs of this job prove to this guard which they are."""
    return f"{guard_url.rstrip('/')}/jobs/{job_id}"
