"""The ledger's own arithmetic against rows that Google's billing export wrote."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from costguard.ledger.price_book import PriceBook
from costguard.ledger.pricing import amount_of, bill_lifetime, bill_storage
from costguard.model.instance import InstanceKey, ProvisioningModel, Shape
from costguard.model.lifetime import Charge, Lifetime, StorageSpan
from costguard.model.money import Money
from costguard.model.price import Price, PriceKey, Unit

ROWS: dict[str, Any] = {
    row["id"]: row["fields"] for row in json.loads(Path(__file__).with_name("recorded_bill.json").read_text())["rows"]
}
GIB = 2**30
HOUR = timedelta(hours=1)
STANDARD = ProvisioningModel.STANDARD
KEY = InstanceKey("p", "1")
ZONE = "us-central1-a"
# Costs are cut at six decimals, and what was cut off is carried now and then: a row lies this far from the product.
BELOW, ABOVE = Decimal("-0.000002"), Decimal("0.000001")
# List prices in us-central1 at the time (cloud.google.com/compute/vm-instance-pricing).
E2_CORE, E2_RAM = "0.02181159", "0.00292353"
N1_CORE, N1_RAM, T4 = "0.031611", "0.004237", "0.35"


def price(resource: str, dollars: str, unit: Unit = Unit.HOUR, region: str = "us-central1") -> Price:
    return Price(
        PriceKey(resource, region, STANDARD), unit, Money.of(dollars).nanos, datetime(2018, 1, 1, tzinfo=UTC), ""
    )


BOOK = PriceBook(
    [
        price("e2:core", E2_CORE),
        price("e2:ram", E2_RAM, Unit.GIB_HOUR),
        price("n1:core", N1_CORE),
        price("n1:ram", N1_RAM, Unit.GIB_HOUR),
        price("gpu:nvidia-tesla-t4", T4),
        price("disk:pd-balanced", "0.1", Unit.GIB_MONTH),
    ]
)


def rows(prefix: str) -> list[Any]:
    return [fields for name, fields in ROWS.items() if name.startswith(prefix)]


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text.replace(" UTC", "+00:00"))


def in_pricing_units(charges: Iterable[Charge], unit: Unit) -> Decimal:
    """Returns amounts as the export prints them: cut at nine decimals."""
    exact = sum((charge.quantity * charge.seconds / unit.seconds(charge.started_at) for charge in charges), Fraction(0))
    return Decimal(int(exact * 10**9)).scaleb(-9)


def assert_billed(recorded: str, exact: Money, count: int = 1) -> None:
    """`count` rows are in the recorded sum."""
    assert count * BELOW <= Decimal(recorded) - exact.dollars <= count * ABOVE


def test_a_disk_s_row_is_a_part_of_its_calendar_month() -> None:
    """The whole row of an SSD disk in May 2024 (V-disk): quantity to the last digit, cost in euros."""
    row = ROWS["V-disk"]
    start = moment(row["usage_start_time"])
    gib_seconds = Fraction(int(row["usage"]["amount"]), GIB)
    seconds = 3815  # the row's 190,750 GiB-seconds are no whole number of GiB in an hour; they are 50 in so many
    assert gib_seconds == 50 * seconds
    book = PriceBook([price("disk:pd-ssd", row["price"]["effective_price"], Unit.GIB_MONTH, "europe-west4")])
    end = start + timedelta(seconds=seconds)
    (charge,) = bill_storage(
        StorageSpan(KEY, "d", "disk:pd-ssd", 50 * 1024, "europe-west4-a", start, end), book, end
    ).charges
    assert in_pricing_units([charge], Unit.GIB_MONTH) == Decimal(row["usage"]["amount_in_pricing_units"])
    assert_billed(row["cost"], charge.amount)


def test_a_monthly_price_is_divided_by_the_pacific_month() -> None:
    """A row of the last evening of August 2025 in Pacific time (K-kms), priced by the month alone."""
    row = ROWS["K-kms"]
    start = datetime.fromtimestamp(int(Decimal(row["usage_start_time"])), UTC)
    seconds = int(Decimal(row["usage"]["amount"]))
    units = Fraction(seconds, Unit.GIB_MONTH.seconds(start))
    assert Decimal(int(units * 10**9)).scaleb(-9) == Decimal(row["usage"]["amount_in_pricing_units"])
    monthly = price("key", row["price"]["effective_price"], Unit.GIB_MONTH)
    assert_billed(row["cost"], amount_of(monthly, Fraction(1), seconds, start))


def test_a_march_has_743_hours() -> None:
    """Three equal usages of a balanced disk in a March (G-pd), which loses an hour: 10 GiB for an hour."""
    march = datetime(2023, 3, 20, tzinfo=UTC)
    span = StorageSpan(KEY, "d", "disk:pd-balanced", 10 * 1024, ZONE, march, march + HOUR)
    (charge,) = bill_storage(span, BOOK, march + HOUR).charges
    billed = rows("G-pd")
    assert len(billed) == 3
    for row in billed:
        assert charge.quantity * charge.seconds * GIB == int(Decimal(row["usage"]["amount"]))
        assert in_pricing_units([charge], Unit.GIB_MONTH) == Decimal(row["usage"]["amount_in_pricing_units"])
        assert_billed(row["cost"], charge.amount)
    assert_billed(str(sum(Decimal(row["cost"]) for row in billed)), Money(3 * charge.amount.nanos), 3)


def hours_of(run: Lifetime) -> dict[tuple[datetime, str], Fraction]:
    """Units times seconds of each hour and resource, as the ledger's bill of that hour has them."""
    assert run.ended_at is not None
    fractions: dict[tuple[datetime, str], Fraction] = {}
    at = run.started_at.replace(minute=0, second=0)
    while at < run.ended_at:
        for charge in bill_lifetime(run, BOOK, at + HOUR, since=at).charges:
            fractions[at, charge.resource] = charge.quantity * charge.seconds
        at += HOUR
    return fractions


