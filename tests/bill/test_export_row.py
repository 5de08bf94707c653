"""Rows of Google's export, read from what was recorded of it: recorded_rows.json names the source of each."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from tests.bill import exports

from costguard.bill.export_fields import UnreadableRow, billionths, from_billionths, moment, rate_text
from costguard.bill.export_row import read_row
from costguard.model.billing.bill import DEFAULT_MODEL, BilledKind, BillRow, CostType, Credit
from costguard.model.billing.billing_month import seconds_of_month

RECORDED = json.loads((Path(__file__).parent / "recorded_rows.json").read_text("utf-8"))["rows"]
# What a result of a query or a fragment leaves out: nothing of it is looked at below.
LEFT_OUT = {"usage_start_time": "2026-01-01T00:00:00Z", "cost": "0"}
GIB = 2**30


def recorded(name: str) -> dict[str, Any]:
    return next(row["fields"] for row in RECORDED if row["id"] == name)


def read(name: str) -> BillRow:
    return read_row({**LEFT_OUT, **recorded(name)}).bill_row()


def test_a_whole_recorded_row_of_a_disk_is_read_to_the_last_digit() -> None:
    """V-disk: keyed by project number and numeric id, costs in the row's own euros, at the row's own rate."""
    row = read("V-disk")
    assert (row.project_number, row.kind, row.resource_id) == ("441570621172", BilledKind.DISK, "5731447681477044785")
    assert (row.resource_name, row.zone, row.sku_id) == ("example-disk", "europe-west4-a", "315D-05CC-A75E")
    assert row.amount == 190_750 * GIB
    assert (row.cost_nanos, row.list_nanos, row.currency) == (12_434_000, 12_434_000, "EUR")
    assert row.rate == Decimal("0.93364999999987552")
    assert row.export_time == datetime(2024, 5, 13, 1, 49, 2, 981774, tzinfo=UTC)
    assert row.source == "detailed:000000-000000-000001"


def test_numbers_and_times_in_e_notation_are_exact() -> None:
    """K-kms: the REST API prints 5.28E-4 and 1.7566668E9, which is 2025-08-31 19:00:00 UTC."""
    row = read("K-kms")
    assert row.usage_start == datetime(2025, 8, 31, 19, tzinfo=UTC)
    assert row.usage_end == datetime(2025, 8, 31, 20, tzinfo=UTC)
    assert (row.cost_nanos, row.amount, row.consumption_model) == (528_000, Decimal(23584), DEFAULT_MODEL)


@pytest.mark.parametrize("name", ["V-disk", "K-kms"])
def test_recorded_quantities_are_calendar_months_of_the_invoice(name: str) -> None:
    """usage.amount over the seconds of its Pacific month is amount_in_pricing_units, cut at nine decimals."""
    row = read(name)
    gib_seconds = row.amount / GIB if row.unit == "byte-seconds" else row.amount
    quantity = gib_seconds / seconds_of_month(row.usage_start)
    in_pricing_units = Decimal(recorded(name)["usage"]["amount_in_pricing_units"])
    assert 0 <= quantity - in_pricing_units < Decimal("1E-9")
    assert f"{row.pacific_day:%Y%m}" == row.invoice_month


def test_a_day_is_cut_in_pacific_time() -> None:
    """KO-egress-9: 04:00 UTC on 1 August is 31 July for Google's invoice days, and 1 August in UTC."""
    row = read("KO-egress-9")
    assert (row.pacific_day, row.utc_day) == (date(2022, 7, 31), date(2022, 8, 1))


def test_rows_of_one_vm_and_hour_add_up_to_what_google_published() -> None:
    """G-res2: twelve rows of three VMs; ins0 and ins1 sum to 14,551 s and ins2 to 7,347 s, as Google's query says."""
    rows = [read(f"G-res2-{number:02}") for number in range(1, 13)]
    assert {row.kind for row in rows} == {BilledKind.INSTANCE}
    assert {row.resource_id for row in rows} == {""}  # names alone: no whole row shows an id
    by_project: dict[str, Decimal] = {}
    for row in rows:
        by_project[row.project_id] = by_project.get(row.project_id, Decimal(0)) + row.amount
    for name in ("G-res2-sum-a", "G-res2-sum-b"):
        summed = recorded(name)
        assert by_project[summed["project"]["id"]] == summed["sum_usage_amount"]


def test_costs_are_cut_at_six_decimals_and_never_rounded() -> None:
    """G-res2-sum-b: E2 cores at 0.02181159 an hour, four rows cut at a millionth, sum to the recorded 0.044512."""
    rows = [read(f"G-res2-{number:02}") for number in (3, 6, 11, 12)]
    cut = sum(int(row.amount * Decimal("0.02181159") / 3600 * 1_000_000) for row in rows)
    assert cut * 1000 == billionths(recorded("G-res2-sum-b")["sum_cost"], "cost")


