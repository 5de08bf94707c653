"""GET /api/v1/savings/tips."""

from __future__ import annotations

from fastapi.testclient import TestClient
from tests.api import rows
from tests.jobs.listing.test_tips import reminded

from costguard.db.transaction import Database


def test_a_quarter_has_its_tips_with_evidence_and_method(database: Database, client: TestClient) -> None:
    """The sums by kind, each tip, and what counts as following one."""
    with database.write() as connection:
        rows.prices(connection)
        reminded(connection, "stopped", 5)
        reminded(connection, "on", 9, None)
    answer = client.get("/api/v1/savings/tips", params={"quarter": "2026-Q4"}).json()
    assert (answer["quarter"], answer["from"], answer["to"]) == ("2026-Q4", "2026-10-01", "2026-12-31")
    assert (answer["given"], answer["followed"], answer["saved"]["amount"]) == (2, 1, "12.72")
    reminder = next(one for one in answer["counts"] if one["kind"] == "reminder")
    assert (reminder["followed"], reminder["not_followed"]) == (1, 1)
    assert "within 24 hours" in reminder["method"]
    assert [(tip["subject"], tip["outcome"], tip["evidence"]) for tip in answer["tips"]] == [
        ("stopped", "followed", "stopped by ada@lab.example"),
        ("on", "not_followed", "it runs on"),
    ]
    assert client.get("/api/v1/savings/tips").json()["quarter"] == "2026-Q4"  # the present one


def test_what_is_no_quarter_is_refused_with_what_to_write(client: TestClient) -> None:
    """The problem names the parameter."""
    answer = client.get("/api/v1/savings/tips", params={"quarter": "2026-Q9"})
    assert answer.status_code == 422
    assert "write 2026-Q4" in answer.text
