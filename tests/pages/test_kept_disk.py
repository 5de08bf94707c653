"""A disk that is kept bills until it goes: no page loses sight of it, and none deletes it without an agreement."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from fastapi.testclient import TestClient
from tests.api import rows
from tests.api.rows import NOW
from tests.authenticators import ADMIT_ALL, FixedAuthenticator, signed_in
from tests.jobs import job_rows
from tests.pages.html import Page, tidy

from costguard.db.transaction import Database
from costguard.jobs.rows import agent_rows, attempts
from costguard.jobs.rows import job_rows as jobs
from costguard.jobs.rows.recovery import interruptions
from costguard.model.access import Role
from costguard.model.attempt import AgentState, AttemptState, Exit, Interruption, Notice, Outcome
from costguard.model.job import CheckpointPlan, Job, JobState, SeenCheckpoint

ADA = signed_in(Role.OPERATOR, "ada@lab.example")
BOB = signed_in(Role.VIEWER, "bob@lab.example")
HOUR = timedelta(hours=1)
CSRF = {"csrf": "the page's own"}
ON_DISK = CheckpointPlan("/ckpt", "--from {checkpoint}")


@pytest.fixture
def database(sqlite_database: Database) -> Database:
    """jkept has failed and its disk is kept; jrun saves on its disk and runs; jdone has failed and left nothing."""
    with sqlite_database.write() as connection:
        rows.prices(connection, {("disk:pd-balanced", "standard", "GiBy.mo"): 100_000_000})
        job_rows.failed_on_disk(connection, "jkept")
        job_rows.added(connection, "jrun", checkpoint=ON_DISK, name="bert")
        job_rows.attempt(connection, "jrun", state=AttemptState.RUNNING, gce_id="5")
        jobs.set_state(connection, "jrun", JobState.RUNNING, "It runs.", None, NOW)
        job_rows.added(connection, "jdone")
        jobs.set_state(connection, "jdone", JobState.FAILED, "It failed.", None, NOW - timedelta(days=2))
    return sqlite_database


def shown(client: TestClient, address: str) -> tuple[Page, str]:
    page = Page(client.get(address).text)
    assert page.mistakes == []
    return page, tidy(page.text)


def stored(database: Database, job_id: str) -> Job:
    with database.read() as connection:
        job = jobs.read(connection, job_id)
    assert job is not None
    return job


def inputs(page: Page, name: str) -> list[dict[str, str | None]]:
    return [attrs for tag, attrs in page.tags if tag == "input" and attrs.get("name") == name]


def test_open_jobs_are_listed_with_those_whose_disk_is_kept(
    database: Database, client_of: Callable[[FixedAuthenticator], TestClient]
) -> None:
    """It is over, and it bills: an own mark, what it costs a month, and how to end that. Others that are over go."""
    page, text = shown(client_of(ADA), "/jobs")
    assert "Open jobs, jobs of the last day, and jobs with a kept disk" in text
    assert {"/jobs/jkept", "/jobs/jrun"} <= set(page.addresses)
    assert "/jobs/jdone" not in page.addresses
    assert "failed disk kept" in text
    assert "Its disk is kept and bills about $10.00 a month. costguard delete-disk jkept deletes it." in text
    assert "Kept disks 1 $10.00 a month" in text
    with database.write() as connection:
        jobs.give_disk_up(connection, "jkept", "ada@lab.example", NOW)
    page, text = shown(client_of(ADA), "/jobs")
    assert "Open jobs, and jobs of the last day" in text
    assert "disk kept" not in text.lower()


def test_a_kept_disk_behind_many_newer_jobs_is_counted_all_the_same(
    database: Database, client_of: Callable[[FixedAuthenticator], TestClient]
) -> None:
    """It may stand on the second page: the headline counts every one."""
    with database.write() as connection:
        for number in range(60):
            job_rows.added(connection, f"jnew{number}", created_at=NOW + timedelta(seconds=number))
    page, text = shown(client_of(ADA), "/jobs")
    assert "/jobs/jkept" not in page.addresses
    assert "Kept disks 1 $10.00 a month" in text


def test_the_box_says_what_is_lost_and_asks_for_an_agreement(
    database: Database, client_of: Callable[[FixedAuthenticator], TestClient]
) -> None:
    """A box that must be ticked; without it nothing is deleted."""
    client = client_of(ADA)
    page, text = shown(client, "/jobs/jkept")
    assert "kept-disk" in page.ids
    for part in ("Its disk is kept", "cg-jkept-1 is stopped in us-central1-a", "up to the checkpoint of step 40"):
        assert part in text
    assert "and bills about $10.00 a month." in text
    (box,) = inputs(page, "agreed")
    assert "required" in box
    refused = client.post("/jobs/jkept/delete-disk", data=CSRF)
    assert (refused.status_code, "Nothing was deleted" in refused.text) == (422, True)
    assert stored(database, "jkept").disk_given_up_at is None
    done = client.post("/jobs/jkept/delete-disk", data={**CSRF, "agreed": "yes"})
    assert (done.status_code, done.headers["location"]) == (303, "/jobs/jkept")
    assert stored(database, "jkept").disk_given_up_by == "ada@lab.example"
    assert "kept-disk" not in shown(client, "/jobs/jkept")[0].ids


def test_only_who_may_is_offered_to_delete_it(
    client_of: Callable[[FixedAuthenticator], TestClient], database: Database
) -> None:
    """A viewer reads what it holds and costs; the master token must say for whom it agrees."""
    page, text = shown(client_of(BOB), "/jobs/jkept")
    assert "Its disk is kept" in text
    assert inputs(page, "agreed") == []
    assert client_of(BOB).post("/jobs/jkept/delete-disk", data={**CSRF, "agreed": "yes"}).status_code == 403
    assert stored(database, "jkept").disk_given_up_at is None
    assert inputs(shown(client_of(ADMIT_ALL), "/jobs/jkept")[0], "by")


@pytest.mark.parametrize("agrees", [True, False])
def test_a_cancel_asks_about_the_disk(
    database: Database, client_of: Callable[[FixedAuthenticator], TestClient], agrees: bool
) -> None:
    """A box that is not ticked by itself; only ticking it gives the disk up."""
    client = client_of(ADA)
    page, text = shown(client, "/jobs/jrun/cancel")
    (box,) = inputs(page, "delete_disk")
    assert "checked" not in box
    assert "It is kept, and bills, until you delete it" in text
    client.post("/jobs/jrun/cancel", data={**CSRF, **({"delete_disk": "yes"} if agrees else {})})
    job = stored(database, "jrun")
    assert (job.cancel_asked_at is not None, job.disk_given_up_at is not None) == (True, agrees)
    assert f"then its VM is {'deleted' if agrees else 'stopped'}." in shown(client, "/jobs/jrun")[1]


def test_a_job_that_saves_elsewhere_is_not_asked_about_its_disk(
    database: Database, client_of: Callable[[FixedAuthenticator], TestClient]
) -> None:
    """A job's save in a bucket leaves nothing to agree to."""
    with database.write() as connection:
        job_rows.added(connection, "jbucket")
    assert inputs(shown(client_of(ADA), "/jobs/jbucket/cancel")[0], "delete_disk") == []


