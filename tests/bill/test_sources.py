"""Bills of several accounts and currencies, and an export without rows of a project."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from tests.bill.test_comparing import DAYS, compare, days, exported_days, filled, gce_id, later_row, read, rows_of_vm

from costguard.db.transaction import Database


@pytest.fixture
def ledger(database: Database) -> Database:
    """A T4 with its disk from 9 November on."""
    return filled(database)


def of_account(account: str, exported: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**row, "billing_account_id": account} for row in exported]


@pytest.mark.parametrize(("old", "new"), [("A", "B"), ("B", "A")])
@pytest.mark.parametrize("is_old_one_read", [True, False])
def test_project_that_changed_its_billing_account_is_compared(
    ledger: Database, old: str, new: str, is_old_one_read: bool
) -> None:
    """Each day by the account with its rows; late rows of the old one are waited for, as long as it is read or not."""
    with ledger.read() as connection:
        mine = gce_id(connection)
    read(ledger, of_account(old, rows_of_vm("trainer", mine, DAYS[0], date(2026, 11, 12))))
    read(ledger, of_account(new, rows_of_vm("trainer", mine, date(2026, 11, 13), date(2026, 11, 19))))
    if is_old_one_read:
        read(ledger, of_account(old, later_row()))
    compare(ledger)
    standings = {day.day: row.standing for day, row in days(ledger).items()}
    assert [standings[day] for day in (9, 13, 14, 15, 16)] == ["closed"] * 5
    assert [standings[day] for day in (10, 11, 12)] == ["closed" if is_old_one_read else "open"] * 3
    assert {row.differing for row in days(ledger).values()} == {0}


def test_day_in_two_currencies_agrees(ledger: Database) -> None:
    """Half a day of dollars and half a day of euros are one day, for a project whose new billing account is in
    euros.
    """
    exported = exported_days(ledger)
    for row in exported:
        if row["usage_start_time"] >= "2026-11-10 12":
            row["currency"], row["currency_conversion_rate"] = "EUR", "0.5"
            for name in ("cost", "cost_at_list"):
                row[name] = str(Decimal(row[name]) / 2)
    read(ledger, exported)
    compare(ledger)
    day = days(ledger)[date(2026, 11, 10)]
    assert (day.standing, day.differing) == ("closed", 0)
    assert abs(day.list_nanos - day.ledger_nanos) < 100_000


def test_months_without_rows_are_missing_and_not_agreed(ledger: Database) -> None:
    """An export that goes on without any row of the project: what the ledger charges is missing, once a day closes."""
    read(ledger, rows_of_vm("trainer", "1", date(2026, 11, 9), date(2026, 11, 9)))
    read(ledger, later_row())
    compare(ledger)
    row = days(ledger)[date(2026, 11, 12)]
    assert (row.standing, row.differing, row.list_nanos) == ("closed", 4, 0)
