"""Commitments save and cost money in both of Google's data models, by Google's examples and queries."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from tests.bill.exports import EXPORTED, NOON, row

from costguard.bill.commitments import is_fee
from costguard.bill.compare import Context, compare_day
from costguard.bill.compared_rows import store_day
from costguard.bill.export_row import read_row
from costguard.bill.lines import BillStanding
from costguard.bill.report import BillReport, bill_report
from costguard.bill.sums import SoldAs
from costguard.db.transaction import Database

ONE_YEAR, DEFAULT = {"id": "D97B-0795-975B"}, {"id": "7754-699E-0EBF"}  # consumption models
NEW_FEE = {"id": "5515-81A8-03A2", "description": "Compute Flexible CUDs fee - 1 Year"}
OLD_FEE = {"id": "F61D-4D51-AAFC", "description": "Commitment - dollar based v1: GCE for 1 year"}
CASES = json.loads((Path(__file__).parent / "credit_cases.json").read_text("utf-8"))["cases"]


def report_of(database: Database, rows: Sequence[Mapping[str, Any]], *, is_watched: bool = True) -> BillReport:
    """Each day's rows, compared with an empty ledger."""
    bill = [read_row(one).bill_row() for one in rows]
    days = sorted({one.utc_day for one in bill})
    context = Context(lambda _, text: _sold(text), lambda _: BillStanding.CLOSED, lambda _: is_watched)
    projects = {one.project_id for one in bill}
    with database.write() as connection:
        for day in days:
            comparison = compare_day(day, [], bill, context)
            store_day(connection, comparison, dict.fromkeys(projects, BillStanding.CLOSED), EXPORTED)
        return bill_report(connection, days[0], days[-1])


def _sold(text: str) -> SoldAs | None:
    return SoldAs("e2:core", "standard") if text.startswith("E2 Instance Core") else None


def fee(sku: Mapping[str, str], cost: str, **fields: Any) -> dict[str, Any]:
    return row(sku=sku, cost=cost, resource=None, usage={"amount": "1", "unit": "count"}, **fields)


def old_model(usage: str, fee_cost: str, credit: str) -> list[dict[str, Any]]:
    credits = [{"type": "COMMITTED_USAGE_DISCOUNT_DOLLAR_BASE", "name": "c", "id": "c", "amount": f"-{credit}"}]
    return [row(cost=usage, credits=credits), fee(OLD_FEE, fee_cost)]


def new_model(usage: str, fee_cost: str, at_discount: str) -> list[dict[str, Any]]:
    """Usage of `usage` dollars at list price, all of it covered."""
    offset = [{"type": "FEE_UTILIZATION_OFFSET", "name": "f", "id": "f", "amount": f"-{at_discount}"}]
    discounted: dict[str, Any] = {
        "consumption_model": ONE_YEAR,
        "cost_at_list": usage,
        "cost_at_effective_price_default": usage,
    }
    return [row(cost=at_discount, **discounted), fee(NEW_FEE, fee_cost, credits=offset)]


@pytest.mark.parametrize("is_watched", [True, False], ids=["in the ledger's projects", "elsewhere"])
@pytest.mark.parametrize(
    ("rows", "saved", "paid", "unused"),
    [
        # "Example of usage equaling commitment": $50 an hour on demand, 25 % off, fee $37.50
        # (docs.cloud.google.com/billing/docs/how-to/cud-analysis-spend-based), in the model before and since.
        (old_model("50", "37.50", "50"), "50", "37.5", None),
        (new_model("50", "37.50", "37.50"), "12.5", "0", "0"),
        # Half of it used: the same bill in both, by the same page's arithmetic.
        (old_model("25", "37.50", "25"), "25", "37.5", None),
        (new_model("25", "37.50", "18.75"), "6.25", "18.75", "18.75"),
    ],
    ids=["former, used", "used", "former, half used", "half used"],
)
def test_both_models_tell_the_same_net_savings(
    sqlite_database: Database,
    rows: list[dict[str, Any]],
    saved: str,
    paid: str,
    unused: str | None,
    is_watched: bool,
) -> None:
    """A reader of credits alone would see no saving in the model since 2025."""
    commitments = report_of(sqlite_database, rows, is_watched=is_watched).commitments
    assert (commitments.saved.dollars, commitments.paid.dollars) == (Decimal(saved), Decimal(paid))
    assert commitments.net.dollars == Decimal(saved) - Decimal(paid)
    assert (None if commitments.unused is None else commitments.unused.dollars) == (
        None if unused is None else Decimal(unused)
    )
    assert [one.cost.dollars for one in commitments.fees] == [Decimal("37.5")]  # before what use took off


HOURS = 5 * 24
COMMITTED, DISCOUNT = 40, Decimal("0.28")  # dollars of use an hour at list price, for a year


def drawn_hours(seed: int) -> list[Decimal]:
    """Use of each hour at list price, in cents: often less than what is committed to, and often more."""
    chance = random.Random(seed)
    return [Decimal(chance.choice((0, chance.randrange(3_000), chance.randrange(9_000)))) / 100 for _ in range(HOURS)]


