"""Rows of the bill added up to one line of the comparison, in dollars. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple, TypeAlias

from costguard.bill.commitments import is_discount, list_nanos, price_savings
from costguard.bill.lines import Savings
from costguard.model.billing.bill import BillRow, CostType
from costguard.model.billing.billing_month import seconds_of_month

_GIB = 2**30
_MILLIONTH = 1000  # nanos
_BELOW, _ABOVE = 2 * _MILLIONTH, _MILLIONTH
"""A row's cost lies within -0.000002 and +0.000001 of its exact product: G-res2 and BU-cud among the recorded rows."""
_MONTHLY = ("disk:", "local-ssd")

RateKey: TypeAlias = tuple[str, str, str]  # source, currency, invoice month


class SoldAs(NamedTuple):
    """The billed resource that a SKU prices, and for which kind of VM."""

    resource: str
    provisioning_model: str


SkuNames: TypeAlias = Callable[[str, str], SoldAs | None]
"""A function from a SKU's id and words; None for a SKU that the ledger does not price by."""


@dataclass(slots=True)
class BillSum:
    """`used` is in unit-seconds. Costs are exact nano-dollars; `usual_list` is at the usual rate of the currency."""

    used: Fraction = Fraction(0)
    list: Fraction = Fraction(0)
    usual_list: Fraction = Fraction(0)
    cost: Fraction = Fraction(0)
    credits: Fraction = Fraction(0)
    sustained: Fraction = Fraction(0)
    committed: Fraction = Fraction(0)
    contract: Fraction = Fraction(0)
    other: Fraction = Fraction(0)
    below: Fraction = Fraction(0)  # by how much the costs may lie below their exact products
    above: Fraction = Fraction(0)
    rows: int = 0
    repeated: int = 0
    names_list_price: bool = True
    sku_ids: set[str] = field(default_factory=set)
    models: set[str] = field(default_factory=set)
    projects: set[str] = field(default_factory=set)
    name: str = ""
    zone: str = ""

    @property
    def project(self) -> str:
        return min(self.projects, default="")

    def other_project(self, project: str) -> str:
        """Returns the project that some of its rows are billed to instead; its own where there is none."""
        return min(self.projects - {project}, default=project)

    @property
    def effective_nanos(self) -> int:
        return round(self.cost + self.credits)

    @property
    def list_nanos(self) -> int:
        return round(self.list)

    @property
    def savings(self) -> Savings:
        """Their sum is the list price less the effective one."""
        sustained, committed, contract = round(self.sustained), round(self.committed), round(self.contract)
        rest = self.list_nanos - self.effective_nanos - sustained - committed - contract
        return Savings(sustained, committed, contract, rest)

    def add(self, row: BillRow, sold: SoldAs, used: Fraction, usual_rate: Fraction) -> None:
        rate = Fraction(row.rate)
        at_list = list_nanos(row)
        self.names_list_price = self.names_list_price and row.list_nanos is not None
        self.used += used
        self.list += at_list / rate
        self.usual_list += at_list / usual_rate
        self.cost += row.cost_nanos / rate
        by_commitment, by_contract = price_savings(row)
        self.committed += by_commitment / rate
        self.contract += by_contract / rate
        for credit in row.credits:
            dollars = credit.nanos / rate
            self.credits += dollars
            if credit.type == "SUSTAINED_USAGE_DISCOUNT":
                self.sustained -= dollars
            elif is_discount(credit.type):
                self.committed -= dollars
            else:
                self.other -= dollars
        # Of another currency than dollars the price itself is cut at six decimals (V-disk: 0.174592 for 0.174592549).
        price_cut = Fraction(0) if rate == 1 else abs(used) / _pricing_seconds(sold.resource, row) * _MILLIONTH
        self.below += (row.row_count * _BELOW + price_cut) / rate
        self.above += row.row_count * _ABOVE / rate
        self.rows += row.row_count
        self.repeated += row.repeated_count
        self.sku_ids.add(row.sku_id)
        self.models.add(sold.provisioning_model)
        self.projects.add(row.project_id)
        self.zone = row.zone
        self.name = row.resource_name or self.name


def used_of(row: BillRow) -> Fraction | None:
    """Returns its amount in unit-seconds; None where its unit measures no time."""
    if row.unit == "seconds":
        return Fraction(row.amount)
    if row.unit == "byte-seconds":
        return Fraction(row.amount) / _GIB
    return None


def usual_rates(rows: Iterable[BillRow]) -> dict[RateKey, Fraction]:
    """The rate that most rows of a source, currency and invoice month have: Google sets one a month."""
    counts: dict[RateKey, Counter[Fraction]] = {}
    for row in rows:
        if row.cost_type is CostType.REGULAR:
            counts.setdefault(_rate_key(row), Counter())[Fraction(row.rate)] += row.row_count
    return {key: min(rates, key=lambda rate: (-rates[rate], rate)) for key, rates in counts.items()}


def usual_rate_of(row: BillRow, rates: Mapping[RateKey, Fraction]) -> Fraction:
    return rates.get(_rate_key(row), Fraction(row.rate))


def _rate_key(row: BillRow) -> RateKey:
    return row.source, row.currency, row.invoice_month


def _pricing_seconds(resource: str, row: BillRow) -> int:
    return seconds_of_month(row.usage_start) if resource.startswith(_MONTHLY) else 3600
