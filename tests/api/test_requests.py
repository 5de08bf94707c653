"""Stops, keeps, claims and the like are asked for over REST, stored once, and followed."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from fastapi.testclient import TestClient
from tests.access.access_setup import ADA, RULES
from tests.api import rows
from tests.api.conftest import deps_of
from tests.api.rows import NOW
from tests.authenticators import FixedAuthenticator, make_principal
from tests.fakes import HandClock

from costguard.access.rules import Rules
from costguard.access.tokens import NewToken, TokenService
from costguard.api.app import create_app
from costguard.db.tables import lifetimes
from costguard.db.transaction import Database
from costguard.events import audit_log
from costguard.model.access import Permission, Principal, Role, Via
from costguard.model.keeper import KeeperKind
from costguard.model.reminder import Request, RequestKind, Subject, SubjectKind
from costguard.reminders import request_rows

MASTER = make_principal()
OWNER = make_principal(Role.OPERATOR, ADA, Via.TOKEN, is_granted=False)
STRANGER = make_principal(Role.OPERATOR, "vic@lab.example", Via.TOKEN, is_granted=False)
GUEST = make_principal(Role.ADMIN, "guest@else.example", Via.TOKEN)  # in no list: the role came with the token
ADMIN = make_principal(Role.ADMIN, "adam@lab.example", Via.TOKEN, is_granted=False)
VIEWER = make_principal(Role.VIEWER, ADA, Via.TOKEN, is_granted=False)
_LISTS = replace(RULES.access, operators=RULES.access.operators | {ADA, STRANGER.address})
LISTED = replace(RULES, access=_LISTS)  # who is an operator in these tests is one by the lists, too
STARTED = NOW - timedelta(hours=9)


class Api:
    def __init__(self, database: Database, rules: Rules = LISTED) -> None:
        self.database, self.woken, self._authenticator = database, list[bool](), FixedAuthenticator(OWNER)
        deps = replace(
            deps_of(database), rules=rules, authenticator=self._authenticator, wake=lambda: self.woken.append(True)
        )
        self._client = TestClient(create_app(deps))

    def client(self, who: Principal) -> TestClient:
        self._authenticator.principal = who
        return self._client

    def post(self, what: str, body: Any = None, who: Any = OWNER, key: str | None = None, vm: str = "trainer") -> Any:
        headers = {} if key is None else {"Idempotency-Key": key}
        return self.client(who).post(f"/api/v1/instances/lab/{vm}/{what}", json=body or {}, headers=headers)

    def vm(self, name: str, running: bool = True, **given: Any) -> Subject:
        with self.database.write() as connection:
            status = {} if running else {"status": "stopped"}
            instance = rows.instance(connection, name, gce_id=name, **status, **given)
            ended = {} if running else {"ended_at": NOW - timedelta(hours=1), "end_reason": "stopped"}
            life = rows.lifetime(connection, instance, STARTED, **ended)
        return Subject(SubjectKind.RUN if running else SubjectKind.REST, instance, life)

    @property
    def open(self) -> list[Request]:
        with self.database.read() as connection:
            return [request for _, request in request_rows.open_requests(connection)]

    @property
    def event_texts(self) -> list[str]:
        with self.database.read() as connection:
            return [event.event.text for event in reversed(audit_log.read(connection))]


@pytest.fixture
def api(sqlite_database: Database) -> Api:
    return Api(sqlite_database)


def test_a_keep_is_stored_as_a_press_is_and_followed(api: Api) -> None:
    """202 with where to follow it; the same request as a button makes, with an event; the daemon is woken."""
    subject = api.vm("trainer", owner=ADA)
    body = {"hours": 4, "reason": "still busy", "started_at": "2026-11-20T03:00:00Z"}
    answer = api.post("keep", body)
    request = answer.json()["request"]
    assert (answer.status_code, answer.headers["location"], request["status"]) == (202, "/api/v1/requests/1", "open")
    (stored,) = api.open
    key = f"api/{ADA}/keep/{subject.instance_id}/{NOW.isoformat()}"
    expected = Request(
        key,
        RequestKind.KEEP,
        subject,
        ADA,
        "",
        "api",
        NOW,
        hours=4,
        reason="still busy",
        authority=OWNER.authority,
        id=1,
    )
    assert stored == expected
    assert (api.event_texts, api.woken) == ([f"{ADA} asked to keep trainer: still busy."], [True])
    with api.database.write() as connection:
        request_rows.settle(connection, 1, "refused", "It was kept 3 times already.", NOW)
    client = api.client(VIEWER)
    followed = client.get(request["links"]["self"]).json()["request"]
    assert (followed["status"], followed["outcome"]) == ("refused", "It was kept 3 times already.")
    assert client.get("/api/v1/requests?gce_id=trainer&project=lab").json()["requests"] == [followed]
    assert client.get("/api/v1/requests?status=open").json()["requests"] == []
    assert client.get(request["links"]["instance"]).status_code == 200


def test_a_key_asks_once(api: Api) -> None:
    """The same again is the request that there is, also once its run is over; something else under it is a 409."""
    subject = api.vm("trainer", owner=ADA)
    first, again = api.post("stop", key="k"), api.post("stop", key="k")
    assert (first.status_code, again.status_code) == (202, 200)
    assert first.json()["request"] == again.json()["request"]
    assert (len(api.open), len(api.event_texts)) == (1, 1)
    taken = api.post("claim", key="k")
    assert (taken.status_code, taken.json()["type"]) == (409, "/problems/key-taken")
    assert api.post("stop", who=ADMIN, key="k").status_code == 202, "keys of one person mean nothing to another"
    with api.database.write() as connection:
        request_rows.settle(connection, 1, "done", "trainer was stopped.", NOW)
        over = lifetimes.update().where(lifetimes.c.id == subject.lifetime_id)
        connection.execute(over.values(ended_at=NOW, end_reason="stopped"))
    assert api.post("stop", key="k").json()["request"]["outcome"] == "trainer was stopped."


def test_what_cannot_be_done_is_said_at_once(api: Api) -> None:
    """403, 404, 409 and 422 problems that say what to do; a refusal is an event, and nothing is stored."""
    api.vm("trainer", owner=ADA)
    api.vm("rested", running=False, owner=ADA)
    api.vm("nobodys", owner="")
    with api.database.write() as connection:
        rows.instance(connection, "gone", gce_id="gone", gone_at=NOW)
    other = {"started_at": "2026-11-20T04:00:00Z"}
    cases: tuple[tuple[str, str, Any, Any, int, str], ...] = (
        ("stop", "trainer", {}, STRANGER, 403, "an operator of team vision or an admin can stop trainer."),
        ("stop", "trainer", {}, VIEWER, 403, "this needs the permission instances"),
        ("stop", "trainer", {"by": "adam@lab.example"}, OWNER, 403, "only admins act in another's name"),
        ("stop", "trainer", {}, MASTER, 422, "speaks for nobody"),
        ("stop", "4711", {}, OWNER, 404, "was ever seen"),
        ("stop", "gone", {}, ADMIN, 409, "gone no longer exists"),
        ("stop", "rested", {}, OWNER, 409, "rested is already stopped"),
        ("stop", "trainer", other, OWNER, 409, "stopped or started again"),
        ("claim", "trainer", {}, OWNER, 409, "already yours"),
        ("disown", "nobodys", {}, ADMIN, 409, "already unowned"),
        ("keep", "trainer", {"hours": 0}, OWNER, 422, "body.hours"),
        ("keep", "trainer", {"hours": True}, OWNER, 422, "body.hours"),
        ("stop", "trainer", {"hours": 4}, OWNER, 422, "body.hours"),
        ("stop", "trainer", {"started_at": 1}, OWNER, 422, "RFC 3339"),
    )
    for what, vm, body, who, status, said in cases:
        answer = api.post(what, body, who, vm=vm)
        assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json"), said
        assert said in answer.json()["detail"], answer.json()
        assert answer.json()["next"]
    assert (api.open, api.woken) == ([], [])
    assert api.event_texts[0].startswith("vic@lab.example asked to stop trainer, and was refused: Only ada@lab.example")


def test_in_whose_name_it_is_asked(api: Api) -> None:
    """A role that came with the token counts, and is kept for the pass; who is named by an admin is held to theirs."""
    api.vm("trainer", owner="")
    assert api.post("stop", {}, GUEST).status_code == 202
    assert api.post("keep", {}, replace(GUEST, is_granted=False)).status_code == 403
    assert api.post("stop", {"by": "Adam@lab.example"}, MASTER).status_code == 202
    assert api.post("keep", {"by": "guest@else.example"}, MASTER).status_code == 403
    assert api.post("claim", {}, ADMIN).status_code == 202
    assert [(request.by, request.authority) for request in api.open] == [
        ("guest@else.example", GUEST.authority),
        ("adam@lab.example", MASTER.authority),
        ("adam@lab.example", ADMIN.authority),
    ]


def test_a_token_without_the_permission_acts_on_nothing(api: Api) -> None:
    """The refusal does not depend on the owner's role."""
    api.vm("trainer", owner=ADA)
    reader = make_principal(Role.ADMIN, ADA, Via.TOKEN, [Permission.READ, Permission.JOBS])
    for kind in RequestKind:
        assert api.post(kind.value, {}, reader).status_code == 403