def test_the_name_of_a_vm_is_bare_and_its_project_is_the_number() -> None:
    """G-res2: resource.name of a VM is projects/<number>/instances/<name>."""
    row = read("G-res2-01")
    assert (row.resource_name, row.project_number) == ("tc-billing-case2-ins0-1757983801", "204187533293")
    assert row.reservation_name == "tc-billing-case2-res-1757983801"
    assert not row.is_unused_reservation


def test_a_credit_keeps_its_type_and_its_sign() -> None:
    """KO-late-1: a promotion is an entry of credits with the negative of the cost, so that nothing is paid."""
    row = read("KO-late-1")
    identity = "FreeTrial:Credit-000000-000000-000004"
    assert row.credits == (Credit("PROMOTION", identity, identity, -5_000),)
    assert row.effective_nanos == 0


def test_usage_of_vertex_ai_is_marked() -> None:
    """G-t4: its tag gcp-product is vertex_ai; cores, memory and GPU have whole seconds, 4, 15 GiB and 1 of them."""
    cores, memory, gpu = (
        read_row(
            {**LEFT_OUT, **fields, "usage": {"amount": fields["sum_usage_amount"], "unit": fields["usage_unit"]}}
        ).bill_row()
        for fields in (recorded(f"G-t4-{number}") for number in (1, 2, 3))
    )
    assert {cores.product, memory.product, gpu.product} == {"vertex_ai"}
    assert [cores.amount, memory.amount, gpu.amount] == [Decimal(4 * 1260), Decimal(15 * GIB * 1260), Decimal(1260)]


@pytest.mark.parametrize("row", [one for one in RECORDED if one["kind"] != "query result"], ids=lambda one: one["id"])
def test_every_recorded_row_can_be_read(row: dict[str, Any]) -> None:
    """Each row and fragment keeps its SKU's words, amount and cost exactly, whatever it leaves out."""
    fields = row["fields"]
    read = read_row({**LEFT_OUT, **fields}).bill_row()
    assert read.sku_text == fields["sku"]["description"]
    assert read.amount == Decimal(fields["usage"]["amount"])
    assert Decimal(read.cost_nanos).scaleb(-9) == Decimal(fields.get("cost", "0"))
    assert read.cost_type is CostType.REGULAR


@pytest.mark.parametrize(
    ("global_name", "kind", "identity", "zone"),
    [
        ("//compute.googleapis.com/projects/7/zones/us-west1-a/instances/42", BilledKind.INSTANCE, "42", "us-west1-a"),
        ("//compute.googleapis.com/projects/7/zones/us-west1-a/disk/42", BilledKind.DISK, "42", "us-west1-a"),
        ("//compute.googleapis.com/projects/7/zones/us-west1-a/disks/42", BilledKind.DISK, "42", "us-west1-a"),
        (
            "//compute.googleapis.com/projects/7/zones/us-west1-a/allocation/9",
            BilledKind.RESERVATION,
            "9",
            "us-west1-a",
        ),
        ("//compute.googleapis.com/projects/7/global/images/42", BilledKind.NONE, "", "us-west1"),
        ("//storage.googleapis.com/projects/_/buckets/b", BilledKind.NONE, "", "us-west1"),
        (None, BilledKind.NONE, "", "us-west1"),
    ],
)
def test_resources_are_known_by_their_global_name(
    global_name: str | None, kind: BilledKind, identity: str, zone: str
) -> None:
    """Project number, kind and numeric id come from it; disk/ and disks/ both; allocation/ is unused capacity."""
    row = read_row(
        {
            **LEFT_OUT,
            "project": {"number": "7"},
            "location": {"location": "us-west1"},
            "resource": {"name": "x", "global_name": global_name},
        }
    ).resource
    assert (row.kind, row.resource_id, row.zone, row.project_number) == (kind, identity, zone, "7")


def test_a_row_of_the_focus_table_says_the_same_as_the_detailed_one() -> None:
    """Google's own view makes each FOCUS column from one of the detailed export: read back, the rows agree."""
    detailed = recorded("V-disk")
    focus = {
        "BillingAccountId": detailed["billing_account_id"],
        "ResourceId": detailed["resource"]["global_name"],
        "ResourceName": detailed["resource"]["name"],
        "ChargePeriodStart": detailed["usage_start_time"],
        "ChargePeriodEnd": detailed["usage_end_time"],
        "BillingPeriodStart": "2024-05-01 07:00:00 UTC",
        "ChargeDescription": detailed["sku"]["description"],
        "SkuId": detailed["sku"]["id"],
        "ConsumedQuantity": detailed["usage"]["amount"],
        "ConsumedUnit": detailed["usage"]["unit"],
        "ContractedCost": detailed["cost"],
        "ListCost": detailed["cost_at_list"],
        "BilledCost": detailed["cost"],
        "BillingCurrency": "EUR",
        "x_CurrencyConversionRate": detailed["currency_conversion_rate"],
        "x_ServiceId": detailed["service"]["id"],
        "x_CostType": "regular",
        "x_ExportTime": detailed["export_time"],
        "x_Project": {"id": detailed["project"]["id"], "number": detailed["project"]["number"]},
        "x_Location": "europe-west4",
        "x_Credits": [],
    }
    row, same = read_row(focus), read_row(detailed)
    assert row.source == "focus:000000-000000-000001"
    assert row._replace(source=same.source) == same


