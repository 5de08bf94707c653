"""What a quantity costs: the price of each moment, and the unit that it is a price for."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from fractions import Fraction
from itertools import pairwise

from costguard_sandbox.gce.catalogue.prices import PriceList
from costguard_sandbox.gce.meter.months import month_of, seconds_of_month

# Cloud Billing Catalog: usageUnit `h` and `GiBy.h` have the base units s and By.s, 3600 of them in an hour.
_SECONDS_PER_HOUR = 3600


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
