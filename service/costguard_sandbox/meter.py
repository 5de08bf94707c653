"""What Google would bill, worked out from the world's own states and from nothing that it told anyone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from itertools import pairwise
from typing import Any

from costguard_sandbox.catalogue.prices import NoRate, PriceList
from costguard_sandbox.clock import pacific
from costguard_sandbox.vm import VM, Run

_MINUTE = timedelta(seconds=60)
# Shared cores are billed as parts of one (cloud.google.com/compute/vm-instance-pricing).
_SHARED_CORES = {"e2-micro": Fraction(1, 4), "e2-small": Fraction(1, 2), "e2-medium": Fraction(1)}
_SECONDS_OF = {"h": 3600, "GiBy.h": 3600, "GiBy.mo": 730 * 3600}


@dataclass(frozen=True, slots=True)
class Span:
    """A quantity of one resource that was in use for a time."""

    resource: str
    quantity: Fraction
    spot: bool
    began: datetime
    ended: datetime


@dataclass(slots=True)
class ResourceBill:
    seconds: int = 0
    nanos: int = 0


@dataclass(slots=True)
class Bill:
    """One VM's bill. `unpriced` names the resources that are not sold where the VM is."""

    vm: VM
    resources: dict[str, ResourceBill] = field(default_factory=dict)
    unpriced: list[str] = field(default_factory=list)

    @property
    def nanos(self) -> int:
        return sum(one.nanos for one in self.resources.values())

    def shown(self) -> dict[str, Any]:
        return {
            "project": self.vm.project,
            "zone": self.vm.zone,
            "id": str(self.vm.id),
            "name": self.vm.name,
            "created": pacific(self.vm.created_at),
            "nanos": self.nanos,
            "resources": {
                name: {"seconds": one.seconds, "nanos": one.nanos} for name, one in sorted(self.resources.items())
            },
            "unpriced": self.unpriced,
        }


def bill(vm: VM, prices: PriceList, until: datetime, since: datetime | None = None) -> Bill:
    """What the VM cost until a moment (and from a moment on, both UTC midnights or whole seconds)."""
    result = Bill(vm)
    for span in spans(vm, until):
        began = max(span.began, since) if since else span.began
        if began >= span.ended:
            continue
        try:
            for seconds, nanos in _charges(span, vm.region, prices, began):
                one = result.resources.setdefault(span.resource, ResourceBill())
                one.seconds += seconds
                one.nanos += nanos
        except NoRate:
            if span.resource not in result.unpriced:
                result.unpriced.append(span.resource)
    return result


def bills(vms: Iterable[VM], prices: PriceList, until: datetime) -> list[Bill]:
    return [bill(vm, prices, until) for vm in vms]


def spans(vm: VM, until: datetime) -> Iterator[Span]:
    """All that the VM bills for up to a moment, machine first."""
    machine = list(_machine(vm))
    for run in vm.runs:
        ended = _billed_end(run, spot=vm.is_spot)
        ended = until if ended is None else min(ended, until)
        if ended > run.began:
            for resource, quantity in machine:
                yield Span(resource, quantity, vm.is_spot, run.began, ended)
    for held in vm.held_memory:
        ended = min(held.ended or until, until)
        if ended > held.began:
            yield Span("suspended-memory", Fraction(vm.shape.memory_mb, 1024), False, held.began, ended)
    ended = min(vm.deleted_at or until, until)
    for disk in vm.disks:
        if ended > vm.created_at:
            yield Span(f"disk:{disk.disk_type}", Fraction(disk.size_gib), False, vm.created_at, ended)


def _billed_end(run: Run, *, spot: bool) -> datetime | None:
    """A run bills for a minute at least; a Spot VM preempted within its first minute bills nothing."""
    if run.ended is None:
        return None
    if run.ended - run.began >= _MINUTE:
        return run.ended
    return run.began if spot and run.preempted else run.began + _MINUTE


def _machine(vm: VM) -> Iterator[tuple[str, Fraction]]:
    shape = vm.shape
    # Custom types have prices of their own; only E2's cost what the predefined ones do.
    is_custom = "custom-" in shape.machine_type and shape.family != "e2"
    family = f"{shape.family}-custom" if is_custom else shape.family
    yield f"{family}:core", _SHARED_CORES.get(shape.machine_type, Fraction(shape.vcpus))
    yield f"{family}:ram", Fraction(shape.memory_mb, 1024)
    if shape.gpu_count:
        yield f"gpu:{shape.gpu_type}", Fraction(shape.gpu_count)
    if shape.local_ssd_gib:
        yield "local-ssd", Fraction(shape.local_ssd_gib)


def _charges(span: Span, region: str, prices: PriceList, began: datetime) -> Iterator[tuple[int, int]]:
    """(seconds, nanos) of each charge: cut at every UTC midnight and wherever the price changes."""
    changes = [moment for moment, _ in prices.history(span.resource, region, span.spot)]
    cuts = {moment for moment in changes if began < moment < span.ended}
    midnight = began.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
    while midnight < span.ended:
        cuts.add(midnight)
        midnight += timedelta(days=1)
    edges = [began, *sorted(cuts), span.ended]
    for start, end in pairwise(edges):
        seconds = int(end.timestamp() // 1) - int(start.timestamp() // 1)
        nanos, unit = prices.rate(span.resource, region, span.spot, start)
        # round() of a Fraction rounds halves to even.
        yield seconds, round(nanos * span.quantity * seconds / _SECONDS_OF[unit])
