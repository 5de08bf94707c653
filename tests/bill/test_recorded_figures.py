"""Sums that Google published of its own billing export, read, compared and explained: recorded_rows.json has each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from tests.bill.exports import EXPORTED
from tests.bill.test_export_row import GIB, LEFT_OUT, RECORDED, recorded
from tests.bill.two_sides import PRICES, ledger_use

from costguard.bill.compare import Context, compare_day
from costguard.bill.compared_rows import store_day
from costguard.bill.export_row import read_row
from costguard.bill.lines import BilledThing, BillStanding, BillState, DayComparison, LedgerUse, Reason
from costguard.bill.report import bill_report
from costguard.bill.sums import SoldAs
from costguard.db.transaction import Database
from costguard.main.bill import sold_as
from costguard.model.billing.bill import BilledKind, BillRow

NAMES = [row["id"] for row in RECORDED]


def summed(name: str, **more: Any) -> BillRow:
    """A query's result as the row that it is a sum of."""
    fields = recorded(name)
    usage = {"amount": fields.get("sum_usage_amount", 0), "unit": fields.get("usage_unit", "")}
    return read_row({**LEFT_OUT, "cost": fields.get("sum_cost", "0"), **fields, "usage": usage, **more}).bill_row()


def of_vm(name: str, gce_id: str, **more: Any) -> BillRow:
    path = f"//compute.googleapis.com/projects/7/zones/us-central1-a/instances/{gce_id}"
    return summed(name, resource={"global_name": path, "name": "vm"}, **more)


def names(prefix: str) -> list[str]:
    return [name for name in NAMES if name.startswith(prefix)]


def sold(sku_id: str, text: str) -> SoldAs | None:
    """Reads the words of the recorded SKUs, as for a SKU that no stored price names."""
    return sold_as(text)


def compared(day: date, uses: Sequence[LedgerUse], rows: Sequence[BillRow]) -> DayComparison:
    context = Context(sold, lambda _: BillStanding.CLOSED, lambda _: True)
    return compare_day(day, uses, rows, context)


@pytest.mark.parametrize("name", [row["id"] for row in RECORDED if "sum_usage_amount" in row["fields"]])
def test_recorded_sum_is_read_to_the_last_digit(name: str) -> None:
    """Amounts with up to 17 digits, costs and SKUs are as Google's page prints them."""
    row = summed(name)
    assert row.amount == Decimal(str(recorded(name)["sum_usage_amount"]))
    assert Decimal(row.cost_nanos).scaleb(-9) == Decimal(str(recorded(name).get("sum_cost", "0")))
    assert sold(row.sku_id, row.sku_text) is not None


