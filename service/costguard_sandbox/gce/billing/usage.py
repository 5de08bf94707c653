"""Measures the use of each VM and disk in each hour, by SKU: the lines of a bill before they are costed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any
from zoneinfo import ZoneInfo

from costguard_sandbox.gce.catalogue.prices import EVERYWHERE, SOLD_EVERYWHERE, NoRate, PriceList, is_storage
from costguard_sandbox.gce.catalogue.regions import project_number
from costguard_sandbox.gce.catalogue.skus import sku_names
from costguard_sandbox.gce.meter.bill import segments
from costguard_sandbox.gce.meter.usage import Span, spans, whole_seconds
from costguard_sandbox.gce.vm import VM, Disk

PACIFIC = ZoneInfo("America/Los_Angeles")
_HOUR = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Billed:
    """A VM, a disk or reserved capacity; `path` is what follows its zone in resource.global_name, without the id.

    V-disk has `disk/`; Mozilla's production query reads `instances/`; Google's query text has `allocation/`.
    """

    project: str
    path: str
    id: str
    name: str
    zone: str
    labels: Mapping[str, str] = field(default_factory=dict, compare=False)
    system_labels: Mapping[str, str] = field(default_factory=dict, compare=False)

    @property
    def region(self) -> str:
        return self.zone.rsplit("-", 1)[0]

    @property
    def number(self) -> str:
        return str(project_number(self.project))

    def resource(self) -> dict[str, str]:
        """G-res2: a VM's name is its path in the project; V-disk: a disk's is bare."""
        name = f"projects/{self.number}/instances/{self.name}" if self.path == "instances" else self.name
        place = f"//compute.googleapis.com/projects/{self.number}/zones/{self.zone}"
        return {"name": name, "global_name": f"{place}/{self.path}/{self.id}"}


@dataclass(frozen=True, slots=True)
class HourOfUse:
    """`quantity` in units of the SKU (vCPUs, GiB, GPUs), used for so many seconds; the price is in dollars per unit."""

    billed: Billed
    resource: str
    spot: bool
    hour: datetime
    quantity: Fraction
    seconds: int
    price: Decimal
    sku_id: str
    sku_text: str

    @property
    def is_uptime(self) -> bool:
        """Billed while its VM runs; storage bills all the time."""
        return not is_storage(self.resource)

    @property
    def pacific_day(self) -> date:
        return self.hour.astimezone(PACIFIC).date()


def hours_of_use(
    vms: Iterable[VM], disks: Iterable[Disk], prices: PriceList, since: datetime, until: datetime
) -> Iterator[HourOfUse]:
    """Yields use by VM, then disk.

    A disk bills from its creation to its deletion, attached or not; the unpriced are left out.
    """
    names = sku_names(prices, until)
    for vm in vms:
        billed = _of_vm(vm)
        for span in spans(vm, until):
            if not span.resource.startswith("disk:"):
                yield from _hours(billed, span, prices, names, since)
    for disk in disks:
        ended = min(disk.deleted_at or until, until)
        span = Span(f"disk:{disk.disk_type}", Fraction(disk.size_gib), False, disk.created_at, ended)
        billed = Billed(disk.project, "disk", str(disk.id), disk.name, disk.zone, disk.labels)
        if ended > disk.created_at:
            yield from _hours(billed, span, prices, names, since)


def _of_vm(vm: VM) -> Billed:
    shape = vm.shape
    system_labels = {
        "compute.googleapis.com/machine_spec": shape.machine_type,
        "compute.googleapis.com/cores": str(shape.vcpus),
        "compute.googleapis.com/memory": str(shape.memory_mb),
    }
    labels: dict[str, Any] = vm.given.get("labels") or {}
    return Billed(vm.project, "instances", str(vm.id), vm.name, vm.zone, labels, system_labels)


def _hours(
    billed: Billed,
    span: Span,
    prices: PriceList,
    names: Mapping[tuple[str, str, bool], tuple[str, str]],
    since: datetime,
) -> Iterator[HourOfUse]:
    try:
        cuts = list(segments(prices, span.resource, billed.region, span.spot, span.began, span.ended))
    except NoRate:
        return
    # Disks and saved memory cost Spot VMs the same, under the same SKU.
    region = EVERYWHERE if span.resource in SOLD_EVERYWHERE else billed.region
    spot = span.spot and (span.resource, region, True) in names
    sku_id, sku_text = names[span.resource, region, spot]
    for start, end, _ in cuts:
        price = Decimal(prices.rate(span.resource, billed.region, span.spot, start)[0]).scaleb(-9)
        began = start
        while began < end:
            hour = began.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
            ended = min(hour + _HOUR, end)
            seconds = whole_seconds(began, ended)
            if seconds and hour >= since:
                yield HourOfUse(billed, span.resource, spot, hour, span.quantity, seconds, price, sku_id, sku_text)
            began = ended
