"""What has accrued since charges were last stored: the live part of every figure that people see."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import lru_cache
from typing import TypeAlias
from weakref import WeakKeyDictionary

from sqlalchemy import Connection, Engine

from costguard.ledger import prices
from costguard.ledger.price_book import PriceBook
from costguard.ledger.pricing import MINIMUM, Bill, bill_span, gpu_rate_per_hour, rate_per_hour, storage_rate_per_hour
from costguard.model.instance import ProvisioningModel, Shape
from costguard.model.lifetime import Lifetime, StorageSpan
from costguard.model.money import Money
from costguard.model.price import OF_A_RUN, Price

_Kind: TypeAlias = tuple[Shape | str, ProvisioningModel | int, str]
_Rate: TypeAlias = tuple[Shape, str, ProvisioningModel]


@dataclass(frozen=True, slots=True)
class Cost:
    """What has accrued, and in words what could not be priced ("" when all was)."""

    amount: Money
    unpriced: str = ""


class Accrual:
    """Bills and rates at one moment. Equal VMs are billed once, so that ten thousand cost what a few do."""

    def __init__(self, book: PriceBook, now: datetime) -> None:
        self.book = book
        self.now = now
        self._bills: dict[tuple[_Kind, datetime, datetime], Bill] = {}
        self._rates: dict[_Rate, Money | None] = {}
        self._gpu_rates: dict[_Rate, Money | None] = {}
        self._storage_rates: dict[tuple[str | None, int, str], Money | None] = {}

    def bill(self, span: Lifetime | StorageSpan, since: datetime | None, until: datetime | None = None) -> Bill:
        """Charges after `since` (None: from the start), up to now or an earlier `until`."""
        if span.ended_at is not None:
            # A run of ten seconds that ended a moment ago is billed its whole minute already.
            minimum = MINIMUM if isinstance(span, Lifetime) else timedelta()
            return bill_span(span, self.book, until or self.now + minimum, since)
        end = self.now if until is None else min(until, self.now)
        start = span.started_at if since is None else max(span.started_at, since)
        if isinstance(span, Lifetime):
            kind: _Kind = (span.shape, span.provisioning_model, span.zone)
        else:
            kind = (span.resource or f"?{span.name}", span.size_mib, span.zone)  # a bill may name an unknown disk
        bill = self._bills.get((kind, start, end))
        if bill is None:
            bill = self._bills[kind, start, end] = bill_span(span, self.book, end, since)
        return bill

    def cost(self, span: Lifetime | StorageSpan, since: datetime | None) -> Cost:
        """What the bill up to now adds up to."""
        bill = self.bill(span, since)
        return Cost(bill.amount, bill.unpriced)

    def rate(self, shape: Shape, zone: str, provisioning_model: ProvisioningModel) -> Money | None:
        """Dollars an hour of a running machine now; None when a part of it has no price."""
        key = (shape, region_of(zone), provisioning_model)
        if key not in self._rates:
            self._rates[key] = rate_per_hour(*key, self.book, self.now)
        return self._rates[key]

    def gpu_rate(self, shape: Shape, zone: str, provisioning_model: ProvisioningModel) -> Money | None:
        """The part of it that is billed as GPUs."""
        key = (shape, region_of(zone), provisioning_model)
        if key not in self._gpu_rates:
            self._gpu_rates[key] = gpu_rate_per_hour(*key, self.book, self.now)
        return self._gpu_rates[key]

    def storage_rate(self, resource: str | None, size_mib: int, zone: str) -> Money | None:
        key = (resource, size_mib, region_of(zone))
        if key not in self._storage_rates:
            self._storage_rates[key] = storage_rate_per_hour(*key, self.book, self.now)
        return self._storage_rates[key]


def figures_of(bill: Bill) -> Iterator[tuple[date, Sequence[int]]]:
    """Machine, GPU and storage in nano-dollars, and seconds, by day.

    As the daily sums have it: a run's seconds are those of its vCPUs, or of the whole VM.
    """
    for charge in bill.charges:
        is_gpu = charge.resource.startswith("gpu:")
        is_storage = charge.resource.startswith("disk:") or charge.resource == "suspended-memory"
        nanos = charge.amount.nanos
        figures = (
            0 if is_gpu or is_storage else nanos,
            nanos if is_gpu else 0,
            nanos if is_storage else 0,
            charge.seconds if charge.resource.endswith(OF_A_RUN) else 0,
        )
        yield charge.day, figures


def accrual_at(connection: Connection, now: datetime) -> Accrual:
    """By all prices that the ledger holds."""
    return Accrual(book_of(connection), now)


# Sorting thousands of prices takes longer than the rest of a pass over a small fleet.
_books: WeakKeyDictionary[Engine, tuple[Sequence[Price], PriceBook]] = WeakKeyDictionary()


def book_of(connection: Connection) -> PriceBook:
    """All prices that the ledger holds; made again when they changed."""
    loaded = prices.load(connection)
    kept = _books.get(connection.engine)
    if kept is None or kept[0] is not loaded:
        kept = _books[connection.engine] = loaded, PriceBook(loaded)
    return kept[1]


@lru_cache(maxsize=1024)  # few zones, many VMs
def region_of(zone: str) -> str:
    return zone.rsplit("-", 1)[0]
