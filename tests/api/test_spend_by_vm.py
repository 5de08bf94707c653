"""GET /api/v1/spend by VM: what a spreadsheet needs, and the sums of the page."""

from __future__ import annotations

import csv
import io
from collections import defaultdict
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from fastapi.testclient import TestClient
from tests.api import rows
from tests.api.rows import NOW
from tests.within import charge_due

from costguard.access.rules import Rules
from costguard.db.transaction import Database
from costguard.ledger.charged.vm_charges import accruing_ids
from costguard.model.reminder import Team

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
ADA, BEN = "ada@lab.example", "ben@lab.example"
RANGE = f"from={NOW.date() - 3 * DAY}&to={NOW.date()}"
COLUMNS = [
    *(
        "project",
        "vm",
        "gce_id",
        "zone",
        "machine_type",
        "preset",
        "owner",
        "team",
        "job",
        "provisioning_model",
        "labels",
    ),
    *("machine_usd", "gpu_usd", "storage_usd", "total_usd", "seconds", "hours", "unpriced"),
]


@pytest.fixture
def filled(database: Database) -> Database:
    """A VM that changed hands, a Spot VM of a job with its disk, one without a price, and one of another time."""
    with database.write() as connection:
        rows.prices(connection)
        shared = rows.instance(connection, "shared", labels={"team": "vision", "cost": "=1+1"}, owner=BEN)
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
    return client_with(rules=Rules({}, teams=(Team("vision", members=frozenset({BEN})),)))


def lines(client: TestClient, group_by: str, more: str = "") -> list[dict[str, str]]:
    answer = client.get(f"/api/v1/spend?{RANGE}&group_by={group_by}&format=csv{more}")
    assert answer.status_code == 200, answer.text
    return list(csv.DictReader(io.StringIO(answer.text, newline="")))


def test_a_line_has_all_that_a_spreadsheet_groups_by(client: TestClient) -> None:
    """VM, job, owner, team and labels with the figures; a VM that changed hands has a line for each owner."""
    rows_by_vm = lines(client, "vm")
    assert list(rows_by_vm[0]) == COLUMNS
    whose = sorted((line["vm"], line["owner"], line["team"], line["job"]) for line in rows_by_vm)
    assert whose == [
        ("h100", ADA, "", ""),
        ("shared", ADA, "", ""),
        ("shared", BEN, "vision", ""),
        ("spot", ADA, "", "j1"),
    ]
    by_vm = {line["vm"]: line for line in rows_by_vm}
    assert by_vm["shared"]["labels"] == "cost==1+1; team=vision"
    assert (by_vm["spot"]["provisioning_model"], by_vm["spot"]["storage_usd"]) == ("spot", "0.12")
    assert (by_vm["h100"]["total_usd"], by_vm["h100"]["unpriced"]) == ("0.00", "1")
    assert by_vm["h100"]["machine_type"] == "a3-highgpu-8g"


@pytest.mark.parametrize("group_by", ["day", "preset", "owner", "project", "provisioning_model", "job"])
@pytest.mark.parametrize("more", ["", f"&owner={ADA}", "&job=j1"])
def test_lines_add_up_to_the_groups_on_the_page(client: TestClient, group_by: str, more: str) -> None:
    """The lines of each group are its row, to the nano-dollar, whatever days and filters."""
    sums: dict[str, Decimal] = defaultdict(Decimal)
    seconds: dict[str, int] = defaultdict(int)
    for line in lines(client, f"{group_by},vm", more):
        assert next(iter(line)) == group_by
        sums[line[group_by]] += Decimal(line["total_usd"])
        seconds[line[group_by]] += int(line["seconds"])
    answer: Any = client.get(f"/api/v1/spend?{RANGE}&group_by={group_by}{more}").json()
    assert sums == {row["group"][group_by]: Decimal(row["total"]) for row in answer["rows"]}
    assert seconds == {row["group"][group_by]: row["seconds"] for row in answer["rows"]}


def test_json_names_the_vm_of_a_row(client: TestClient) -> None:
    """The group holds project and id, which cannot be mistaken; the total is that of the same days."""
    answer = client.get(f"/api/v1/spend?{RANGE}&group_by=vm,owner").json()
    (spot,) = (row for row in answer["rows"] if row["vm"]["name"] == "spot")
    assert spot["group"] == {"vm": f"lab/{spot['vm']['gce_id']}", "owner": ADA}
    assert (spot["vm"]["job"], spot["vm"]["zone"]) == ("j1", "us-central1-a")
    assert sum(Decimal(row["total"]) for row in answer["rows"]) == Decimal(answer["total"]["total"])
    assert all(row["vm"] is None for row in client.get(f"/api/v1/spend?{RANGE}").json()["rows"])


def test_cells_are_never_formulas(database: Database, client_with: Callable[..., TestClient]) -> None:
    """Labels are anybody's to write: a spreadsheet opens them as text."""
    with database.write() as connection:
        rows.prices(connection)
        vm = rows.instance(connection, "-2+3", labels={"=cmd": "x"}, owner="@sum")
        rows.lifetime(connection, vm, NOW - HOUR, owner="@sum")
    (line,) = lines(client_with(), "vm")
    assert (line["vm"], line["owner"], line["labels"]) == ("'-2+3", "'@sum", "'=cmd=x")


def test_by_vm_a_year_is_the_longest(client: TestClient) -> None:
    """Charges of single VMs are many: a longer range is refused with what to do."""
    refused = client.get("/api/v1/spend?from=2025-01-01&to=2026-11-20&group_by=vm")
    assert refused.status_code == 422
    assert "longer than a year" in refused.text


def test_a_day_that_is_over_needs_no_vm_that_runs(client: TestClient, filled: Database) -> None:
    """Open runs and disks are charged to midnight: their spend of yesterday is stored, and its sum the page's."""
    midnight = NOW.replace(hour=0, minute=0, second=0, microsecond=0)
    with filled.read() as connection:
        running = set(accruing_ids(connection))
        needed = set(accruing_ids(connection, midnight))
    assert len(running) == 3
    assert not needed
    day = NOW.date() - DAY
    query = f"/api/v1/spend?from={day}&to={day}"
    by_vm = client.get(f"{query}&group_by=vm").json()
    assert (
        sum(Decimal(row["total"]) for row in by_vm["rows"]) == Decimal(client.get(query).json()["total"]["total"]) > 0
    )
