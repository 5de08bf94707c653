"""The page Savings shows the tips of a quarter."""

from __future__ import annotations

from fastapi.testclient import TestClient
from tests.api import rows
from tests.jobs.listing.test_tips import reminded

from costguard.db.transaction import Database


def test_the_page_says_how_many_tips_were_followed_and_what_that_saved(database: Database, client: TestClient) -> None:
    """The present quarter's, or those of the one that the address names."""
    with database.write() as connection:
        rows.prices(connection)
        reminded(connection, "train-7", 5)
    section = client.get("/savings").text.partition('id="tips-title"')[2].partition("</section>")[0]
    assert "Tips in 2026-Q4" in section
    assert "1 of 1 followed" in section
    assert "$12.72" in section
    assert "stopped by ada@lab.example" in section
    assert "No tip was given in this quarter" in client.get("/savings?quarter=2026-Q3").text
    assert client.get("/savings?quarter=autumn").status_code == 422
