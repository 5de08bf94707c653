"""What has run up since charges were last stored: the live part of every figure that people see."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache
from typing import TypeAlias
from weakref import WeakKeyDictionary

from sqlalchemy import Connection, Engine

from costguard.model.instance import ProvisioningModel, Shape
from costguard.model.lifetime import Lifetime, StorageSpan
from costguard.model.money import Money
from costguard.model.price import Price
from costguard.policy.price_book import PriceBook
from costguard.policy.pricing import (
    MINIMUM,
    Bill,
    bill_lifetime,
    bill_storage,
    rate_per_hour,
    storage_rate_per_hour,
)
from costguard.store import prices

_Run: TypeAlias = tuple[Shape, ProvisioningModel, str, datetime, datetime]
_Store: TypeAlias = tuple[str, int, str, datetime, datetime]
_Rate: TypeAlias = tuple[Shape, str, ProvisioningModel]


class Accrual:
    """Bills and rates at one moment. Equal VMs are billed once, so that ten thousand cost what a few do."""

    def __init__(self, book: PriceBook, now: datetime) -> None:
        self.book = book
        self.now = now
        self._runs: dict[_Run, Bill] = {}
        self._stores: dict[_Store, Bill] = {}
        self._rates: dict[_Rate, Money | None] = {}
        self._storage_rates: dict[tuple[str | None, int, str], Money | None] = {}

    def of_lifetime(self, lifetime: Lifetime, since: datetime | None, until: datetime | None = None) -> Bill:
        """Charges after `since` (None: from the start), up to now or an earlier `until`."""
        if lifetime.ended_at is not None:
            # A run of ten seconds that ended a moment ago is billed its whole minute already.
            return bill_lifetime(lifetime, self.book, until or self.now + MINIMUM, since)
        end = self.now if until is None else min(until, self.now)
        start = lifetime.started_at if since is None else max(lifetime.started_at, since)
        key = (lifetime.shape, lifetime.provisioning_model, lifetime.zone, start, end)
        bill = self._runs.get(key)
        if bill is None:
            bill = self._runs[key] = bill_lifetime(lifetime, self.book, end, since)
        return bill

    def of_storage(self, span: StorageSpan, since: datetime | None, until: datetime | None = None) -> Bill:
        end = self.now if until is None else min(until, self.now)
        if span.ended_at is not None or span.resource is None:
            return bill_storage(span, self.book, end, since)
        start = span.started_at if since is None else max(span.started_at, since)
        key = (span.resource, span.size_mib, span.zone, start, end)
        bill = self._stores.get(key)
        if bill is None:
            bill = self._stores[key] = bill_storage(span, self.book, end, since)
        return bill

    def rate(self, shape: Shape, zone: str, provisioning_model: ProvisioningModel) -> Money | None:
        """Dollars an hour of a running machine now; None when a part of it has no price."""
        key = (shape, region_of(zone), provisioning_model)
        if key not in self._rates:
            self._rates[key] = rate_per_hour(*key, self.book, self.now)
        return self._rates[key]

    def storage_rate(self, resource: str | None, size_mib: int, zone: str) -> Money | None:
        key = (resource, size_mib, region_of(zone))
        if key not in self._storage_rates:
            self._storage_rates[key] = storage_rate_per_hour(*key, self.book, self.now)
        return self._storage_rates[key]


def accrual_at(connection: Connection, now: datetime) -> Accrual:
    """By all prices that the ledger holds."""
    return Accrual(book_of(connection), now)


# Sorting thousands of prices takes longer than the rest of a pass over a small fleet.
_books: WeakKeyDictionary[Engine, tuple[Sequence[Price], PriceBook]] = WeakKeyDictionary()


def book_of(connection: Connection) -> PriceBook:
    """All prices that the ledger holds; made anew when they changed."""
    known = prices.load(connection)
    kept = _books.get(connection.engine)
    if kept is None or kept[0] is not known:
        kept = _books[connection.engine] = known, PriceBook(known)
    return kept[1]


@lru_cache(maxsize=1024)  # few zones, many VMs
def region_of(zone: str) -> str:
    return zone.rsplit("-", 1)[0]
