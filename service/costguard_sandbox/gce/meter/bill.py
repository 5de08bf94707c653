"""The bill of a VM: exact, in nano-dollars, rounded once at the very end.

Google gives no sum for a VM. Recorded sums of rows (G-res2, BU-cud) lie below the exact product by less than a
millionth of a dollar a row, which `rows` accounts for; this is the product.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

from costguard_sandbox.clock import pacific
from costguard_sandbox.gce.catalogue.prices import NoRate, PriceList, unit_of
from costguard_sandbox.gce.meter.usage import Span, between_vms, spans, spans_of_node, whole_seconds
from costguard_sandbox.gce.tpus import TpuNode
from costguard_sandbox.gce.vm import VM, Disk

_BILLING_TIME = ZoneInfo("America/Los_Angeles")


# Cloud Billing Catalog: usageUnit `h` and `GiBy.h` have the base units s and By.s, 3600 of them in an hour.
_SECONDS_PER_HOUR = 3600
_HOUR = timedelta(hours=1)
_GIB = 2**30
# V-disk 0.071217891, K-kms 0.008805256: nine decimals of the price's unit, the rest cut off.
_QUANTITY_DECIMALS = Decimal("0.000000001")
# G-res2: sums agree to the last digit when each row's cost is cut, not rounded, at a millionth.
_COST_DECIMALS = Decimal("0.000001")
# usageUnit of the catalogue -> (usage.unit, usage.pricing_unit) of the export, as in V-disk and G-vx.
_EXPORT_UNITS = {
    "h": ("seconds", "hour"),
    "GiBy.h": ("byte-seconds", "gibibyte hour"),
    "GiBy.mo": ("byte-seconds", "gibibyte month"),
}


def month_of(moment: datetime) -> tuple[datetime, datetime]:
    """The calendar month in US Pacific time that a moment lies in: its first instant and the first after it, in UTC."""
    local = moment.astimezone(_BILLING_TIME)
    return _edges(local.year, local.month)


def seconds_of_month(moment: datetime) -> int:
    """2,419,200 in most Februaries; 2,674,800 in March and 2,595,600 in November, where daylight saving changes."""
    first, following = month_of(moment)
    return int((following - first).total_seconds())


@lru_cache(maxsize=256)
def _edges(year: int, month: int) -> tuple[datetime, datetime]:
    following = (year + 1, 1) if month == 12 else (year, month + 1)
    first, after = (datetime(*start, 1, tzinfo=_BILLING_TIME).astimezone(UTC) for start in ((year, month), following))
    return first, after


def segments(
    prices: PriceList, resource: str, region: str, spot: bool, began: datetime, ended: datetime
) -> Iterator[tuple[datetime, datetime, Fraction]]:
    """(from, to, nano-dollars for one unit of quantity and second): cut where the price or its month changes.

    A price is in force from its `effectiveTime` on (Cloud Billing Catalog, PricingInfo). Raises NoRate.
    """
    cuts = {moment for moment, _ in prices.history(resource, region, spot) if began < moment < ended}
    by_month = prices.rate(resource, region, spot, began)[1] == "GiBy.mo"
    if by_month:
        _, following = month_of(began)
        while following < ended:
            cuts.add(following)
            _, following = month_of(following)
    for start, end in pairwise([began, *sorted(cuts), ended]):
        nanos, _ = prices.rate(resource, region, spot, start)
        yield start, end, Fraction(nanos, seconds_of_month(start) if by_month else _SECONDS_PER_HOUR)


@dataclass(slots=True)
class ResourceBill:
    """`exact` is in nano-dollars; rounded only where `nanos` is read. `times` are (from, to) of each billed span."""

    seconds: int = 0
    exact: Fraction = Fraction(0)
    times: list[tuple[datetime, datetime]] = field(default_factory=list)

    @property
    def nanos(self) -> int:
        return round(self.exact)


@dataclass(slots=True)
class PricedSums:
    """The charges of one thing. `unpriced` names the resources that are not sold where they were used."""

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
        one.times.append((began, span.ended))

    def shown(self) -> dict[str, Any]:
        return {
            "nanos": self.nanos,
            "resources": {
                name: {
                    "seconds": one.seconds,
                    "nanos": one.nanos,
                    "times": [[pacific(began), pacific(ended)] for began, ended in one.times],
                }
                for name, one in sorted(self.resources.items())
            },
            "unpriced": self.unpriced,
        }


@dataclass(slots=True, kw_only=True)
class Bill(PricedSums):
    """The bill of a VM, with its disks while they were attached."""

    vm: VM

    def shown(self) -> dict[str, Any]:
        vm = self.vm
        who = {"project": vm.project, "zone": vm.zone, "id": str(vm.id), "name": vm.name}
        return {**who, "created": pacific(vm.created_at), **PricedSums.shown(self)}


@dataclass(slots=True, kw_only=True)
class DiskBill(PricedSums):
    """The cost of a disk while it was unattached."""

    disk: Disk

    def shown(self) -> dict[str, Any]:
        disk = self.disk
        who = {"project": disk.project, "zone": disk.zone, "id": str(disk.id), "name": disk.name}
        return {**who, "created": pacific(disk.created_at), **PricedSums.shown(self)}


@dataclass(slots=True, kw_only=True)
class NodeBill(PricedSums):
    """The bill of a TPU node."""

    node: TpuNode

    def shown(self) -> dict[str, Any]:
        node = self.node
        who = {"project": node.project, "zone": node.zone, "id": str(node.id), "name": node.name}
        return {**who, "created": pacific(node.created_at), **PricedSums.shown(self)}


def node_bills(nodes: Iterable[TpuNode], prices: PriceList, until: datetime) -> list[NodeBill]:
    node_bills = [NodeBill(node=node) for node in nodes]
    for one in node_bills:
        for span in spans_of_node(one.node, until):
            one.add(span, one.node.zone.rsplit("-", 1)[0], prices)
    return node_bills


def bill(vm: VM, prices: PriceList, until: datetime, since: datetime | None = None) -> Bill:
    """The VM's cost until a moment, and since another."""
    result = Bill(vm=vm)
    for span in spans(vm, until):
        result.add(span, vm.region, prices, since)
    return result


