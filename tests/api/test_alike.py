"""GET /api/v1/jobs/{job_id}/alike, and jobs that are launched like another one."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from fastapi.testclient import TestClient
from tests.api.rows import NOW
from tests.api.test_jobs import BODY, Api
from tests.jobs import job_rows
from tests.jobs.job_service import JobSetup, priced
from tests.pages import job_story

from costguard.cli.job.like import copied
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


def test_a_job_like_another_is_accepted_as_the_command_makes_it(sqlite_database: Database) -> None:
    """The request that `launch --like` makes of the API's own answer is taken, with the same options."""
    api = Api(JobSetup(priced(sqlite_database)))
    first = api.post(
        "jobs",
        {
            **BODY,
            "name": "resnet",
            "environment": {"EPOCHS": "3", "OUT": "gs://lab/run/logs"},
            "secrets": {"WANDB_API_KEY": "projects/lab/secrets/wandb"},
            "checkpoint": {
                "location": "gs://lab/run",
                "local": "/data/out",
                "resume": "--from {checkpoint}",
                "keep": 7,
            },
            "metric": {"pattern": "val_loss (\\S+)"},
            "inputs": [{"source": "gs://data/v7", "path": "/data/in"}],
            "outputs": [{"path": "/data/model", "destination": "gs://lab/model"}],
            "ceiling": "60",
            "deadline_in_hours": 30.0,
            "total_steps": 900,
            "max_crashes": 2,
            "when_late": "stop",
            "on_hang": "restart",
            "stacks": True,
        },
    )
    assert first.status_code == 201, first.text
    detail = api.client.get("/api/v1/jobs/j1").json()
    made = copied(detail, {"preset": "t4", "owner": "ada@lab.example"}, "3f2a", continues=False)
    second = api.post("jobs", made.body)
    assert second.status_code == 201, second.text
    spec, other = detail["spec"], second.json()["spec"]
    changed = {name for name in spec if spec[name] != other[name]}
    assert changed == {"checkpoint", "environment", "outputs"}
    assert other["checkpoint"] == {**spec["checkpoint"], "location": "gs://lab/run-t4-3f2a"}
    assert other["environment"]["OUT"] == "gs://lab/run-t4-3f2a/logs"
    assert other["outputs"] == [{"path": "/data/model", "destination": "gs://lab/model-t4-3f2a"}]
    job = second.json()["job"]
    assert (job["ceiling"], job["command"], job["name"]) == ("60.00", ["python", "train.py"], "resnet-t4")
