"""Checks new prices for plausibility. Pure.

A refused price is shown, and the last good one stays in force.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from fractions import Fraction
from statistics import median

from costguard.model.instance import ProvisioningModel
from costguard.model.money import Money
from costguard.model.price import FEE, Price, Unit, is_address, without_commitment

FURTHEST_AHEAD = timedelta(days=31)

# How many times more, or less, a price may become at once. Google moves Spot prices up to once a month.
_WILDEST = {
    ProvisioningModel.STANDARD: 3,
    ProvisioningModel.SPOT: 10,
    ProvisioningModel.FLEX_START: 3,
    ProvisioningModel.RESERVATION_BOUND: 3,
}

# Google's list price of a GPU differs between regions, but never by half: such a figure is a mistake.
_CHEAPEST_REGION = Fraction(3, 5)


def judge(
    new: Price,
    previous: Price | None,
    on_demand: Price | None,
    now: datetime,
    elsewhere: Sequence[Price] = (),
) -> str | None:
    """Explains why this price is refused, in a sentence for people; None when it is good.

    `previous` is the last good price of the same key, `on_demand` that of the same resource and region (it matters to
    prices of Spot and flex-start), `elsewhere` the on-demand prices of the resource in other regions.
    """
    if new.rate_nanos <= 0:
        return "A price must be above zero."
    allowed = units_of(new.key.resource)
    if new.unit not in allowed:
        units = " or ".join(unit.value for unit in allowed)
        return f"{new.key.resource} is billed per {units}, but this price is per {new.unit.value}."
    if new.in_force_from > now + FURTHEST_AHEAD:
        return f"It would be in force from {new.in_force_from:%Y-%m-%d}, more than {FURTHEST_AHEAD.days} days ahead."
    return _too_dear(new, on_demand, now) or _too_cheap_for_its_region(new, elsewhere, now) or _wild(new, previous, now)


def _too_dear(new: Price, on_demand: Price | None, now: datetime) -> str | None:
    """Spot costs less than on demand; flex-start no more (the catalogue has the T4 and the L4 at the same price)."""
    if on_demand is None:
        return None
    rate, usual = new.nanos_per_second(now), on_demand.nanos_per_second(now)
    if new.key.provisioning_model is ProvisioningModel.SPOT and rate >= usual:
        return f"The Spot price {_shown(new)} is not below the on-demand price {_shown(on_demand)}."
    if new.key.provisioning_model is ProvisioningModel.FLEX_START and rate > usual:
        return f"The flex-start price {_shown(new)} is above the on-demand price {_shown(on_demand)}."
    return None


def _too_cheap_for_its_region(new: Price, elsewhere: Sequence[Price], now: datetime) -> str | None:
    is_list_price = new.key.provisioning_model is ProvisioningModel.STANDARD and new.key.resource.startswith("gpu:")
    usual = [price.nanos_per_second(now) for price in elsewhere] if is_list_price else []
    if usual and new.nanos_per_second(now) < median(usual) * _CHEAPEST_REGION:
        dearest = max(elsewhere, key=lambda price: price.nanos_per_second(now))
        return (
            f"{_shown(new)} is less than {_CHEAPEST_REGION} of what other regions charge "
            f"({_shown(dearest)} in {dearest.key.region})."
        )
    return None


def _wild(new: Price, previous: Price | None, now: datetime) -> str | None:
    if previous is None:
        return None
    wildest = _WILDEST[new.key.provisioning_model]
    change = new.nanos_per_second(now) / previous.nanos_per_second(now)
    if Fraction(1, wildest) <= change <= wildest:
        return None
    return f"{_shown(new)} is more than {wildest} times off the last good price, {_shown(previous)}."


def units_of(resource: str) -> tuple[Unit, ...]:
    """The units that a resource is priced in."""
    resource = without_commitment(resource)[0].removesuffix(FEE)
    kind = resource.rsplit(":", 1)[-1]
    if kind in ("core", "whole") or is_address(resource) or kind == "static-ip" or resource.startswith("gpu:"):
        return (Unit.HOUR,)
    if kind == "ram":
        return (Unit.GIB_HOUR, Unit.GB_HOUR)
    return (Unit.GIB_MONTH, Unit.GIB_HOUR)


def _shown(price: Price) -> str:
    return f"${Money(price.rate_nanos).dollars.normalize():f} per {price.unit.value}"
