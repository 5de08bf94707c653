"""GET /api/v1/focus: every charge in the format of FOCUS 1.2, with the sums of GET /spend."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from pyarrow import parquet
from sqlalchemy import update
from tests.api import rows
from tests.api.rows import NOW
from tests.within import charge_due

from costguard.db.tables import prices
from costguard.db.transaction import Database
from costguard.ledger.archived.archiving import archive_charges
from costguard.ledger.labels import label_history
from costguard.ledger.labels.label_history import LabelChange
from costguard.spend.focus import COLUMNS

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
ADA, BEN = "ada@lab.example", "ben@lab.example"
RANGE = f"from={NOW.date() - 3 * DAY}&to={NOW.date()}"
# specification/columns of FOCUS_Spec, tag v1.2: the columns that are mandatory and never null here.
NEVER_NULL = (
    *("BilledCost", "BillingAccountId", "BillingCurrency", "BillingPeriodEnd", "BillingPeriodStart", "ChargeCategory"),
    *("ChargeDescription", "ChargePeriodEnd", "ChargePeriodStart", "ContractedCost", "EffectiveCost", "ListCost"),
    *("InvoiceIssuerName", "PricingQuantity", "PricingUnit", "ProviderName", "PublisherName", "ServiceCategory"),
    *("ServiceName", "SkuId", "SkuPriceId", "ListUnitPrice", "ContractedUnitPrice"),
)


@pytest.fixture
def filled(database: Database) -> Database:
    """A VM that changed hands, a Spot VM of a job with its disk, one without a price, and one of another time."""
    with database.write() as connection:
        rows.prices(connection)
        connection.execute(update(prices).where(prices.c.resource == "n1:core").values(sku_id="2E27-4F75-95CD"))
        shared = rows.instance(connection, "shared", labels={"team": "vision", "cost-center": "42"}, owner=BEN)
        rows.lifetime(connection, shared, NOW - 60 * HOUR, ended_at=NOW - 50 * HOUR, owner=ADA)
        rows.lifetime(connection, shared, NOW - 9 * HOUR, owner=BEN)
        rows.storage(connection, shared, NOW - 60 * HOUR, owner=BEN)
        spot = rows.instance(connection, "spot", provisioning_model="spot", job="j1")
        rows.lifetime(connection, spot, NOW - 30 * HOUR, provisioning_model="spot", job="j1")
        rows.storage(connection, spot, NOW - 30 * HOUR, job="j1")
        rows.lifetime(connection, rows.instance(connection, "h100", **rows.H100), NOW - HOUR, **rows.H100)
        old = rows.instance(connection, "old", gone_at=NOW - 90 * DAY)
        rows.lifetime(connection, old, NOW - 95 * DAY, ended_at=NOW - 90 * DAY)
        charge_due(connection, NOW)
    return database


@pytest.fixture
def client(filled: Database, client_with: Callable[..., TestClient]) -> TestClient:
    return client_with()


def focus_rows(client: TestClient, more: str = "") -> list[dict[str, str]]:
    answer = client.get(f"/api/v1/focus?{RANGE}{more}")
    assert answer.status_code == 200, answer.text
    return list(csv.DictReader(io.StringIO(answer.text, newline="")))


def spent(client: TestClient, more: str = "") -> Decimal:
    return Decimal(client.get(f"/api/v1/spend?{RANGE}{more}").json()["total"]["total"])


@pytest.mark.parametrize("only", ["", f"&owner={ADA}", f"&owner={BEN}", "&job=j1", "&preset=t4", "&project=lab"])
def test_costs_add_up_to_spend_to_the_nano_dollar(client: TestClient, only: str) -> None:
    """The sum holds for stored and accrued costs, of everything and of each filter."""
    for column in ("BilledCost", "EffectiveCost", "ListCost", "ContractedCost"):
        assert sum(Decimal(row[column]) for row in focus_rows(client, only)) == spent(client, only)


def test_charges_that_were_not_stored_yet_are_the_same_rows(
    client: TestClient, filled: Database, client_with: Callable[..., TestClient]
) -> None:
    """The sums of a day, a resource and a SKU are the same whether charges are stored or accrue."""
    sums: dict[tuple[str, ...], Decimal] = {}
    for row in focus_rows(client):
        key = row["ResourceId"], row["SkuId"], row["ChargePeriodStart"][:10]
        sums[key] = sums.get(key, Decimal(0)) + Decimal(row["BilledCost"])
    with filled.write() as connection:
        charge_due(connection, NOW + timedelta(minutes=1))
    again: dict[tuple[str, ...], Decimal] = {}
    for row in focus_rows(client):
        key = row["ResourceId"], row["SkuId"], row["ChargePeriodStart"][:10]
        again[key] = again.get(key, Decimal(0)) + Decimal(row["BilledCost"])
    assert again == sums


def test_a_row_has_the_columns_of_focus(client: TestClient) -> None:
    """Every column in order; the mandatory ones that may not be null never are."""
    answer = client.get(f"/api/v1/focus?{RANGE}")
    assert answer.text.splitlines()[0] == ",".join(COLUMNS)
    assert answer.headers["X-Costguard-Unpriced"] == "1"
    for row in focus_rows(client):
        assert [name for name in NEVER_NULL if not row[name]] == []


def test_a_spot_core_is_told_whole(client: TestClient) -> None:
    """A charge of the Spot VM's vCPUs: its resource by numeric id, its SKU, its quantity, price and tags."""
    row = next(
        row
        for row in focus_rows(client)
        if row["ResourceName"] == "spot"
        and row["SkuMeter"] == "n1:core"
        and row["ChargePeriodStart"][:10] == "2026-11-19"
    )
    assert row["ResourceId"].startswith("//compute.googleapis.com/projects/lab/zones/us-central1-a/instances/7")
    assert (row["SkuId"], row["SkuPriceId"]) == ("2E27-4F75-95CD", "2E27-4F75-95CD/2026-01-01T00:00:00Z")
    assert (row["ChargePeriodStart"], row["ChargePeriodEnd"]) == ("2026-11-19T06:00:00Z", "2026-11-20T00:00:00Z")
    assert (row["PricingQuantity"], row["PricingUnit"]) == ("72", "vCPU-Hours")
    assert (row["ListUnitPrice"], row["ListCost"]) == ("0.010000000", "0.720000000")
    assert row["PricingCategory"] == "Dynamic"
    assert (row["BillingPeriodStart"], row["BillingPeriodEnd"]) == ("2026-11-01T07:00:00Z", "2026-12-01T08:00:00Z")
    assert json.loads(row["Tags"])["costguard/job"] == "j1"


