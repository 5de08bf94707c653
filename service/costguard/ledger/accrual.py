"""What has run up since charges were last stored: the live part of every figure that people see."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import TypeAlias
from weakref import WeakKeyDictionary

from sqlalchemy import Connection, Engine

from costguard.ledger import prices
from costguard.ledger.meter import Begun, Meter, day_of, meter_of_shape, meter_of_storage, second_of
from costguard.ledger.price_book import PriceBook
from costguard.ledger.pricing import MINIMUM, Bill, bill_lifetime, bill_storage, rate_per_hour, storage_rate_per_hour
from costguard.model.instance import ProvisioningModel, Shape
from costguard.model.lifetime import Lifetime, StorageSpan
from costguard.model.money import Money
from costguard.model.price import Price

_CHARGED_WITHIN = timedelta(days=2)  # what ended longer ago has its charges in the roll-up

_Run: TypeAlias = tuple[Shape, ProvisioningModel, str, datetime, datetime]
_Store: TypeAlias = tuple[str, int, str, datetime, datetime]
_Rate: TypeAlias = tuple[Shape, str, ProvisioningModel]


@dataclass(frozen=True, slots=True)
class Cost:
    """What was run up, and in words what could not be priced ("" when all was)."""

    amount: Money
    unpriced: str = ""


class Accrual:
    """Bills and rates at one moment. Equal VMs are billed once, so that ten thousand cost what a few do."""

    def __init__(self, book: PriceBook, now: datetime) -> None:
        self.book = book
        self.now = now
        self._runs: dict[_Run, Bill] = {}
        self._stores: dict[_Store, Bill] = {}
        self._rates: dict[_Rate, Money | None] = {}
        self._storage_rates: dict[tuple[str | None, int, str], Money | None] = {}
        self._meters: dict[tuple[Shape, str, ProvisioningModel, datetime], Meter | None] = {}
        self._storage_meters: dict[tuple[str | None, int, str, datetime], Meter | None] = {}
        self._day = day_of(now)

    @property
    def charged_before(self) -> datetime:
        """What ended before then has its charges stored. By the hour, so that a question stays the same for as long."""
        return (self.now - _CHARGED_WITHIN).replace(minute=0, second=0, microsecond=0)

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

    def cost_of_lifetime(self, lifetime: Lifetime, since: datetime | None) -> Cost:
        """What `of_lifetime` adds up to, up to now."""
        start = lifetime.started_at if since is None else max(lifetime.started_at, since)
        if lifetime.ended_at is None and start >= self._day:
            meter = self.meter(lifetime.shape, lifetime.zone, lifetime.provisioning_model, self.now)
            if meter is not None:
                machine, gpu, _ = meter.run_up(Begun({second_of(start): 1}))
                return Cost(Money(machine + gpu))
        bill = self.of_lifetime(lifetime, since)
        return Cost(bill.amount, bill.unpriced)

    def cost_of_storage(self, span: StorageSpan, since: datetime | None) -> Cost:
        """What `of_storage` adds up to, up to now."""
        start = span.started_at if since is None else max(span.started_at, since)
        if span.ended_at is None and start >= self._day:
            meter = self.storage_meter(span.resource, span.size_mib, span.zone, self.now)
            if meter is not None:
                return Cost(Money(meter.run_up(Begun({second_of(start): 1}))[0]))
        bill = self.of_storage(span, since)
        return Cost(bill.amount, bill.unpriced)

    def meter(self, shape: Shape, zone: str, provisioning_model: ProvisioningModel, until: datetime) -> Meter | None:
        """For running machines of one kind, within the day that ends with `until`."""
        key = (shape, region_of(zone), provisioning_model, until)
        if key not in self._meters:
            self._meters[key] = meter_of_shape(*key[:3], self.book, until)
        return self._meters[key]

    def storage_meter(self, resource: str | None, size_mib: int, zone: str, until: datetime) -> Meter | None:
        key = (resource, size_mib, region_of(zone), until)
        if key not in self._storage_meters:
            self._storage_meters[key] = meter_of_storage(*key[:3], self.book, until)
        return self._storage_meters[key]

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
