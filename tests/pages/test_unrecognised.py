"""The warning on a job's page that what it saves is recognised by no layout."""

from __future__ import annotations

from datetime import timedelta

import pytest
from fastapi.testclient import TestClient
from tests.api.rows import NOW
from tests.jobs import job_rows as made
from tests.pages.html import Page, tidy

from costguard.db.transaction import Database
from costguard.events import audit_log
from costguard.jobs.rows import attempts, job_events, job_rows
from costguard.model.attempt import AttemptState
from costguard.model.job import JobState, SeenCheckpoint

FILES = "no layout recognises net_100.pkl in gs://lab/run: launch it with --pattern 'net_{step}.pkl'"
WARNING = "Not protected: its checkpoints are not recognised"


@pytest.fixture
def database(sqlite_database: Database) -> Database:
    return sqlite_database


def test_unrecognised_checkpoints_are_a_warning_until_one_is_complete(database: Database, client: TestClient) -> None:
    """The warning has the pattern that would fit; it is gone once there is something to resume from."""
    with database.write() as connection:
        job = made.added(connection, state=JobState.RUNNING)
        attempt = made.attempt(connection, state=AttemptState.RUNNING, gce_id="71")
    assert WARNING not in _text(client, job.id)
    with database.write() as connection:
        (attempt,) = attempts.of_jobs(connection, [job.id])[job.id]
        audit_log.append(connection, [job_events.unrecognised(job, attempt, 1, FILES, NOW)], NOW)
    assert WARNING in _text(client, job.id)
    assert "--pattern 'net_{step}.pkl'" in _text(client, job.id)
    with database.write() as connection:
        seen = SeenCheckpoint(NOW, "gs://lab/run/checkpoint-5", 5, NOW - timedelta(minutes=1))
        job_rows.save_look(connection, job.id, seen)
    assert WARNING not in _text(client, job.id)


def _text(client: TestClient, job_id: str) -> str:
    page = Page(client.get(f"/jobs/{job_id}").text)
    assert page.mistakes == []
    return tidy(page.text)
