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

from costguard_sandbox.catalogue.prices import NoRate, PriceList
from costguard_sandbox.clock import pacific
from costguard_sandbox.meter.rate import segments
from costguard_sandbox.meter.usage import spans, whole_seconds
from costguard_sandbox.vm import VM


@dataclass(slots=True)
class ResourceBill:
    """`exact` is in nano-dollars; rounded only where `nanos` is read."""

    seconds: int = 0
    exact: Fraction = Fraction(0)

    @property
    def nanos(self) -> int:
        return round(self.exact)


@dataclass(slots=True)
class Bill:
    """One VM's bill. `unpriced` names the resources that are not sold where the VM is."""

    vm: VM
    resources: dict[str, ResourceBill] = field(default_factory=dict)
    unpriced: list[str] = field(default_factory=list)

    @property
    def nanos(self) -> int:
        return round(sum((one.exact for one in self.resources.values()), Fraction(0)))

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
    """What the VM cost until a moment, and from a moment on."""
    result = Bill(vm)
    for span in spans(vm, until):
        began = max(span.began, since) if since else span.began
        if began >= span.ended:
            continue
        try:
            cost = sum(
                (
                    span.quantity * nanos * whole_seconds(start, end)
                    for start, end, nanos in segments(prices, span.resource, vm.region, span.spot, began, span.ended)
                ),
                Fraction(0),
            )
        except NoRate:
            if span.resource not in result.unpriced:
                result.unpriced.append(span.resource)
            continue
        one = result.resources.setdefault(span.resource, ResourceBill())
        one.seconds += whole_seconds(began, span.ended)
        one.exact += cost
    return result


def bills(vms: Iterable[VM], prices: PriceList, until: datetime) -> list[Bill]:
    return [bill(vm, prices, until) for vm in vms]
