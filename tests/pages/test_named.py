"""Addresses that name a job, a sweep or a VM lead to its page, which has its id."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from fastapi.testclient import TestClient
from tests.api import rows
from tests.api.rows import NOW
from tests.authenticators import ADMIT_ALL, FixedAuthenticator
from tests.jobs import job_rows
from tests.jobs.job_service import JobSetup, priced
from tests.schedules import schedule_story
from tests.sweeps import sweep_story

from costguard.db.transaction import Database
from costguard.model.job import JobState
from costguard.sweeps import sweep_rows


@pytest.fixture
def database(sqlite_database: Database) -> Database:
    """Makes a database. Reads are the API's too, and tested on both kinds there."""
    return sqlite_database


@pytest.fixture
def client(client_of: Callable[[FixedAuthenticator], TestClient], database: Database) -> TestClient:
    sweep_story.tell(JobSetup(priced(database)))
    schedule_story.tell(JobSetup(database))
    with database.write() as connection:
        job_rows.added(connection, "j1111111", name="resnet", state=JobState.SUCCEEDED, settled_at=NOW)
        job_rows.added(connection, "j2222222", name="resnet", created_at=NOW + timedelta(minutes=1))
        rows.instance(connection, "trainer", gce_id="4711", gone_at=NOW - timedelta(days=1))
        rows.instance(connection, "trainer", gce_id="4712")
    return client_of(ADMIT_ALL)


@pytest.mark.parametrize(
    ("named", "there"),
    [
        ("/jobs/resnet", "/jobs/j2222222"),  # the one that is open
        ("/jobs/resnet/output?search=loss", "/jobs/j2222222/output?search=loss"),
        ("/jobs/resnet/cancel", "/jobs/j2222222/cancel"),
        ("/vm/lab/trainer", "/vm/lab/4712"),  # the one that exists
        ("/vm/lab/trainer/stop", "/vm/lab/4712/stop"),
    ],
)
def test_a_name_leads_to_the_page(client: TestClient, named: str, there: str) -> None:
    """An address by name leads to the one that is open or exists."""
    answer = client.get(named)
    assert (answer.status_code, answer.headers["location"]) == (303, there)
    assert client.get(there).status_code == (404 if "/output" in there else 200)  # no VM has reported any output


def test_a_sweeps_name_leads_to_its_page(client: TestClient, database: Database) -> None:
    """A sweep's name works as a job's does."""
    with database.read() as connection:
        sweep = sweep_rows.read(connection, sweep_story.ID)
    assert sweep is not None
    assert sweep.name
    assert client.get(f"/sweeps/{sweep.name}").headers["location"] == f"/sweeps/{sweep.id}"


def test_a_name_of_several_open_jobs_names_them(client: TestClient, database: Database) -> None:
    """The page chooses none of them."""
    with database.write() as connection:
        job_rows.added(connection, "j3333333", name="resnet")
    answer = client.get("/jobs/resnet")
    assert answer.status_code == 409
    assert "j2222222" in answer.text
    assert "j3333333" in answer.text


def test_a_schedules_name_leads_to_its_page(client: TestClient) -> None:
    """A schedule's name works as a job's does."""
    assert client.get("/schedules/nightly").headers["location"] == f"/schedules/{schedule_story.ID}"


@pytest.mark.parametrize(
    "path", ["/jobs/nothing", "/sweeps/nothing", "/schedules/nothing", "/vm/lab/nothing", "/jobs/" + "x" * 3000]
)
def test_a_name_of_nothing_is_a_page_that_says_so(client: TestClient, path: str) -> None:
    """The page comes however long the name is."""
    answer = client.get(path)
    assert answer.status_code == 404
    assert "<html" in answer.text
