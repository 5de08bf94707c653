"""A year of storage in the ledger, charged day by day as the guard does it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from fractions import Fraction
from itertools import pairwise

import pytest
from sqlalchemy import Connection, func, select
from tests.ledger.test_charging import Ledger
from tests.within import charge_due

from costguard.db.tables import charges, daily_owners, daily_presets, daily_spend, daily_totals
from costguard.db.transaction import Database
from costguard.ledger import prices
from costguard.ledger.accrual import accrual_at
from costguard.model.billing.billing_month import billing_month
from costguard.model.instance import ProvisioningModel
from costguard.model.money import Money
from costguard.model.price import Price, PriceKey, Unit
from costguard.spend.spend import spend

DAY, HOUR = timedelta(days=1), timedelta(hours=1)
GIB = 500
MONTHLY = {"disk:pd-ssd": 170_000_000, "suspended-memory": 155_000_000}
EARLY = datetime(2020, 1, 1, tzinfo=UTC)
PRICES = [
    Price(PriceKey(resource, "us-central1", ProvisioningModel.STANDARD), Unit.GIB_MONTH, nanos, EARLY, "test")
    for resource, nanos in MONTHLY.items()
]
CENT = Money.of("0.01").nanos


@pytest.mark.parametrize("year", [2024, 2025])
def test_a_year_of_500_gib_costs_twelve_monthly_prices(database: Database, year: int) -> None:
    """The year is from New Year to New Year in Pacific time: each month its price, and all sums alike, to the cent."""
    starts = [datetime(year, month, 1, 8 if month in (1, 2, 3, 12) else 7, tzinfo=UTC) for month in range(1, 13)]
    starts.append(datetime(year + 1, 1, 1, 8, tzinfo=UTC))
    assert starts == [billing_month(start)[0] for start in starts]
    with database.write() as connection:
        prices.add(connection, PRICES, starts[0])
        ledger = Ledger(connection)
        for resource in MONTHLY:
            ledger.disk(starts[0], starts[-1], resource=resource, size_mib=GIB * 1024)
        at = starts[0]
        while at < starts[-1] + DAY:
            charge_due(connection, at)
            at += DAY
        _assert_months(connection, starts)
        year_price = 12 * GIB * sum(MONTHLY.values())
        sums = [connection.scalar(select(func.sum(table.c.storage_nanos))) for table in _ROLLED]
        assert sums == [ledger.total()] * len(_ROLLED)
        assert abs(ledger.total() - year_price) < CENT // 2


_ROLLED = (daily_spend, daily_totals, daily_presets, daily_owners)


def _assert_months(connection: Connection, starts: list[datetime]) -> None:
    for start, end in pairwise(starts):
        for resource, nanos in MONTHLY.items():
            of_month = select(func.sum(charges.c.amount_nanos)).where(
                charges.c.resource == resource, charges.c.started_at >= start, charges.c.ended_at <= end
            )
            amount = connection.scalar(of_month)
            assert amount is not None
            assert abs(int(amount) - GIB * nanos) < CENT // 2, (start, resource)


@pytest.mark.parametrize(
    "month_end",
    [datetime(2024, 3, 1, 8, tzinfo=UTC), datetime(2024, 11, 1, 7, tzinfo=UTC)],
    ids=["February", "October"],
)
def test_what_has_accrued_is_right_at_any_moment_around_a_month_s_end(database: Database, month_end: datetime) -> None:
    """Stored days and the running one together: every hour of two days costs the share of its own month."""
    start, gib_nanos = month_end - 30 * HOUR, GIB * MONTHLY["disk:pd-ssd"]
    lengths = [(end - begin) // timedelta(seconds=1) for begin, end in map(billing_month, (start, month_end))]
    with database.write() as connection:
        prices.add(connection, PRICES, start)
        Ledger(connection).disk(start, size_mib=GIB * 1024)
        for hours in range(1, 61):
            now = start + hours * HOUR
            charge_due(connection, now)
            before, after = min(hours, 30) * 3600, max(0, hours - 30) * 3600
            exact = Fraction(gib_nanos * before, lengths[0]) + Fraction(gib_nanos * after, lengths[1])
            accrued = spend(connection, accrual_at(connection, now), start.date(), now.date(), []).total.storage
            assert abs(accrued.nanos - exact) <= 5, hours