def test_a_job_names_no_checkpoint_as_if_it_were_there_still(
    database: Database, client_of: Callable[[FixedAuthenticator], TestClient]
) -> None:
    """The disk was deleted with its VM; or the last look failed, and the known checkpoint is older."""
    client = client_of(ADA)
    assert "newest complete: /ckpt/step-40, step 40" in shown(client, "/jobs/jkept")[1]
    with database.write() as connection:
        jobs.save_look(connection, "jkept", SeenCheckpoint(NOW, error="/ckpt cannot be read."))
    assert "last seen complete 20 Nov, 12:00: /ckpt/step-40, step 40" in shown(client, "/jobs/jkept")[1]
    with database.write() as connection:
        (one,) = attempts.of_jobs(connection, ["jkept"])["jkept"]
        attempts.change(connection, one.id, list(AttemptState), state=AttemptState.OVER, gone_at=NOW)
    text = shown(client, "/jobs/jkept")[1]
    assert "deleted with the VM's disk; last seen: /ckpt/step-40, step 40" in text
    assert "newest complete" not in text


@pytest.mark.parametrize(
    ("agent", "ran"),
    [
        (AgentState(NOW - 3 * HOUR, 1, started_at=NOW - 5 * HOUR), "2 h"),
        (AgentState(NOW, 1, started_at=NOW - 5 * HOUR, exit=Exit("exited", NOW - 4 * HOUR, 3)), "1 h"),
    ],
)
def test_running_time_ends_with_the_last_word_of_the_agent(
    database: Database, client_of: Callable[[FixedAuthenticator], TestClient], agent: AgentState, ran: str
) -> None:
    """The attempt ended just now, and nobody saw the command run after that: its report counts, else when it ended."""
    with database.write() as connection:
        (one,) = attempts.of_jobs(connection, ["jkept"])["jkept"]
        agent_rows.hear(connection, one.id, agent)
    assert f"1. us-central1-a Spot crashed {ran} $0.250 an hour" in shown(client_of(ADA), "/jobs/jkept")[1]


def test_a_job_that_failed_for_good_is_not_awaited_back_at_work(
    database: Database, client_of: Callable[[FixedAuthenticator], TestClient]
) -> None:
    """It did not go on; one that is open may still."""
    for job_id in ("jkept", "jrun"):
        with database.write() as connection:
            (one,) = attempts.of_jobs(connection, [job_id])[job_id]
            cut = Interruption(one.id, job_id, 1, Outcome.CRASHED, NOW, NOW, Notice.EXIT)
            interruptions.add(connection, cut)
    assert "The job did not continue." in shown(client_of(ADA), "/jobs/jkept")[1]
    text = shown(client_of(ADA), "/jobs/jrun")[1]
    assert "Not resumed yet." in text
    assert "did not go on" not in text
