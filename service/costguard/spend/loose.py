"""Loose things with their owners, their cost a month, and the command that removes each. Costguard removes none."""

from __future__ import annotations

import shlex
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
from fractions import Fraction
from typing import Protocol

from costguard.db.transaction import Database
from costguard.ledger.accrual import book_of
from costguard.ledger.owner import OwnerRules, owner_of
from costguard.ledger.price_book import PriceBook
from costguard.ledger.pricing import rate_per_hour
from costguard.model.instance import ProvisioningModel
from costguard.model.money import Money, Priced
from costguard.model.observation import LooseKind, LooseListing, LooseThing, UnreadList
from costguard.model.price import HOURS_A_MONTH, PriceKey, Unit

KEPT_FOR = timedelta(minutes=10)
_AT_ONCE = 8  # projects
METHOD = (
    "List prices: what is priced by the hour is counted for 730 hours, storage for a month. A reserved VM costs what "
    "it would cost on demand; a commitment may pay for it already, which is not known here."
)


@dataclass(frozen=True, slots=True)
class LooseItem:
    """`monthly` is None where no price is known. `owner` is "" where nobody is named."""

    thing: LooseThing
    owner: str
    monthly: Money | None
    command: str

    @property
    def since(self) -> datetime:
        """Returns since when nothing uses it, as far as its list says, else since when it exists."""
        return self.thing.unused_since or self.thing.created_at


@dataclass(frozen=True, slots=True)
class LooseReport:
    """The items, the dearest first, those without a price before all. `read_at` is when Google was asked."""

    read_at: datetime
    items: Sequence[LooseItem]
    unread: Sequence[UnreadList]
    cluster_disks: int

    @property
    def total(self) -> Priced:
        """Returns the sum of what has a price; not whole where something has none, or was not read."""
        nanos = sum(item.monthly.nanos for item in self.items if item.monthly is not None)
        return Priced(Money(nanos), not self.unread and not self.unpriced)

    @property
    def unpriced(self) -> int:
        return sum(item.monthly is None for item in self.items)


class LooseSource(Protocol):
    def __call__(self, project: str) -> LooseListing:
        """Lists the loose things of a project; what could not be read is in `unread`."""
        ...


class LooseThings:
    """Asks Google when a user asks for it, and keeps the answer for a few minutes. Thread-safe."""

    def __init__(
        self, source: LooseSource, projects: Sequence[str], now: Callable[[], datetime], owners: OwnerRules
    ) -> None:
        self._source, self._projects, self._now, self._owners = source, projects, now, owners
        self._lock = threading.Lock()
        self._kept: tuple[datetime, Sequence[LooseListing]] | None = None

    def report(self, read: Callable[[], PriceBook], project: str | None = None) -> LooseReport:
        """Reports all projects, or one. `read` gives the prices: it is called once Google has answered."""
        read_at, listings = self._listings()
        return report_of(read_at, listings, self._owners, read(), project)

    def _listings(self) -> tuple[datetime, Sequence[LooseListing]]:
        """The listings of all projects, and when they were read."""
        with self._lock:
            now = self._now()
            if self._kept is None or not timedelta() <= now - self._kept[0] < KEPT_FOR:
                with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="loose") as pool:
                    self._kept = now, tuple(pool.map(self._source, self._projects))
            return self._kept


def prices_of(database: Database) -> PriceBook:
    with database.read() as connection:
        return book_of(connection)


def report_of(
    read_at: datetime, listings: Iterable[LooseListing], rules: OwnerRules, book: PriceBook, project: str | None = None
) -> LooseReport:
    """The report of all listings, or of one project's. Pure."""
    mine = [listing for listing in listings if project in (None, listing.project)]
    items = [_item(thing, rules, book, read_at) for listing in mine for thing in listing.things]
    return LooseReport(
        read_at,
        sorted(items, key=_dearest_first),
        [unread for listing in mine for unread in listing.unread],
        sum(listing.cluster_disks for listing in mine),
    )


def _dearest_first(item: LooseItem) -> tuple[bool, int, str, str]:
    nanos = item.monthly.nanos if item.monthly is not None else 0
    return item.monthly is not None, -nanos, item.thing.project, item.thing.name


def _item(thing: LooseThing, rules: OwnerRules, book: PriceBook, at: datetime) -> LooseItem:
    owner = owner_of(thing.labels, None, None, rules).address
    return LooseItem(thing, owner, _monthly(thing, book, at), command_of(thing))


def _monthly(thing: LooseThing, book: PriceBook, at: datetime) -> Money | None:
    if thing.kind is LooseKind.QUEUED_RESOURCE:
        return Money(0)  # it holds quota, and bills nothing
    if thing.shape is not None:
        rate = rate_per_hour(thing.shape, thing.region, ProvisioningModel.STANDARD, book, at)
        return None if rate is None else Money(round(rate.nanos * HOURS_A_MONTH * thing.quantity))
    if thing.resource is None:
        return None
    price = book.at(PriceKey(thing.resource, thing.region, ProvisioningModel.STANDARD), at)
    if price is None:
        return None
    times = Fraction(1) if price.unit is Unit.GIB_MONTH else Fraction(HOURS_A_MONTH)
    return Money(round(price.rate_nanos * thing.quantity * times))


def command_of(thing: LooseThing) -> str:
    """The command that removes it, quoted for a shell; of a reservation in part use, the one that leaves that part."""
    is_queued = thing.kind is LooseKind.QUEUED_RESOURCE
    words = ["gcloud", "compute", *(("tpus", "queued-resources") if is_queued else (thing.kind.collection,))]
    if thing.used:
        words += ["update", thing.name, f"--vm-count={thing.used}"]
    else:
        words += ["delete", thing.name]
    place = thing.scope.partition("/")
    if place[0] in ("zones", "regions"):
        words.append(f"--{place[0][:-1]}={place[2]}")
    elif thing.kind is LooseKind.ADDRESS:
        words.append("--global")
    return shlex.join([*words, f"--project={thing.project}"])
