"""A job's page compares what its script cost on each machine, once it ran on several."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from fastapi.testclient import TestClient
from tests.api.rows import NOW
from tests.jobs import job_rows
from tests.pages import job_story

from costguard.db.transaction import Database


def test_the_page_compares_machines_once_there_are_two(database: Database, client: TestClient) -> None:
    """The cost for 1,000 steps of one machine, and "not known" for the other; with one machine there is no section."""
    job_story.tell(database)
    assert "The same script on other machines" not in client.get("/jobs/j7k2m9q4").text
    big = replace(job_rows.RECIPE, machine_type="a2-highgpu-1g", gpu_type="nvidia-tesla-a100", attaches_gpus=False)
    with database.write() as connection:
        job_rows.added(connection, "b1g", preset="a100", recipe=big, created_at=NOW - timedelta(minutes=1))
    page = client.get("/jobs/j7k2m9q4").text
    section = page.partition("The same script on other machines")[2].partition("</section>")[0]
    assert "a2-highgpu-1g" in section
    assert 'href="/jobs/b1g"' in section
    assert "$0.05" in section
    assert "not known" in section
