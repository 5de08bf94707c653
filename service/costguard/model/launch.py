"""Launches: the recipe of a VM, and Google's answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum

from costguard.model.instance import ProvisioningModel, Shape
from costguard.model.money import Money

# How long before the soft-off a Spot VM's metadata announce its preemption. Google takes no other values:
# `gcloud compute instances create --help`, --preemption-notice-duration, and "Spot VMs", "Preemption process".
NO_NOTICE = timedelta(0)
LONGEST_NOTICE = timedelta(seconds=120)
NOTICES: Mapping[str, timedelta] = {"120s": LONGEST_NOTICE, "0s": NO_NOTICE}

# How long a request for a flex-start VM may wait, and how long the VM may run: "About Flex-start VMs", and
# `InstanceParams.requestValidForDuration` in the discovery document of compute v1.
SHORTEST_WAIT = timedelta(seconds=90)
LONGEST_WAIT = timedelta(hours=2)
NO_WAIT = timedelta(0)  # now or not at all
# The longest that a flex-start VM may run: "Compute Engine provisioning models"; the same as in a resize request of a
# group (`requestedRunDuration` in the resource's definition of Google's Terraform provider).
LONGEST_FLEX_RUN = timedelta(days=7)
# The machine series that Google sells by flex-start ("Compute Engine provisioning models"). Cloud TPU writes its own:
# `tpu7x` is also a machine type here, `v5p` and `v6e` are `ct5p` and `ct6e`.
FLEX_SERIES = frozenset({"a2", "a3", "a4", "g2", "g4", "ct5p", "ct6e", "tpu7x"})


# The machine series whose VMs Google places close together without a bound on their distance: "Placement policies
# overview", AI Hypercomputer's "Compact placement policy and workload policy overview", and of H4D and C4D "Define
# compact placement for GKE nodes". A4X needs a policy that names its GPU topology too, and N1, T2 and TPUs take none.
COMPACT_SERIES = (
    *("a2", "a3", "a4", "c2", "c2d", "c3", "c3d", "c4", "c4d"),
    *("g2", "g4", "h3", "h4d", "n2", "n2d"),
)


class Placement(StrEnum):
    """The places of a job's VMs, relative to each other in their zone."""

    ANY = "any"
    COMPACT = "compact"  # close together, by a compact placement policy


def takes_compact_placement(machine_type: str) -> bool:
    """Says whether Google takes this machine type under a compact placement policy."""
    return machine_type.partition("-")[0] in COMPACT_SERIES


def policy_name(job_id: str) -> str:
    """Returns the name of a job's placement policy, the same in each region."""
    return f"cg-{job_id}"


@dataclass(frozen=True, slots=True)
class PlacementPolicy:
    """The compact placement policy of a job in a region: it is intended, made, used by VMs, and deleted.

    `ready_at`: VMs may name it. `refused` is why Google does not make it. `try_after` is when it is looked at again.
    """

    job_id: str
    project: str
    region: str
    wanted_at: datetime
    ready_at: datetime | None = None
    refused: str = ""
    tries: int = 0
    try_after: datetime | None = None
    error: str = ""
    gone_at: datetime | None = None

    @property
    def name(self) -> str:
        return policy_name(self.job_id)


@dataclass(frozen=True, slots=True)
class PolicyAnswer:
    """A placement policy as Google shows it; `status` is CREATING, READY, DELETING, INVALID or EXPIRED."""

    status: str
    description: str
    is_compact: bool


def is_sold_by_flex_start(machine_type: str) -> bool:
    """Tells whether Google sells this machine type by flex-start; of A4X it does not, which is a series of its own."""
    return machine_type.partition("-")[0] in FLEX_SERIES


# The ways to buy a VM, as people name them.
CHEAPEST = "cheapest"
RESERVED = "reserved:"
WAYS: Mapping[ProvisioningModel, str] = {
    ProvisioningModel.SPOT: "spot",
    ProvisioningModel.FLEX_START: "flex",
    ProvisioningModel.STANDARD: "demand",
}


