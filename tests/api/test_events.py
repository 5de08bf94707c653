"""The audit log over REST: searched, in pages, and as a file for spreadsheets."""

from __future__ import annotations

import csv
import io
from datetime import timedelta

from fastapi.testclient import TestClient
from tests.api import rows
from tests.api.conftest import deps_of
from tests.api.rows import NOW
from tests.jobs import job_rows

from costguard.api.app import create_app
from costguard.db.transaction import Database

HOUR = timedelta(hours=1)
HEAD = ["id", "occurred_at", "recorded_at", "kind", "who", "project", "gce_id", "name", "job", "text", "data"]


def test_events_are_searched(sqlite_database: Database) -> None:
    """The search goes by job, by actor, by words and by everything else at once; a search for nothing finds nothing."""
    with sqlite_database.write() as connection:
        rows.event(
            connection, "one", NOW - HOUR, actor="ana@example.com", data={"job": "j1"}, text="Ana launched resnet."
        )
        rows.event(connection, "two", NOW, kind="JobEnded", data={"job": "j1"}, text="resnet ended.", name="cg-j1-1")
        rows.event(connection, "three", NOW, text="100 % of _it_ is <b>bold</b>.")
    client = TestClient(create_app(deps_of(sqlite_database)))
    for query, ids in (
        ("job=j1", [2, 1]),
        ("who=ANA@", [1]),
        ("words=resnet", [2, 1]),
        ("words=cg-j1", [2]),
        ("words=%25 of _it_", [3]),
        ("words=%25%25", []),
        ("job=j1&kind=JobEnded&since=2026-11-20T11:30:00Z", [2]),
        ("job=j2", []),
        ("sort=oldest", [1, 2, 3]),
    ):
        answer = client.get(f"/api/v1/events?{query}").json()
        assert [event["id"] for event in answer["events"]] == ids, query
        assert (answer["searched_to"], answer["next_cursor"]) == (None, None)


def test_events_leave_as_a_sheet(sqlite_database: Database) -> None:
    """A page as lines of CSV, with the address of the next in Link; nothing in a cell is run."""
    with sqlite_database.write() as connection:
        for number in range(3):
            rows.event(connection, f"f{number}", NOW - number * HOUR, name="=cmd|'/C calc'!A0", text="-2+3", actor="@x")
    client = TestClient(create_app(deps_of(sqlite_database)))
    answer = client.get("/api/v1/events?limit=2", headers={"Accept": "text/csv"})
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    head, *cells = csv.reader(io.StringIO(answer.text, newline=""))
    assert (head, [row[0] for row in cells]) == (HEAD, ["1", "2"])
    cells_by_head = dict(zip(head, cells[0], strict=True))
    assert (cells_by_head["name"], cells_by_head["text"], cells_by_head["who"]) == (
        "'=cmd|'/C calc'!A0",
        "'-2+3",
        "'@x",
    )
    address = answer.headers["link"].partition(">")[0].lstrip("<")
    last = client.get(address, headers={"Accept": "text/csv"})
    assert [row[0] for row in csv.reader(io.StringIO(last.text, newline=""))] == ["id", "3"]
    assert "link" not in last.headers
    assert client.get("/api/v1/events?format=json", headers={"Accept": "text/csv"}).json()["events"][0]["id"] == 1


def test_jobs_and_prices_are_paged_in_any_order(sqlite_database: Database) -> None:
    """Each once, the oldest or the newest first; the cursor of one order is none of the other."""
    with sqlite_database.write() as connection:
        rows.prices(connection)
        for number in range(5):
            job_rows.added(connection, f"j{number}", created_at=NOW + number // 2 * HOUR)
    client = TestClient(create_app(deps_of(sqlite_database)))
    oldest = _pages(client, "jobs?sort=oldest", "jobs", "id")
    assert oldest == ["j0", "j1", "j2", "j3", "j4"]
    assert _pages(client, "jobs?sort=newest", "jobs", "id") == oldest[::-1]
    cursor = client.get("/api/v1/jobs?sort=oldest&limit=2").json()["next_cursor"]
    assert client.get(f"/api/v1/jobs?cursor={cursor}").status_code == 422
    priced = client.get("/api/v1/prices?history=true").json()["prices"]
    assert _pages(client, "prices?history=true", "prices", "rate") == [price["rate"] for price in priced]


def _pages(client: TestClient, path: str, name: str, part: str) -> list[str]:
    seen: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        page = client.get(f"/api/v1/{path}&limit=2" + (f"&cursor={cursor}" if cursor else "")).json()
        seen += [item[part] for item in page[name]]
        cursor = page["next_cursor"]
    return seen