def test_seconds_of_gpus_cores_and_memory_are_exact() -> None:
    """An n1-standard-4 with a T4 that ran for 81 minutes (G-t4): each hour's seconds to the last digit."""
    start = moment("2026-02-10 04:00:00 UTC")
    shape = Shape("n1-standard-4", 4, 15 * 1024, "nvidia-tesla-t4", 1)
    used = hours_of(Lifetime(KEY, start, shape, STANDARD, ZONE, start + timedelta(minutes=81)))
    names = {"Core": ("n1:core", 1), "Ram": ("n1:ram", GIB), "GPU": ("gpu:nvidia-tesla-t4", 1)}
    billed = rows("G-t4")
    assert len(billed) == len(used) == 6
    for row in billed:
        resource, of_unit = next(names[word] for word in names if f" {word} " in row["sku"]["description"])
        assert used[moment(row["usage_start_time"]), resource] * of_unit == int(row["sum_usage_amount"])


def test_weeks_of_t4_hosts_have_four_cores_and_15_gib_a_gpu() -> None:
    """Sums of two projects (G-vx) keep the shape; GPU and host seconds of a project differ by half a percent."""
    sums: dict[str, dict[str, Fraction]] = defaultdict(dict)
    for row in rows("G-vx"):
        word = row["sku"]["description"].rsplit(" running", 1)[0].rsplit(" ", 1)[1]
        sums[row["project"]["id"]][word] = Fraction(row["sum_usage_amount"])
    assert len(sums) == 2
    for used in sums.values():
        assert abs(used["Core"] / used["GPU"] - 4) < Fraction(4, 100)
        assert abs(used["Ram"] / GIB / used["GPU"] - 15) < Fraction(15, 200)


