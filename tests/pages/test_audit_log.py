"""The page of events: narrowed by its address, page by page, and as a file."""

from __future__ import annotations

import csv
import io
from datetime import timedelta

import pytest
from fastapi.testclient import TestClient
from tests.api import rows
from tests.api.rows import NOW
from tests.pages.html import page_of, tidy

from costguard.db.transaction import Database
from costguard.events import audit_log
from costguard.model.event import Event

ATTACK = '=HYPERLINK("http://evil")<script>alert(1)</script>'
EVENTS = (
    Event("a", "LifetimeStarted", NOW - timedelta(hours=3), "trainer started.", "lab", "77", "trainer"),
    Event("b", "JobSubmitted", NOW - timedelta(hours=2), "Job j1 was asked for.", "lab", actor="ana@lab.example",
         data={"job": "j1", "via": "api"}),
    Event("c", "PriceRefused", NOW - timedelta(hours=1), ATTACK, actor=ATTACK, data={"reason": ATTACK}),
)  # fmt: skip


@pytest.fixture
def database(sqlite_database: Database) -> Database:
    """Makes a database. Particulars of a database are tested with the search itself."""
    return sqlite_database


def test_what_happened_is_told_and_can_be_narrowed(database: Database, client: TestClient) -> None:
    """The latest first, each with whom and what it is about; the address holds the filters, and so do the files."""
    assert "There are no events yet." in page_of(client, "/events").text
    with database.write() as connection:
        rows.project(connection)
        audit_log.append(connection, EVENTS, NOW)
    page = page_of(client, "/events")
    text = tidy(page.text)
    assert text.index("Price refused") < text.index("Job j1 was asked for.") < text.index("trainer started.")
    assert {"/vm/lab/77", "/jobs/j1"} <= set(page.addresses)
    assert '"via": "api"' in text
    assert "/events.csv?kind=JobSubmitted" in page_of(client, "/events?kind=JobSubmitted").addresses
    assert [attrs["id"] for tag, attrs in page.tags if tag == "tr" and attrs.get("class") == "bad"] == ["event3"]
    for query, expected in (
        ("kind=JobSubmitted", "asked for"),
        ("who=ANA%40", "asked for"),
        ("job=j1", "asked for"),
        ("vm=77", "trainer started."),
        ("words=Started", "trainer started."),
        ("project=lab&until=2000-01-01", "No event matches these filters."),
    ):
        narrowed = page_of(client, f"/events?{query}")
        assert expected in narrowed.text, query
        assert ATTACK not in narrowed.text
    for query, message in (
        ("since=never", "is not a day"), ("since=2026-02-02&until=2026-01-01", "no event can be between"),
        ("before=x", "does not point to a page"), ("words=" + "x" * 501, "too long or has characters"),
    ):  # fmt: skip
        assert message in page_of(client, f"/events?{query}", 422).text


def test_more_events_than_fit_come_on_further_pages(database: Database, client: TestClient) -> None:
    """Each once; a file holds all of them, and of what is filtered nothing else."""
    with database.write() as connection:
        audit_log.append(
            connection,
            [Event(f"k{n}", "InstanceSeen", NOW, f"number {n}.", "lab" if n else "") for n in range(1101)],
            NOW,
        )
    seen: list[str] = []
    address = "/events"
    while address:
        page = page_of(client, address)
        seen += [str(attrs["id"]) for tag, attrs in page.tags if tag == "tr" and "id" in attrs]
        address = next((address for address in page.addresses if "before=" in address), "")
    assert len(seen) == len(set(seen)) == 1101
    assert len(client.get("/events.json").json()) == 1101
    assert [event["text"] for event in client.get("/events.json?words=number+1100.").json()] == ["number 1100."]
    assert client.get("/events.json?job=none").json() == []


def test_a_file_of_events_is_harmless(database: Database, client: TestClient) -> None:
    """No cell of CSV is a formula, and every line has all its cells; JSON holds what was recorded."""
    with database.write() as connection:
        audit_log.append(connection, EVENTS, NOW)
    answer = client.get("/events.csv")
    head, *lines = csv.reader(io.StringIO(answer.text))
    assert answer.headers["content-disposition"] == 'attachment; filename="costguard-events.csv"'
    assert [len(line) for line in lines] == [len(head)] * 3
    attacked = dict(zip(head, lines[0], strict=True))
    assert (attacked["text"], attacked["who"]) == (f"'{ATTACK}", f"'{ATTACK}")
    assert not any(cell.startswith(("=", "+", "-", "@")) for line in lines for cell in line)
    assert client.get("/events.json").json()[0]["data"] == {"reason": ATTACK}
    assert client.get("/events.csv?since=never").status_code == 422
