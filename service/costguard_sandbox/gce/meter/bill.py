"""One VM's bill: exact, in nano-dollars, rounded once at the very end.

Google gives no sum for a VM. Recorded sums of rows (G-res2, BU-cud) lie below the exact product by less than a
millionth of a dollar a row, which `rows` accounts for; this is the product.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from fractions import Fraction
from typing import Any

from costguard_sandbox.clock import pacific
from costguard_sandbox.gce.catalogue.prices import NoRate, PriceList
from costguard_sandbox.gce.meter.rate import segments
from costguard_sandbox.gce.meter.usage import Span, between_vms, spans, whole_seconds
from costguard_sandbox.gce.vm import VM, Disk


@dataclass(slots=True)
class ResourceBill:
    """`exact` is in nano-dollars; rounded only where `nanos` is read."""

    seconds: int = 0
    exact: Fraction = Fraction(0)

    @property
    def nanos(self) -> int:
        return round(self.exact)


@dataclass(slots=True)
class _Sums:
    """`unpriced` names the resources that are not sold where they were used."""

    resources: dict[str, ResourceBill] = field(default_factory=dict)
    unpriced: list[str] = field(default_factory=list)

    @property
    def nanos(self) -> int:
        return round(sum((one.exact for one in self.resources.values()), Fraction(0)))

    def add(self, span: Span, region: str, prices: PriceList, since: datetime | None = None) -> None:
        began = max(span.began, since) if since else span.began
        if began >= span.ended:
            return
        try:
            cost = sum(
                (
                    span.quantity * nanos * whole_seconds(start, end)
                    for start, end, nanos in segments(prices, span.resource, region, span.spot, began, span.ended)
                ),
                Fraction(0),
            )
        except NoRate:
            if span.resource not in self.unpriced:
                self.unpriced.append(span.resource)
            return
        one = self.resources.setdefault(span.resource, ResourceBill())
        one.seconds += whole_seconds(began, span.ended)
        one.exact += cost

    def shown(self) -> dict[str, Any]:
        return {
            "nanos": self.nanos,
            "resources": {
                name: {"seconds": one.seconds, "nanos": one.nanos} for name, one in sorted(self.resources.items())
            },
            "unpriced": self.unpriced,
        }


@dataclass(slots=True, kw_only=True)
class Bill(_Sums):
    """One VM's bill, with the disks that it held while it held them."""

    vm: VM

    def shown(self) -> dict[str, Any]:
        vm = self.vm
        who = {"project": vm.project, "zone": vm.zone, "id": str(vm.id), "name": vm.name}
        return {**who, "created": pacific(vm.created_at), **_Sums.shown(self)}


@dataclass(slots=True, kw_only=True)
class DiskBill(_Sums):
    """What a disk cost while no VM held it."""

    disk: Disk

    def shown(self) -> dict[str, Any]:
        disk = self.disk
        who = {"project": disk.project, "zone": disk.zone, "id": str(disk.id), "name": disk.name}
        return {**who, "created": pacific(disk.created_at), **_Sums.shown(self)}


def bill(vm: VM, prices: PriceList, until: datetime, since: datetime | None = None) -> Bill:
    """What the VM cost until a moment, and from a moment on."""
    result = Bill(vm=vm)
    for span in spans(vm, until):
        result.add(span, vm.region, prices, since)
    return result


def disk_bills(disks: Iterable[Disk], vms: Iterable[VM], prices: PriceList, until: datetime) -> list[DiskBill]:
    """Of every disk that was ever attached to nothing. One that several VMs read at once is on each of their bills."""
    found = []
    holders = [vm for vm in vms if vm.disk_uses]
    for disk in disks:
        result = DiskBill(disk=disk)
        for span in between_vms(disk, holders, until):
            result.add(span, disk.zone.rsplit("-", 1)[0], prices)
        if result.resources or result.unpriced:
            found.append(result)
    return found


def bills(vms: Iterable[VM], prices: PriceList, until: datetime) -> list[Bill]:
    return [bill(vm, prices, until) for vm in vms]
