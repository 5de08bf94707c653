"""The page of executions of workflows, and the way to it from a job."""

from __future__ import annotations

from fastapi.testclient import TestClient
from tests.api.test_executions import two

from costguard.db.transaction import Database


def test_the_page_lists_executions_and_a_job_leads_to_its_own(database: Database, client: TestClient) -> None:
    """Each execution is a link to itself, with its jobs."""
    two(database)
    page = client.get("/executions").text
    assert "$1.59" in page
    assert 'href="/jobs/j1"' in page
    address = "/executions?label=flyte-execution&amp;value=f1"
    assert f'href="{address}"' in page
    assert f'href="{address}"' in client.get("/jobs/j1").text
    alone = client.get("/executions?label=flyte-execution&value=f1").text
    assert 'href="/jobs/j1"' in alone
    assert 'href="/jobs/j2"' not in alone


def test_without_any_the_page_says_how_one_is_named(client: TestClient) -> None:
    """The labels are those of the settings."""
    assert "--label argo-workflow=NAME" in client.get("/executions").text
