"""Prices: of a unit of a billed resource, in a region, from a date, with their source."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, timedelta
from enum import StrEnum
from fractions import Fraction

from costguard.model.billing.billing_month import seconds_of_month
from costguard.model.instance import ProvisioningModel
from costguard.model.money import Money


class Unit(StrEnum):
    """The unit of a price. A GiB-month is a GiB held for one calendar month in US Pacific time."""

    HOUR = "h"
    GIB_HOUR = "GiBy.h"
    GB_HOUR = "GBy.h"  # a billion bytes: the memory of some families, such as C4D
    GIB_MONTH = "GiBy.mo"

    def seconds(self, at: datetime) -> int:
        """Returns the length of one unit at that moment in seconds: an hour, or the billing month around it."""
        return seconds_of_month(at) if self is Unit.GIB_MONTH else 3600


HOURS_A_MONTH = 730
"""The month by which Google quotes what is priced by the hour."""
SHIPPED = "snapshot"
"""The prefix of the source of prices that ship with Costguard."""
_GB_OF_A_GIB = Fraction(2**30, 10**9)

OF_A_RUN = (":core", ":whole")
"""The suffixes of resources of which every running VM has one kind: their seconds are the run's."""


FEE = "-fee"
"""Ends the name of what a managed service charges for a part that Compute Engine bills."""


def sold_by(resource: str, mark: str, *, is_fee: bool = False) -> str:
    """Returns the resource of a service for one of Compute Engine's: `gpu:nvidia-l4:vertex-training`,
    `vertex-training-a3:core`, `vertex-training-a3:core-fee`.

    The fee's name ends otherwise than that of the vCPUs, whose seconds are the run's.
    """
    fee = FEE if is_fee else ""
    if resource.startswith("gpu:"):
        return f"{resource.removesuffix(':whole')}:{mark}{fee}"
    return f"{mark}-{resource}{fee}"


EVERYWHERE = "global"
"""The region of what costs the same in all of them: external addresses in use."""


def is_address(resource: str) -> bool:
    """Says whether the resource is an external address in use."""
    return resource.startswith("external-ip")


def costs_the_same_everywhere(resource: str) -> bool:
    """Says whether the resource is priced without a region: addresses in use, and boot disks of custom training."""
    return is_address(resource) or resource.startswith(_MANAGED_DISKS)


_MANAGED_DISKS = "disk:vertex-"

TERMS = (1, 3)
"""The years for which Google sells commitments."""


def committed(resource: str, years: int) -> str:
    """`commitment-1y:n2:core`: the resource whose price is that of a commitment to another for so many years."""
    return f"commitment-{years}y:{resource}"


def without_commitment(resource: str) -> tuple[str, int]:
    """Returns the resource, and the years that its price is committed for: (`n2:core`, 1); 0 years for any other."""
    for years in TERMS:
        if resource.startswith(committed("", years)):
            return resource.removeprefix(committed("", years)), years
    return resource, 0


@dataclass(frozen=True, slots=True)
class PriceKey:
    """Resources: `n1:core`, `n1:ram`, `gpu:nvidia-tesla-t4`, `local-ssd`, `disk:pd-ssd`, `suspended-memory`,
    `external-ip` (whose region is `global`). With `commitment-1y:` or `commitment-3y:` before it, the price is what a
    commitment to the resource costs, used or not.

    `f1-micro:whole` is a VM with all that it has, `gpu:nvidia-b200:whole` a GPU, and
    `gpu:v6e:whole` a TPU chip, with its share of the VM around it.
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
        """Says whether it came with Costguard, and no catalogue was read that has it."""
        return self.source.startswith(SHIPPED)

    def nanos_per_second(self, at: datetime) -> Fraction:
        """Returns the price of one vCPU, GPU or GiB for a second."""
        return Fraction(*self.nanos_in_seconds(at))

    def nanos_in_seconds(self, at: datetime) -> tuple[int, int]:
        """Returns the same as so many nano-dollars in so many seconds, which is a tenth of the work of a fraction.

        The only place that divides a monthly price by its month.
        """
        nanos, seconds = self.rate_nanos, self.unit.seconds(at)
        if self.unit is not Unit.GB_HOUR:
            return nanos, seconds
        return nanos * _GB_OF_A_GIB.numerator, seconds * _GB_OF_A_GIB.denominator


@dataclass(frozen=True, slots=True)
class PriceAge:
    """The age of figures that rest on shipped prices: the oldest of these prices is from `since`."""

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
    """The usage billed at one Spot price; `amount` is units, times seconds.

    It is of one UTC day, or of several with the same on-demand prices, of which `day` is the first.
    """

    day: date
    price_id: int
    amount: Fraction
    cost: Money
