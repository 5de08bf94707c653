"""GET /api/v1/jobs/{job_id}/alike, and the presets in a quote."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from fastapi.testclient import TestClient
from tests.api.rows import NOW
from tests.jobs import job_rows
from tests.pages import job_story

from costguard.db.transaction import Database


def test_a_job_is_compared_with_runs_of_its_script(database: Database, client: TestClient) -> None:
    """A job on another machine has another row; what it has not shown yet is null, not zero."""
    job_story.tell(database)
    big = replace(job_rows.RECIPE, machine_type="a2-highgpu-1g", gpu_type="nvidia-tesla-a100", attaches_gpus=False)
    with database.write() as connection:
        job_rows.added(connection, "b1g", preset="a100", recipe=big, created_at=NOW - timedelta(minutes=1))
    answer = client.get("/api/v1/jobs/j7k2m9q4/alike").json()
    assert answer["job"] == "j7k2m9q4"
    assert answer["metric"] == {"name": "eval_loss", "better": "lower"}
    first, second = answer["machines"]
    assert (first["preset"], first["steps"]) == ("t4", 30600)
    assert float(first["cost_per_1000_steps"]) > 0
    assert (second["preset"], second["machine_type"]) == ("a100", "a2-highgpu-1g")
    assert second["cost_per_1000_steps"] is None
    assert second["cost_to_reach"] is None
    assert [job["id"] for job in second["jobs"]] == ["b1g"]
    assert answer["target"] is None
    assert answer["text"] == ""


def test_an_unknown_job_is_not_found(client: TestClient) -> None:
    """The answer is the job's own."""
    assert client.get("/api/v1/jobs/nothere/alike").status_code == 404
