"""GET /api/v1/spend."""

from __future__ import annotations

import csv
import io
from datetime import timedelta

import pytest
from fastapi.testclient import TestClient
from tests.api import rows
from tests.api.rows import NOW

from costguard.db.transaction import Database

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
MIDNIGHT = NOW.replace(hour=0)


@pytest.fixture
def filled(database: Database) -> Database:
    """Two days rolled up; a T4 with a disk that has run since before midnight, and a Spot T4 since an hour."""
    with database.write() as connection:
        rows.prices(connection)
        for back in (1, 2):
            rows.day(
                connection, (NOW - back * DAY).date(), machine_nanos=180_000_001, gpu_nanos=350_000_000, seconds=3600
            )
        rows.day(connection, (NOW - DAY).date(), owner="", preset="other", storage_nanos=5_000_000_000)
        vm = rows.instance(connection, "old")
        rows.lifetime(connection, vm, MIDNIGHT - HOUR, charged_to=MIDNIGHT)
        rows.storage(connection, vm, MIDNIGHT - HOUR, charged_to=MIDNIGHT)
        spot = rows.instance(connection, "spot", provisioning_model="spot", owner="")
        rows.lifetime(connection, spot, NOW - HOUR, provisioning_model="spot", owner="")
    return database


def test_days_are_the_rollup_and_today_what_ran_up(filled: Database, client: TestClient) -> None:
    """Closed days come from the roll-up, to the nano-dollar; today is what open lifetimes and disks ran up by now."""
    answer = client.get("/api/v1/spend?from=2026-11-18&to=2026-11-20").json()
    assert [(row["group"]["day"], row["total"]) for row in answer["rows"]] == [
        ("2026-11-18", "0.530000001"),
        ("2026-11-19", "5.530000001"),
        ("2026-11-20", "6.573"),  # 12 h at 0.534, and an hour of Spot at 0.04 + 0.015 + 0.11
    ]
    assert answer["total"]["total"] == "12.633000002"
    assert answer["total"]["hours"] == "15.0000"
    assert answer["unpriced"] == 0


@pytest.mark.parametrize(
    "query", ["group_by=owner,preset", "group_by=owner&group_by=preset", "group_by=owner,+preset,owner"]
)
def test_groups_come_most_expensive_first(filled: Database, client: TestClient, query: str) -> None:
    """Groupings may be repeated or written with commas; rolled-up and live parts of a group are one row."""
    answer = client.get(f"/api/v1/spend?from=2026-11-18&{query}").json()
    assert [(row["group"]["owner"], row["group"]["preset"], row["total"]) for row in answer["rows"]] == [
        ("ada@lab.example", "t4", "7.468000002"),
        ("", "other", "5.00"),
        ("", "t4", "0.165"),
    ]


def test_a_scope_leaves_the_rest_out(filled: Database, client: TestClient) -> None:
    """project, preset and owner restrict both the rolled-up and the live part."""
    answer = client.get("/api/v1/spend?from=2026-11-18&owner=&preset=t4&group_by=provisioning_model").json()
    assert [(row["group"], row["total"]) for row in answer["rows"]] == [({"provisioning_model": "spot"}, "0.165")]
    assert client.get("/api/v1/spend?from=2026-11-18&project=none").json()["rows"] == []


def test_a_range_that_ended_has_no_live_part(filled: Database, client: TestClient) -> None:
    """Days before today hold nothing of what runs now, once they are rolled up."""
    answer = client.get("/api/v1/spend?from=2026-11-18&to=2026-11-19&group_by=project").json()
    assert answer["rows"][0]["total"] == "6.060000002"


