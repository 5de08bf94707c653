"""`costguard jobs`, `costguard delete-disk` and `costguard cancel` of jobs that save on their VM's own disk."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from tests.api import rows
from tests.api.rows import NOW
from tests.cli.conftest import Run, runner, serving
from tests.cli.typed import Typist
from tests.jobs import job_rows
from tests.jobs.job_service import JobSetup

from costguard.db.transaction import Database
from costguard.jobs.rows import job_rows as jobs
from costguard.model.attempt import AttemptState
from costguard.model.job import CheckpointPlan, Job, JobState

ADA = {"COSTGUARD_OWNER": "ada@lab.example"}


@pytest.fixture
def database(sqlite_database: Database) -> Database:
    """jkept has failed and its disk is kept, jrun runs, jdone has failed and left nothing."""
    with sqlite_database.write() as connection:
        rows.prices(connection, {("disk:pd-balanced", "standard", "GiBy.mo"): 100_000_000})
        job_rows.failed_on_disk(connection, "jkept")
        job_rows.added(connection, "jrun", checkpoint=CheckpointPlan("/ckpt", "--from {checkpoint}"))
        job_rows.attempt(connection, "jrun", state=AttemptState.RUNNING, gce_id="5")
        jobs.set_state(connection, "jrun", JobState.RUNNING, "It runs.", None, NOW)
        job_rows.added(connection, "jdone")
        jobs.set_state(connection, "jdone", JobState.FAILED, "It failed.", None, NOW)
    return sqlite_database


@pytest.fixture
def run(database: Database, typist: Typist) -> Iterator[Run]:
    """A server that takes jobs in."""
    with serving(database, office=JobSetup(database)) as url:
        yield runner(url, typist)


def stored(database: Database, job_id: str) -> Job:
    with database.read() as connection:
        job = jobs.read(connection, job_id)
    assert job is not None
    return job


def test_a_kept_disk_stands_in_the_default_list(run: Run) -> None:
    """The row has its mark, its monthly cost, and the command that ends it; other jobs that are over are left out."""
    text = run("jobs").stdout
    assert "failed, disk kept" in text
    assert "its disk is kept: about $10.00 a month; costguard delete-disk jkept" in text
    assert "jrun" in text
    assert "jdone" not in text
    answer = json.loads(run("jobs", "--json").stdout)
    assert {job["id"]: (job["kept_disk"] or {}).get("monthly") for job in answer["jobs"]} == {
        "jkept": "10.00",
        "jrun": None,
    }


def test_a_disk_is_deleted_once_that_was_confirmed(run: Run, database: Database) -> None:
    """No answer deletes nothing, and the question says what would be lost; --yes agrees."""
    unconfirmed = run("delete-disk", "jkept", **ADA)
    assert unconfirmed.returncode == 1
    assert "everything that it saved, up to the checkpoint of step 40 in /ckpt/step-40" in unconfirmed.stderr
    assert stored(database, "jkept").disk_given_up_at is None
    done = run("delete-disk", "jkept", "--yes", **ADA)
    assert done.returncode == 0, done.stderr
    assert "is being deleted, with its VM" in done.stdout
    assert stored(database, "jkept").disk_given_up_by == "ada@lab.example"
    assert "disk kept" not in run("jobs").stdout
    refused = run("delete-disk", "jdone", "--yes", **ADA)
    assert (refused.returncode, "nothing to delete" in refused.stderr) == (1, True)


@pytest.mark.parametrize("agrees", [True, False])
def test_a_cancel_keeps_the_disk_unless_told_to_delete_it(run: Run, database: Database, agrees: bool) -> None:
    """--delete-disk agrees that what was saved is lost; the answer says which of the two happens."""
    done = run("cancel", "jrun", *(["--delete-disk"] if agrees else []), **ADA)
    assert done.returncode == 0, done.stderr
    assert ("its disk is deleted, with all that it saved" if agrees else "its disk is kept, and bills") in done.stdout
    assert (stored(database, "jrun").disk_given_up_at is not None) is agrees
