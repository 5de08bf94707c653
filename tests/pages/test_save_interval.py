"""The checkpoint interval of a job on its page, and in the answers of the API."""

from __future__ import annotations

from datetime import timedelta

import pytest
from fastapi.testclient import TestClient
from tests.api.rows import NOW
from tests.jobs import job_rows as made
from tests.pages.html import Page, tidy

from costguard.db.transaction import Database
from costguard.jobs.rows import agent_rows
from costguard.jobs.rows.agent_fields import drill_report
from costguard.jobs.rows.checkpoints import checkpoint_rows
from costguard.jobs.rows.recovery import drills
from costguard.model.attempt import AgentState, AttemptState
from costguard.model.job import JobState
from costguard.model.money import Money

HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)


@pytest.fixture
def database(sqlite_database: Database) -> Database:
    return sqlite_database


def test_interval_is_shown_once_a_save_was_measured(database: Database, client: TestClient) -> None:
    """The page, the API and the diagnosis have the same sentence; before the drill nothing is said."""
    with database.write() as connection:
        job = made.added(connection, state=JobState.RUNNING, work=20 * HOUR)
        attempt = made.attempt(
            connection,
            state=AttemptState.RUNNING,
            gce_id="71",
            made_at=NOW - 9 * HOUR,
            rate=Money.of("2.00"),
        )
        agent_rows.hear(connection, attempt.id, AgentState(NOW, 1, started_at=NOW - 9 * HOUR + 6 * MINUTE))
        for number in range(4):
            written = NOW - 8 * HOUR + number * 121 * MINUTE
            checkpoint_rows.add_checkpoint(connection, job.id, f"gs://lab/run/{number}", written, number, NOW)
    address = f"/api/v1/jobs/{job.id}"
    assert client.get(address).json()["save_interval"] is None
    assert "Checkpoint interval" not in _text(client, job.id)
    with database.write() as connection:
        drills.add(connection, job, "ada@lab.example", NOW)
        fields = {"number": 1, "phase": "over", "result": "too_late", "saved_s": 60.0}
        over = drill_report(fields, lambda _: NOW)
        assert over is not None
        drills.hear(connection, job.id, attempt.id, [over], NOW)
    shown = client.get(address).json()["save_interval"]
    assert (shown["uses_s"], shown["is_worth"]) == (7200, True)
    assert shown["text"].startswith(f"saving every 2 h loses ${float(shown['loses']):.2f} of an expected $")
    assert float(shown["expected"]) - float(shown["loses"]) == pytest.approx(40)
    assert float(shown["would_lose"]) < float(shown["loses"]) / 2
    assert client.get(f"{address}/diagnosis").json()["checkpoints"] == shown["text"]
    sentence = shown["text"][0].upper() + shown["text"][1:]
    assert f"Checkpoint interval 2 h {sentence}." in _text(client, job.id)


def _text(client: TestClient, job_id: str) -> str:
    page = Page(client.get(f"/jobs/{job_id}").text)
    assert page.mistakes == []
    return tidy(page.text)