def test_a_focus_row_without_its_contracted_cost_is_what_is_billed_without_credits() -> None:
    """BilledCost includes the credits, which are negative; the cost before them is higher by as much."""
    row = read_row(
        {
            "ChargePeriodStart": "2026-01-01T00:00:00Z",
            "BilledCost": "0.25",
            "x_Credits": [{"Type": "PROMOTION", "Name": "p", "Id": "p", "Amount": "-0.75"}],
        }
    )
    assert row.cost_nanos == 1_000_000_000


def test_a_row_without_a_cost_is_refused() -> None:
    """An absent cost is unknown, never zero."""
    with pytest.raises(UnreadableRow, match="cost is not a number"):
        read_row({"usage_start_time": "2026-01-01T00:00:00Z"})


def test_a_row_of_another_table_is_refused() -> None:
    """A row of neither export says which tables can be read."""
    with pytest.raises(UnreadableRow, match="neither the detailed nor the FOCUS export"):
        read_row({"sku": {"id": "X"}})


@pytest.mark.parametrize("value", ["", "NaN", "1,5", "sNaN", "Infinity", None, [1]])
def test_what_is_not_a_number_is_refused(value: Any) -> None:
    """No such value becomes zero or an error of another kind."""
    with pytest.raises(UnreadableRow):
        billionths(value, "cost")


def test_numbers_survive_the_way_through_billionths() -> None:
    """A JSON number is the double's shortest text; large byte-seconds and small costs keep every digit."""
    assert from_billionths(billionths(0.012434, "cost")) == Decimal("0.012434")
    assert from_billionths(billionths("16998309356466500", "amount")) == Decimal("16998309356466500")
    assert f"{from_billionths(billionths('5.28E-4', 'cost'))}" == "0.000528"
    assert rate_text("1.0", "rate") == "1"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("currency_conversion_rate", "0"),
        ("currency_conversion_rate", 0),
        ("currency_conversion_rate", "-1.2"),
        ("currency_conversion_rate", "1e400"),
        ("currency_conversion_rate", "NaN"),
        ("currency_conversion_rate", [1]),
        ("usage_start_time", "1990-01-01T00:00:00Z"),
        ("usage_start_time", "9999-12-31T23:59:59Z"),
        ("usage_start_time", "0001-01-01T00:00:00Z"),
        ("usage_start_time", "1e400"),
        ("usage_start_time", {"a": 1}),
        ("usage_end_time", "2026-11-10 11:00:00 UTC"),
        ("cost", "1e400"),
        ("cost", "5e9"),
        ("cost", "9" * 5000),
        ("usage", {"amount": "1e400", "unit": "seconds"}),
        ("credits", [{"type": "PROMOTION", "name": "p", "id": "p", "amount": "-1e400"}]),
        ("credits", [{"type": "x" * 5000, "name": "p", "id": "p", "amount": "-1"}]),
        ("project", {"id": "a\0b", "number": "700"}),
        ("sku", {"id": "X", "description": "\ud800"}),
        ("resource", {"name": "x" * 5000}),
        ("billing_account_id", "x" * 5000),
    ],
)
def test_what_no_bill_has_is_refused(field: str, value: Any) -> None:
    """Such a row would end the comparison, or be refused by a database. The error repeats little of it."""
    with pytest.raises(UnreadableRow) as wrong:
        read_row(exports.row(**{field: value}))
    assert len(wrong.value.message) < 220


def test_another_currency_needs_its_rate() -> None:
    """The rate may be missing in a row in dollars; the value of euros is then unknown."""
    assert read_row(exports.row(currency_conversion_rate=None)).terms.rate == "1"
    with pytest.raises(UnreadableRow, match=r"currency_conversion_rate is missing, and the row is in 'EUR'"):
        read_row(exports.row(currency="EUR", currency_conversion_rate=None))


def test_bigquery_times_without_a_zone_are_utc() -> None:
    """TIMESTAMP has no zone of its own; fractions of a second are kept to the microsecond."""
    assert moment("2026-03-08 09:59:59.981774", "t").at == datetime(2026, 3, 8, 9, 59, 59, 981774, tzinfo=UTC)
    assert moment("2026-03-08T01:00:00-08:00", "t").at == datetime(2026, 3, 8, 9, tzinfo=UTC)


@pytest.mark.parametrize(("value", "is_unused"), [("true", True), ("TRUE", True), ("false", False), ("", False)])
def test_a_reservation_that_nobody_used_is_marked(value: str, is_unused: bool) -> None:
    """The mark is in the system labels of the detailed export, as Google names them in the table's schema."""
    labels = [
        {"key": "compute.googleapis.com/is_unused_reservation", "value": value},
        {"key": "compute.googleapis.com/reservation_name", "value": "spare-a100s"},
    ]
    row = read_row({**LEFT_OUT, **recorded("V-disk"), "system_labels": labels}).bill_row()
    assert row.is_unused_reservation is is_unused
    assert row.reservation_name == "spare-a100s"
