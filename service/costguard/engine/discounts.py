"""The sustained-use discounts of a month, estimated from the ledger."""

from __future__ import annotations

from datetime import UTC, date, datetime

from sqlalchemy import Connection

from costguard.policy.price_book import PriceBook
from costguard.policy.sustained_use import Estimate, estimate
from costguard.store.spans import on_demand_within

_FAMILIES = ("n1", "custom", "f1", "g1")  # N1, its custom types and its shared-core types


def sustained_use(connection: Connection, book: PriceBook, month: date, now: datetime) -> tuple[Estimate, ...]:
    """What Google will probably take off for the N1 use of this calendar month (UTC) so far; never part of spend."""
    first = datetime(month.year, month.month, 1, tzinfo=UTC)
    after = datetime(month.year + month.month // 12, month.month % 12 + 1, 1, tzinfo=UTC)
    return estimate(on_demand_within(connection, first, after, families=_FAMILIES), book, month, now)