@dataclass(frozen=True, slots=True)
class Recipe:
    """The recipe to launch a VM of a preset. A job keeps the recipe that it was submitted with.

    `gpu_type` and `gpu_count` are accelerators to be attached; machine types that have GPUs built in (A2, A3, G2) name
    theirs too, and `attaches_gpus` says which it is. `image` is a boot image or family as Google writes it,
    `projects/P/global/images/family/F`. `max_run` bounds each VM by itself (Google's `maxRunDuration`).
    """

    machine_type: str
    zones: tuple[str, ...]  # in the order in which they are preferred where nothing else decides
    image: str
    max_run: timedelta
    gpu_type: str = ""
    gpu_count: int = 0
    attaches_gpus: bool = False
    provisioning_model: ProvisioningModel = ProvisioningModel.SPOT
    falls_back_to_on_demand: bool = False  # once every zone was out of stock
    disk_gib: int = 100
    disk_type: str = "pd-balanced"
    service_account: str = ""  # "" is none: the VM may then call nothing of Google's
    scopes: tuple[str, ...] = ("https://www.googleapis.com/auth/cloud-platform",)
    network: str = "global/networks/default"
    subnetwork: str = ""  # "" leaves the choice to Google
    external_address: bool | None = None  # None: decided at each launch, by what is read of the subnetwork
    installs_drivers: bool = True  # asks a Deep Learning image to install the GPU's driver
    labels: Mapping[str, str] = field(default_factory=dict)
    notice: timedelta = LONGEST_NOTICE  # of a preemption, which Spot VMs are asked for; others are never preempted
    wait: timedelta = LONGEST_WAIT  # of a request for a flex-start VM
    reservation: str = ""  # to run on: its name, or projects/P/reservations/NAME; with RESERVATION_BOUND alone
    reservation_ends_at: datetime | None = None  # when Google deletes it, as read at submission; None: not known
    buys_cheapest: bool = False  # of Spot, flex-start and on demand the one that is expected to cost least

    def wait_of(self, model: ProvisioningModel) -> timedelta:
        """Returns for how long a request for a VM of this model may wait."""
        return self.wait if model is ProvisioningModel.FLEX_START else NO_WAIT

    @property
    def buy(self) -> str:
        """Returns the way in which its VMs are bought, as people name it: see model/buying.py."""
        if self.buys_cheapest:
            return CHEAPEST
        return f"{RESERVED}{self.reservation}" if self.reservation else WAYS[self.provisioning_model]

    def notice_of(self, model: ProvisioningModel) -> timedelta:
        """Returns the notice to ask for with a VM of this model."""
        return self.notice if model is ProvisioningModel.SPOT else NO_NOTICE

    def shape(self, machine: Shape) -> Shape:
        """Returns the billed shape of such a VM: its machine type, and the GPUs that are attached to it."""
        return replace(machine, gpu_type=self.gpu_type, gpu_count=self.gpu_count) if self.attaches_gpus else machine


@dataclass(frozen=True, slots=True)
class ReservedVms:
    """A reservation as Google shows it. `count` is 0 where it does not say how many VMs are reserved."""

    machine_type: str  # "" where Google does not say it
    gpu_type: str  # that are attached, or those of the machine type
    gpu_count: int
    count: int
    in_use: int
    must_be_named: bool  # no other VM uses it; one that is open to all cannot be named
    ends_at: datetime | None  # when Google deletes it; None: no such time


@dataclass(frozen=True, slots=True)
class WayOut:
    """A subnetwork, and how a VM without an external address gets out of it."""

    subnetwork: str  # with its region, in words
    nat: str = ""  # the Cloud NAT that covers it; "" for none
    reaches_google: bool = False  # by Private Google Access


@dataclass(frozen=True, slots=True)
class AddressChoice:
    """A decision on whether a VM gets an external IPv4 address, with its reason."""

    is_external: bool
    why: str

    @property
    def in_words(self) -> str:
        return f"{'external' if self.is_external else 'no external'} address: {self.why}"


@dataclass(frozen=True, slots=True)
class VmRequest:
    """A request for a VM. A repeat with the same request id and the same contents is harmless.

    Unless the recipe says False, the VM has an external address.
    """

    name: str
    recipe: Recipe
    provisioning_model: ProvisioningModel
    max_run: timedelta  # whole seconds, 30 s to 120 days (Google's bounds)
    keeps_disk: bool  # Google stops the VM at its end, and does not delete it: its disk holds the checkpoints
    labels: Mapping[str, str] = field(default_factory=dict)
    metadata: Mapping[str, str] = field(default_factory=dict)
    notice: timedelta = NO_NOTICE  # of a preemption: see `NOTICES`
    wait: timedelta = NO_WAIT  # of a flex-start request; the VM is PENDING meanwhile
    reservation: str = ""  # to run on, with RESERVATION_BOUND
    placement_policy: str = ""  # its name, in the VM's project and region; "": none