def disk_bills(disks: Iterable[Disk], vms: Iterable[VM], prices: PriceList, until: datetime) -> list[DiskBill]:
    """Bills every disk that was ever unattached. A disk that several VMs read is on each of their bills."""
    disk_bills = []
    holders = [vm for vm in vms if vm.disk_uses]
    for disk in disks:
        result = DiskBill(disk=disk)
        for span in between_vms(disk, holders, until):
            result.add(span, disk.zone.rsplit("-", 1)[0], prices)
        if result.resources or result.unpriced:
            disk_bills.append(result)
    return disk_bills


def bills(vms: Iterable[VM], prices: PriceList, until: datetime) -> list[Bill]:
    return [bill(vm, prices, until) for vm in vms]


@dataclass(frozen=True, slots=True)
class Row:
    """A row as exported: `amount` in base units, `in_pricing_units` with nine decimals, `cost` with six."""

    resource: str
    usage_start: datetime
    usage_end: datetime
    amount: Decimal
    unit: str
    in_pricing_units: Decimal
    pricing_unit: str
    price: Decimal
    cost: Decimal


def rows(vm: VM, prices: PriceList, until: datetime) -> Iterator[Row]:
    """The VM's rows, one per hour of UTC; a new price within an hour starts a new row. Raises NoRate."""
    for span in spans(vm, until):
        yield from _of_span(span, vm.region, prices)


def _of_span(span: Span, region: str, prices: PriceList) -> Iterator[Row]:
    unit = unit_of(span.resource)
    for start, end, _ in segments(prices, span.resource, region, span.spot, span.began, span.ended):
        price = Decimal(prices.rate(span.resource, region, span.spot, start)[0]).scaleb(-9)
        began = start
        while began < end:
            hour = began.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
            ended = min(hour + _HOUR, end)
            if seconds := whole_seconds(began, ended):
                yield made_row(span.resource, unit, span.quantity * seconds, price, hour)
            began = ended


def made_row(resource: str, unit: str, quantity_seconds: Fraction, price: Decimal, hour: datetime) -> Row:
    """Makes a row from the use in an hour, in units of quantity times seconds."""
    amount = quantity_seconds * (1 if unit == "h" else _GIB)
    used = amount / _base_units(unit, hour)
    name, pricing_name = _EXPORT_UNITS[unit]
    return Row(
        resource,
        hour,
        hour + _HOUR,
        cut(amount, _QUANTITY_DECIMALS).normalize(),
        name,
        cut(used, _QUANTITY_DECIMALS),
        pricing_name,
        price,
        cut(used * Fraction(price), _COST_DECIMALS),
    )


def _base_units(unit: str, hour: datetime) -> int:
    """Returns the number of base units (s or By.s) in an hour, a GiB-hour, or a GiB-month of that month."""
    seconds = seconds_of_month(hour) if unit == "GiBy.mo" else 3600
    return seconds if unit == "h" else _GIB * seconds


def cut(amount: Fraction, decimals: Decimal) -> Decimal:
    """Truncated, never rounded."""
    with localcontext() as context:
        context.prec = 60
        return Decimal(int(amount / Fraction(decimals))) * decimals
