"""A job's page shows its lineage, once it has one."""

from __future__ import annotations

from fastapi.testclient import TestClient
from tests.api.rows import NOW
from tests.jobs.rows.lineage.test_lineage import family, submitted
from tests.within import charge_due

from costguard.db.transaction import Database


def section(client: TestClient, job_id: str) -> str:
    return client.get(f"/jobs/{job_id}").text.partition('id="lineage-title"')[2].partition("</section>")[0]


def test_the_page_shows_the_tree_with_sums(database: Database, client: TestClient) -> None:
    """Jobs of the tree are links; a job that stands alone has no section."""
    with database.write() as connection:
        family(connection)
        charge_due(connection, NOW)
    shown = section(client, "tune1")
    assert 'href="/jobs/base"' in shown
    assert 'href="/jobs/tune3"' in shown
    assert "this job" in shown
    for amount in ("$5.30", "$6.36", "$1.59", "$6.89"):
        assert amount in shown
    assert section(client, "other") == ""


def test_the_page_says_what_is_not_known(database: Database, client: TestClient) -> None:
    """A checkpoint of no known job is not counted as nothing."""
    with database.write() as connection:
        submitted(connection, "tuned", 1, "gs://lab/tuned/step-7")
    assert "nobody knows which job saved it, so that its cost is unknown" in section(client, "tuned")
