"""People make requests about VMs from the pages."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from fastapi.testclient import TestClient
from tests.api import rows
from tests.api.rows import NOW
from tests.authenticators import signed_in
from tests.pages import story
from tests.pages.html import Page, page_of, tidy

from costguard.access.rules import Rules
from costguard.db.transaction import Database
from costguard.model.access import Role
from costguard.model.reminder import Request, Team
from costguard.reminders import request_rows

ADA, BOB = "ada@lab.example", "bob@lab.example"
CSRF = {"csrf": "the page's own"}
HOUR = timedelta(hours=1)
Clients = Callable[..., TestClient]


@pytest.fixture
def database(sqlite_database: Database) -> Database:
    """Makes a database. Storage is tested with `ask` on both."""
    return sqlite_database


def acts(page: Page) -> set[str]:
    """Returns the acts on offer: the last parts of the addresses."""
    addresses = [
        str(attrs["href"]) for tag, attrs in page.tags if tag == "a" and "act" in (attrs.get("class") or "").split()
    ]
    return {address.removeprefix("/vm/lab/") for address in addresses}


def stored(database: Database) -> list[Request]:
    with database.read() as connection:
        return [request for _, request in request_rows.open_requests(connection)]


@pytest.mark.parametrize(
    ("role", "address", "offered"),
    [
        (
            Role.ADMIN,
            BOB,
            {"forgotten/stop", "forgotten/keep", "dear/claim", "far/stop", "far/keep", "far/disown"},
        ),
        (Role.VIEWER, ADA, set()),
        (Role.ADMIN, "", set()),
    ],
)
def test_what_somebody_may_ask_stands_beside_the_vm(
    database: Database, client_with: Clients, role: Role, address: str, offered: set[str]
) -> None:
    """An admin is offered what makes sense; who may ask for nothing at all sees that once, and offered nothing."""
    addresses = story.tell(database)
    ids = {name: place.removeprefix("/vm/lab/") for name, place in addresses.items()}
    page = page_of(client_with(authenticator=signed_in(role, address)), "/")
    wanted = {act.replace(act.split("/")[0], ids[act.split("/")[0]]) for act in offered}
    assert wanted <= acts(page)
    assert f"{ids['forgotten']}/claim" not in acts(page)  # it has an owner
    assert not any(act.startswith(ids["resting"]) and act.endswith("stop") for act in acts(page))
    assert bool(acts(page)) == bool(offered)
    assert ("You can view the fleet but not change it" in page.text) == (role is Role.VIEWER)


def test_who_may_not_is_told_why(database: Database, client_with: Clients) -> None:
    """An operator of another team sees whose it is to decide, next to the VM and in place of the form."""
    addresses = story.tell(database)
    teams = (Team("vision", frozenset({ADA})),)
    client = client_with(authenticator=signed_in(Role.OPERATOR, BOB), rules=Rules({}, teams=teams))
    reason = f"Only {ADA}, an operator of team vision or an admin can stop forgotten."
    assert reason in tidy(page_of(client, "/").text)
    form = page_of(client, f"{addresses['forgotten']}/stop")
    assert reason in tidy(form.text)
    assert not any(
        tag == "form" and attrs.get("method") == "post" and "/stop" in str(attrs["action"]) for tag, attrs in form.tags
    )


def test_before_a_stop_it_is_said_what_it_costs_and_what_happens(database: Database, client_with: Clients) -> None:
    """The VM, its dollars, what ends, what goes on billing, and that Spot or a job make a difference."""
    addresses = story.tell(database)
    with database.write() as connection:
        vm = rows.instance(connection, "at-work", gce_id="77", job="j1", provisioning_model="spot")
        rows.lifetime(connection, vm, NOW - HOUR, job="j1", provisioning_model="spot")
    client = client_with(authenticator=signed_in(Role.ADMIN, BOB))
    text = tidy(page_of(client, f"{addresses['forgotten']}/stop").text)
    assert "Stop forgotten? t4 · T4 · us-central1-a · ada@lab.example So far $4.8060 Per hour $0.534" in text
    assert "Its vCPUs, memory and GPUs stop billing. Its disks are kept and go on billing $0.004 an hour." in text
    text = tidy(page_of(client, "/vm/lab/77/stop").text)
    assert "It is running job j1, which is cancelled." in text
    assert "It is a Spot VM" in text


def test_what_is_asked_is_stored_once_and_shown_until_it_is_done(database: Database, client_with: Clients) -> None:
    """The daemon is woken; a double click asks once; the row says who waits for what, and offers it no more."""
    addresses = story.tell(database)
    woken: list[str] = []
    client = client_with(authenticator=signed_in(Role.ADMIN, BOB), wake=lambda: woken.append("woken"))
    place = addresses["forgotten"]
    form = page_of(client, f"{place}/stop")
    sent = {
        str(a["name"]): str(a["value"] or "") for tag, a in form.tags if tag == "input" and a.get("type") == "hidden"
    }
    assert sent["started_at"]
    sent["reason"] = "done for today"
    answer = client.post(f"{place}/stop", data=sent, follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, place)
    refreshed = client.post(f"{place}/stop", data=sent, headers={"HX-Request": "true"})
    assert "Asked to stop forgotten; the next pass carries it out." in refreshed.text
    assert refreshed.headers["HX-Trigger"] == "done"
    assert [(request.kind.value, request.by, request.reason, request.via) for request in stored(database)] == [
        ("stop", BOB, "done for today", "page")
    ]
    assert woken == ["woken"]
    shown = page_of(client, "/")
    assert "stop requested by bob@lab.example: done for today pending since 12:00" in tidy(shown.text)
    assert f"{place.removeprefix('/vm/lab/')}/stop" not in acts(shown)
    assert "stop requested by bob@lab.example" in tidy(page_of(client, place).text)


@pytest.mark.parametrize(
    ("until", "hours", "expected"),
    [
        ("4", "", 4),
        ("morning", "9", None),
        ("hours", "30", 30),
        ("hours", "0", 422),
        ("hours", "000001999999", 422),
        ("x", "", 422),
    ],
)
def test_a_keep_says_for_how_long(
    database: Database, client_with: Clients, until: str, hours: str, expected: int | None
) -> None:
    """Four hours, until tomorrow morning, or a number of hours; anything else is explained and stores nothing."""
    place = story.tell(database)["forgotten"]
    client = client_with(authenticator=signed_in(Role.ADMIN, BOB))
    answer = client.post(f"{place}/keep", data={**CSRF, "until": until, "hours": hours}, follow_redirects=False)
    assert answer.status_code == (422 if expected == 422 else 303)
    assert [request.hours for request in stored(database)] == ([] if expected == 422 else [expected])


@pytest.mark.parametrize(
    ("role", "path", "sent", "status", "said"),
    [
        (Role.VIEWER, "forgotten/stop", CSRF, 403, "needs the permission instances"),
        (Role.OPERATOR, "forgotten/stop", {}, 403, "It is not certain that a page of Costguard's sent this"),
        (Role.OPERATOR, "forgotten/delete", CSRF, 404, "There is no such page."),
        (
            Role.ADMIN,
            "forgotten/stop",
            {**CSRF, "started_at": "2026-11-20T11:59:00+00:00"},
            409,
            "started again since",
        ),
        (Role.OPERATOR, "forgotten/stop", {**CSRF, "started_at": "yesterday"}, 422, "started_at is not a time"),
        (Role.ADMIN, "resting/stop", CSRF, 409, "is already stopped"),
        (Role.OPERATOR, "left/stop", CSRF, 409, "no longer exists"),
    ],
)
def test_what_cannot_be_asked_is_told_on_a_page(
    database: Database, client_with: Clients, role: Role, path: str, sent: dict[str, str], status: int, said: str
) -> None:
    """The page has words and the fitting status; nothing is stored."""
    addresses = story.tell(database)
    name, _, wish = path.partition("/")
    answer = client_with(authenticator=signed_in(role, BOB)).post(
        f"{addresses[name]}/{wish}", data=sent, follow_redirects=False
    )
    assert (answer.status_code, answer.headers["content-type"]) == (status, "text/html; charset=utf-8")
    assert said in tidy(Page(answer.text).text)
    assert stored(database) == []
