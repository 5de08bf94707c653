"""A disk that holds the only copy of what a job saved: shown with its cost, and deleted only by agreement."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from fastapi.testclient import TestClient
from tests.api import rows
from tests.api.conftest import deps_of
from tests.authenticators import ADMIT_ALL
from tests.jobs import job_rows
from tests.jobs.job_service import JobSetup

from costguard.api.app import create_app
from costguard.db.transaction import Database
from costguard.events import audit_log
from costguard.jobs.rows import attempts
from costguard.jobs.rows import job_rows as jobs
from costguard.model.attempt import AttemptState
from costguard.model.job import CheckpointPlan, JobState, SeenCheckpoint

ADA, EVE = "ada@lab.example", "eve@lab.example"


@pytest.fixture
def office(sqlite_database: Database) -> JobSetup:
    with sqlite_database.write() as connection:
        rows.prices(connection)
        job_rows.failed_on_disk(connection, "jkept")
    return JobSetup(sqlite_database)


@pytest.fixture
def client(office: JobSetup) -> TestClient:
    deps = replace(deps_of(office.database), rules=office.rules, jobs=office.it, authenticator=ADMIT_ALL)
    return TestClient(create_app(deps), "http://127.0.0.1:8765")


def test_a_failed_job_shows_what_its_disk_holds_and_costs(client: TestClient) -> None:
    """The disk is never forgotten: it bills."""
    kept = client.get("/api/v1/jobs/jkept").json()["kept_disk"]
    assert (kept["vm"], kept["zone"], kept["gib"]) == ("cg-jkept-1", "us-central1-a", 100)
    assert kept["holds"] == "everything that it saved, up to the checkpoint of step 40 in /ckpt/step-40"


def test_a_list_tells_of_every_disk_that_is_kept(client: TestClient, office: JobSetup) -> None:
    """The disk is in the row of its job; open jobs include it on request; and all of them are counted."""
    with office.database.write() as connection:
        job_rows.added(connection, "jdone")
        jobs.set_state(connection, "jdone", JobState.FAILED, "It failed.", None, rows.NOW)
        job_rows.added(connection, "jopen")
    answer = client.get("/api/v1/jobs?open=true&or_disk_kept=true").json()
    assert {job["id"]: (job["kept_disk"] or {}).get("vm") for job in answer["jobs"]} == {
        "jkept": "cg-jkept-1",
        "jopen": None,
    }
    plain = client.get("/api/v1/jobs?open=true").json()
    assert [job["id"] for job in plain["jobs"]] == ["jopen"]
    assert plain["kept_disks"]["count"] == 1


def test_its_owner_agrees_that_it_goes(client: TestClient, office: JobSetup) -> None:
    """202 first, 200 when repeated; the event says who agreed and what is lost. Nobody else may."""
    address = "/api/v1/jobs/jkept/delete-disk"
    answers = [client.post(address, json={"by": by}).status_code for by in (ADA, ADA)]
    assert answers == [202, 200]
    with office.database.read() as connection:
        job = jobs.read(connection, "jkept")
        (event,) = [stored.event for stored in audit_log.read(connection, kind="DiskGivenUp")]
    assert job is not None
    assert job.disk_given_up_by == ADA
    assert "up to the checkpoint of step 40" in event.text
    assert client.get("/api/v1/jobs/jkept").json()["kept_disk"] is None


def test_no_disk_of_a_running_job_is_deleted(client: TestClient, office: JobSetup) -> None:
    """409, with what to do instead; also where nothing is kept."""
    with office.database.write() as connection:
        job_rows.added(connection, "jopen")
        job_rows.added(connection, "jdone")
        jobs.set_state(connection, "jdone", JobState.FAILED, "It failed.", None, rows.NOW)
    for job, words in (("jopen", "Cancel it"), ("jdone", "nothing to delete")):
        answer = client.post(f"/api/v1/jobs/{job}/delete-disk", json={"by": ADA})
        assert (answer.status_code, words in answer.text) == (409, True), answer.text


@pytest.mark.parametrize("agrees", [True, False])
def test_a_cancel_says_what_becomes_of_the_disk(client: TestClient, office: JobSetup, agrees: bool) -> None:
    """An explicit agreement alone gives it up."""
    with office.database.write() as connection:
        jobs_row = job_rows.job("jrun", checkpoint=CheckpointPlan("/ckpt", "--from {checkpoint}"))
        jobs.add(connection, jobs_row, None, "")
        job_rows.attempt(connection, "jrun", state=AttemptState.RUNNING, gce_id="5")
        jobs.set_state(connection, "jrun", JobState.RUNNING, "It runs.", None, rows.NOW)
    answer = client.post("/api/v1/jobs/jrun/cancel", json={"by": ADA, "delete_disk": agrees})
    assert answer.status_code == 202
    said = "its disk is deleted, with all that it saved" if agrees else "its disk is kept, and bills"
    assert said in answer.json()["job"]["reason"]
    with office.database.read() as connection:
        job = jobs.read(connection, "jrun")
    assert job is not None
    assert (job.disk_given_up_at is not None) is agrees


@pytest.mark.parametrize("is_gone", [True, False])
def test_output_is_not_said_to_be_on_a_vm_that_is_gone(client: TestClient, office: JobSetup, is_gone: bool) -> None:
    """The log's path is given only while there is a VM that has it."""
    with office.database.write() as connection:
        (one,) = attempts.of_jobs(connection, ["jkept"])["jkept"]
        if is_gone:
            attempts.change(connection, one.id, list(AttemptState), state=AttemptState.OVER, gone_at=rows.NOW)
    log = client.get("/api/v1/jobs/jkept/output?attempt=1").json()["log"]
    assert log == ("" if is_gone else "/var/log/costguard/cg-jkept-1.1.log")


