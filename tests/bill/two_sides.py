"""A drawn fleet of one day: what the ledger holds of it, and the rows that Google would write, by README's rules alone.

Rows are hourly and come in pieces; costs are cut at six decimals; in euros the price is cut, too (V-disk, G-res2).
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction

from costguard.bill.compare import Context, compare_day
from costguard.bill.lines import BilledThing, BillStanding, DayComparison, LedgerUse, Reason, UseShare
from costguard.bill.sums import SoldAs
from costguard.model.billing.bill import COMPUTE_ENGINE, PACIFIC, BilledKind, BillRow, CostType, Credit
from costguard.model.billing.billing_month import seconds_of_month
from costguard.model.lifetime import Attribution

DAY = date(2026, 3, 17)
PRICES = {  # dollars an hour, or a month
    "n1:core": "0.031611",
    "n1:ram": "0.004237",
    "gpu:nvidia-tesla-t4": "0.35",
    "e2:core": "0.02181159",
    "disk:pd-ssd": "0.187",
}
EURO = Decimal("0.93364999999987552")
_GIB = 2**30


def sku_id(resource: str) -> str:
    return f"SKU-{resource}"


def skus(sku: str, text: str) -> SoldAs | None:
    resource = sku.removeprefix("SKU-")
    return SoldAs(resource, "standard") if resource in PRICES else None


def context(standing: BillStanding = BillStanding.CLOSED) -> Context:
    return Context(skus, lambda _: standing, lambda project: project.startswith("train"))


@dataclass
class TwoSides:
    """The drawn sides, and the differences planted in them."""

    rng: random.Random
    uses: list[LedgerUse] = field(default_factory=list)
    rows: list[BillRow] = field(default_factory=list)
    rate: Decimal = Decimal(1)
    day: date = DAY
    has_disk_ids: bool = True  # whether the ledger has read the ids of its disks

    @classmethod
    def drawn(
        cls, seed: int, rate: Decimal = Decimal(1), vms: int = 6, day: date = DAY, *, has_disk_ids: bool = True
    ) -> TwoSides:
        sides = cls(random.Random(seed), rate=rate, day=day, has_disk_ids=has_disk_ids)
        for number in range(vms):
            sides._add_vm(str(4_000_000_000_000_000_000 + number), f"train-{number}", f"train-{number % 2}")
        return sides

    def compared(self, standing: BillStanding = BillStanding.CLOSED) -> DayComparison:
        rows = list(self.rows)
        self.rng.shuffle(rows)
        return compare_day(self.day, self.uses, rows, context(standing))

    def findings(self) -> set[tuple[str, Reason]]:
        """Each VM or disk that differs, with its reasons."""
        return {(line.name, line.reason) for line in self.compared().lines if line.reason}

    def _add_vm(self, gce_id: str, name: str, project: str) -> None:
        rng = self.rng
        began = rng.randrange(0, 40_000)
        ended = rng.choice([86_400, rng.randrange(began + 3600, 86_400)])
        gpus = rng.choice([1, 2, 4])
        thing = BilledThing(BilledKind.INSTANCE, project, gce_id)
        parts = [("n1:core", Fraction(8)), ("n1:ram", Fraction(30)), ("gpu:nvidia-tesla-t4", Fraction(gpus))]
        for resource, quantity in parts:
            self.add(thing, name, gce_id, resource, quantity, began, ended)
        disk = BilledThing(BilledKind.DISK, project, f"77{gce_id}" if self.has_disk_ids else f"{name}-disk")
        self.add(disk, f"{name}-disk", gce_id, "disk:pd-ssd", Fraction(rng.choice([50, 200, 1000])), 0, 86_400)

    def add(
        self, thing: BilledThing, name: str, gce_id: str, resource: str, quantity: Fraction, began: int, ended: int
    ) -> None:
        self.uses.append(ledger_use(self.day, thing, name, gce_id, resource, quantity, ended - began))
        self.rows += self.made_rows(thing, name, gce_id, resource, quantity, began, ended)

    def made_rows(
        self, thing: BilledThing, name: str, gce_id: str, resource: str, quantity: Fraction, began: int, ended: int
    ) -> list[BillRow]:
        rows = []
        for hour in range(began // 3600, -(-ended // 3600)):
            start, end = max(began, hour * 3600), min(ended, (hour + 1) * 3600)
            cut = self.rng.choice([start, (start + end) // 2])
            for piece_start, piece_end in ((start, cut), (cut, end)):
                if seconds := piece_end - piece_start:
                    rows.append(self.row(thing, name, gce_id, resource, quantity * seconds, hour))
        return rows

    def row(self, thing: BilledThing, name: str, gce_id: str, resource: str, used: Fraction, hour: int) -> BillRow:
        usage_start = datetime(self.day.year, self.day.month, self.day.day, tzinfo=UTC) + timedelta(hours=hour)
        is_bytes = resource.endswith(":ram") or resource.startswith("disk:")
        nanos = cost_nanos(resource, used, usage_start, self.rate)
        return BillRow(
            project_number=f"1{thing.project[-1]}",
            project_id=thing.project,
            kind=thing.kind,
            resource_id=gce_id if thing.kind is BilledKind.INSTANCE else f"77{gce_id}",
            resource_name=name,
            zone="us-central1-a",
            service_id=COMPUTE_ENGINE,
            sku_id=sku_id(resource),
            sku_text=f"{resource} in Americas",
            usage_start=usage_start,
            usage_end=usage_start + timedelta(hours=1),
            pacific_day=usage_start.astimezone(PACIFIC).date(),
            utc_day=self.day,
            amount=Decimal(int(used * (_GIB if is_bytes else 1))),
            unit="byte-seconds" if is_bytes else "seconds",
            list_nanos=nanos,
            cost_nanos=nanos,
            credits=(),
            currency="USD" if self.rate == 1 else "EUR",
            rate=self.rate,
            cost_type=CostType.REGULAR,
            invoice_month=f"{self.day:%Y%m}",
            consumption_model="",
            reservation_name="",
            is_unused_reservation=False,
            product="",
            adjustment="",
            export_time=usage_start + timedelta(hours=7),
            source="detailed:ACCOUNT",
        )

    def change(self, name: str, resource: str, change: Callable[[BillRow], BillRow]) -> None:
        """Change every row of one line."""
        self.rows = [
            change(row) if row.resource_name == name and row.sku_id == sku_id(resource) else row for row in self.rows
        ]

    def without(self, name: str) -> None:
        self.rows = [row for row in self.rows if row.resource_name != name]


def ledger_use(
    day: date, thing: BilledThing, name: str, gce_id: str, resource: str, quantity: Fraction, seconds: int
) -> LedgerUse:
    used = quantity * seconds
    exact = used * _price_per_second(resource, datetime(day.year, day.month, day.day, 12, tzinfo=UTC))
    share = UseShare(Attribution("t4", "ann"), "standard", round(exact), seconds)
    vm_name = name.removesuffix("-disk")
    return LedgerUse(
        thing, name, gce_id, vm_name, "us-central1-a", resource, used, seconds, share.nanos, shares=(share,)
    )


def _price_per_second(resource: str, at: datetime) -> Fraction:
    unit = seconds_of_month(at) if resource.startswith("disk:") else 3600
    return Fraction(PRICES[resource]) * 10**9 / unit


def cost_nanos(resource: str, used: Fraction, at: datetime, rate: Decimal) -> int:
    """Cut at six decimals, as is the price where it is of another currency."""
    unit = seconds_of_month(at) if resource.startswith("disk:") else 3600
    price = Fraction(PRICES[resource]) * Fraction(rate)
    if rate != 1:
        price = Fraction(int(price * 10**6), 10**6)
    return int(used / unit * price * 10**6) * 1000


def credited(row: BillRow, kind: str, share: Fraction) -> BillRow:
    """The row with a credit of this share of its cost."""
    return replace(row, credits=(*row.credits, Credit(kind, "credit", "", -int(row.cost_nanos * share))))
