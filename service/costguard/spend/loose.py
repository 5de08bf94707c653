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
from costguard.ledger.discovery.watch import Watched
from costguard.ledger.owner import OwnerRules, owner_of
from costguard.ledger.price_book import PriceBook
from costguard.ledger.pricing import rate_per_hour
from costguard.model.instance import ProvisioningModel
from costguard.model.money import Money, Priced
from costguard.model.observation import LooseKind, LooseListing, LooseThing, PlannedReservation, UnreadList
from costguard.model.price import HOURS_A_MONTH, PriceKey, Unit

KEPT_FOR = timedelta(minutes=10)
_AT_ONCE = 8  # projects
METHOD = (
    "List prices: what is priced by the hour is counted for 730 hours, storage for a month. A reserved VM costs what "
    "it would cost on demand, or in calendar mode; a commitment may pay for it already, which is not known here."
)


@dataclass(frozen=True, slots=True)
class LooseItem:
    """`monthly` is None where no price is known. `owner` is "" where nobody is named. `command` is "" of a reservation
    of calendar mode, which is sold for a whole period.
    """

    thing: LooseThing
    owner: str
    monthly: Money | None
    command: str
    hourly: Money | None = None  # of the unused part of a reservation; None: no price is known, or it is none

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
    planned: Sequence[PlannedReservation] = ()  # by start

    @property
    def unused(self) -> Sequence[LooseItem]:
        """Returns the reservations with an unused part."""
        return [item for item in self.items if item.thing.kind is LooseKind.RESERVATION]

    @property
    def unused_vms(self) -> int:
        """Returns how many reserved VMs nobody uses."""
        return sum(int(item.thing.quantity) for item in self.unused)

    @property
    def unused_burn(self) -> Priced:
        """Returns what unused reservations cost an hour now; not whole where one has no price or was not read."""
        priced = [item.hourly.nanos for item in self.unused if item.hourly is not None]
        return Priced(Money(sum(priced)), self.reservations_read and len(priced) == len(self.unused))

    @property
    def reservations_read(self) -> bool:
        """Says whether every project's reservations were read whole."""
        return not any(one.kind is LooseKind.RESERVATION for one in self.unread)

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


def _in_a_thread(run: Callable[[], None]) -> None:
    threading.Thread(target=run, name="loose", daemon=True).start()


class LooseThings:
    """Asks Google when a user asks for it, and keeps the answer for a few minutes. Thread-safe."""

    def __init__(
        self,
        source: LooseSource,
        watched: Watched,
        now: Callable[[], datetime],
        owners: OwnerRules,
        spawn: Callable[[Callable[[], None]], None] = _in_a_thread,
    ) -> None:
        """`spawn` runs something without waiting for it."""
        self._source, self._watched, self._now, self._owners = source, watched, now, owners
        self._lock, self._reading = threading.Lock(), threading.Lock()
        self._spawn = spawn
        self._kept: tuple[datetime, Sequence[LooseListing]] | None = None

    def report(self, read: Callable[[], PriceBook], project: str | None = None) -> LooseReport:
        """Reports all projects, or one. `read` gives the prices: it is called once Google has answered."""
        read_at, listings = self._listings()
        return report_of(read_at, listings, self._owners, read(), project)

    def latest(self, book: PriceBook, project: str | None = None) -> LooseReport | None:
        """Returns the last report without waiting for Google, however old it is; None before the first.

        Google is asked meanwhile where the answer is no longer fresh.
        """
        if (self._kept is None or not self._is_fresh(self._kept)) and self._reading.acquire(blocking=False):
            self._spawn(self._read)
        return None if self._kept is None else report_of(*self._kept, self._owners, book, project)

    def _read(self) -> None:
        try:
            self._listings()
        finally:
            self._reading.release()

    def _is_fresh(self, kept: tuple[datetime, Sequence[LooseListing]]) -> bool:
        return timedelta() <= self._now() - kept[0] < KEPT_FOR

    def _listings(self) -> tuple[datetime, Sequence[LooseListing]]:
        """The listings of all projects, and when they were read."""
        with self._lock:
            now = self._now()
            if self._kept is None or not self._is_fresh(self._kept):
                with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="loose") as pool:
                    self._kept = now, tuple(pool.map(self._source, self._watched()))
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
        sorted((plan for listing in mine for plan in listing.planned), key=lambda plan: (plan.starts_at, plan.name)),
    )


def _dearest_first(item: LooseItem) -> tuple[bool, int, str, str]:
    nanos = item.monthly.nanos if item.monthly is not None else 0
    return item.monthly is not None, -nanos, item.thing.project, item.thing.name


def _item(thing: LooseThing, rules: OwnerRules, book: PriceBook, at: datetime) -> LooseItem:
    owner = owner_of(thing.labels, None, None, rules).address
    hourly = _hourly(thing, book, at)
    return LooseItem(thing, owner, _monthly(thing, hourly, book, at), command_of(thing), hourly)


def _hourly(thing: LooseThing, book: PriceBook, at: datetime) -> Money | None:
    """Returns what the unused VMs of a reservation cost an hour; None for other things, and without a price."""
    if thing.shape is None:
        return None
    rate = rate_per_hour(thing.shape, thing.region, thing.model, book, at)
    return None if rate is None else Money(round(rate.nanos * thing.quantity))


def _monthly(thing: LooseThing, hourly: Money | None, book: PriceBook, at: datetime) -> Money | None:
    if thing.kind is LooseKind.QUEUED_RESOURCE:
        return Money(0)  # it holds quota, and bills nothing
    if thing.shape is not None:
        return None if hourly is None else Money(hourly.nanos * HOURS_A_MONTH)
    if thing.resource is None:
        return None
    price = book.at(PriceKey(thing.resource, thing.region, ProvisioningModel.STANDARD), at)
    if price is None:
        return None
    times = Fraction(1) if price.unit is Unit.GIB_MONTH else Fraction(HOURS_A_MONTH)
    return Money(round(price.rate_nanos * thing.quantity * times))


def command_of(thing: LooseThing) -> str:
    """The command that removes it, quoted for a shell; of a reservation in part use, the one that leaves that part.

    "" for one of calendar mode, which is sold for a whole period and ends with it.
    """
    if thing.model is ProvisioningModel.RESERVATION_BOUND:
        return ""
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
