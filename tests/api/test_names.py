"""Jobs are requested, quoted and cancelled in a person's name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from fastapi.testclient import TestClient
from tests.api import rows, story
from tests.api.conftest import deps_of
from tests.api.story import ADA, ROOT, VIC
from tests.authenticators import FixedAuthenticator, make_principal
from tests.jobs import job_rows
from tests.jobs.job_service import JobSetup, priced
from tests.sweeps import sweep_story

from costguard.api.app import create_app
from costguard.db.transaction import Database
from costguard.model.access import Principal, Role, Via

JOB = {"preset": "t4", "command": ["python", "train.py"]}
GUEST = "guest@else.example"  # in no list of the settings


def person(address: str, role: Role, is_granted: bool = False) -> Principal:
    return make_principal(role, address, Via.TOKEN, is_granted=is_granted)


Post = Callable[[Principal, str, Any], Any]


@pytest.fixture
def post(sqlite_database: Database) -> Post:
    lab, authenticator = story.make_story(sqlite_database), FixedAuthenticator(make_principal())
    lab.authenticator.close()
    client = TestClient(create_app(replace(lab.app.state.deps, authenticator=authenticator)))

    def send(who: Principal, path: str, body: Any) -> Any:
        authenticator.principal = who
        return client.post(f"/api/v1/{path}", json=body)

    return send


def test_a_job_is_whose_token_it_is(post: Post) -> None:
    """Nobody need name themselves; only an admin names another, who is then held to what they may themselves."""
    cases: tuple[tuple[Principal, dict[str, str], int, str], ...] = (
        (person(ADA, Role.OPERATOR), {}, 201, ADA),
        (person(ADA, Role.OPERATOR), {"owner": "Ada@Lab.Example"}, 201, ADA),
        (person(ADA, Role.OPERATOR), {"owner": ROOT}, 403, "only admins act in another's name"),
        (person(ROOT, Role.ADMIN), {"owner": ADA}, 201, ADA),
        (person(ROOT, Role.ADMIN), {"owner": VIC}, 422, "may not launch"),
        (person(GUEST, Role.OPERATOR, is_granted=True), {}, 201, GUEST),
        (person(GUEST, Role.OPERATOR), {}, 422, "may not launch"),
        (make_principal(), {}, 422, "Nobody is named as its owner"),
        (make_principal(), {"owner": ADA}, 201, ADA),
    )
    for who, named, status, said in cases:
        answer = post(who, "jobs", {**JOB, **named})
        response = answer.json()
        assert answer.status_code == status, (who, named, answer.text)
        assert said == response["job"]["owner"] if status == 201 else said in str(response), (who, named)


def test_overrides_go_by_the_role_that_came_with_the_token(post: Post) -> None:
    """An admin's may have anything otherwise, an operator's what the preset lets them; quotes say the same."""
    body = {**JOB, "overrides": {"disk_gib": 200}}
    for role, refused in ((Role.OPERATOR, ["overrides.disk_gib"]), (Role.ADMIN, [])):
        who = person(GUEST, role, is_granted=True)
        quote = post(who, "quotes", body).json()
        assert [refusal["where"] for refusal in quote["refusals"]] == refused
        assert post(who, "jobs", body).status_code == (422 if refused else 201)


def test_a_cancel_is_by_who_asks(post: Post) -> None:
    """The owner and admins may cancel; a caller unknown to the lists may with a role that came with their token."""
    assert post(person(VIC, Role.OPERATOR), "jobs/j7k2m9q4/cancel", {}).status_code == 403
    assert post(person(GUEST, Role.OPERATOR), "jobs/j7k2m9q4/cancel", {}).status_code == 403
    assert post(person(ADA, Role.OPERATOR), "jobs/j7k2m9q4/cancel", {"by": ROOT}).status_code == 403
    nobody = post(make_principal(), "jobs/j7k2m9q4/cancel", {})
    assert (nobody.status_code, nobody.json()["errors"][0]["where"]) == (422, "body.by")
    guest = post(person(GUEST, Role.ADMIN, is_granted=True), "jobs/j7k2m9q4/cancel", {"reason": "wrong data"})
    assert (guest.status_code, guest.json()["job"]["cancel_asked_by"]) == (202, GUEST)


def test_sweeps_vms_and_filters_go_by_names(sqlite_database: Database) -> None:
    """The names work as in paths of jobs: a VM's and a sweep's name in a path, and a job's name in a filter."""
    sweep_story.tell(JobSetup(priced(sqlite_database)))
    with sqlite_database.write() as connection:
        job_rows.added(connection, "j1111111", name="resnet")
        rows.instance(connection, "trainer", gce_id="4711", gone_at=rows.NOW)
        rows.instance(connection, "trainer", gce_id="4712")
        rows.event(connection, "started", rows.NOW, data={"job": "j1111111"})
    client = TestClient(create_app(deps_of(sqlite_database)))
    sweep = client.get(f"/api/v1/sweeps/{sweep_story.ID}").json()["sweep"]
    assert client.get(f"/api/v1/sweeps/{sweep['name']}").json()["sweep"]["id"] == sweep_story.ID
    assert client.get("/api/v1/instances/lab/trainer").json()["instance"]["gce_id"] == "4712"
    assert client.get("/api/v1/instances/lab/nothing").status_code == 404
    for path in ("events", "spend", "goodput", "forecast", "focus"):
        answers = [client.get(f"/api/v1/{path}", params={"job": job}) for job in ("resnet", "j1111111")]
        assert [answer.status_code for answer in answers] == [200, 200], path
        assert answers[0].text == answers[1].text, path
    assert len(client.get("/api/v1/events", params={"job": "resnet"}).json()["events"]) == 1