def hour_rows(number: int, use: Decimal, *, is_new: bool) -> list[dict[str, Any]]:
    """Makes the rows that Google bills for an hour, in one model or the other."""
    hour = NOON + number * timedelta(hours=1)
    covered, cost = min(use, Decimal(COMMITTED)), COMMITTED * (1 - DISCOUNT)
    if not is_new:
        credit = {"type": "COMMITTED_USAGE_DISCOUNT_DOLLAR_BASE", "name": "c", "id": "c", "amount": f"{-covered}"}
        return [row(hour=hour, cost=f"{use}", credits=[credit]), fee(OLD_FEE, f"{cost}", hour=hour)]
    at_discount = covered * (1 - DISCOUNT)
    offset = {"type": "FEE_UTILIZATION_OFFSET", "name": "f", "id": "f", "amount": f"{-at_discount}"}
    prices: dict[str, Any] = {"cost_at_list": f"{covered}", "cost_at_effective_price_default": f"{covered}"}
    return [
        row(hour=hour, cost=f"{at_discount}", seconds="1800", consumption_model=ONE_YEAR, **prices),
        row(hour=hour, cost=f"{use - covered}", seconds="1800", consumption_model=DEFAULT),
        fee(NEW_FEE, f"{cost}", hour=hour, credits=[offset]),
    ]


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("is_new", [False, True], ids=["credits", "discounted prices"])
def test_a_generated_export_adds_up_to_the_cent(sqlite_database: Database, is_new: bool, seed: int) -> None:
    """Fee, offset, what is left of it and the saving: hour by hour by hand, in either model the same in the end."""
    hours = drawn_hours(seed)
    rows = [one for number, use in enumerate(hours) for one in hour_rows(number, use, is_new=is_new)]
    commitments = report_of(sqlite_database, rows).commitments
    covered = sum((min(use, Decimal(COMMITTED)) for use in hours), Decimal(0))
    fees = HOURS * COMMITTED * (1 - DISCOUNT)
    (one,) = commitments.fees
    assert one.cost.dollars == fees
    assert commitments.net.dollars == covered - fees  # list price of what it covered, less what it cost
    if not is_new:
        assert (commitments.paid.dollars, commitments.saved.dollars) == (fees, covered)
        assert (one.used, one.unused, one.used_percent, commitments.unused) == (None, None, None, None)
        return
    used = covered * (1 - DISCOUNT)
    assert one.used is not None
    assert one.unused is not None
    assert (one.used.dollars, one.unused.dollars) == (used, fees - used)
    assert one.used_percent == int(100 * used / fees)
    assert commitments.unused == one.unused
    assert commitments.paid.dollars == fees - used
    assert commitments.saved.dollars == covered * DISCOUNT


def test_a_fee_that_nothing_used_is_unused(sqlite_database: Database) -> None:
    """Such a fee has no offset; its SKU says that it would have one."""
    commitments = report_of(sqlite_database, [row(cost="1"), fee(NEW_FEE, "37.5", credits=[])]).commitments
    assert commitments.unused is not None
    assert commitments.unused.dollars == commitments.paid.dollars == Decimal("37.5")


def test_a_contract_is_told_from_a_commitment(sqlite_database: Database) -> None:
    """Google's query: what a commitment saves is cost less cost_at_effective_price_default; list less that is the
    contract's (docs.cloud.google.com/docs/cuds-example-queries)."""
    one = row(cost="60", cost_at_list="100", cost_at_effective_price_default="80", consumption_model=ONE_YEAR)
    other = row(2, cost="80", cost_at_list="100", cost_at_effective_price_default="80", consumption_model=DEFAULT)
    (day,) = report_of(sqlite_database, [one, other]).days
    assert (day.savings.committed, day.savings.contract) == (20 * 10**9, 40 * 10**9)


def test_fees_of_other_products_are_no_commitments_of_vms(sqlite_database: Database) -> None:
    """Cloud SQL's are listed with the rest: no VM saves by them."""
    sql = {"id": "9662-B51E-5089", "description": "Cloud SQL"}
    offset = [{"type": "FEE_UTILIZATION_OFFSET", "name": "f", "id": "f", "amount": "-1"}]
    other = fee({"id": "7BE0-E374-B1EB", "description": "Cloud SQL CUD fee"}, "3", credits=offset, service=sql)
    report = report_of(sqlite_database, [row(cost="1"), other])
    assert not report.commitments.fees
    assert report.commitments.unused is None
    assert [one.name for one in report.outside] == ["Cloud SQL CUD fee"]


@pytest.mark.parametrize("case", CASES, ids=[case["test"] for case in CASES])
def test_credits_without_a_type_are_known_by_name(sqlite_database: Database, case: Mapping[str, Any]) -> None:
    """Rows before September 2020 have no credits.type; cases that Google's engineers wrote in their schema."""
    rows = case["rows"]
    fees = sum(Decimal(one["cost"]) for one in rows if one["sku"]["description"].startswith("commitment v1"))
    credits = [credit for one in rows for credit in one.get("credits", [])]
    committed = sum(Decimal(one["amount"]) for one in credits if one["name"].startswith("Committed"))
    commitments = report_of(sqlite_database, rows).commitments
    assert commitments.paid.dollars == fees
    assert commitments.saved.dollars == -committed
    types = {credit.type for one in rows for credit in read_row(one).credits}
    assert types <= {"COMMITTED_USAGE_DISCOUNT", "SUSTAINED_USAGE_DISCOUNT"}


@pytest.mark.parametrize(
    ("sku", "expected"),
    [
        ({"id": "B22F-51BE-D599", "description": "words of any kind"}, True),
        ({"id": "6723-40D7-8BDC", "description": "words of any kind"}, True),
        ({"id": "X", "description": "Commitment v1: Cpu in Americas for 1 Year"}, True),
        ({"id": "X", "description": "E2 Instance Core running in Americas"}, False),
    ],
)
def test_a_fee_is_known_by_its_id_or_its_words(sku: Mapping[str, str], expected: bool) -> None:
    """Ids: docs.cloud.google.com/docs/cuds-migration, of Compute flexible commitments before and since 2025."""
    assert is_fee(read_row(fee(sku, "1")).bill_row()) is expected
