"""GET /api/v1/goodput, and the goodput of a job, from rows of attempts, interruptions and lifetimes."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from fastapi.testclient import TestClient
from tests.api import rows
from tests.api.rows import NOW
from tests.jobs import job_rows

from costguard.db.transaction import Database
from costguard.jobs.rows import agent_rows
from costguard.jobs.rows import job_rows as jobs
from costguard.jobs.rows.recovery import interruptions
from costguard.model.attempt import AgentState, AttemptState, Exit, Interruption, Notice, Outcome
from costguard.model.job import JobKind, JobState, SeenCheckpoint
from costguard.model.money import Money

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
OVER_NIGHT = datetime(2026, 10, 31, 22, tzinfo=UTC)  # the month changes two hours later


@pytest.fixture
def filled(database: Database) -> Database:
    """A job over the end of a month that lost half an hour, one that failed and has saved, and a development VM."""
    with database.write() as connection:
        rows.prices(connection)
        job_rows.added(connection, "overnight", created_at=OVER_NIGHT)
        first = job_rows.attempt(
            connection, "overnight", 1, state=AttemptState.OVER, outcome=Outcome.PREEMPTED, gce_id="1",
            ended_at=OVER_NIGHT + 3 * HOUR,
        )  # fmt: skip
        agent_rows.hear(connection, first.id, AgentState(NOW, 1, started_at=OVER_NIGHT + 15 * MINUTE))
        preempted_at = OVER_NIGHT + 3 * HOUR
        cut = Interruption(first.id, "overnight", 1, Outcome.PREEMPTED, preempted_at, preempted_at, Notice.NOTICE)
        interruptions.add(connection, replace(cut, lost=30 * MINUTE, lost_cost=Money.of("0.08")))
        second = job_rows.attempt(
            connection, "overnight", 2, state=AttemptState.OVER, outcome=Outcome.SUCCEEDED, gce_id="2",
            ended_at=OVER_NIGHT + 6 * HOUR,
        )  # fmt: skip
        ended = Exit("exited", OVER_NIGHT + 6 * HOUR, code=0)
        agent_rows.hear(connection, second.id, AgentState(NOW, 1, started_at=OVER_NIGHT + 4 * HOUR, exit=ended))
        jobs.set_state(connection, "overnight", JobState.SUCCEEDED, "Done.", None, OVER_NIGHT + 6 * HOUR)
        job_rows.added(connection, "failed", created_at=NOW - 4 * HOUR, owner="bob@lab.example")
        only = job_rows.attempt(
            connection, "failed", 1, state=AttemptState.OVER, outcome=Outcome.CRASHED, gce_id="3",
            ended_at=NOW - HOUR,
        )  # fmt: skip
        crash = Exit("exited", NOW - HOUR, code=1)
        agent_rows.hear(connection, only.id, AgentState(NOW, 1, started_at=NOW - 3 * HOUR, exit=crash))
        jobs.save_look(connection, "failed", SeenCheckpoint(NOW, "gs://lab/run/checkpoint-5", 5, NOW - 2 * HOUR))
        jobs.set_state(connection, "failed", JobState.FAILED, "It crashed.", None, NOW - HOUR)
        job_rows.added(connection, "dev", created_at=NOW - HOUR, kind=JobKind.DEV)
        for gce_id, job, owner, began, until in (
            ("1", "overnight", "ada@lab.example", OVER_NIGHT, OVER_NIGHT + 3 * HOUR),
            ("2", "overnight", "ada@lab.example", OVER_NIGHT + 3 * HOUR, OVER_NIGHT + 6 * HOUR),
            ("3", "failed", "bob@lab.example", NOW - 4 * HOUR, NOW - HOUR),
        ):
            vm = rows.instance(connection, f"vm-{gce_id}", gce_id=gce_id, job=job, provisioning_model="spot")
            rows.lifetime(
                connection, vm, began, ended_at=until, end_reason="deleted", job=job, owner=owner,
                provisioning_model="spot",
            )  # fmt: skip
    return database


def test_months_hold_the_parts_of_a_job(filled: Database, client: TestClient) -> None:
    """The part before midnight UTC of the first is the old month's; together they are the job, which counts once."""
    answer = client.get("/api/v1/goodput?from=2026-10-01&to=2026-11-10&group_by=month").json()
    october, november = answer["rows"]
    assert (october["group"], november["group"]) == ({"month": "2026-10"}, {"month": "2026-11"})
    assert october["seconds"] == _seconds(kept=105, starting=15)
    assert november["seconds"] == _seconds(kept=30 + 120, lost=30, starting=60)
    assert (october["cost"]["amount"], november["cost"]["amount"]) == ("0.33", "0.66")
    total = answer["total"]
    assert (total["jobs"], total["seconds"]["kept"], total["cost"]["amount"]) == (1, 255 * 60, "0.99")
    assert (total["kept_percent_of_paid"], total["useful_gpu_seconds"]) == ("70.83", 255 * 60)
    assert total["cost_per_useful_gpu_hour"] == "0.232941176"
    assert sum(float(percent) for percent in total["percent"].values()) == pytest.approx(100)
    assert total["cost_by_use"]["lost"] == "0.0825"


def test_groups_and_scopes(filled: Database, client: TestClient) -> None:
    """The rows are by owner and preset, the most expensive first; development VMs are in none."""
    answer = client.get("/api/v1/goodput?from=2026-10-01&group_by=owner,job").json()
    assert [row["group"] for row in answer["rows"]] == [
        {"owner": "ada@lab.example", "job": "overnight"},
        {"owner": "bob@lab.example", "job": "failed"},
    ]
    bob = client.get("/api/v1/goodput?owner=bob@lab.example").json()
    assert bob["group_by"] == ["preset"]
    (row,) = bob["rows"]
    assert row["seconds"] == _seconds(kept=60, lost=60, starting=60)
    assert client.get("/api/v1/goodput?preset=a100").json()["rows"] == []
    assert client.get("/api/v1/goodput?job=failed").json()["total"]["jobs"] == 1


def test_a_job_says_what_its_time_went_into(filled: Database, client: TestClient) -> None:
    """All of its time, whatever the month; a development VM has none."""
    goodput = client.get("/api/v1/jobs/overnight").json()["goodput"]
    assert goodput["seconds"] == _seconds(kept=255, lost=30, starting=75)
    assert goodput["cost"] == {"amount": "0.99", "currency": "USD", "complete": True}
    assert goodput["percent"]["kept"] == "70.84"  # 70.83 and a third: with the others it adds up to 100
    assert client.get("/api/v1/jobs/dev").json()["goodput"] is None


def test_a_range_of_more_than_a_year_is_refused(client: TestClient) -> None:
    """The refusal says, as elsewhere, what to request instead."""
    answer = client.get("/api/v1/goodput?from=2024-01-01&to=2026-01-01")
    assert answer.status_code == 422
    assert "Ask for a shorter range." in answer.text


def _seconds(**minutes: int) -> dict[str, int]:
    return {use: 60 * minutes.get(use, 0) for use in ("kept", "lost", "unsaved", "starting", "ending", "waiting")}
