"""Charges on their way to FOCUS: each counts once, and its parts are whole together."""

from __future__ import annotations

from datetime import timedelta
from fractions import Fraction

from tests.api import rows
from tests.api.rows import NOW
from tests.within import charge_due

from costguard.db.transaction import Database
from costguard.model.lifetime import Charge
from costguard.model.money import ZERO, Money
from costguard.spend.focus_rows import FocusExport, parted

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)


def test_parts_of_a_charge_are_whole_together() -> None:
    """The parts add up to the second and the nano-dollar, however a label's changes cut it; those outside of it cut
    nothing.
    """
    start = NOW - HOUR
    charge = Charge("n1:core", start.date(), start, NOW, 3600, Fraction(4), 1, Money(1_000_000_007))
    cuts = [start - MINUTE, start, start + 7 * MINUTE, start + 33 * MINUTE, NOW, NOW + MINUTE]
    parts = list(parted(charge, cuts))
    assert [part.started_at for part in parts] == [start, start + 7 * MINUTE, start + 33 * MINUTE]
    assert [part.ended_at for part in parts] == [start + 7 * MINUTE, start + 33 * MINUTE, NOW]
    assert sum((part.amount for part in parts), start=ZERO) == charge.amount
    assert sum(part.seconds for part in parts) == 3600


def test_charges_that_are_stored_during_an_export_count_once(database: Database) -> None:
    """The accrued part is fixed at its beginning; a pass may store it, up to midnight, before its day is read."""
    begun = NOW - 30 * HOUR
    with database.write() as connection:
        rows.prices(connection)
        rows.lifetime(connection, rows.instance(connection, "trainer"), begun)
    first = begun.date()
    quiet, disturbed = (FocusExport(database, NOW, first, NOW.date()) for _ in range(2))
    total = sum((one.charge.amount for one in quiet), start=ZERO)
    with database.write() as connection:
        assert charge_due(connection, NOW).charges > 0
    assert total > ZERO
    assert sum((one.charge.amount for one in disturbed), start=ZERO) == total
