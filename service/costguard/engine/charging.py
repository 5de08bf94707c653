"""Charges are stored as spans end, and up to midnight for those that go on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from typing import TypeAlias

from sqlalchemy import Connection

from costguard.engine.accrual import book_of
from costguard.model.fact import Fact
from costguard.model.instance import ProvisioningModel, Shape
from costguard.model.lifetime import Lifetime, StorageSpan
from costguard.policy.price_book import PriceBook
from costguard.policy.pricing import MINIMUM, Bill, bill_lifetime, bill_storage
from costguard.store import charges, facts
from costguard.store.charges import Due, Entry
from costguard.store.roll_up import roll_up_days

_DAY = timedelta(days=1)
_MOST_DAYS = 100_000  # some 100 MB of charges; a midnight of ten thousand VMs and their disks is a fifth of it

_Kind: TypeAlias = tuple[Shape | str, ProvisioningModel | int, str, datetime]


@dataclass(frozen=True, slots=True)
class Charged:
    """How many spans got charges, how many charges, on which days, and how many spans lack a price."""

    lifetimes: int = 0
    storage: int = 0
    charges: int = 0
    days: frozenset[date] = field(default=frozenset())
    unpriced: int = 0


def charge_due(connection: Connection, now: datetime, most_days: int = _MOST_DAYS) -> Charged:
    """Store the charges of all that ended, and of all that runs up to the last UTC midnight; roll up the days.

    What has run up since midnight is left to readers, so that a pass in which nothing ended writes nothing.
    """
    midnight = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    due = charges.due(connection, midnight)
    if not due:
        return Charged()
    book, counted, days = book_of(connection), Charged(), set[date]()
    for some in _batches(due, midnight, most_days):
        entries = list(_entries(some, book, midnight))
        days |= charges.store(connection, entries)
        facts.append(connection, list(_gaps(entries)), now)
        counted = replace(
            counted,
            lifetimes=counted.lifetimes + sum(entry.due.kind == charges.LIFETIME for entry in entries),
            storage=counted.storage + sum(entry.due.kind == charges.STORAGE for entry in entries),
            charges=counted.charges + sum(len(entry.charges) for entry in entries),
            unpriced=counted.unpriced + sum(bool(entry.unpriced) for entry in entries),
        )
    roll_up_days(connection, days)
    return replace(counted, days=frozenset(days))


def _batches(due: Sequence[Due], midnight: datetime, most_days: int) -> Iterator[list[Due]]:
    """Spans in their order, about so many days of them at once, or one: years charged once more must fit in memory."""
    batch: list[Due] = []
    days = 0
    for one in due:
        batch.append(one)
        since = _since(one) or one.span.started_at
        days += ((one.span.ended_at or midnight) - since) // _DAY + 1
        if days >= most_days:
            yield batch
            batch, days = [], 0
    if batch:
        yield batch


def _entries(due: Sequence[Due], book: PriceBook, midnight: datetime) -> Iterator[Entry]:
    # Ten thousand VMs that run through midnight are of a few kinds: each kind is billed once.
    known: dict[_Kind, Bill] = {}
    for one in due:
        since = _since(one)
        until = midnight if one.span.ended_at is None else one.span.ended_at
        if one.span.ended_at is not None:
            bill = _bill(one.span, book, until, since)
        else:
            kind = _kind(one.span, since)
            if kind not in known:
                known[kind] = _bill(one.span, book, until, since)
            bill = known[kind]
        yield Entry(one, since, until, bill.charges, bill.unpriced)


def _bill(span: Lifetime | StorageSpan, book: PriceBook, until: datetime, since: datetime | None) -> Bill:
    if isinstance(span, StorageSpan):
        return bill_storage(span, book, until, since)
    return bill_lifetime(span, book, until if span.ended_at is None else until + MINIMUM, since)


def _kind(span: Lifetime | StorageSpan, since: datetime | None) -> _Kind:
    start = since or span.started_at
    if isinstance(span, StorageSpan):
        return (span.resource or f"?{span.name}", span.size_mib, span.zone, start)
    return (span.shape, span.provisioning_model, span.zone, start)


def _since(due: Due) -> datetime | None:
    """From where on charges are to be made; None: from the start, in place of all that are stored."""
    ended_at = due.span.ended_at
    if due.charged_to is None or (ended_at is not None and ended_at < due.charged_to):
        return None
    if due.unpriced:
        return None  # its price, or its machine type, may have become known since
    if isinstance(due.span, Lifetime) and ended_at is not None and ended_at - due.span.started_at < MINIMUM:
        return None  # a Spot VM preempted in its first minute takes back what midnight had charged
    return due.charged_to


def _gaps(entries: Sequence[Entry]) -> Iterator[Fact]:
    for entry in entries:
        span = entry.due.span
        if entry.unpriced and entry.unpriced != entry.due.unpriced:
            what = span.name if isinstance(span, StorageSpan) else "run"
            yield Fact(
                key=f"unpriced/{span.key.project}/{span.key.gce_id}/{what}/{span.started_at.isoformat()}/{entry.unpriced}",
                kind="SpanUnpriced",
                occurred_at=span.started_at,
                text=f"Not all of {entry.due.name} could be priced. {entry.unpriced}",
                project=span.key.project,
                gce_id=span.key.gce_id,
                name=entry.due.name,
            )
