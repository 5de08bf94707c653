"""GET /api/v1/jobs/{job_id}/progress, and the progress in a job."""

from __future__ import annotations

from fastapi.testclient import TestClient
from tests.jobs import job_rows
from tests.pages import job_story

from costguard.db.transaction import Database


def test_a_job_shows_its_curves_and_what_is_left(database: Database, client: TestClient) -> None:
    """Hours and dollars with their range; loss, evaluations and speed with the time and the cost of each point."""
    job_story.tell(database)
    answer = client.get("/api/v1/jobs/j7k2m9q4/progress").json()
    progress, left = answer["progress"], answer["progress"]["left"]
    assert (progress["unit"], progress["done"], progress["total"]) == ("step", 30600, 51000)
    assert left["seconds_low"] < left["seconds_likely"] < left["seconds_high"]
    assert float(left["cost_low"]) < float(left["cost_likely"]) < float(left["cost_high"])
    curves = {curve["kind"]: curve for curve in answer["curves"]}
    assert set(curves) == {"loss", "evaluation", "speed"}
    assert curves["evaluation"]["name"] == "eval_loss"
    steps = [point["done"] for point in curves["loss"]["points"]]
    assert steps == sorted(steps)
    costs = [float(point["cost"]) for point in curves["loss"]["points"]]
    assert costs == sorted(costs)
    assert costs[-1] > 0
    assert len(answer["interrupted_at"]) == 2
    assert client.get("/api/v1/jobs/j7k2m9q4").json()["progress"] == progress


def test_a_job_that_told_nothing_has_no_progress(database: Database, client: TestClient) -> None:
    """null, not zero."""
    with database.write() as connection:
        job_rows.added(connection, "quiet")
    answer = client.get("/api/v1/jobs/quiet/progress").json()
    assert (answer["progress"], answer["curves"]) == (None, [])


def test_an_unknown_job_is_not_found(client: TestClient) -> None:
    """The answer is the job's own."""
    assert client.get("/api/v1/jobs/nothere/progress").status_code == 404
