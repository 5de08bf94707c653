"""Charges lifetimes and storage: when they end, and up to each midnight."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from functools import partial
from typing import TypeAlias

from sqlalchemy import Connection

from costguard.db.lease import Lease
from costguard.db.remembered import change_numbers, is_writing
from costguard.db.tables import lifetimes, storage_spans
from costguard.db.transaction import Database
from costguard.events import audit_log
from costguard.ledger.accrual import book_of
from costguard.ledger.charged import charges
from costguard.ledger.charged.ahead import Ahead
from costguard.ledger.charged.charges import ChargedSpan, DueId, DueSpan, ReadyCharges
from costguard.ledger.price_book import PriceBook
from costguard.ledger.prices import mark_of
from costguard.ledger.pricing import MINIMUM, Bill, bill_span
from costguard.ledger.roll_up import LIFETIME, STORAGE
from costguard.ledger.running import running_totals
from costguard.model.event import Event, new_event
from costguard.model.instance import ProvisioningModel, Shape
from costguard.model.lifetime import Lifetime, StorageSpan

MOST_DAYS = 5000  # in one transaction: up to some 12,000 charges, a third of a second

_Kind: TypeAlias = tuple[Shape | str, ProvisioningModel | int, str, datetime]


@dataclass(frozen=True, slots=True)
class Charged:
    """The number of spans that got charges, of charges, their days, and the number of spans without a price."""

    lifetimes: int = 0
    storage: int = 0
    charges: int = 0
    days: frozenset[date] = field(default=frozenset())
    unpriced: int = 0

    def plus(self, other: Charged) -> Charged:
        return Charged(
            self.lifetimes + other.lifetimes,
            self.storage + other.storage,
            self.charges + other.charges,
            self.days | other.days,
            self.unpriced + other.unpriced,
        )


def charge_due(database: Database, now: datetime, fence: Lease | None = None, most_days: int = MOST_DAYS) -> Charged:
    """Store the charges of all that ended, and of all that runs up to the last UTC midnight, with their days' sums.

    What has accrued since midnight is left to readers, so that a pass in which nothing ended writes nothing. Each
    transaction takes about so many days of spans, and leaves charges and sums that agree: the next pass goes on from
    wherever this one ends.
    """
    midnight = _midnight(now)
    ahead = Ahead(database, _state_of, partial(_ready, midnight))
    with database.read() as connection:
        due = charges.due_ids(connection, midnight)
        if due.days > most_days:  # a thread would else save nothing
            ahead.begin(connection)
    counted = Charged()
    with closing(ahead.batches(_batches(due, most_days))) as batches:
        for batch in batches:
            with database.write(fence) as connection:
                counted = counted.plus(_charge(connection, ahead.taken(connection, batch), now))
                ahead.written(connection)
    return counted


def _state_of(connection: Connection) -> Hashable:
    """Differs wherever charges that are due would: by their spans, whose these are, or prices."""
    return change_numbers(connection, (lifetimes, storage_spans)), mark_of(connection)


def _ready(midnight: datetime, connection: Connection, some: Sequence[DueId]) -> ReadyCharges:
    entries = list(_entries(charges.due(connection, some), book_of(connection), midnight))
    ready = charges.make_ready(connection, entries)
    return ready if is_writing(connection) else replace(ready, sums=ready.change.sums(connection))


def _charge(connection: Connection, ready: ReadyCharges, now: datetime) -> Charged:
    days, entries = charges.store(connection, ready), ready.entries
    running_totals.follow_charges(connection, entries, now)
    audit_log.append(connection, list(_gaps(entries)), now)
    return Charged(
        lifetimes=sum(entry.due.kind == LIFETIME for entry in entries),
        storage=sum(entry.due.kind == STORAGE for entry in entries),
        charges=sum(len(entry.charges) for entry in entries),
        days=frozenset(days),
        unpriced=sum(bool(entry.unpriced) for entry in entries),
    )


def _midnight(now: datetime) -> datetime:
    return now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def _batches(due: Iterable[DueId], most_days: int) -> Iterator[list[DueId]]:
    """Spans in their order, about so many days of them at once, or one."""
    batch: list[DueId] = []
    days = 0
    for one in due:
        batch.append(one)
        days += one.days
        if days >= most_days:
            yield batch
            batch, days = [], 0
    if batch:
        yield batch


def _entries(due: Sequence[DueSpan], book: PriceBook, midnight: datetime) -> Iterator[ChargedSpan]:
    # Ten thousand VMs that run through midnight are of a few kinds: each kind is billed once.
    bills: dict[_Kind, Bill] = {}
    for one in due:
        since = _since(one)
        until = midnight if one.span.ended_at is None else one.span.ended_at
        if one.span.ended_at is not None:
            minimum = MINIMUM if isinstance(one.span, Lifetime) else timedelta()
            bill = bill_span(one.span, book, until + minimum, since)
        else:
            kind = _kind(one.span, since)
            if kind not in bills:
                bills[kind] = bill_span(one.span, book, until, since)
            bill = bills[kind]
        yield ChargedSpan(one, since, until, bill.charges, bill.unpriced)


def _kind(span: Lifetime | StorageSpan, since: datetime | None) -> _Kind:
    start = since or span.started_at
    if isinstance(span, StorageSpan):
        return (span.resource or f"?{span.name}", span.size_mib, span.zone, start)
    return (span.shape, span.provisioning_model, span.zone, start)


def _since(due: DueSpan) -> datetime | None:
    """Returns the moment from which charges are to be made; None: from the start, in place of all that are stored."""
    ended_at = due.span.ended_at
    if due.charged_to is None or (ended_at is not None and ended_at < due.charged_to):
        return None
    if due.unpriced:
        return None  # its price, or its machine type, may have become known since
    if isinstance(due.span, Lifetime) and ended_at is not None and ended_at - due.span.started_at < MINIMUM:
        return None  # a Spot VM preempted in its first minute takes back what midnight had charged
    return due.charged_to


def _gaps(entries: Sequence[ChargedSpan]) -> Iterator[Event]:
    for entry in entries:
        span = entry.due.span
        if entry.unpriced and entry.unpriced != entry.due.unpriced:
            what = span.name if isinstance(span, StorageSpan) else "run"
            yield new_event(
                "SpanUnpriced",
                span.started_at,
                f"Not all of {entry.due.name} could be priced. {entry.unpriced}",
                *(span.key.project, span.key.gce_id, what, span.started_at.isoformat(), entry.unpriced),
                vm=span.key,
                name=entry.due.name,
            )
