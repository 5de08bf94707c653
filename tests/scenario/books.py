"""Checks every ledger at every moment, whatever happened."""

from __future__ import annotations

from collections import defaultdict
from datetime import date, datetime, timedelta

from sqlalchemy import Connection, func, select

from costguard.db.backup import verify
from costguard.db.tables import charges, daily_spend, daily_spot, daily_spot_totals, lifetimes, storage_spans
from costguard.db.tables import prices as prices_table
from costguard.ledger import prices
from costguard.ledger.accrual import Accrual
from costguard.ledger.price_book import PriceBook
from costguard.model.lifetime import EndReason
from costguard.spend.spend import spend
from costguard.spend.spend_rows import Grouping

_MINUTE = timedelta(minutes=1)
_GROUPINGS: tuple[tuple[Grouping, ...], ...] = (
    (),
    (Grouping.DAY,),
    (Grouping.OWNER,),
    (Grouping.PROJECT, Grouping.PRESET),
    (Grouping.PROVISIONING_MODEL, Grouping.DAY),
)


def assert_consistent(connection: Connection) -> None:
    """Days add up to their charges, and the charges of a span tile it: no gap, no overlap, no second too many.

    `costguard db verify` finds it sound, too.
    """
    assert [check for check in verify.checks(connection) if not check.holds] == []
    amounts = daily_spend.c.machine_nanos + daily_spend.c.gpu_nanos + daily_spend.c.storage_nanos
    rolled = dict(connection.execute(select(daily_spend.c.day, func.sum(amounts)).group_by(daily_spend.c.day)).all())
    summed = dict(
        connection.execute(select(charges.c.day, func.sum(charges.c.amount_nanos)).group_by(charges.c.day)).all()
    )
    assert rolled == summed
    at_spot = (
        select(charges.c.day, func.sum(charges.c.amount_nanos))
        .join(prices_table, prices_table.c.id == charges.c.price_id)
        .where(prices_table.c.provisioning_model == "spot")
    )
    spot = dict(connection.execute(at_spot.group_by(charges.c.day)).all())
    for table in (daily_spot, daily_spot_totals):
        nanos = select(table.c.day, func.sum(table.c.amount_nanos)).group_by(table.c.day)
        assert dict(connection.execute(nanos).all()) == spot
    for kind, table in (("lifetime", lifetimes), ("storage", storage_spans)):
        pieces: dict[tuple[int, str], list[tuple[datetime, datetime]]] = defaultdict(list)
        for row in connection.execute(select(charges).where(charges.c.span == kind).order_by(charges.c.started_at)):
            pieces[row.span_id, row.resource].append((row.started_at, row.ended_at))
        spans = {row.id: row for row in connection.execute(select(table).where(table.c.unpriced == ""))}
        for (span_id, resource), some in pieces.items():
            if (span := spans.get(span_id)) is None:
                continue
            end = span.charged_to
            if kind == "lifetime" and span.ended_at is not None:
                end = max(span.ended_at, span.started_at + _MINUTE)
            edges = [span.started_at, *(ended_at for _, ended_at in some)]
            assert [started_at for started_at, _ in some] == edges[:-1], (kind, span_id, resource)
            assert end is None or edges[-1] == end, (kind, span_id, resource)


def total_spend(connection: Connection, first: date, now: datetime) -> int:
    """Returns the spend until now: the same however it is grouped, but for the last digits of what still accrues."""
    accrual = Accrual(PriceBook(prices.load(connection)), now)
    totals = set()
    for group_by in _GROUPINGS:
        report = spend(connection, accrual, first, now.date(), group_by)
        totals.add(report.total.machine.nanos + report.total.gpu.nanos + report.total.storage.nanos)
        totals.add(sum(r.amounts.machine.nanos + r.amounts.gpu.nanos + r.amounts.storage.nanos for r in report.rows))
    assert max(totals) - min(totals) < 100, totals  # nano-dollars
    return int(min(totals))


def estimates(connection: Connection) -> int:
    """Counts the lifetimes that ended at a moment that nothing tells exactly."""
    unknown = lifetimes.c.end_is_estimate | (lifetimes.c.end_reason == EndReason.UNKNOWN.value)
    return int(connection.execute(select(func.count()).select_from(lifetimes).where(unknown)).scalar_one())
