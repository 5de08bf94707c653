"""Loose things with their owners, their cost a month, and the command that removes each. Costguard removes none."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from fractions import Fraction

from costguard.db.transaction import Database
from costguard.ledger.accrual import book_of
from costguard.ledger.owner import OwnerRules, owner_of
from costguard.ledger.price_book import PriceBook
from costguard.ledger.pricing import rate_per_hour
from costguard.model.instance import ProvisioningModel
from costguard.model.money import Money, Priced
from costguard.model.observation import LooseKind, LooseThing, PlannedReservation, UnreadList
from costguard.model.price import HOURS_A_MONTH, PriceKey, Unit
from costguard.spend.loose.memory import LooseAnswer

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


class UnknownWhy(StrEnum):
    """The reason why nothing is known of a project's loose things now."""

    REFUSED = "refused"  # its lists
    LATE = "late"  # it did not answer, or its answer was not understood
    NOT_ASKED = "not_asked"


@dataclass(frozen=True, slots=True)
class UnknownProject:
    """A project of which nothing is known now. `read_at` is when it last answered, which is then still listed.

    `reason` is "" of one that was not asked yet.
    """

    project: str
    why: UnknownWhy
    reason: str = ""
    tried_at: datetime | None = None
    read_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class LooseReport:
    """The items, the dearest first, those without a price before all.

    `unread` are lists of projects that answered otherwise; a project of which nothing was read is in `unknown` once.
    `oldest_at` is when Google was asked for the oldest answer in it; None without any.
    """

    as_of: datetime
    items: Sequence[LooseItem]
    unread: Sequence[UnreadList]
    cluster_disks: int
    planned: Sequence[PlannedReservation] = ()  # by start
    unknown: Sequence[UnknownProject] = ()
    projects: int = 0  # watched, or the one that is asked for
    oldest_at: datetime | None = None

    @property
    def age(self) -> timedelta | None:
        """Returns the age of the oldest answer."""
        return None if self.oldest_at is None else max(timedelta(), self.as_of - self.oldest_at)

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
        return not self.unknown and not any(one.kind is LooseKind.RESERVATION for one in self.unread)

    @property
    def total(self) -> Priced:
        """Returns the sum of what has a price; not whole where something has none, or was not read."""
        nanos = sum(item.monthly.nanos for item in self.items if item.monthly is not None)
        return Priced(Money(nanos), not self.unread and not self.unknown and not self.unpriced)

    @property
    def unpriced(self) -> int:
        return sum(item.monthly is None for item in self.items)

    def unknown_for(self, why: UnknownWhy) -> Sequence[UnknownProject]:
        return [one for one in self.unknown if one.why is why]


def prices_of(database: Database) -> PriceBook:
    with database.read() as connection:
        return book_of(connection)


def report_of(
    projects: Sequence[str],
    answers: Iterable[LooseAnswer],
    rules: OwnerRules,
    book: PriceBook,
    now: datetime,
    *,
    only_reservations: bool = False,
) -> LooseReport:
    """The report of these watched projects, of what is remembered of them. Pure."""
    by_project = {answer.project: answer for answer in answers}
    unknown = [one for project in projects if (one := _unknown(project, by_project.get(project))) is not None]
    refused = {one.project for one in unknown if one.why is UnknownWhy.REFUSED}
    answered = [(answer.listing, answer.read_at) for answer in by_project.values() if answer.project not in refused]
    mine = [(listing, read_at) for listing, read_at in answered if listing is not None and read_at is not None]
    items = [
        _item(thing, rules, book, read_at)
        for listing, read_at in mine
        for thing in listing.things
        if not only_reservations or thing.kind is LooseKind.RESERVATION
    ]
    return LooseReport(
        now,
        sorted(items, key=_dearest_first),
        [unread for listing, _ in mine for unread in listing.unread],
        sum(listing.cluster_disks for listing, _ in mine),
        sorted((plan for listing, _ in mine for plan in listing.planned), key=lambda plan: (plan.starts_at, plan.name)),
        unknown,
        len(projects),
        min((read_at for _, read_at in mine), default=None),
    )


def _unknown(project: str, answer: LooseAnswer | None) -> UnknownProject | None:
    """Returns why nothing is known of a project now; None where its last try brought an answer."""
    if answer is None:
        return UnknownProject(project, UnknownWhy.NOT_ASKED)
    if answer.trouble:
        return UnknownProject(project, UnknownWhy.LATE, answer.trouble, answer.tried_at, answer.read_at)
    if answer.listing is not None and answer.listing.is_unread:
        return UnknownProject(project, UnknownWhy.REFUSED, _reason(answer.listing.unread), answer.tried_at)
    return None


def _reason(unread: Sequence[UnreadList]) -> str:
    """Returns the reason of the list of disks, which most know by its name."""
    return next((one.reason for one in unread if one.kind is LooseKind.DISK), "")


@dataclass(frozen=True, slots=True)
class AlikeProjects:
    """Projects that are not read for one reason, in the words of the first of them. `permission` is "" of no list."""

    reason: str
    projects: Sequence[str]
    permission: str = ""


def alike(rows: Iterable[UnknownProject | UnreadList]) -> Sequence[AlikeProjects]:
    """Groups projects by the reason, which names each project in its own: the most projects first. Pure."""
    groups: dict[tuple[str, str], list[UnknownProject | UnreadList]] = {}
    for row in rows:
        permission = row.permission if isinstance(row, UnreadList) else ""
        groups.setdefault((row.reason.replace(row.project, "PROJECT"), permission), []).append(row)
    made = [
        AlikeProjects(group[0].reason, sorted({one.project for one in group}), permission)
        for (_, permission), group in groups.items()
    ]
    return sorted(made, key=lambda group: (-len(group.projects), group.reason))


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
