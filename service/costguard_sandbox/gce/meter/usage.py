"""Finds what a VM used, and when: the spans that are billed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from fractions import Fraction

from costguard_sandbox.gce.tpus import TpuNode
from costguard_sandbox.gce.vm import VM, Disk, Run, Shape

# Google, VM instance pricing, "N1 shared-core machine types": one price an hour, cores and memory inside.
# Cloud Billing Catalog: "Micro Instance with burstable CPU" and "Small Instance with 1 VCPU".
_WHOLE_PRICE = frozenset({"f1-micro", "g1-small"})
# Google, VM instance pricing, "E2 shared-core machine types": "totaling 25% CPU time and effectively consuming
# 0.25 cores", 50 % and 0.50, 100 % and 1.0. Recorded: rows G-res2 show a guest of two vCPUs with 3,600
# core-seconds an hour. For the custom forms no page says so; the one published quote fits the same parts.
_E2_SHARED: Mapping[str, Fraction] = {"micro": Fraction(1, 4), "small": Fraction(1, 2), "medium": Fraction(1)}
_E2_NAME = re.compile(r"e2-(custom-)?(micro|small|medium)(-\d+)?")
# Google, VM instance pricing, "N1 extended custom memory" and its like: what a custom VM has above so many GiB for each
# vCPU is charged at a price of its own. Its machine type ends in -ext.
_ORDINARY_GIB_PER_VCPU: Mapping[str, Fraction] = {"n1": Fraction(13, 2), "n2": Fraction(8), "n2d": Fraction(8)}
# Google, VM instance pricing: memory is counted in gigabytes of 2^30 bytes; machine types give it in MiB.
_MIB_PER_GIB = 1024
# Cloud Billing Catalog: A3 Mega and A3 Ultra have core and memory SKUs of their own ("A3Plus", "A3Ultra").
_SERIES = (("a3-megagpu-", "a3plus"), ("a3-ultragpu-", "a3ultra"))
# Cloud Billing Catalog of 2026: "A4 Nvidia B200 (1 gpu slice)" is the only SKU that A4 has. On Google's page a Spot
# a4-highgpu-8g with its 12,000 GiB of local SSD costs eight times one of them: it covers everything.
_GPU_COVERS_ALL = frozenset({"nvidia-b200", "nvidia-gb200"})
# Cloud Billing Catalog of 2026: "TpuV6e running in Columbus" and alike, resource group TPU, are the only SKUs that TPU
# machine types have: no cores, no memory.
_CHIP_COVERS_ALL = frozenset({"ct5lp", "ct5p", "ct6e", "tpu7x"})
# Cloud Billing Catalog of 2026: "1/8 vGPU no lssd" covers cores, memory and GPU of a g4-standard-6.
_EIGHTHS: Mapping[str, int] = {"g4-standard-6": 1, "g4-standard-12": 2, "g4-standard-24": 4}
# Google, VM instance pricing, "Billing model": "All vCPUs, GPUs, and GB of memory are charged a minimum of 1 minute".
_LEAST = timedelta(minutes=1)
# Google, Spot VMs, "Preemption process": not billed when preempted "less than one minute after they are created";
# for GPUs and local SSDs it counts from when the VM starts running, which is taken for everything here.
_FREE_IF_PREEMPTED = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Part:
    """`quantity` is in vCPUs, GiB or GPUs; with `minute`, a shorter run pays for a whole minute."""

    resource: str
    quantity: Fraction
    minute: bool = True


def parts_of(shape: Shape) -> Iterator[Part]:
    """Cores, memory, GPUs and local SSD of a VM that runs.

    Google, VM instance pricing, "Resource-based pricing": each vCPU and each GB of memory is billed by itself; a GPU
    adds to that ("GPU options"), built in or attached.
    """
    if shape.machine_type in _EIGHTHS:
        yield Part(f"slice:{shape.gpu_type}", Fraction(_EIGHTHS[shape.machine_type]))
        return
    if shape.gpu_type in _GPU_COVERS_ALL:
        yield Part(f"gpu:{shape.gpu_type}", Fraction(shape.gpu_count))
        return
    if shape.gpu_type in _CHIP_COVERS_ALL:
        yield Part(f"tpu:{shape.gpu_type}", Fraction(shape.gpu_count))
        return
    if shape.machine_type in _WHOLE_PRICE:
        yield Part(f"shared:{shape.machine_type}", Fraction(1))
    else:
        series = _series(shape)
        yield Part(f"{series}:core", _billed_vcpus(shape))
        ordinary = min(gibibytes_of_memory(shape), _most_ordinary_memory(shape))
        yield Part(f"{series}:ram", ordinary)
        if extended := gibibytes_of_memory(shape) - ordinary:
            yield Part(f"{series}-extended:ram", extended)
    if shape.gpu_count:
        yield Part(f"gpu:{shape.gpu_type}", Fraction(shape.gpu_count))
    if shape.local_ssd_gib:
        # The minute holds for "vCPUs, GPUs, and GB of memory" (billing model); local SSD is a disk-related charge,
        # "prorated based on a granularity of seconds" (disk and image pricing).
        yield Part("local-ssd", Fraction(shape.local_ssd_gib), minute=False)


def gibibytes_of_memory(shape: Shape) -> Fraction:
    return Fraction(shape.memory_mb, _MIB_PER_GIB)


def _most_ordinary_memory(shape: Shape) -> Fraction:
    """GiB at the ordinary price of custom memory; all there is where the type has no extended memory."""
    most = _ORDINARY_GIB_PER_VCPU.get(shape.family) if shape.machine_type.endswith("-ext") else None
    return gibibytes_of_memory(shape) if most is None else most * shape.vcpus


def _billed_vcpus(shape: Shape) -> Fraction:
    shared = _E2_NAME.fullmatch(shape.machine_type)
    return _E2_SHARED[shared[2]] if shared else Fraction(shape.vcpus)


def _series(shape: Shape) -> str:
    """Returns the series whose cores and memory are billed.

    Custom types have SKUs of their own; E2's are 5 % more expensive on Google's page.
    """
    if "custom-" in shape.machine_type:
        return f"{shape.family}-custom"
    return next((series for prefix, series in _SERIES if shape.machine_type.startswith(prefix)), shape.family)


@dataclass(frozen=True, slots=True)
class Span:
    """A quantity of one resource, in use from `began` to `ended`."""

    resource: str
    quantity: Fraction
    spot: bool
    began: datetime
    ended: datetime

    @property
    def seconds(self) -> int:
        return whole_seconds(self.began, self.ended)


def whole_seconds(began: datetime, ended: datetime) -> int:
    """Billed seconds between two moments.

    Recorded rows hold whole seconds only (G-t4, G-res2) and do not show how Google rounds. Here a second belongs to
    what was in use when it began, so that adjoining spans neither share nor lose one.
    """
    return int(ended.timestamp() // 1) - int(began.timestamp() // 1)


def spans(vm: VM, until: datetime) -> Iterator[Span]:
    """Everything that the VM bills for until a moment."""
    yield from _running(vm, until)
    yield from _addresses(vm, until)
    yield from _suspended(vm, until)
    yield from _disks(vm, until)


def _running(vm: VM, until: datetime) -> Iterator[Span]:
    """Yields the spans from RUNNING to STOPPING.

    Google, VM instance pricing, "Instance uptime": from when the instance is started until its state is STOPPING, also
    where a failure or the system stopped it. A VM that is preempted, repaired or recreated while it comes up has no
    uptime yet.
    """
    model = str(vm.scheduling.get("provisioningModel"))
    for run in vm.runs:
        if _is_free(run, spot=vm.is_spot):
            continue
        for part in parts_of(run.shape or vm.shape):
            ended = run.ended
            if ended is not None and part.minute:
                ended = max(ended, run.began + _LEAST)
            ended = until if ended is None else min(ended, until)
            if ended > run.began:
                yield Span(_sold_as(part.resource, model), part.quantity, vm.is_spot, run.began, ended)


def spans_of_node(node: TpuNode, until: datetime) -> Iterator[Span]:
    """Google, Cloud TPU pricing: "Charges for Cloud TPU accrue while your TPU node is in a READY state", by the chip.

    Of a reservation a node has prices of its own. Older generations have SKUs of another service, which the simulated
    catalogue lacks.
    """
    resource = f"tpu:{node.slice.chip or node.slice.version.lower()}"
    for run in node.runs:
        if _is_free(run, spot=node.is_spot):
            continue
        ended = until if run.ended is None else min(max(run.ended, run.began + _LEAST), until)
        model = "RESERVATION_BOUND" if node.scheduling.get("reserved") else ""
        if ended > run.began:
            yield Span(_sold_as(resource, model), Fraction(node.slice.chips), node.is_spot, run.began, ended)


def _addresses(vm: VM, until: datetime) -> Iterator[Span]:
    """Google, VPC pricing, "External IP addresses": by the second in use, IPv6 free, half for Spot VMs.

    An ephemeral address is in use while its VM runs; a static one is "in use if it is associated with a VM instance,
    whether the instance is running or stopped".
    """
    interfaces = vm.given.get("networkInterfaces") or ()
    given = [access for interface in interfaces for access in interface.get("accessConfigs") or ()]
    static = sum(bool(access.get("natIP")) for access in given)
    for place, run in enumerate(vm.runs):
        ended = min(run.ended or until, until)
        following = vm.runs[place + 1].began if place + 1 < len(vm.runs) else vm.deleted_at or until
        for count, end in ((len(given) - static, ended), (static, min(following, until))):
            if count and end > run.began:
                yield Span("external-ip", Fraction(count), vm.is_spot, run.began, end)


def _sold_as(resource: str, model: str) -> str:
    """Google, VM instance pricing: Flex-start and reservations in calendar mode have prices of their own.

    A bill of August 2025 has them for everything in a running VM, its local SSD included. What the simulated catalogue
    does not sell in that way is unpriced rather than priced wrongly. Disks and addresses cost the same as ever.
    """
    return f"{model.lower()}:{resource}" if model in ("FLEX_START", "RESERVATION_BOUND") else resource


def _is_free(run: Run, *, spot: bool) -> bool:
    """Says whether a run is free. Only a preemption is: a Spot VM that its owner stops pays for the minute."""
    return spot and run.preempted and run.ended is not None and run.ended - run.began < _FREE_IF_PREEMPTED


def _suspended(vm: VM, until: datetime) -> Iterator[Span]:
    """Google, VM instance pricing, "Suspended VM instances": its memory is charged as storage, to the second."""
    for held in vm.saved_memory:
        ended = min(held.ended or until, until)
        if ended > held.began:
            yield Span("suspended-memory", gibibytes_of_memory(vm.shape), False, held.began, ended)


def between_vms(disk: Disk, vms: Iterable[VM], until: datetime) -> Iterator[Span]:
    """The times at which a disk was unattached: billed all the same, on no VM's bill."""
    ended = min(disk.deleted_at or until, until)
    free_from = disk.created_at
    uses = sorted((use for vm in vms for use in vm.disk_uses if use.disk is disk), key=lambda use: use.began)
    for use in uses:
        if use.began > free_from:
            yield Span(f"disk:{disk.disk_type}", Fraction(disk.size_gib), False, free_from, min(use.began, ended))
        free_from = max(free_from, use.ended or ended)
    if ended > free_from:
        yield Span(f"disk:{disk.disk_type}", Fraction(disk.size_gib), False, free_from, ended)


def _disks(vm: VM, until: datetime) -> Iterator[Span]:
    """Google, Disk and image pricing: all provisioned space, used or not, stopped or not, "until you relinquish it"."""
    for use in vm.disk_uses:
        ended = min(use.ended or until, until)
        if ended > use.began:
            yield Span(f"disk:{use.disk.disk_type}", Fraction(use.disk.size_gib), False, use.began, ended)