def test_a_revoked_token_stops_nothing_any_more(api: Api) -> None:
    """A pending request of the token is refused, and says why; requests that its owner made otherwise stay."""
    api.vm("trainer", owner=ADA)
    office, me = TokenService(api.database, HandClock(NOW)), replace(OWNER, via=Via.OIDC)
    made, _ = office.make(NewToken("lost"), me)
    assert api.post("stop", {}, replace(OWNER, token_id=made.id)).status_code == 202
    assert api.post("keep", {"hours": 4}).status_code == 202
    office.revoke(made.id, me)
    assert [request.kind for request in api.open] == [RequestKind.KEEP]
    ended = api.client(OWNER).get("/api/v1/requests/1").json()["request"]
    assert ended["status"] == "refused"
    assert ended["outcome"].endswith(f"with which this was asked, was revoked by {ADA}.")
    assert "1 request made with it and not carried out yet ended." in api.event_texts[-1] + api.event_texts[0]


def test_a_stop_of_a_vm_that_another_keeps_is_refused_with_what_to_do_instead(api: Api) -> None:
    """An admin is refused too; nothing is stored but the event."""
    api.vm("node", owner=ADA, labels={"goog-dataproc-cluster-name": "etl", "goog-dataproc-location": "us-east1"})
    for who in (OWNER, ADMIN):
        answer = api.post("stop", who=who, vm="node")
        assert answer.status_code == 409
        assert answer.json()["type"].endswith("kept-by-another")
        assert "node belongs to Dataproc cluster etl, so Costguard does not stop it" in answer.json()["detail"]
        command = "gcloud dataproc clusters stop etl --region us-east1 --project lab"
        assert answer.json()["next"] == f"Instead, stop its cluster with `{command}`."
    assert api.open == []
    assert api.post("keep", {"hours": 4}, vm="node").status_code == 202


def test_a_stop_of_a_groups_vm_is_taken_where_the_settings_allow_it(sqlite_database: Database) -> None:
    """The VM then counts as one that can be stopped, for agents over MCP as well; else the answer names the setting."""
    group = {"created-by": "projects/1/zones/us-central1-a/instanceGroupManagers/trainers"}
    refusing = Api(sqlite_database)
    refusing.vm("member", owner=ADA, origin=group)
    refused = refusing.post("stop", vm="member")
    assert (refused.status_code, refusing.open) == (409, [])
    assert 'enforcement.stop_through = ["group"]' in refused.json()["next"]
    shown = refusing.client(OWNER).get("/api/v1/instances/lab/member").json()["instance"]["never_stopped"]
    assert "managed instance group trainers" in shown
    allowing = Api(sqlite_database, replace(LISTED, stop_through=frozenset({KeeperKind.GROUP})))
    assert allowing.client(OWNER).get("/api/v1/instances/lab/member").json()["instance"]["never_stopped"] == ""
    assert allowing.post("stop", vm="member").status_code == 202
    assert [request.kind for request in allowing.open] == [RequestKind.STOP]
