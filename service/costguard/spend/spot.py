"""Compares the cost of Spot VMs with the same use on demand. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from costguard.ledger.price_book import PriceBook
from costguard.model.instance import ProvisioningModel
from costguard.model.moments import day_start
from costguard.model.money import ZERO, Money
from costguard.model.price import Price, PriceKey, SpotUse, Unit

METHOD = (
    "Every second of Spot vCPUs, memory, GPUs and local SSDs, at what it was billed, against the same second at the "
    "on-demand list price of that region in force when its UTC day began. Disks cost the same either way and are in "
    "neither. Sustained-use discounts, which on-demand N1 machines may earn, are not taken off."
)


@dataclass(frozen=True, slots=True)
class SpotSaving:
    """`unpriced` names what has no on-demand price. What that cost is left out of both amounts."""

    cost: Money = ZERO
    on_demand: Money = ZERO
    unpriced: tuple[str, ...] = ()

    @property
    def saved(self) -> Money:
        return self.on_demand - self.cost

    @property
    def percent(self) -> int:
        """Returns the saving in percent of the on-demand cost, cut off to whole percents."""
        return 100 * self.saved.nanos // self.on_demand.nanos if self.on_demand else 0


def spot_saving(uses: Iterable[SpotUse], prices: Mapping[int, Price], book: PriceBook) -> SpotSaving:
    cost = 0
    on_demand = Fraction(0)
    unpriced: set[str] = set()
    for use in uses:
        key = prices[use.price_id].key
        standard = PriceKey(key.resource, key.region, ProvisioningModel.STANDARD)
        midnight = day_start(use.day)
        price = book.at(standard, midnight)
        if price is None:
            unpriced.add(f"{key.resource} in {key.region}")
            continue
        cost += use.cost.nanos
        used = prices[use.price_id]
        if used.unit is price.unit is Unit.GIB_MONTH and used.rate_nanos:
            # Both by the same month. `amount` may be of several, which are not of one length.
            on_demand += Fraction(use.cost.nanos * price.rate_nanos, used.rate_nanos)
        else:
            on_demand += use.amount * price.nanos_per_second(midnight)
    return SpotSaving(Money(cost), Money(round(on_demand)), tuple(sorted(unpriced)))
