"""The bill keeps by the hour what commitments cover and waste, from an export in either of Google's data models."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from sqlalchemy import delete, func, insert, select, update
from tests.bill.exports import NOON, row, summed
from tests.bill.test_commitments import (
    CASES,
    COMMITTED,
    DISCOUNT,
    HOURS,
    NEW_FEE,
    ONE_YEAR,
    drawn_hours,
    fee,
    hour_rows,
)

from costguard.bill.commit_cover import CommitmentHours, commitment_hours
from costguard.bill.commit_words import PartKind, PartOfUse, family_of_fee, part_of_use
from costguard.bill.lines import BillStanding
from costguard.bill.store import store
from costguard.db import tables
from costguard.db.transaction import Database

NOW = datetime(2026, 11, 20, 12, 20, tzinfo=UTC)
HOUR = timedelta(hours=1)
CLOSED = date(2026, 11, 15)


def close(database: Database, day: date = CLOSED) -> None:
    amounts = {column.name: 0 for column in tables.bill_days.c if column.name.endswith("_nanos")}
    values = {"day": day, "project": "acme", "standing": BillStanding.CLOSED.value, "compared_at": NOW}
    with database.write() as connection:
        connection.execute(insert(tables.bill_days).values(values | amounts | {"lines": 0, "differing": 0}))


def read(database: Database, rows: Iterable[dict[str, Any]], *, is_whole: bool = False) -> int:
    return store(database, summed(*rows).partitions(), "a file", NOW, is_whole=is_whole).days_changed


def hours_of(database: Database, days: int = 10) -> CommitmentHours:
    with database.read() as connection:
        return commitment_hours(connection, days)


@pytest.mark.parametrize("is_new", [False, True], ids=["credits", "discounted prices"])
def test_a_generated_export_adds_up_by_the_hour(database: Database, is_new: bool) -> None:
    """Fee, offset, what is left of it, cover and saving of every hour: worked out by hand, to the nano-dollar."""
    used = drawn_hours(1)
    read(database, [one for number, use in enumerate(used) for one in hour_rows(number, use, is_new=is_new)])
    close(database)
    report = hours_of(database)
    by_hour = dict(report.hours)
    assert report.since == NOON
    fee_of_hour = COMMITTED * (1 - DISCOUNT)
    wasted = Decimal(0)
    for number, use in enumerate(used):
        one = by_hour[NOON + number * HOUR]
        covered = min(use, Decimal(COMMITTED))
        assert (one.eligible.dollars, one.covered.dollars, one.fee.dollars) == (use, covered, fee_of_hour)
        assert one.share == (Fraction(covered) / Fraction(use) if use else None)
        assert one.net.dollars == covered - fee_of_hour
        if not is_new:
            assert (one.offset.nanos, one.wasted) == (0, None)
            assert one.saved.dollars == covered
            continue
        assert one.wasted is not None
        assert one.offset.dollars == covered * (1 - DISCOUNT)
        assert one.wasted.dollars == fee_of_hour - one.offset.dollars
        assert one.saved.dollars == covered * DISCOUNT
        wasted += one.wasted.dollars
    assert report.total is not None
    assert report.total.fee.dollars == HOURS * fee_of_hour
    assert report.total.eligible.dollars == sum(used)
    (paid,) = report.fees
    assert paid.use.fee == report.total.fee
    if is_new:
        assert report.total.wasted is not None
        assert report.total.wasted.dollars == wasted


def test_hours_of_the_day_and_places_add_up_to_the_hours(database: Database) -> None:
    """They are sums of the same hours, whichever way these are cut."""
    used = drawn_hours(2)
    read(database, [one for number, use in enumerate(used) for one in hour_rows(number, use, is_new=True)])
    close(database)
    report = hours_of(database)
    assert [hour for hour, _ in report.by_hour_of_day] == list(range(24))
    for hour, one in report.by_hour_of_day:
        of_hour = [covered for at, covered in report.hours if at.hour == hour]
        assert one.eligible.nanos == sum(covered.eligible.nanos for covered in of_hour)
        assert one.wasted is not None
        assert one.wasted.nanos == sum(covered.wasted.nanos for covered in of_hour if covered.wasted is not None)
    (place,) = report.places
    assert (place.kind, place.family, place.region) == (PartKind.HOST, "e2", "us-central1")
    assert report.total is not None
    assert place.use.covered == report.total.covered
    assert report.share_of({(PartKind.HOST, "e2", "us-central1")}) == report.total.share
    assert report.share_of({(PartKind.HOST, "n2", "us-central1")}) is None


def test_a_day_s_sum_hides_what_its_hours_lose(database: Database) -> None:
    """Twelve idle hours and twelve of twice what is committed to: half of the fee is lost, and half the use bare."""
    hours = [Decimal(0 if number < 12 else 80) for number in range(24)]
    read(database, [one for number, use in enumerate(hours) for one in hour_rows(number, use, is_new=True)])
    close(database)
    total = hours_of(database).total
    assert total is not None
    assert total.share == Fraction(1, 2)
    assert total.wasted is not None
    assert total.wasted.nanos * 2 == total.fee.nanos


def test_spot_disks_and_other_products_are_not_eligible(database: Database) -> None:
    """They could not be covered by a commitment to VMs."""
    spot = {"id": "S", "description": "Nvidia Tesla T4 GPU attached to Spot Preemptible VMs running in Americas"}
    disk = {"id": "D", "description": "SSD backed PD Capacity"}
    sql = {"id": "9662-B51E-5089", "description": "Cloud SQL"}
    rows = [
        row(cost="1"),
        row(2, cost="2", sku=spot),
        row(3, cost="4", sku=disk),
        row(4, cost="8", service=sql),
        row(5, cost="16", cost_type="tax"),
    ]
    read(database, rows)
    close(database)
    total = hours_of(database).total
    assert total is not None
    assert total.eligible.dollars == 1


def test_another_currency_is_counted_in_dollars(database: Database) -> None:
    """Euros at two to the dollar: exact to the nano-dollar, next to rows in dollars."""
    euros: dict[str, Any] = {"currency": "EUR", "currency_conversion_rate": "2"}
    offset = [{"type": "FEE_UTILIZATION_OFFSET", "name": "f", "id": "f", "amount": "-3"}]
    prices: dict[str, Any] = {"cost_at_list": "4", "cost_at_effective_price_default": "4"}
    covered = row(cost="3", consumption_model=ONE_YEAR, **prices, **euros)
    read(database, [covered, fee(NEW_FEE, "7", credits=offset, **euros), row(2, cost="1")])
    close(database)
    total = hours_of(database).total
    assert total is not None
    assert (total.eligible.dollars, total.covered.dollars, total.saved.dollars) == (
        Decimal(3),
        Decimal(2),
        Decimal("0.5"),
    )
    assert total.wasted is not None
    assert total.wasted.dollars == 2


def forget_hours(database: Database) -> None:
    """Leaves the bill as a version left it that kept no hours."""
    with database.write() as connection:
        connection.execute(delete(tables.bill_commitment_hours))
        connection.execute(update(tables.bill_partitions).values(has_hours=False))


def test_reading_again_fills_in_hours_of_days_read_before(database: Database) -> None:
    """Once, where all rows are read again; a part of a day fills in nothing, and the day is named."""
    rows = [one for number in range(4) for one in hour_rows(number, Decimal(20), is_new=True)]
    read(database, rows)
    close(database)
    before = hours_of(database)
    forget_hours(database)
    without = hours_of(database)
    assert (without.total, without.days_without) == (None, [NOON.date()])
    late = row(2, NOON, NOON + 8 * HOUR, cost="1")
    assert read(database, [late]) == 1  # another append of that day: its hours alone would be a part
    assert hours_of(database).days_without == [NOON.date()]
    assert read(database, [*rows, late]) == 1
    assert read(database, [*rows, late]) == 0
    after = hours_of(database)
    assert not after.days_without
    assert before.total is not None
    assert after.total is not None
    assert after.total.eligible.nanos == before.total.eligible.nanos + 10**9
    assert after.total.fee == before.total.fee


def test_later_appends_of_a_day_are_added(database: Database) -> None:
    """The hours of one append stay when another brings more of them; the same one again adds nothing."""
    first, late = row(cost="1"), row(2, NOON, NOON + 8 * HOUR, cost="2")
    read(database, [first])
    read(database, [late])
    read(database, [late])
    close(database)
    (one, *rest) = [covered for _, covered in hours_of(database).hours]
    assert one.eligible.dollars == 3
    assert not any(covered.eligible.nanos for covered in rest)
    with database.read() as connection:
        assert connection.scalar(select(func.count()).select_from(tables.bill_commitment_hours)) == 1


def test_without_a_closed_day_nothing_is_said(database: Database) -> None:
    """Rows of an open day are still to come."""
    read(database, [row()])
    assert hours_of(database) == CommitmentHours(None)


@pytest.mark.parametrize("case", CASES, ids=[case["test"] for case in CASES])
def test_credits_of_cases_by_google_s_engineers_are_covered_use(
    sqlite_database: Database, case: Mapping[str, Any]
) -> None:
    """Fees are those of the rows that say "commitment v1"; what their credits take off is covered, in its region.

    GoogleCloudPlatform/professional-services, cuds-prioritized-attribution, in the schema of 2019: rows of four hours
    count to the hour in which they begin.
    """
    rows = case["rows"]
    fees = [one for one in rows if one["sku"]["description"].startswith("commitment v1")]
    credits = [credit for one in rows for credit in one.get("credits", [])]
    committed = sum(Decimal(one["amount"]) for one in credits if one["name"].startswith("Committed"))
    read(sqlite_database, rows)
    close(sqlite_database, date(2019, 12, 31))
    report = hours_of(sqlite_database, 400)
    assert report.total is not None
    assert report.total.fee.dollars == sum(Decimal(one["cost"]) for one in fees)
    assert report.total.covered.dollars == -committed
    assert (report.total.saved, report.total.wasted) == (report.total.covered, None)
    assert sum(one.use.covered.nanos for one in report.places) == report.total.covered.nanos
    assert {one.region for one in report.fees} == {one["location"]["region"] for one in fees}
    assert {one.family for one in report.places} <= {"n1", "n2", "e2", "c2", "m1"}


def test_google_s_own_coverage_of_a_day(database: Database) -> None:
    """BU-cud: of 184590 s of N1 cores for 1.620846 a credit of 1.296641 covers 147668.07 s, by the query's division."""
    credits = [
        {"type": "COMMITTED_USAGE_DISCOUNT", "name": "c", "id": "c", "amount": "-1.296641"},
        {"type": "SUSTAINED_USAGE_DISCOUNT", "name": "s", "id": "s", "amount": "-0.129677"},
    ]
    cores = {"id": "2E27-4F75-95CD", "description": "N1 Predefined Instance Core running in Americas"}
    read(database, [row(cost="1.620846", seconds="184590", sku=cores, credits=credits)])
    close(database)
    (place,) = hours_of(database).places
    assert place.use.share is not None
    assert abs(float(place.use.share * 184590) - 147668.06959875411) < 0.2  # costs are cut at a millionth


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        # As the catalogue prints them: tests/gce/test_sku_families.py has the same words.
        ("N2 Instance Core running in Americas", (PartKind.HOST, "n2")),
        ("N2D AMD Instance Ram running in Americas", (PartKind.HOST, "n2d")),
        ("N2 Custom Extended Instance Ram running in Americas", (PartKind.HOST, "n2")),
        ("N1 Predefined Instance Core running in Americas", (PartKind.HOST, "n1")),
        ("N1 Standard Instance Ram running in Americas", (PartKind.HOST, "n1")),
        ("Custom Instance Core running in Americas", (PartKind.HOST, "n1")),
        ("Compute optimized Core running in Americas", (PartKind.HOST, "c2")),
        ("Memory-optimized Instance Ram running in Americas", (PartKind.HOST, "m1")),
        ("A3Plus Instance Core running in Americas", (PartKind.HOST, "a3")),
        ("Nvidia Tesla T4 GPU running in Americas", (PartKind.GPU, "n1")),
        ("Nvidia Tesla A100 80GB GPU running in Americas", (PartKind.GPU, "a2")),
        ("A4 Nvidia B200 (1 gpu slice) running in Americas", (PartKind.GPU, "a4")),
        ("RTX 6000 96GB running in Americas", (PartKind.GPU, "g4")),
        ("TpuV5e running in Americas", (PartKind.GPU, "v5e")),
        ("TPU7x running in Americas", (PartKind.GPU, "tpu7x")),
        ("SSD backed Local Storage", (PartKind.SSD, "")),
        ("Spot Preemptible N2 Instance Core running in Americas", None),
        ("Nvidia Tesla T4 GPU attached to Spot Preemptible VMs running in Americas", None),
        ("SSD backed Local Storage attached to Spot Preemptible VMs", None),
        ("DWS Defined Duration A2 Instance Core running in Americas", None),
        ("Commitment v1: N2 Cpu in Americas for 1 Year", None),
        ("SSD backed PD Capacity", None),
        ("Network Internet Egress from Americas to Americas", None),
    ],
)
def test_the_words_of_a_sku_say_the_part(words: str, expected: tuple[PartKind, str] | None) -> None:
    """A SKU has no other field that tells Spot from on demand, and one part from another."""
    assert part_of_use(words) == (None if expected is None else PartOfUse(*expected))


@pytest.mark.parametrize(
    ("words", "family"),
    [
        ("Commitment v1: A2 Cpu in APAC for 1 Year", "a2"),
        ("Commitment v1: N2D AMD Cpu in Americas for 1 Year", "n2d"),
        ("Commitment v1: Cpu in Americas for 1 Year", "n1"),
        ("commitment v1: ram in americas for 3 year", "n1"),
        ("Commitment v1: Nvidia Tesla T4 GPU running in Americas for 3 Years", "n1"),
        ("Commitment - dollar based v1: GCE for 1 year", ""),
    ],
)
def test_the_words_of_a_fee_say_the_family(words: str, family: str) -> None:
    """A commitment to spend is of no family."""
    assert family_of_fee(words) == family
