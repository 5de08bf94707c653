"""Compares the prices of Spot with those that Google's own record of capacity has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from costguard.jobs.submit.cost.offers import HourlyRates
from costguard.model.instance import ProvisioningModel, region_of
from costguard.model.money import Money

_SAME_PERCENT = 2  # prices of a day before and after a change, and rounding


def price_warnings(rates: HourlyRates, listed: Mapping[str, Money]) -> Iterator[str]:
    """Names the regions in which the two differ by over 2 %.

    `listed` is an hour of the whole VM without its disks, by region. A price that is not known is compared with none.
    """
    ours: dict[str, Money] = {}
    for (zone, model), rate in rates.items():
        if model is ProvisioningModel.SPOT and rate.machine is not None and rate.gpu is not None:
            ours.setdefault(region_of(zone), rate.machine + rate.gpu)
    for region, price in sorted(listed.items()):
        mine = ours.get(region)
        if mine is not None and 100 * abs(mine.nanos - price.nanos) > _SAME_PERCENT * price.nanos:
            yield (
                f"Google's own record has such a Spot VM in {region} at {price} an hour, and the prices that are in"
                f" force here make it {mine}: this quote may be wrong by as much."
            )
