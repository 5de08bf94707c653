"""Prices by key and time. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from functools import cached_property
from hashlib import blake2b
from itertools import pairwise
from operator import attrgetter

from costguard.model.billing.billing_month import billing_month, cut_by_month
from costguard.model.instance import ProvisioningModel
from costguard.model.lifetime import Charge
from costguard.model.price import Price, PriceAge, PriceKey, Unit


@dataclass(frozen=True, slots=True)
class WholeDays:
    """The charges of whole days that were worked out, by their midnight and by the midnights of days in a row."""

    by_day: dict[datetime, tuple[Charge, ...]] = field(default_factory=dict)
    in_a_row: dict[tuple[datetime, datetime], tuple[Charge, ...]] = field(default_factory=dict)


class PriceBook:
    """The prices by the time at which they were in force.

    A time before the first known price of a key uses that first one: Costguard may watch VMs that are older than its
    oldest price, and the nearest figure is nearer the truth than none.
    """

    def __init__(self, prices: Iterable[Price]) -> None:
        by_key: dict[PriceKey, list[Price]] = defaultdict(list)
        for price in prices:
            by_key[price.key].append(price)
        self._prices = {key: sorted(key_prices, key=attrgetter("in_force_from")) for key, key_prices in by_key.items()}
        self._starts = {key: [price.in_force_from for price in key_prices] for key, key_prices in self._prices.items()}
        # By part of a VM, and its price's key: pricing keeps them here, with the prices.
        self.whole_days: dict[tuple[str, Fraction, PriceKey], WholeDays] = {}

    def at(self, key: PriceKey, moment: datetime) -> Price | None:
        """The price in force at that moment; None when the key has no price at all."""
        prices = self._prices.get(key)
        if prices is None:
            return None
        return prices[max(0, bisect_right(self._starts[key], moment) - 1)]

    def pieces(
        self, key: PriceKey, start: datetime, end: datetime
    ) -> Iterator[tuple[Price | None, datetime, datetime]]:
        """[start, end) cut where the price changes, and where a month ends that it is the price of.

        Without any price it is one piece.
        """
        prices = self._prices.get(key)
        if prices is None:
            yield None, start, end
            return
        starts = self._starts[key]
        index = max(0, bisect_right(starts, start) - 1)
        while start < end:
            last = index + 1 == len(prices)
            piece_end = end if last else min(end, starts[index + 1])
            price = prices[index]
            if price.unit is Unit.GIB_MONTH:
                yield from ((price, *piece) for piece in cut_by_month(start, piece_end))
            else:
                yield price, start, piece_end
            start, index = piece_end, index + 1

    def age(self, keys: Iterable[PriceKey], now: datetime) -> PriceAge | None:
        """Returns the age of shipped prices of these keys in force now; None where none is shipped."""
        in_force = (self.at(key, now) for key in keys)
        shipped = [price.in_force_from for price in in_force if price is not None and price.is_shipped]
        return PriceAge(min(shipped), now - min(shipped)) if shipped else None

    def age_of_all(self, now: datetime) -> PriceAge | None:
        """Returns `age` of all prices; None once any was read from a catalogue."""
        return None if self._has_read else self.age(self._prices, now)

    @cached_property
    def _has_read(self) -> bool:
        return any(not price.is_shipped for prices in self._prices.values() for price in prices)

    @cached_property
    def digest(self) -> str:
        """The same for all books that say the same, in whatever process they were made."""
        said = sorted(
            (
                key.resource,
                key.region,
                key.provisioning_model,
                price.unit,
                price.rate_nanos,
                price.in_force_from.isoformat(),
            )
            for key, key_prices in self._prices.items()
            for price in key_prices
        )
        return blake2b(repr(said).encode(), digest_size=16).hexdigest()

    def unchanged_around(self, moment: datetime) -> tuple[datetime | None, datetime | None]:
        """[from, until) in which an hour of everything costs the same; None: ever since, and for ever.

        It ends where a price comes into force, and with the month where any price is by the month.
        """
        changes = self._changes
        place = bisect_right(changes, moment)
        since = changes[place - 1] if place else None
        until = changes[place] if place < len(changes) else None
        if not self._has_monthly:
            return since, until
        first, end = billing_month(moment)
        return first if since is None else max(since, first), end if until is None else min(until, end)

    def steady(self, model: ProvisioningModel, first: date, last: date) -> list[tuple[date, date]]:
        """The UTC days [first, last] cut so that at the midnights of a piece each price of this model is the same."""
        begins = [first, *(day for day in self._new_days[model] if first < day <= last)]
        ends = [day - timedelta(days=1) for day in begins[1:]]
        return list(zip(begins, [*ends, last], strict=True))

    @cached_property
    def _new_days(self) -> dict[ProvisioningModel, list[date]]:
        """The first midnights of prices that follow upon a different one of their key."""
        days_by_model: dict[ProvisioningModel, set[date]] = {model: set() for model in ProvisioningModel}
        for key, prices in self._prices.items():
            for before, price in pairwise(prices):
                if (before.rate_nanos, before.unit) != (price.rate_nanos, price.unit):
                    days_by_model[key.provisioning_model].add(_first_midnight(price.in_force_from))
        return {model: sorted(days) for model, days in days_by_model.items()}

    @cached_property
    def _has_monthly(self) -> bool:
        return any(price.unit is Unit.GIB_MONTH for prices in self._prices.values() for price in prices)

    @cached_property
    def _changes(self) -> list[datetime]:
        return sorted({start for starts in self._starts.values() for start in starts})

    def keys(self) -> frozenset[PriceKey]:
        return frozenset(self._prices)


def _first_midnight(moment: datetime) -> date:
    """The day that begins then, or the next one after it."""
    almost_a_day = timedelta(days=1, microseconds=-1)
    return (moment.astimezone(UTC) + almost_a_day).date()
