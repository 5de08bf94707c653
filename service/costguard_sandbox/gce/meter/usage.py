"""What a VM used, and when: the spans that are billed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from fractions import Fraction

from costguard_sandbox.gce.meter.parts import gibibytes_of_memory, parts_of
from costguard_sandbox.gce.vm import VM, Disk, Run

# Google, VM instance pricing, "Billing model": "All vCPUs, GPUs, and GB of memory are charged a minimum of 1 minute".
_LEAST = timedelta(minutes=1)
# Google, Spot VMs, "Preemption process": not billed when preempted "less than one minute after they are created";
# for GPUs and local SSDs it counts from when the VM starts running, which is taken for everything here.
_FREE_IF_PREEMPTED = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Span:
    """A quantity of one resource that was in use for a time."""

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

    Recorded rows hold whole seconds only (G-t4, G-res2). Which part of a second counts they do not show: here a
    second belongs to what was in use as it began, so that adjoining spans never share or lose one.
    """
    return int(ended.timestamp() // 1) - int(began.timestamp() // 1)


def spans(vm: VM, until: datetime) -> Iterator[Span]:
    """All that the VM bills for up to a moment."""
    yield from _running(vm, until)
    yield from _suspended(vm, until)
    yield from _disks(vm, until)


def _running(vm: VM, until: datetime) -> Iterator[Span]:
    """From RUNNING to STOPPING.

    Google, VM instance pricing, "Instance uptime": from when the instance is started until its state is STOPPING,
    also where a failure or the system stopped it. A VM that is preempted, repaired or recreated while it comes up
    has no uptime yet.
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


def _sold_as(resource: str, model: str) -> str:
    """Google, VM instance pricing: Flex-start and reservations in calendar mode have prices of their own.

    The simulated catalogue has none of them, so that what uses them is unpriced and not priced wrongly.
    """
    return f"{model.lower()}:{resource}" if model in ("FLEX_START", "RESERVATION_BOUND") else resource


def _is_free(run: Run, *, spot: bool) -> bool:
    """Only Google's own preemption is free: a Spot VM that its owner stops at once pays for the minute."""
    return spot and run.preempted and run.ended is not None and run.ended - run.began < _FREE_IF_PREEMPTED


def _suspended(vm: VM, until: datetime) -> Iterator[Span]:
    """Google, VM instance pricing, "Suspended VM instances": its memory is charged as storage, to the second."""
    for held in vm.held_memory:
        ended = min(held.ended or until, until)
        if ended > held.began:
            yield Span("suspended-memory", gibibytes_of_memory(vm.shape), False, held.began, ended)


def between_vms(disk: Disk, vms: Iterable[VM], until: datetime) -> Iterator[Span]:
    """The times at which a disk was attached to nothing: billed like any other, on no VM's bill."""
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