def test_weeks_of_hosts_and_gpus_are_explained() -> None:
    """G-vx: one project's GPUs lie 0.19 % above their hosts; the other's 0.51 % below, which is too far."""
    reasons = {}
    for project in ("project1", "project2"):
        rows = [of_vm(name, "41") for name in names("G-vx") if recorded(name)["project"]["id"] == project]
        cores, memory, gpus = (int(row.amount) for row in rows)
        thing = BilledThing(BilledKind.INSTANCE, project, "41")
        day = rows[0].utc_day
        uses = [
            ledger_use(day, thing, "vm", "41", resource, Fraction(quantity), cores // 4)
            for resource, quantity in (("n1:core", 4), ("gpu:nvidia-tesla-t4", 1))
        ]
        priced = [_at_list(row) for row in rows if not row.sku_text.startswith("N1 Predefined Instance Ram")]
        (gpu,) = (line for line in compared(day, uses, priced).lines if line.resource.startswith("gpu:"))
        reasons[project] = gpu.reason
        assert Fraction(memory, GIB * gpus) == pytest.approx(15, abs=0.1)
    assert reasons == {"project1": Reason.GPU_AND_HOST, "project2": Reason.LESS}


def _at_list(row: BillRow) -> BillRow:
    """Makes a row with the cost that its amount has at list price, cut at six decimals."""
    named = sold(row.sku_id, row.sku_text)
    assert named is not None
    nanos = int(row.amount * Decimal(PRICES[named.resource]) / 3600 * 10**6) * 1000
    return replace(row, cost_nanos=nanos, list_nanos=nanos)


def test_hours_in_and_outside_reservations_are_one_vm() -> None:
    """G-res1: six sums of three hours, in two reservations and in none, are the 7298 seconds of one e2-medium."""
    rows = []
    for name in names("G-res1"):
        fields = recorded(name)
        label = {"key": "compute.googleapis.com/reservation_name", "value": fields["reservation_name"]}
        labels = [label] if fields["reservation_name"] else []
        rows.append(_at_list(of_vm(name, "42", system_labels=labels)))
    by_hour: dict[datetime, Decimal] = defaultdict(Decimal)
    for row in rows:
        by_hour[row.usage_start] += row.amount
    assert list(by_hour.values()) == [597, 3600, 3101]
    assert len({row.reservation_name for row in rows}) == 3
    use = ledger_use(
        date(2025, 9, 16), BilledThing(BilledKind.INSTANCE, "", "42"), "vm", "42", "e2:core", Fraction(1), 7298
    )
    (line,) = compared(date(2025, 9, 16), [use], rows).lines
    assert (line.state, line.billed_used) == (BillState.AGREED, Fraction(7298))


def test_unused_capacity_is_burn_of_its_reservation() -> None:
    """G-res2-sum-c: 7936 s of unused cores cost 0.04808, of no VM; its rows have allocation/ where VMs have theirs."""
    path = "//compute.googleapis.com/projects/7/zones/us-central1-a/allocation/9"
    row = summed("G-res2-sum-c", resource={"global_name": path, "name": "tc-billing-case2-res"})
    assert (row.kind, row.amount) == (BilledKind.RESERVATION, Decimal(7936))
    day = compared(row.utc_day, [], [row])
    assert day.lines == ()
    assert dict(day.unused_reservations) == {("united-sandbox-303721", "tc-billing-case2-res"): 48_080_000}


def test_late_usage_is_of_its_day_whatever_invoice_it_is_on() -> None:
    """G-late: 29 February 2024 on March's invoice: the day is February's, and what a discount took off is a saving."""
    fields = recorded("G-late-1")
    noon = f"{fields['day_us_pacific']}T20:00:00Z"
    path = "//compute.googleapis.com/projects/7/zones/us-central1-a/instances/43"
    credit = {"type": "DISCOUNT", "name": "d", "id": "d", "amount": fields["discounts"]}
    seconds = Decimal(fields["list_cost"]) * 3600 / Decimal(PRICES["e2:core"])
    row = read_row(
        {
            "usage_start_time": noon,
            "invoice": {"month": fields["invoice_month"]},
            "sku": {"id": "CF4E-A0C7-E3BF", "description": "E2 Instance Core running in Americas"},
            "resource": {"name": "vm", "global_name": path},
            "project": {"id": "lab"},
            "usage": {"amount": f"{seconds:f}", "unit": "seconds"},
            "cost": fields["list_cost"],
            "cost_at_list": fields["list_cost"],
            "credits": [credit],
        }
    ).bill_row()
    assert (row.pacific_day, row.invoice_month) == (date(2024, 2, 29), "202403")
    assert row.effective_nanos == int(Decimal(fields["subtotal"]) * 10**9)
    thing = BilledThing(BilledKind.INSTANCE, "lab", "43")
    use = ledger_use(row.utc_day, thing, "vm", "43", "e2:core", Fraction(seconds) / 86_400, 86_400)
    (line,) = compared(row.utc_day, [use], [row]).lines
    assert (line.state, line.savings.other) == (BillState.AGREED, 1_009_160_000)


def test_other_services_are_outside_the_ledger() -> None:
    """G-late: Support, BigQuery and Networking of a day stand by name, at what was paid for them."""
    rows = []
    for name in names("G-late")[1:]:
        fields = recorded(name)
        credit = {"type": "DISCOUNT", "name": "d", "id": "d", "amount": fields["discounts"]}
        rows.append(
            read_row(
                {
                    "usage_start_time": f"{fields['day_us_pacific']}T20:00:00Z",
                    "sku": {"description": fields["service"]["description"]},
                    "cost": fields["list_cost"],
                    "credits": [credit],
                }
            ).bill_row()
        )
    outside = compared(rows[0].utc_day, [], rows).outside
    assert {key.text: Decimal(nanos).scaleb(-9) for key, nanos in outside.items()} == {
        recorded(name)["service"]["description"]: Decimal(recorded(name)["subtotal"]) for name in names("G-late")[1:]
    }


def test_covered_usage_follows_from_the_credits() -> None:
    """BU-cud: Google's query says 147668.07 of 184590 core seconds were covered; the savings say the same share."""
    fields = recorded("BU-cud")
    credits = [
        {"type": kind, "name": kind, "id": "", "amount": fields[name]}
        for kind, name in (("COMMITTED_USAGE_DISCOUNT", "cud_credits"), ("SUSTAINED_USAGE_DISCOUNT", "sud_credits"))
    ]
    row = of_vm("BU-cud", "44", credits=credits, usage_start_time=f"{fields['usage_date_los_angeles']}T20:00:00Z")
    use = ledger_use(
        row.utc_day,
        BilledThing(BilledKind.INSTANCE, row.project_id, "44"),
        *("vm", "44", "n1:core", Fraction(1), 184_590),
    )
    rows = [replace(row, row_count=52)]  # of n1-standard-1 VMs in one day: a row holds an hour of one VM at most
    (line,) = compared(row.utc_day, [use], rows).lines
    assert line.state is BillState.AGREED
    for saved, name in ((line.savings.committed, "cud"), (line.savings.sustained, "sud")):
        covered = Fraction(saved, line.list_nanos or 0) * 184_590
        # What the table prints of cost and credits is cut at a millionth: a quarter of a second of this day.
        assert abs(covered - Fraction(fields[f"{name}_covered_usage"])) < Fraction(1, 4)


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("BU-month")])
def test_what_commitments_save_is_less_their_fees(sqlite_database: Database, name: str) -> None:
    """BU-month: usage, credits and fees of seven months of Google's own project give its net savings, to the cent."""
    fields = recorded(name)
    month = fields["invoice_month"]
    start = f"{month[:4]}-{month[4:]}-15T20:00:00Z"
    vm = {"name": "vm", "global_name": "//compute.googleapis.com/projects/7/zones/us-central1-a/instances/45"}
    credits = [
        {"type": kind, "name": words, "id": "", "amount": fields[one]}
        for kind, words, one in (
            ("COMMITTED_USAGE_DISCOUNT", "Committed Usage Discount: CPU", "cud_credits"),
            ("SUSTAINED_USAGE_DISCOUNT", "Sustained Usage Discount", "sud_credits"),
        )
    ]
    common = {"usage_start_time": start, "project": {"id": "lab"}, "invoice": {"month": month}}
    core = {"description": "N1 Predefined Instance Core running in Americas"}
    fee = {"description": "Commitment v1: Cpu in Americas for 1 Year"}
    used = {"amount": "3600", "unit": "seconds"}
    rows = [
        read_row(one).bill_row()
        for one in (
            {**common, "sku": core, "resource": vm, "usage": used, "cost": fields["usage_costs"], "credits": credits},
            {**common, "sku": fee, "usage": used, "cost": fields["commitment_costs"]},
        )
    ]
    day = rows[0].utc_day
    comparison = compared(day, [], rows)
    with sqlite_database.write() as connection:
        store_day(connection, comparison, {"lab": BillStanding.CLOSED}, EXPORTED)
        report = bill_report(connection, day, day)
    assert report.commitments.paid.dollars == Decimal(fields["commitment_costs"])
    assert report.commitments.net.dollars == Decimal(fields["net_cud_savings"])
    assert report.days[0].savings.sustained == -int(Decimal(fields["sud_credits"]) * 10**9)
    assert [one.name for one in report.commitments.fees] == [fee["description"]]
    assert report.outside == []
