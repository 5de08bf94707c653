"""Cancelling a job from its page, or from the list: asked first, stored once, and only by who may."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from fastapi.testclient import TestClient
from tests.api.rows import NOW
from tests.authenticators import ADMIT_ALL, FixedAuthenticator, signed_in
from tests.pages import job_story
from tests.pages.html import Page, tidy

from costguard.db.transaction import Database
from costguard.jobs.rows import job_rows
from costguard.model.access import Role
from costguard.pages.job.page import what_happens

ADA = signed_in(Role.OPERATOR, "ada@lab.example")
BOB = signed_in(Role.VIEWER, "bob@lab.example")
CSRF = {"csrf": "the page's own"}


@pytest.fixture
def database(sqlite_database: Database) -> Database:
    """Makes a database. The writes are the API's too, and tested on both kinds there."""
    return sqlite_database


def shown(text: str) -> tuple[Page, str]:
    page = Page(text)
    assert page.mistakes == []
    return page, tidy(page.text)


def test_a_job_is_cancelled_after_it_was_asked_what_that_does(
    database: Database, client_of: Callable[[FixedAuthenticator], TestClient]
) -> None:
    """The cost so far and what is not saved stand there; once asked for, nobody is offered it again."""
    address = job_story.tell(database)["resnet"]
    client = client_of(ADA)
    for place in ("/jobs", address):
        assert f"{address}/cancel" in shown(client.get(place).text)[0].addresses
    page, text = shown(client.get(f"{address}/cancel").text)
    for part in ("Cancel resnet?", "So far $1.6", "Not saved yet 1 h $0.25", "is notified first"):
        assert part in text
    form = {**CSRF, "reason": "wrong data"}
    in_place = client.post(f"{address}/cancel", data=form, headers={"HX-Request": "true"})
    assert "Cancelling resnet." in in_place.text
    assert in_place.headers["hx-trigger"] == "done"
    again = client.post(f"{address}/cancel", data=CSRF)
    assert (again.status_code, again.headers["location"]) == (303, address)
    with database.read() as connection:
        job = job_rows.read(connection, address.removeprefix("/jobs/"))
    assert job is not None
    assert (job.cancel_asked_by, job.cancel_asked_at, "wrong data" in job.reason) == ("ada@lab.example", NOW, True)
    page, text = shown(client.get(address).text)
    assert f"{address}/cancel" not in page.addresses
    assert "Being cancelled By ada@lab.example" in text
    assert "cancelled it" in shown(client.get(f"{address}/cancel").text)[1]
    assert "being cancelled" in shown(client.get("/jobs").text)[1]


def test_who_may_not_is_told_why(database: Database, client_of: Callable[[FixedAuthenticator], TestClient]) -> None:
    """A viewer, a form that no page of ours sent, and a job that is over."""
    story = job_story.tell(database)
    viewer = client_of(BOB)
    page, text = shown(viewer.get(story["resnet"]).text)
    assert f"{story['resnet']}/cancel" not in page.addresses
    assert "bob@lab.example can view jobs but not cancel them" in text
    assert "/launch" not in str(page.addresses)
    assert viewer.post(f"{story['resnet']}/cancel", data=CSRF).status_code == 403
    assert client_of(ADA).post(f"{story['resnet']}/cancel", data={"csrf": "guessed"}).status_code == 403
    over = client_of(ADA).post(f"{story['gan']}/cancel", data=CSRF)
    assert (over.status_code, "is over: it failed" in over.text) == (409, True)
    assert "so there is nothing to cancel." in client_of(ADA).get(f"{story['gan']}/cancel").text
    assert client_of(ADA).post("/jobs/none/cancel", data=CSRF).status_code == 404


def test_the_master_token_says_for_whom(
    database: Database, client_of: Callable[[FixedAuthenticator], TestClient]
) -> None:
    """It acts for no user, so the form asks for one, who must be allowed to cancel."""
    address = job_story.tell(database)["bert"]
    client = client_of(ADMIT_ALL)
    page, _ = shown(client.get(f"{address}/cancel").text)
    assert any(attrs.get("name") == "by" for tag, attrs in page.tags if tag == "input")
    assert client.post(f"{address}/cancel", data=CSRF).status_code == 422
    assert client.post(f"{address}/cancel", data={**CSRF, "by": "Bob@lab.example"}).status_code == 303


def test_what_happens_depends_on_the_job(database: Database) -> None:
    """A dev VM loses its disk, a command gets its notice, and what has no VM gets none."""
    story = job_story.tell(database)
    with database.read() as connection:
        jobs = {name: job_rows.read(connection, page.removeprefix("/jobs/")) for name, page in story.items()}
    said = {name: what_happens(job) for name, job in jobs.items() if job is not None}
    assert "together with its disk" in said[""][0]
    assert "is notified first" in said["resnet"][0]
    assert "No more VMs are launched for it." in said["bert"]
