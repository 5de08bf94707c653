"""Prices: of a unit of a billed resource, in a region, from a date, with their source."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, timedelta
from enum import StrEnum
from fractions import Fraction

from costguard.model.billing_month import seconds_of_month
from costguard.model.instance import ProvisioningModel
from costguard.model.money import Money


class Unit(StrEnum):
    """What one unit of a price is. A GiB-month is a GiB held for one calendar month in US Pacific time."""

    HOUR = "h"
    GIB_HOUR = "GiBy.h"
    GB_HOUR = "GBy.h"  # a billion bytes: the memory of some families, such as C4D
    GIB_MONTH = "GiBy.mo"

    def seconds(self, at: datetime) -> int:
        """How long one unit lasts at that moment: an hour, or the billing month around it."""
        return seconds_of_month(at) if self is Unit.GIB_MONTH else 3600


SHIPPED = "snapshot"
"""What the source of a price that ships with Costguard begins with."""
_GB_OF_A_GIB = Fraction(2**30, 10**9)

OF_A_RUN = (":core", ":whole")
"""How the names of resources end of which every running VM has one kind: their seconds are the run's."""


@dataclass(frozen=True, slots=True)
class PriceKey:
    """Resources: `n1:core`, `n1:ram`, `gpu:nvidia-tesla-t4`, `local-ssd`, `disk:pd-ssd`, `suspended-memory`.

    `f1-micro:whole` is a VM with all that it has, `gpu:nvidia-b200:whole` a GPU with its share of the VM around it.
    """

    resource: str
    region: str
    provisioning_model: ProvisioningModel


@dataclass(frozen=True, slots=True)
class Price:
    """`rate_nanos` nano-dollars per unit, from `in_force_from` until the next price of the same key."""

    key: PriceKey
    unit: Unit
    rate_nanos: int
    in_force_from: datetime
    source: str  # "snapshot 2026-11-20" or "catalog"
    sku_id: str = ""
    id: int | None = None

    @property
    def is_shipped(self) -> bool:
        """Whether it came with Costguard, and no catalogue was read that has it."""
        return self.source.startswith(SHIPPED)

    def nanos_per_second(self, at: datetime) -> Fraction:
        """Of one vCPU, GPU or GiB. The only place that divides a monthly price by its month."""
        rate = Fraction(self.rate_nanos, self.unit.seconds(at))
        return rate * _GB_OF_A_GIB if self.unit is Unit.GB_HOUR else rate


@dataclass(frozen=True, slots=True)
class PriceAge:
    """Of figures that rest on prices that ship with Costguard: the oldest of these is from `since`."""

    since: datetime
    age: timedelta

    @property
    def is_estimate(self) -> bool:
        """Google moves Spot prices up to once a month; A100 Spot rose by a third in the year to August 2026."""
        return self.age > TRUSTED_FOR

    @property
    def text(self) -> str:
        """A sentence to stand next to a figure."""
        days = f"{self.age.days} day{'' if self.age.days == 1 else 's'} old"
        from_day = f"{self.since.day} {self.since:%B %Y}"
        if self.is_estimate:
            return f"An estimate: its prices came with Costguard, the oldest from {from_day} ({days})."
        return f"Its prices came with Costguard, the oldest from {from_day} ({days})."


TRUSTED_FOR = timedelta(days=60)


@dataclass(frozen=True, slots=True)
class RefusedPrice:
    """A price that failed the sanity gate, and why; the last good one stays in force."""

    price: Price
    reason: str


@dataclass(frozen=True, slots=True)
class SpotUse:
    """What was billed at one Spot price; `amount` is units, times seconds.

    On one UTC day, or on several with the on-demand prices of this, the first of them.
    """

    day: date
    price_id: int
    amount: Fraction
    cost: Money