def test_an_e2_medium_bills_one_core() -> None:
    """Hours of one VM, in and outside reservations (G-res1), sum up to the seconds of one core, though it shows two."""
    recorded: dict[datetime, int] = defaultdict(int)
    for row in rows("G-res1"):
        recorded[moment(row["usage_start_time"])] += row["sum_usage_amount"]
    first, last = min(recorded), max(recorded)
    start, end = first + HOUR - timedelta(seconds=recorded[first]), last + timedelta(seconds=recorded[last])
    used = hours_of(Lifetime(KEY, start, Shape("e2-medium", 2, 4096), STANDARD, ZONE, end))
    assert {at: int(units) for (at, resource), units in used.items() if resource == "e2:core"} == recorded


@pytest.mark.parametrize(("project", "name"), [("disco-sector-292704", "a"), ("flash-freehold-292704", "b")])
def test_the_sum_of_rows_is_cut_not_rounded(project: str, name: str) -> None:
    """VMs whose hours come in several rows (G-res2): seconds exactly, and the sum within a millionth or two a row."""
    mine = [row for row in rows("G-res2-") if row["project"]["id"] == project and "resource" in row]
    by_vm: dict[str, dict[datetime, int]] = defaultdict(lambda: defaultdict(int))
    for row in mine:
        by_vm[row["resource"]["name"]][moment(row["usage_start_time"])] += row["usage"]["amount"]
    total, seconds = Money(), 0
    for hours in by_vm.values():
        first, last = min(hours), max(hours)
        start, end = first + HOUR - timedelta(seconds=hours[first]), last + timedelta(seconds=hours[last])
        run = Lifetime(KEY, start, Shape("e2-medium", 2, 4096), STANDARD, ZONE, end)
        used = {at: int(units) for (at, resource), units in hours_of(run).items() if resource == "e2:core"}
        assert used == hours
        cores = [charge for charge in bill_lifetime(run, BOOK, end).charges if charge.resource == "e2:core"]
        total += Money(sum(core.amount.nanos for core in cores))
        seconds += sum(core.seconds for core in cores)
    row = ROWS[f"G-res2-sum-{name}"]
    assert seconds == row["sum_usage_amount"]
    assert_billed(row["sum_cost"], total, len(mine))


@pytest.mark.parametrize(
    ("row", "dollars", "least_rows"),
    [
        ("G-res2-sum-c", E2_CORE, 3),  # 7,936 s of one core are rows of three hours at least
        ("BU-cud", N1_CORE, 52),  # of n1-standard-1 VMs in one day: a row holds an hour of one VM at most
    ],
)
def test_larger_sums_lie_below_the_product(row: str, dollars: str, least_rows: int) -> None:
    """Unused capacity of a reservation, and one day of a project: what was cut off adds up."""
    recorded = ROWS[row]
    seconds = int(Decimal(str(recorded["sum_usage_amount"])))
    exact = amount_of(price("core", dollars), Fraction(1), seconds, datetime(2025, 9, 16, tzinfo=UTC))
    assert_billed(recorded["sum_cost"], exact, least_rows)
    assert Decimal(recorded["sum_cost"]) <= exact.dollars


def test_a_month_of_hourly_usage_follows_its_days() -> None:
    """An unchanging fleet cost 28 / 31 of its January in February 2019 (BU-month): seconds, not months, are billed."""
    january, february = (Decimal(ROWS[f"BU-month-{month}"]["usage_costs"]) for month in ("201901", "201902"))
    starts = [datetime(2019, month, 1, 8, tzinfo=UTC) for month in (1, 2, 3)]
    bills = [
        bill_lifetime(Lifetime(KEY, start, Shape("n1-standard-1", 1, 3840), STANDARD, ZONE), BOOK, end, since=start)
        for start, end in pairwise(starts)
    ]
    ratio = Fraction(bills[1].amount.nanos, bills[0].amount.nanos)
    assert abs(january * ratio.numerator / ratio.denominator - february) <= Decimal("0.005")
