"""The pages Sweeps: the list, one sweep with its members, and cancelling and resuming it there."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from fastapi.testclient import TestClient
from tests.authenticators import ADMIT_ALL, FixedAuthenticator, signed_in
from tests.jobs.job_service import JobSetup, priced
from tests.pages.html import Page, tidy
from tests.sweeps import sweep_story
from tests.sweeps.sweep_story import ID

from costguard.db.transaction import Database
from costguard.model.access import Role
from costguard.model.sweep import SweepState
from costguard.sweeps import sweep_rows

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
    sweep_story.tell(office)
    return office


def shown(text: str) -> tuple[Page, str]:
    page = Page(text)
    assert page.mistakes == []
    return page, tidy(page.text)


def test_empty_list_says_how_to_launch_a_sweep(database: Database, client_of: ClientOf) -> None:
    """The page has the commands."""
    assert "No sweep has been launched yet." in shown(client_of(ADA).get("/sweeps").text)[1]


def test_list_leads_to_each_sweep(story: JobSetup, client_of: ClientOf) -> None:
    """The links lead from the page Jobs to the list, and from the list to one."""
    client = client_of(ADA)
    assert "/sweeps" in shown(client.get("/jobs").text)[0].addresses
    page, text = shown(client.get("/sweeps").text)
    assert f"/sweeps/{ID}" in page.addresses
    assert "1 of 4" in text


def test_sweep_shows_each_member(story: JobSetup, client_of: ClientOf) -> None:
    """Parameters, state and why, cost, and the job of those that have one."""
    page, text = shown(client_of(ADA).get(f"/sweeps/{ID}").text)
    assert {"/jobs/sm1", "/jobs/sm2"} <= set(page.addresses)
    for part in ("1 of 4 succeeded", "1e-4", "3e-4", "the command failed with code 3", "of at most $40.00", "waiting"):
        assert part.lower() in text.lower(), part


def test_sweep_is_resumed_and_cancelled_from_its_page(story: JobSetup, client_of: ClientOf, database: Database) -> None:
    """The sweep is resumed by a person who may; the new ceiling is typed there."""
    client = client_of(ADA)
    answer = client.post(f"/sweeps/{ID}/resume", data={**CSRF, "ceiling": "60"})
    assert (answer.status_code, answer.headers["location"]) == (303, f"/sweeps/{ID}")
    assert "of at most $60.00" in shown(client.get(f"/sweeps/{ID}").text)[1]
    assert client.post(f"/sweeps/{ID}/resume", data={**CSRF, "ceiling": "much"}).status_code == 422
    assert client.post(f"/sweeps/{ID}/cancel", data={**CSRF, "reason": "wrong data"}).status_code == 303
    with database.read() as connection:
        sweep = sweep_rows.read(connection, ID)
    assert sweep is not None
    assert (sweep.state, sweep.cancel_asked_by) == (SweepState.RUNNING, "ada@lab.example")
    page, _ = shown(client.get(f"/sweeps/{ID}").text)
    assert "Cancel the sweep" not in page.text


def test_member_is_kept_from_halving(story: JobSetup, client_of: ClientOf) -> None:
    """The form keeps one of the list, or all of them: then halving is ended, and the form is gone."""
    client = client_of(ADA)
    assert "Keep members" in shown(client.get(f"/sweeps/{ID}").text)[1]
    assert client.post(f"/sweeps/{ID}/keep", data={**CSRF, "member": "3"}).status_code == 303
    page, text = shown(client.get(f"/sweeps/{ID}").text)
    assert "kept" in text
    assert [attrs["value"] for tag, attrs in page.tags if tag == "option"] == ["", "1", "2", "4"]
    assert client.post(f"/sweeps/{ID}/keep", data={**CSRF, "member": "x"}).status_code == 422
    assert client.post(f"/sweeps/{ID}/keep", data={**CSRF, "member": ""}).status_code == 303
    text = shown(client.get(f"/sweeps/{ID}").text)[1]
    assert "ada@lab.example ended it" in text
    assert "Keep members" not in text
    assert client_of(BOB).post(f"/sweeps/{ID}/keep", data=CSRF).status_code == 403


def test_viewer_sees_it_and_changes_nothing(story: JobSetup, client_of: ClientOf) -> None:
    """No form is shown, and none that is sent is taken."""
    client = client_of(BOB)
    page, text = shown(client.get(f"/sweeps/{ID}").text)
    assert "can view sweeps but not change them" in text
    assert not [tag for tag, _ in page.tags if tag == "form"]
    assert client.post(f"/sweeps/{ID}/cancel", data=CSRF).status_code == 403
    assert client.get("/sweeps/none").status_code == 404


def test_master_token_says_for_whom(story: JobSetup, client_of: ClientOf) -> None:
    """It acts for no user, so the forms ask for one."""
    client = client_of(ADMIT_ALL)
    page, _ = shown(client.get(f"/sweeps/{ID}").text)
    assert any(attrs.get("name") == "by" for tag, attrs in page.tags if tag == "input")
    assert client.post(f"/sweeps/{ID}/cancel", data=CSRF).status_code == 422
