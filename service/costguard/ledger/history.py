"""Lifetimes and storage with their cost, down to each billed resource and the price it was billed at."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeAlias

from sqlalchemy import Connection, Table

from costguard.db import tables
from costguard.ledger.accrual import Accrual
from costguard.ledger.charged import spans
from costguard.ledger.charged.spans import ChargeSum, LifetimeFilters, Span, StoredSpan
from costguard.ledger.pricing import Bill
from costguard.model.lifetime import Lifetime, StorageSpan
from costguard.model.money import Priced


@dataclass(frozen=True, slots=True)
class SpanView(Generic[Span]):
    """A run, or storage, and its cost until now; `charges` only where they were asked for."""

    stored: StoredSpan[Span]
    cost: Priced
    unpriced: str
    charges: tuple[ChargeSum, ...] = ()


LifetimeView: TypeAlias = SpanView[Lifetime]
StorageView: TypeAlias = SpanView[StorageSpan]


def lifetimes(
    connection: Connection, accrual: Accrual, filters: LifetimeFilters, before_id: int | None, size: int
) -> list[LifetimeView]:
    """The lifetimes recorded last, first. One more than `size` tells that there is another page."""
    return [
        _view(stored, _bill(stored, accrual), ())
        for stored in spans.lifetimes_page(connection, filters, before_id, size + 1)
    ]


def lifetimes_of(connection: Connection, accrual: Accrual, instance_id: int) -> list[LifetimeView]:
    """All runs of one VM with their charges, the latest first."""
    return _views(connection, accrual, tables.lifetimes, spans.lifetimes_of(connection, instance_id))


def runs_of(connection: Connection, accrual: Accrual, instance_id: int) -> list[LifetimeView]:
    """All runs of one VM without their charges, the latest first."""
    return [_view(stored, _bill(stored, accrual), ()) for stored in spans.lifetimes_of(connection, instance_id)]


def storage_of(connection: Connection, accrual: Accrual, instance_id: int) -> list[StorageView]:
    """All storage of one VM with its charges, the latest first."""
    return _views(connection, accrual, tables.storage_spans, spans.storage_of_instance(connection, instance_id))


def _views(
    connection: Connection, accrual: Accrual, table: Table, stored_spans: Sequence[StoredSpan[Span]]
) -> list[SpanView[Span]]:
    charges = spans.charges_of(connection, table, [stored.id for stored in stored_spans])
    return [_view(stored, _bill(stored, accrual), charges.get(stored.id, ())) for stored in stored_spans]


def _view(stored: StoredSpan[Span], live: Bill, charges: Sequence[ChargeSum]) -> SpanView[Span]:
    unpriced = live.unpriced or stored.unpriced
    return SpanView(stored, Priced(stored.charged + live.amount, not unpriced), unpriced, _merged(charges, live))


def _bill(stored: StoredSpan[Span], accrual: Accrual) -> Bill:
    """Bills what is not charged yet: of a span that is charged to its end, nothing."""
    ended_at, charged_to = stored.span.ended_at, stored.charged_to
    is_whole = ended_at is not None and charged_to is not None and charged_to >= ended_at
    return Bill() if is_whole else accrual.bill(stored.span, charged_to)


def _merged(stored: Iterable[ChargeSum], live: Bill) -> tuple[ChargeSum, ...]:
    sums = {(charged.resource, charged.price_id, charged.quantity_millis): charged for charged in stored}
    for charge in live.charges:
        millis = round(charge.quantity * 1000)
        new = ChargeSum(
            charge.resource, charge.price_id, millis, charge.started_at, charge.ended_at, charge.seconds, charge.amount
        )
        key = (new.resource, new.price_id, new.quantity_millis)
        old = sums.get(key)
        sums[key] = new if old is None else _joined(old, new)
    return tuple(sums.values())


def _joined(one: ChargeSum, other: ChargeSum) -> ChargeSum:
    return replace(
        one,
        ended_at=max(one.ended_at, other.ended_at),
        seconds=one.seconds + other.seconds,
        amount=one.amount + other.amount,
    )
