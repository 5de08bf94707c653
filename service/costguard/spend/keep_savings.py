"""What people kept, and what that has cost."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection

from costguard.ledger.price_book import PriceBook
from costguard.model.money import Priced
from costguard.spend.kept import KeepRow, keeps_between
from costguard.spend.savings import Saving, of_keep


@dataclass(frozen=True, slots=True)
class KeepReport:
    keep: KeepRow
    spent: Saving

    @property
    def cost(self) -> Priced:
        return self.spent.amount


def kept(connection: Connection, book: PriceBook, now: datetime, since: datetime, until: datetime) -> list[KeepReport]:
    """What was kept in [since, until), the latest first, with what it has cost by now."""
    return [KeepReport(each, _cost(each, book, now)) for each in keeps_between(connection, since, until)]


def _cost(keep: KeepRow, book: PriceBook, now: datetime) -> Saving:
    # A second keep costs from where the first ran out: no second is counted twice.
    since = keep.at if keep.due_at is None else max(keep.at, keep.due_at)
    return of_keep(keep.run, since, keep.until, book, now)
