"""Works out what a job without a deadline is expected to cost to its end, in each way to buy its VMs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import lru_cache

from costguard.deadlines.cheapest import ToFinish, Way, ways_to_finish
from costguard.deadlines.hazards import NO_COUNTS, ZoneCounts
from costguard.deadlines.situation import FlexOffer, Zone
from costguard.deadlines.waits import NO_WAITS, WaitCounts
from costguard.jobs.decide.buy.placement import LaunchPlace
from costguard.model.buying import longest_run, models_of
from costguard.model.instance import ProvisioningModel
from costguard.model.launch import Recipe
from costguard.model.money import Money

_HOUR = timedelta(hours=1)
_NANOS = 10**9
_AT_ONCE = timedelta(minutes=6)  # a request that may not wait is answered within a look or two
_MOST_ZONES = 6  # the cheapest on Spot
_KINDS = {
    "spot": ProvisioningModel.SPOT,
    "flex": ProvisioningModel.FLEX_START,
    "on_demand": ProvisioningModel.STANDARD,
}
_WORDS = {
    ProvisioningModel.SPOT: "Spot",
    ProvisioningModel.FLEX_START: "flex-start",
    ProvisioningModel.STANDARD: "on demand",
}


@dataclass(frozen=True, slots=True)
class WayToFinish:
    """The cost of the rest of a job in one way to buy its VMs: in the mean, and in nine of ten cases.

    `expected` None: it would come to no end, as VMs are lost sooner than the work between two saves is done. `lasts` is
    the time until its end in the mean, with what it waits for.
    """

    model: ProvisioningModel
    expected: Money | None
    low: Money | None
    high: Money | None
    lasts: timedelta | None
    preemptions: float = 0.0

    @property
    def text(self) -> str:
        """`flex-start $52.00`, `Spot $50.00 to $71.00`."""
        words = _WORDS[self.model]
        if self.expected is None or self.low is None or self.high is None:
            return f"{words} without an end"
        return f"{words} {self.low}" if self.low == self.high else f"{words} {self.low} to {self.high}"


@dataclass(frozen=True, slots=True)
class WorkToBuy:
    """The work that a job still has on a VM that is ready, what each start takes, and the time between two saves.

    `apart` None: nothing is saved, so that a preemption undoes all of it.
    """

    work: timedelta
    start: timedelta
    apart: timedelta | None


def ways_of(
    recipe: Recipe,
    rates: Mapping[tuple[str, ProvisioningModel], Money | None],
    job: WorkToBuy,
    counts: Mapping[str, ZoneCounts],
    waits: WaitCounts = NO_WAITS,
) -> tuple[WayToFinish, ...]:
    """Every way that has a price, the least expected cost first. `rates` are of an hour, by zone and model."""
    if job.work <= timedelta():
        return ()
    prices = {where: rate.nanos / _NANOS for where, rate in rates.items() if rate is not None}
    spot = sorted((price, zone) for (zone, model), price in prices.items() if model is ProvisioningModel.SPOT)
    zones = tuple(Zone(zone, price, counts=counts.get(zone, NO_COUNTS)) for price, zone in spot[:_MOST_ZONES])
    flex = _least(prices, ProvisioningModel.FLEX_START)
    offer = None if flex is None else flex_offer(recipe, flex, waits)
    apart_h = float("inf") if job.apart is None else job.apart / _HOUR
    task = ToFinish(job.work / _HOUR, job.start / _HOUR, apart_h)
    return tuple(map(_in_money, _ways(task, zones, offer, _least(prices, ProvisioningModel.STANDARD))))


def flex_offer(recipe: Recipe, dollars: float, waits: WaitCounts) -> FlexOffer:
    """Returns what plans know of flex-start: dollars an hour, what was seen of waits, and the recipe's own limits."""
    wait, longest = max(recipe.wait, _AT_ONCE), longest_run(recipe, ProvisioningModel.FLEX_START)
    return FlexOffer(dollars, waits, wait / _HOUR, longest / _HOUR)


def ways_text(ways: Sequence[WayToFinish]) -> str:
    """`flex-start $52.00, Spot $50.00 to $71.00, on demand $95.00`; "" where nothing has a price."""
    return ", ".join(way.text for way in ways)


def by_expected_cost(places: Sequence[LaunchPlace], ways: Sequence[WayToFinish]) -> list[LaunchPlace]:
    """Orders places by the ways in which they are bought, the least expected cost first, each with that reason.

    Places of one way stay in their order.
    """
    reason = f"to its end {ways_text(ways)}"
    return [replace(place, reasons=(*place.reasons, reason)) for place in in_order(places, ways)]


def in_order(places: Sequence[LaunchPlace], ways: Sequence[WayToFinish]) -> list[LaunchPlace]:
    """Returns the places in the order of their ways; those that are passed over stay last."""
    order = {way.model: number for number, way in enumerate(ways)}
    return sorted(places, key=lambda place: (bool(place.passed_over), order.get(place.provisioning_model, len(order))))


def may_choose(recipe: Recipe) -> bool:
    """Says whether the way to buy is chosen by what it is expected to cost."""
    return recipe.buys_cheapest and len(models_of(recipe)) > 1


@lru_cache(maxsize=256)
def _ways(task: ToFinish, zones: tuple[Zone, ...], flex: FlexOffer | None, on_demand: float | None) -> tuple[Way, ...]:
    """Remembered, as a form asks for the same again and again."""
    return tuple(ways_to_finish(task, zones, flex, on_demand))


def _least(prices: Mapping[tuple[str, ProvisioningModel], float], model: ProvisioningModel) -> float | None:
    return min((price for (_, sold), price in prices.items() if sold is model), default=None)


def _in_money(way: Way) -> WayToFinish:
    model = _KINDS[way.kind]
    if way.expected is None:
        return WayToFinish(model, None, None, None, None)
    low, high = _money(way.low), _money(way.high)
    return WayToFinish(model, _money(way.expected), low, high, _HOUR * way.lasts_h, way.preemptions)


def _money(amount: float) -> Money:
    """Rounds to the cent, as it is an estimate."""
    return Money(round(amount * 100) * (_NANOS // 100))