@dataclass(frozen=True, slots=True)
class OperationAnswer:
    """The progress of an operation. `error_code` is Google's, such as ZONE_RESOURCE_POOL_EXHAUSTED."""

    is_done: bool
    target_id: str = ""  # the numeric id of the VM that it is about
    error_code: str = ""
    error_message: str = ""
    zones_available: tuple[str, ...] = ()  # of a stockout: where Google says that there is room for the same request


@dataclass(frozen=True, slots=True)
class Quota:
    """A regional limit of Google's, such as NVIDIA_A100_GPUS or PREEMPTIBLE_NVIDIA_T4_GPUS; may be a fraction."""

    metric: str
    limit: float
    usage: float


# The models that use the quota for preemptible VMs, where one was granted, and else the common one: "Allocation
# quotas", and "About Flex-start VMs", section "Quota".
PREEMPTIBLE_QUOTA = frozenset({ProvisioningModel.SPOT, ProvisioningModel.FLEX_START})


def gpu_metrics(gpu_type: str, model: ProvisioningModel) -> list[str]:
    """The metrics of the quotas that a GPU may count against, the narrower first: of a Spot T4
    PREEMPTIBLE_NVIDIA_T4_GPUS and NVIDIA_T4_GPUS. The memory is part of the A100's and the H100's type, and of one's
    metric.
    """
    stem = gpu_type.replace("nvidia-tesla-", "nvidia-").upper().replace("-", "_")
    common = f"{'NVIDIA_H100' if stem == 'NVIDIA_H100_80GB' else stem}_GPUS"
    return [f"PREEMPTIBLE_{common}", common] if model in PREEMPTIBLE_QUOTA else [common]


ADVISED_MODELS = frozenset({ProvisioningModel.SPOT, ProvisioningModel.FLEX_START})
_TPU_SERIES = ("ct", "tpu")


@dataclass(frozen=True, slots=True)
class CapacityAdvice:
    """The estimate for one VM that is asked for now, in the zone of the region that Google prefers.

    `obtainability` is from 0 to 1, "higher is better". `uptime` is that of most such Spot VMs before their preemption,
    "best-effort only" (compute v1, discovery document, CapacityAdviceResponseRecommendationScores); None: not said.
    """

    obtainability: float
    zone: str
    uptime: timedelta | None = None


@dataclass(frozen=True, slots=True)
class SpotListPrice:
    """The list price of a whole Spot VM, without its disks. `until` is None for the price of now."""

    since: datetime
    until: datetime | None
    hourly: Money


def is_advised(machine_type: str, *, attaches_gpus: bool) -> bool:
    """Tells whether Google advises on VMs of this type: not on N1 with GPUs, custom types or TPUs.

    https://docs.cloud.google.com/compute/docs/instances/view-vm-availability, "Limitations".
    """
    return not attaches_gpus and "custom" not in machine_type and not machine_type.startswith(_TPU_SERIES)


# VMs that are requested all at once, by a managed instance group and its resize requests: "About resize requests in a
# MIG" (docs.cloud.google.com/compute/docs/instance-groups/about-resize-requests-mig).


class ResizeState(StrEnum):
    """The state of a resize request. One that is ACCEPTED waits, costs nothing, and alone can be cancelled."""

    ACCEPTED = "ACCEPTED"
    CREATING = "CREATING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    UNKNOWN = "STATE_UNSPECIFIED"  # none of these: nothing follows from it

    @property
    def is_final(self) -> bool:
        return self in (ResizeState.SUCCEEDED, ResizeState.FAILED, ResizeState.CANCELLED)


@dataclass(frozen=True, slots=True)
class GroupAddress:
    """A zonal group of ours, whose template has its name."""

    project: str
    zone: str
    name: str


@dataclass(frozen=True, slots=True)
class ResizeRequest:
    """VMs of these names, all at once or none."""

    name: str
    vms: tuple[str, ...]
    max_run: timedelta


@dataclass(frozen=True, slots=True)
class ResizeAnswer:
    """A resize request as Google shows it. The error is that of a FAILED one; "" where it gives none."""

    state: ResizeState
    error_code: str = ""
    error_message: str = ""


@dataclass(frozen=True, slots=True)
class GroupParts:
    """The parts of a group that are there."""

    has_template: bool
    has_group: bool