def test_days_not_rolled_up_yet_are_cut_at_midnight(database: Database, client: TestClient) -> None:
    """A lifetime that no pass has charged counts on each day that it ran, up to now."""
    with database.write() as connection:
        rows.prices(connection)
        rows.lifetime(connection, rows.instance(connection, "vm"), MIDNIGHT - 26 * HOUR)
    answer = client.get("/api/v1/spend?from=2026-11-18").json()
    assert [(row["group"]["day"], row["total"], row["seconds"]) for row in answer["rows"]] == [
        ("2026-11-18", "1.06", 2 * 3600),
        ("2026-11-19", "12.72", 24 * 3600),
        ("2026-11-20", "6.36", 12 * 3600),
    ]


def test_a_run_that_ended_uncharged_counts_once(database: Database, client: TestClient) -> None:
    """The run is live between its end and the charging of it, with the one-minute minimum; afterwards it is not."""
    with database.write() as connection:
        rows.prices(connection)
        vm = rows.instance(connection, "vm", status="stopped")
        rows.lifetime(connection, vm, NOW - HOUR, ended_at=NOW - HOUR + timedelta(seconds=10))
        done = NOW - 2 * HOUR
        rows.lifetime(connection, vm, done - HOUR, ended_at=done, charged_to=done)
    assert client.get("/api/v1/spend").json()["rows"][0]["seconds"] == 60


def test_the_unpriced_are_counted_and_listed(database: Database, client: TestClient) -> None:
    """Spans without a price are in every answer, stored gaps and live ones, in the rows they belong to."""
    with database.write() as connection:
        rows.prices(connection)
        vm = rows.instance(connection, "h100", **rows.H100)
        rows.lifetime(
            connection, vm, NOW - 30 * HOUR, ended_at=NOW - 29 * HOUR, charged_to=NOW - 29 * HOUR, unpriced="No price."
        )
        rows.lifetime(connection, vm, NOW - HOUR, **rows.H100, owner="bob")
        rows.storage(connection, vm, NOW - 30 * HOUR, resource=None, owner="bob")
    answer = client.get("/api/v1/spend?group_by=owner").json()
    assert answer["unpriced"] == 3
    assert {(row["group"]["owner"], row["unpriced"]) for row in answer["rows"]} == {("ada@lab.example", 1), ("bob", 2)}
    assert {span["kind"] for span in answer["unpriced_spans"]} == {"lifetime", "storage"}
    by_day = client.get("/api/v1/spend?from=2026-11-19").json()
    assert [(row["group"]["day"], row["unpriced"]) for row in by_day["rows"]] == [("2026-11-19", 2), ("2026-11-20", 2)]


@pytest.mark.parametrize(("format_", "accept"), [("&format=csv", "*/*"), ("", "text/csv")])
def test_csv(filled: Database, client: TestClient, format_: str, accept: str) -> None:
    """CSV is given when format or Accept ask for it, one line a group, with exact amounts."""
    answer = client.get(f"/api/v1/spend?from=2026-11-18&to=2026-11-18{format_}", headers={"Accept": accept})
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    assert answer.text == (
        "day,machine_usd,gpu_usd,storage_usd,total_usd,seconds,hours,unpriced\r\n"
        "2026-11-18,0.180000001,0.35,0.00,0.530000001,3600,1.0000,0\r\n"
    )


@pytest.mark.parametrize("owner", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1"])
def test_csv_cells_are_never_formulas(database: Database, client: TestClient, owner: str) -> None:
    """An owner that a spreadsheet would run gets an apostrophe in front; a control character is shown by its number."""
    with database.write() as connection:
        rows.day(connection, NOW.date(), owner=owner, gpu_nanos=1)
    answer = client.get("/api/v1/spend?group_by=owner&format=csv")
    (_, row) = csv.reader(io.StringIO(answer.text, newline=""))
    assert row[0] == "'" + owner.replace("\r", "[U+000D]")


def test_a_format_beats_accept(filled: Database, client: TestClient) -> None:
    """format=json gives JSON whatever Accept says."""
    answer = client.get("/api/v1/spend?format=json", headers={"Accept": "text/csv"})
    assert answer.headers["content-type"] == "application/json"