@pytest.mark.parametrize("is_charged", [True, False])
def test_charges_are_split_where_a_label_changed(
    client_with: Callable[..., TestClient], database: Database, is_charged: bool
) -> None:
    """Both of charges that are stored and of those that are not yet; a label that was not there is no tag."""
    with database.write() as connection:
        rows.prices(connection)
        vm = rows.instance(connection, "moved", labels={"experiment": "c", "team": "x"})
        rows.lifetime(connection, vm, NOW - 60 * HOUR)
        changes = [(NOW - 40 * HOUR, None), (NOW - 20 * HOUR, "b")]
        label_history.store(connection, [LabelChange(vm, "experiment", moment, old) for moment, old in changes])
        if is_charged:
            charge_due(connection, NOW)
    tags = {row["ChargePeriodStart"]: json.loads(row["Tags"]) for row in focus_rows(client_with())}
    # NOW is noon: the VM began at midnight two days before, and was labelled at 20:00 and 16:00.
    assert [start[11:16] for start in sorted(tags)] == ["00:00", "20:00", "00:00", "16:00", "00:00"]
    assert [tags[start].get("experiment") for start in sorted(tags)] == [None, "b", "b", "c", "c"]
    assert {one["team"] for one in tags.values()} == {"x"}


def test_a_disk_is_priced_by_its_calendar_month(client: TestClient) -> None:
    """GiB-months of a November in US Pacific time: 2,595,600 s, as the clocks go back in it."""
    row = next(row for row in focus_rows(client) if row["ResourceType"] == "Disk")
    start, end = (
        datetime.strptime(row[name], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
        for name in ("ChargePeriodStart", "ChargePeriodEnd")
    )
    gib = Decimal(row["ConsumedQuantity"]) / Decimal((end - start).total_seconds()) * 3600
    assert row["PricingUnit"] == "GiB-Months"
    expected = gib * Decimal((end - start).total_seconds()) / 2_595_600
    assert abs(Decimal(row["PricingQuantity"]) - expected) < Decimal("1e-9")


def test_parquet_holds_the_same_rows(client: TestClient) -> None:
    """Decimals and times of their own types; everything else as in the CSV."""
    answer = client.get(f"/api/v1/focus?{RANGE}&format=parquet")
    assert answer.status_code == 200, answer.text
    table = parquet.read_table(io.BytesIO(answer.content))
    assert table.column_names == list(COLUMNS)
    expected = focus_rows(client)
    assert table.num_rows == len(expected)
    assert sum(table["BilledCost"].to_pylist()) == spent(client)
    assert table["ResourceId"].to_pylist() == [row["ResourceId"] for row in expected]
    starts = [start.strftime("%Y-%m-%dT%H:%M:%SZ") for start in table["ChargePeriodStart"].to_pylist()]
    assert starts == [row["ChargePeriodStart"] for row in expected]


def test_archived_charges_are_rows_like_others(
    client_with: Callable[..., TestClient], filled: Database, tmp_path: Path
) -> None:
    """The same lines before and after charges are archived; a file that is missing is said, not left out."""
    client = client_with(archive=tmp_path)
    query = f"/api/v1/focus?from={NOW.date() - 100 * DAY}&to={NOW.date()}"
    before = sorted(client.get(query).text.splitlines())
    done = archive_charges(filled, tmp_path, NOW - 60 * DAY, NOW)
    assert done.rows > 0
    assert sorted(client.get(query).text.splitlines()) == before
    for file in tmp_path.iterdir():
        file.unlink()
    lost = client.get(query)
    assert lost.status_code in {404, 422}, lost.text


def test_billing_account_is_the_settings(client_with: Callable[..., TestClient], filled: Database) -> None:
    """Named by the export's table; without one it is unknown, as FOCUS takes no null."""
    assert {row["BillingAccountId"] for row in focus_rows(client_with())} <= {"unknown"}
    named = client_with(billing_account="0123AB-4567CD-89EF01")
    assert {row["BillingAccountId"] for row in focus_rows(named)} <= {"0123AB-4567CD-89EF01"}


def test_other_versions_and_ranges_are_refused(client: TestClient) -> None:
    """A version of FOCUS that is not written, more than a year, and an end before its beginning."""
    for wrong in ("version=1.0", "from=2024-01-01&to=2026-01-01", "from=2026-02-01&to=2026-01-01", "format=xml"):
        assert client.get(f"/api/v1/focus?{wrong}").status_code == 422