@pytest.mark.parametrize(("age", "words"), [(1, "start from the beginning"), (20, "there was none")])
def test_an_old_look_does_not_say_that_there_is_nothing(
    client: TestClient, office: JobSetup, age: int, words: str
) -> None:
    """Twenty minutes ago nothing was saved: what lies there now nobody knows."""
    with office.database.write() as connection:
        job_rows.added(connection, "jold")
        jobs.save_look(connection, "jold", SeenCheckpoint(rows.NOW - timedelta(minutes=age)))
    assert words in client.get("/api/v1/jobs/jold").json()["next"]


def test_a_failed_look_says_that_what_it_knows_is_from_before(client: TestClient, office: JobSetup) -> None:
    """The present complete checkpoint is unknown: the last look that read it was an hour ago."""
    with office.database.write() as connection:
        job_rows.added(connection, "jold")
        before = rows.NOW - timedelta(hours=1)
        jobs.save_look(connection, "jold", SeenCheckpoint(before, "gs://lab/run/step-40", 40, before))
        jobs.save_look(connection, "jold", SeenCheckpoint(rows.NOW, error="No credentials for gs://lab."))
    answer = client.get("/api/v1/jobs/jold").json()
    assert answer["next"].endswith(
        "resume from the newest complete checkpoint at gs://lab/run once that can be read; "
        "step 40, gs://lab/run/step-40, was last seen complete at 11:00 UTC."
    )
    assert answer["checkpoint"]["seen_at"] == "2026-11-20T11:00:00Z"


@pytest.mark.parametrize(
    ("state", "job_state", "is_deleted"),
    [
        (AttemptState.KEPT, JobState.FAILED, False),
        (AttemptState.RESTING, JobState.RECOVERING, False),
        (AttemptState.ENDING, JobState.SUCCEEDED, True),
        (AttemptState.OVER, JobState.SUCCEEDED, True),
        (AttemptState.OVER, JobState.RECOVERING, True),
    ],
)
def test_a_checkpoint_goes_with_the_disk_that_held_it(
    client: TestClient, office: JobSetup, state: AttemptState, job_state: JobState, is_deleted: bool
) -> None:
    """After a success, or once the VM is gone, it is named as deleted; while its disk is there, as it was seen."""
    with office.database.write() as connection:
        job_rows.added(connection, "jend", checkpoint=CheckpointPlan("/ckpt", "--from {checkpoint}"))
        job_rows.attempt(connection, "jend", state=state, gce_id="7")
        jobs.save_look(connection, "jend", SeenCheckpoint(rows.NOW, "/ckpt/step-40", 40, rows.NOW))
        jobs.set_state(connection, "jend", job_state, "It is so.", None, rows.NOW)
    assert client.get("/api/v1/jobs/jend").json()["checkpoint"]["is_deleted"] is is_deleted


def test_a_checkpoint_in_a_bucket_outlives_every_vm(client: TestClient, office: JobSetup) -> None:
    """It is where it was, whatever becomes of the job."""
    with office.database.write() as connection:
        job_rows.added(connection, "jdone")
        job_rows.attempt(connection, "jdone", state=AttemptState.OVER, gce_id="7")
        jobs.save_look(connection, "jdone", SeenCheckpoint(rows.NOW, "gs://lab/run/step-40", 40, rows.NOW))
        jobs.set_state(connection, "jdone", JobState.SUCCEEDED, "It is done.", None, rows.NOW)
    assert client.get("/api/v1/jobs/jdone").json()["checkpoint"]["is_deleted"] is False
