"""The pages Schedules: the list, one schedule with its runs, and changing it there."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from fastapi.testclient import TestClient
from tests.authenticators import FixedAuthenticator, signed_in
from tests.jobs.job_service import JobSetup, priced
from tests.pages.html import Page, tidy
from tests.schedules import schedule_story
from tests.schedules.schedule_story import ID

from costguard.db.transaction import Database
from costguard.model.access import Role
from costguard.model.job import JobState

ADA = signed_in(Role.OPERATOR, "ada@lab.example")
BOB = signed_in(Role.VIEWER, "bob@lab.example")
CSRF = {"csrf": "the page's own"}
ClientOf = Callable[[FixedAuthenticator], TestClient]


@pytest.fixture
def database(sqlite_database: Database) -> Database:
    """Makes a database. Writes are the API's too, and tested on both kinds there."""
    return sqlite_database


@pytest.fixture
def story(database: Database) -> JobSetup:
    office = JobSetup(priced(database))
    schedule_story.tell(office)
    return office


def shown(text: str) -> tuple[Page, str]:
    page = Page(text)
    assert page.mistakes == []
    return page, tidy(page.text)


def test_empty_list_says_how_to_create_a_schedule(database: Database, client_of: ClientOf) -> None:
    """The page has the commands."""
    assert "No schedule has been created yet." in shown(client_of(ADA).get("/schedules").text)[1]


def test_list_leads_to_each_schedule_and_each_run_to_its_job(story: JobSetup, client_of: ClientOf) -> None:
    """The links lead from the page Jobs to the list, to one, to its jobs, and back."""
    client = client_of(ADA)
    assert "/schedules" in shown(client.get("/jobs").text)[0].addresses
    assert f"/schedules/{ID}" in shown(client.get("/schedules").text)[0].addresses
    page, text = shown(client.get(f"/schedules/{ID}").text)
    assert {"/jobs/cm1", "/jobs/cm2"} <= set(page.addresses)
    for part in ("At 02:00 every day (Europe/Berlin).", "skipped", "missed", "An earlier run is still open: job cm2"):
        assert part in text, part
    assert f"/schedules/{ID}" in shown(client.get("/jobs/cm1").text)[0].addresses


def test_schedule_is_paused_resumed_run_and_ended_from_its_page(story: JobSetup, client_of: ClientOf) -> None:
    """Each button leads back to the page, which then has the other one."""
    client = client_of(ADA)
    for verb, label in (("pause", "Resume the schedule"), ("resume", "Pause the schedule")):
        answer = client.post(f"/schedules/{ID}/{verb}", data=CSRF)
        assert (answer.status_code, answer.headers["location"]) == (303, f"/schedules/{ID}")
        assert label in shown(client.get(f"/schedules/{ID}").text)[1]
    assert client.post(f"/schedules/{ID}/run", data=CSRF).status_code == 409
    schedule_story.settle(story, "cm2", JobState.SUCCEEDED)
    assert client.post(f"/schedules/{ID}/run", data=CSRF).status_code == 303
    assert "launching" in shown(client.get(f"/schedules/{ID}").text)[1]
    assert client.post(f"/schedules/{ID}/end", data=CSRF).status_code == 303
    assert "Pause the schedule" not in client.get(f"/schedules/{ID}").text
    assert client.post(f"/schedules/{ID}/pause", data=CSRF).status_code == 409


def test_viewer_sees_why_there_are_no_buttons(story: JobSetup, client_of: ClientOf) -> None:
    """A viewer sees everything but the buttons."""
    _, text = shown(client_of(BOB).get(f"/schedules/{ID}").text)
    assert "can view schedules but not change them" in text
    assert "Pause the schedule" not in text
    assert client_of(BOB).get("/schedules/c9").status_code == 404
