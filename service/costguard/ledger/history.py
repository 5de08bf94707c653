"""Lifetimes and storage with their cost, down to each billed resource and the price it was billed at."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from sqlalchemy import Connection

from costguard.db import tables
from costguard.ledger.accrual import Accrual
from costguard.ledger.charged import spans
from costguard.ledger.charged.spans import ChargeSum, LifetimeFilters, StoredLifetime, StoredStorage
from costguard.ledger.pricing import Bill
from costguard.model.money import Priced


@dataclass(frozen=True, slots=True)
class LifetimeView:
    """A run and what it cost until now; `charges` only where they were asked for."""

    stored: StoredLifetime
    cost: Priced
    unpriced: str
    charges: tuple[ChargeSum, ...] = ()


@dataclass(frozen=True, slots=True)
class StorageView:
    stored: StoredStorage
    cost: Priced
    unpriced: str
    charges: tuple[ChargeSum, ...] = ()


def lifetimes(
    connection: Connection, accrual: Accrual, filters: LifetimeFilters, before_id: int | None, size: int
) -> list[LifetimeView]:
    """The lifetimes recorded last, first. One more than `size` tells that there is another page."""
    page = spans.lifetimes_page(connection, filters, before_id, size + 1)
    return [_lifetime(stored, _lifetime_bill(stored, accrual), ()) for stored in page]


def lifetimes_of(connection: Connection, accrual: Accrual, instance_id: int) -> list[LifetimeView]:
    """All runs of one VM with their charges, the latest first."""
    stored_lifetimes = spans.lifetimes_of(connection, instance_id)
    charges = spans.charges_of(connection, tables.lifetimes, [stored.id for stored in stored_lifetimes])
    return [
        _lifetime(stored, _lifetime_bill(stored, accrual), charges.get(stored.id, ())) for stored in stored_lifetimes
    ]


def runs_of(connection: Connection, accrual: Accrual, instance_id: int) -> list[LifetimeView]:
    """All runs of one VM without their charges, the latest first."""
    stored_lifetimes = spans.lifetimes_of(connection, instance_id)
    return [_lifetime(stored, _lifetime_bill(stored, accrual), ()) for stored in stored_lifetimes]


def storage_of(connection: Connection, accrual: Accrual, instance_id: int) -> list[StorageView]:
    """All storage of one VM with its charges, the latest first."""
    stored_spans = spans.storage_of_instance(connection, instance_id)
    charges = spans.charges_of(connection, tables.storage_spans, [stored.id for stored in stored_spans])
    return [_storage(stored, _storage_bill(stored, accrual), charges.get(stored.id, ())) for stored in stored_spans]


def _lifetime(stored: StoredLifetime, live: Bill, charges: Sequence[ChargeSum]) -> LifetimeView:
    return LifetimeView(stored, *_account(stored, live, charges))


def _storage(stored: StoredStorage, live: Bill, charges: Sequence[ChargeSum]) -> StorageView:
    return StorageView(stored, *_account(stored, live, charges))


def _account(
    stored: StoredLifetime | StoredStorage, live: Bill, charges: Sequence[ChargeSum]
) -> tuple[Priced, str, tuple[ChargeSum, ...]]:
    unpriced = live.unpriced or stored.unpriced
    cost = Priced(stored.charged + live.amount, not unpriced)
    return cost, unpriced, _merged(charges, live)


def _lifetime_bill(stored: StoredLifetime, accrual: Accrual) -> Bill:
    is_whole = stored.lifetime.ended_at is not None and _is_charged_to_end(stored, stored.lifetime.ended_at)
    return Bill() if is_whole else accrual.bill(stored.lifetime, stored.charged_to)


def _storage_bill(stored: StoredStorage, accrual: Accrual) -> Bill:
    is_whole = stored.span.ended_at is not None and _is_charged_to_end(stored, stored.span.ended_at)
    return Bill() if is_whole else accrual.bill(stored.span, stored.charged_to)


def _is_charged_to_end(stored: StoredLifetime | StoredStorage, ended_at: datetime) -> bool:
    return stored.charged_to is not None and stored.charged_to >= ended_at


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
