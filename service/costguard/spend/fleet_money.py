"""What instances have cost by their stored charges, and what these leave out."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, false, select

from costguard.db.bulk import chunks
from costguard.db.remembered import remembers
from costguard.db.tables import charges, lifetimes, storage_spans
from costguard.ledger.spans import charged_sums
from costguard.model.money import ZERO, Money


@dataclass(frozen=True, slots=True)
class ChargedSums:
    """Sums of stored charges: of the open lifetime, and of all the VM ever did."""

    lifetime: Money = ZERO
    total: Money = ZERO


_NOTHING = ChargedSums()


@dataclass(frozen=True, slots=True)
class Gap:
    """Why a span could not be priced whole."""

    reason: str
    in_open_lifetime: bool


@remembers(charges, lifetimes, storage_spans)
def charged(connection: Connection, ids: tuple[int, ...]) -> dict[int, ChargedSums]:
    """What the stored charges of each instance add up to, as far as they stand; without any, it is left out."""
    charged_of: dict[int, ChargedSums] = {}
    for spans in (lifetimes, storage_spans):
        rows = {
            row.id: row
            for chunk in chunks(ids)
            for row in connection.execute(
                select(spans.c.id, spans.c.instance_id, spans.c.ended_at).where(spans.c.instance_id.in_(chunk))
            )
        }
        # By the spans' ids: joined with the instances' spans at once, SQLite would read all charges there are.
        for span_id, amount in charged_sums(connection, spans, list(rows)).items():
            row = rows[span_id]
            before = charged_of.get(row.instance_id, _NOTHING)
            is_running = spans is lifetimes and row.ended_at is None
            charged_of[row.instance_id] = ChargedSums(amount if is_running else before.lifetime, before.total + amount)
    return charged_of


@remembers(lifetimes, storage_spans)
def gaps(connection: Connection, ids: tuple[int, ...]) -> dict[int, list[Gap]]:
    """What the stored charges of these instances leave out."""
    gaps_by_instance: dict[int, list[Gap]] = {}
    for chunk in chunks(ids):
        for spans in (lifetimes, storage_spans):
            in_open_lifetime = spans.c.ended_at.is_(None) if spans is lifetimes else false()
            query = (
                select(spans.c.instance_id, spans.c.unpriced, in_open_lifetime.label("in_open_lifetime"))
                .where(spans.c.instance_id.in_(chunk), spans.c.unpriced != "")
                .order_by(spans.c.started_at.desc())
            )
            for row in connection.execute(query):
                gaps_by_instance.setdefault(row.instance_id, []).append(Gap(row.unpriced, bool(row.in_open_lifetime)))
    return gaps_by_instance
