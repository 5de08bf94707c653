"""The hint on a job's page that its metric stands still, and its two buttons."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from fastapi.testclient import TestClient
from tests.api.rows import NOW
from tests.authenticators import FixedAuthenticator, signed_in
from tests.pages import job_story
from tests.pages.html import Page, tidy

from costguard.db.transaction import Database
from costguard.jobs.rows import attempts, job_rows
from costguard.jobs.rows.progress import progress_rows
from costguard.model.access import Role
from costguard.model.job import Job
from costguard.model.reported.progress import EVALUATION, SeriesPoint

ADA = signed_in(Role.OPERATOR, "ada@lab.example")
BOB = signed_in(Role.VIEWER, "bob@lab.example")
CSRF = {"csrf": "the page's own"}
HINT = "eval_loss seems to stand still"
STOP, NEVER_MIND = "Stop after the next checkpoint", "Never mind"


@pytest.fixture
def database(sqlite_database: Database) -> Database:
    return sqlite_database


def stands_still(database: Database) -> str:
    """The address of a job whose evaluations bring nothing more; its checkpoint of step 30,000 is kept."""
    address = job_story.tell(database)["resnet"]
    job_id = address.removeprefix("/jobs/")
    with database.write() as connection:
        (*_, last) = attempts.of_jobs(connection, [job_id])[job_id]
        points = [
            SeriesPoint(
                1, f"{EVALUATION}eval_loss", NOW - (60 - place) * timedelta(seconds=1), "step", 30_000 + place, value
            )
            for place in range(60)
            for value in [1.0 + 0.004 * (place % 3)]
        ]
        progress_rows.add(connection, [progress_rows.NewPoints(job_id, last.id, points)])
    return address


def text_of(client: TestClient, address: str) -> str:
    page = Page(client.get(address).text)
    assert page.mistakes == []
    return tidy(page.text)


def stored(database: Database, address: str) -> Job:
    with database.read() as connection:
        job = job_rows.read(connection, address.removeprefix("/jobs/"))
    assert job is not None
    return job


def test_a_standstill_is_hinted_at_with_what_it_cost_and_where_its_best_is(
    database: Database, client_of: Callable[[FixedAuthenticator], TestClient]
) -> None:
    """Both buttons stand there for who may cancel it; others see the hint alone."""
    address = stands_still(database)
    text = text_of(client_of(ADA), address)
    for part in (HINT, "% of all its gain in the last", "($", "Its best is 1 at step 30,000", STOP, NEVER_MIND):
        assert part in text
    assert "the nearest checkpoint is" in text
    seen = text_of(client_of(BOB), address)
    assert HINT in seen
    assert STOP not in seen
    assert NEVER_MIND not in seen
    assert client_of(BOB).post(f"{address}/never-mind", data=CSRF).status_code == 403


def test_a_metric_that_improves_is_not_hinted_at(
    database: Database, client_of: Callable[[FixedAuthenticator], TestClient]
) -> None:
    """A metric with few evaluations is not hinted at either."""
    assert "seems to stand still" not in text_of(client_of(ADA), job_story.tell(database)["resnet"])


def test_it_is_stopped_after_the_next_checkpoint_and_that_is_taken_back(
    database: Database, client_of: Callable[[FixedAuthenticator], TestClient]
) -> None:
    """Each by its button; the hint has done its work, and stays away after a never mind."""
    address, client = stands_still(database), client_of(ADA)
    answer = client.post(f"{address}/cancel", data={**CSRF, "after_checkpoint": "yes"})
    assert (answer.status_code, answer.headers["location"]) == (303, address)
    assert stored(database, address).cancel_after_by == "ada@lab.example"
    text = text_of(client, address)
    assert "Cancelled after its next checkpoint" in text
    assert NEVER_MIND in text
    assert HINT not in text
    assert client.post(f"{address}/never-mind", data=CSRF).headers["location"] == address
    job = stored(database, address)
    assert (job.cancel_after_at, job.never_mind_by) == (None, "ada@lab.example")
    assert HINT not in text_of(client, address)
