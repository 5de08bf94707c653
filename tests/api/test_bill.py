"""GET /api/v1/bill."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from fractions import Fraction

import pytest
from fastapi.testclient import TestClient
from tests.api import rows
from tests.bill import stored_bill
from tests.bill.two_sides import TwoSides, ledger_use

from costguard.bill.compared_rows import store_day
from costguard.bill.lines import BilledThing, BillStanding, Reason
from costguard.db.transaction import Database
from costguard.model.billing.bill import BilledKind


def test_days_add_up_and_the_worst_come_with_their_stories(database: Database, client: TestClient) -> None:
    """Closed days in the total, the open one apart, each difference named."""
    stored_bill.tell(database)
    answer = client.get("/api/v1/bill?from=2026-11-01&to=2026-11-20").json()
    states = {day["day"][-2:]: day["state"] for day in answer["days"]}
    assert states == {"14": "agreed", "15": "differs", "16": "agreed", "17": "open"}
    closed = [day for day in answer["days"] if day["state"] != "open"]
    for name in ("ledger", "list_price", "difference", "explained", "unexplained", "effective", "outside"):
        assert Decimal(answer["total"][name]) == sum(Decimal(day[name]) for day in closed), name
    for day in closed:
        paid = Decimal(day["list_price"]) - sum(map(Decimal, day["savings"].values()))
        assert paid == Decimal(day["effective"])
        assert Decimal(day["explained"]) + Decimal(day["unexplained"]) == Decimal(day["difference"])
    assert [(vm["title"], vm["reasons"]) for vm in answer["worst"]] == [
        ("train-1", ["missing_from_bill"]),
        ("train-3", ["more_used"]),
    ]
    assert {vm["name"] for vm in answer["savings"]} == {"train-0", "train-2"}
    assert [one["name"] for one in answer["reservations"]] == ["spare-a100s"]
    assert [one["name"] for one in answer["outside"]] == ["Network Internet Egress"]
    fees = answer["commitments"]
    assert [fee["name"] for fee in fees["fees"]] == ["Commitment v1: Cpu in Americas for 1 Year"]
    assert Decimal(fees["net"]) == Decimal(fees["saved"]) - Decimal(fees["paid"])
    assert Decimal(fees["saved"]) == sum(Decimal(day["savings"]["committed_use"]) for day in answer["days"])
    assert answer["accuracy"]["through"] == "2026-11-16"
    off = sum(abs(Decimal(vm["difference"])) for vm in answer["worst"])
    share = off / sum(Decimal(day["list_price"]) for day in closed) * 1000
    assert 0 <= answer["accuracy"]["permille"] - share <= 1


def test_one_project_has_its_own_bill(database: Database, client: TestClient) -> None:
    """Filtered by project, the parts of both make up the whole."""
    stored_bill.tell(database)
    query = "/api/v1/bill?from=2026-11-01&to=2026-11-20"
    parts = [client.get(f"{query}&project=train-{number}").json()["total"] for number in range(2)]
    whole = client.get(query).json()["total"]
    assert Decimal(whole["ledger"]) == sum(Decimal(part["ledger"]) for part in parts)


def test_without_a_bill_nothing_is_claimed(client: TestClient) -> None:
    """No day, no total, and no accuracy before the first bill was compared."""
    answer = client.get("/api/v1/bill").json()
    assert (answer["days"], answer["total"], answer["accuracy"]) == ([], None, None)


@pytest.fixture
def both(database: Database) -> Database:
    """A bill of four days, and a ledger that says seven dollars for each of them."""
    stored_bill.tell(database)
    with database.write() as connection:
        for day in stored_bill.DAYS:
            rows.day(connection, day, project="train-0", machine_nanos=7_000_000_000)
    return database


def test_spend_by_the_bill_is_what_was_paid_where_a_day_is_closed(both: Database, client: TestClient) -> None:
    """The bill's effective cost on closed days, whatever the ledger says of them; the ledger's on the open one."""
    range_ = "from=2026-11-14&to=2026-11-17"
    bill = client.get(f"/api/v1/bill?{range_}&project=train-0").json()
    paid = {day["day"]: Decimal(day["effective"]) for day in bill["days"] if day["state"] != "open"}
    query = f"/api/v1/spend?{range_}&project=train-0"
    spent = client.get(f"{query}&basis=bill&group_by=day").json()
    by_day = {row["group"]["day"]: Decimal(row["total"]) for row in spent["rows"]}
    assert by_day == {**paid, "2026-11-17": Decimal(7)}
    assert Decimal(spent["total"]["total"]) == sum(paid.values()) + 7
    assert (spent["paid_days"], client.get(query).json()["paid_days"]) == (3, None)
    assert client.get(f"{query}&basis=ledger").json()["total"]["total"] == "28.00"
    assert client.get(query).json()["total"]["total"] == "28.00"
    by_owner = client.get(f"{query}&basis=bill&group_by=owner").json()
    assert sum(Decimal(row["total"]) for row in by_owner["rows"]) == Decimal(spent["total"]["total"])
    csv = client.get(f"{query}&basis=bill&group_by=day&format=csv").text
    assert "2026-11-17," in csv
    assert len(csv.splitlines()) == 5


@pytest.mark.parametrize("query", ["basis=invoice", "basis=bill&group_by=vm"])
def test_basis_that_cannot_be_had_is_refused(client: TestClient, query: str) -> None:
    """An unknown basis, and rows by VM, which the bill's basis does not have."""
    answer = client.get(f"/api/v1/spend?{query}")
    assert answer.status_code == 422
    assert "basis" in answer.text


def test_explained_differences_below_a_cent_are_left_out(database: Database, client: TestClient) -> None:
    """The difference of a disk whose ragged hours weigh a tenth of a cent is left out; one of ten cents is shown."""
    for gib, day in ((50, 20), (5000, 19)):
        sides = TwoSides.drawn(1, vms=0, day=date(2026, 11, day))
        disk = BilledThing(BilledKind.DISK, "train-0", f"disk-{gib}")
        sides.uses = [ledger_use(sides.day, disk, f"disk-{gib}", "9", "disk:pd-ssd", Fraction(gib), 86_400)]
        sides.rows = [sides.row(disk, f"disk-{gib}", "9", "disk:pd-ssd", Fraction(gib * 86_000), 0)]
        with database.write() as connection:
            compared = sides.compared()
            assert [line.reason for line in compared.lines] == [Reason.DISK_HOURS]
            store_day(connection, compared, {"train-0": BillStanding.CLOSED}, stored_bill.NOW)
    worst = client.get("/api/v1/bill?from=2026-11-19&to=2026-11-20").json()["worst"]
    assert [vm["title"] for vm in worst] == ["disk disk-5000"]
