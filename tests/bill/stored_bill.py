"""A stored comparison with something of everything: agreed, differing and open days, savings, an unused reservation."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime
from fractions import Fraction

from tests.bill.two_sides import EURO, TwoSides, credited

from costguard.bill.compared_rows import store_day
from costguard.bill.lines import BillStanding
from costguard.db.transaction import Database
from costguard.model.billing.bill import BilledKind

NOW = datetime(2026, 11, 20, 9, tzinfo=UTC)
DAYS = [date(2026, 11, day) for day in (14, 15, 16, 17)]


def tell(database: Database) -> None:
    """Records differences: of 15 November a VM is missing on the bill and another has too many seconds; the 17th is
    open.
    """
    for number, day in enumerate(DAYS):
        standing = BillStanding.OPEN if day.day == 17 else BillStanding.CLOSED
        comparison = _sides(number, day).compared(standing)
        standings = {f"train-{project}": standing for project in range(2)}
        with database.write() as connection:
            store_day(connection, comparison, standings, NOW)


def _sides(number: int, day: date) -> TwoSides:
    sides = TwoSides.drawn(number, EURO, day=day)
    sides.change("train-0", "n1:core", lambda row: credited(row, "SUSTAINED_USAGE_DISCOUNT", Fraction(1, 5)))
    sides.change("train-2", "n1:core", lambda row: credited(row, "COMMITTED_USAGE_DISCOUNT", Fraction(1, 2)))
    a_row = sides.rows[0]
    sides.rows += [
        replace(a_row, is_unused_reservation=True, reservation_name="spare-a100s"),
        replace(a_row, sku_id="FEE", sku_text="Commitment v1: Cpu in Americas for 1 Year", kind=BilledKind.NONE),
        replace(a_row, sku_id="NET", sku_text="Network Internet Egress", unit="bytes", list_nanos=None),
    ]
    if day.day == 15:
        sides.without("train-1")
        thing = next(use.thing for use in sides.uses if use.name == "train-3")
        sides.rows.append(sides.row(thing, "train-3", thing.id, "n1:core", Fraction(8 * 3600), 3))
    return sides
