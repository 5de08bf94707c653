"""Pages and lists that are made once for many show each person what they would see alone, and nothing of another's."""

from __future__ import annotations

import asyncio
import gzip
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest
from fastapi import FastAPI
from fastapi.routing import iter_route_contexts
from starlette.responses import StreamingResponse
from starlette.types import Message, Scope
from tests.api import rows
from tests.authenticators import make_principal
from tests.jobs.job_service import JobSetup
from tests.loops import Run, loop
from tests.pages import story

from costguard.api.app import create_app
from costguard.api.deps import Deps
from costguard.db.state import state
from costguard.db.transaction import Database
from costguard.model.access import Credentials, Permission, Principal, Role, Stranger, Via
from costguard.model.reminder import Team
from costguard.pages.app import add_pages
from costguard.web.rendering import Sharing
from costguard.web.sharing import GetKind, GetKinds

ADA, BOB, CLEO, DAN, EVE = (f"{name}@lab.example" for name in ("ada", "bob", "cleo", "dan", "eve"))
# Owners, members of a team, admins, viewers with and without a session, a program that may read, one that is nobody.
PEOPLE = {
    "ada": make_principal(Role.OPERATOR, ADA, Via.LINK),
    "bob": make_principal(Role.OPERATOR, BOB, Via.LINK),
    "cleo": make_principal(Role.OPERATOR, CLEO, Via.OIDC, is_granted=False),
    "dan": make_principal(Role.VIEWER, DAN, Via.LINK),
    "eve": make_principal(Role.VIEWER, EVE, Via.LINK),
    "root": make_principal(Role.ADMIN, "root@lab.example", Via.LINK),
    "boss": make_principal(Role.ADMIN, "boss@lab.example", Via.LINK),
    "master": make_principal(Role.ADMIN, ""),
    "reader": replace(make_principal(Role.VIEWER, "reader@lab.example", Via.TOKEN), token_id="t1"),
    "scrape": make_principal(Role.VIEWER, "scrape@lab.example", Via.TOKEN, [Permission.METRICS]),
}
PEOPLE = {
    name: replace(principal, session=f"s-{name}") if principal.is_ambient else principal
    for name, principal in PEOPLE.items()
}
# What each has that nobody else may see: the proof that their own page sends.
PROOFS = {name: f"proof-of-{name}-0123456789" for name in PEOPLE}


@dataclass(frozen=True)
class Crowd:
    """A authenticator for all of them, by the name that they show."""

    def who(self, shown: Credentials) -> Principal | Stranger:
        return PEOPLE.get(shown.bearer, Stranger("Unknown.", "Sign in."))

    def csrf(self, principal: Principal) -> str:
        return next(PROOFS[name] for name, person in PEOPLE.items() if person == principal)

    def is_csrf(self, principal: Principal, text: str) -> bool:
        return text == self.csrf(principal)


class Apps:
    """The same application twice: one that makes each response for its caller, and one that shares them."""

    def __init__(self, deps: Deps) -> None:
        self.alone, self.shared = _app(deps), _app(replace(deps, sharing=Sharing(lambda: state(deps.database))))


@pytest.fixture
def database(sqlite_database: Database) -> Database:
    """Makes a database. Pages' reads are tested with both elsewhere."""
    return sqlite_database


@pytest.fixture
def run() -> Iterator[Run]:
    """All of a test's requests come to one event loop, as a server has one."""
    with loop() as running:
        yield running


@pytest.fixture
def apps(deps: Deps, sqlite_database: Database) -> Apps:
    office = JobSetup(sqlite_database)
    fleet = story.tell(sqlite_database)
    with sqlite_database.write() as connection:
        rows.instance(connection, "bobs", owner=BOB)
        rows.instance(connection, "cleos", owner=CLEO)
    assert fleet
    teams = (Team("vision", members=frozenset({ADA, BOB}), operators=frozenset({BOB}), projects=frozenset({"lab"})),)
    rules = replace(office.rules, teams=teams)
    return Apps(replace(deps, database=sqlite_database, rules=rules, jobs=office.it, authenticator=Crowd()))


def _app(deps: Deps) -> FastAPI:
    app = create_app(deps)
    add_pages(app, deps)
    return app


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes


async def get(app: FastAPI, address: str, who: str, **headers: str) -> Answer:
    path, _, query = address.partition("?")
    named = {"host": "guard", "authorization": f"Bearer {who}", "accept": "text/html", **headers}
    scope: Scope = {
        "type": "http",
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": query.encode(),
        "server": ("guard", 80),
        "client": ("192.0.2.1", 1),
        "headers": [(name.replace("_", "-").encode(), value.encode()) for name, value in named.items()],
    }
    sent: list[Message] = []
    body_messages: list[Message] = [{"type": "http.request", "body": b"", "more_body": False}]

    async def receive() -> Message:
        """The empty body; then the caller stays, as uvicorn shows it."""
        return body_messages.pop() if body_messages else await asyncio.get_running_loop().create_future()

    async def send(message: Message) -> None:
        sent.append(message)

    await app(scope, receive, send)
    answer_headers = {name.decode().lower(): value.decode() for name, value in sent[0]["headers"]}
    body = b"".join(message.get("body", b"") for message in sent[1:])
    assert int(answer_headers.get("content-length", len(body))) == len(body)
    return Answer(
        sent[0]["status"], answer_headers, gzip.decompress(body) if answer_headers.get("content-encoding") else body
    )


def _addresses(app: FastAPI) -> Iterator[str]:
    """Every page and list that one GET gives; forms have keys of their own, which differ each time."""
    addresses_by_path = {
        "/vm/{project}/{gce_id}": ["/vm/lab/9000", "/vm/lab/9002"],
        "/api/v1/instances/{project}/{gce_id}": ["/api/v1/instances/lab/9000"],
    }
    kinds = GetKinds()
    for route in iter_route_contexts(app.routes):
        path = route.path or ""
        if "GET" not in (route.methods or ()) or ("{" in path and path not in addresses_by_path):
            continue
        for address in addresses_by_path.get(path, [path]):
            scope = {"path": address, "app": app}
            if kinds(scope, PEOPLE["ada"]) in (GetKind.OWN, GetKind.ALIKE):
                yield address


def test_a_crowd_sees_what_each_would_see_alone(apps: Apps, run: Run) -> None:
    """Ten people at once, of all roles and two teams, on every page and list: byte for byte what is made for each."""
    addresses = list(_addresses(apps.alone))
    assert {"/", "/spend", "/jobs", "/api/v1/instances", "/metrics"} <= set(addresses)
    for address in addresses:
        wanted = {who: run(get(apps.alone, address, who)) for who in PEOPLE}

        async def crowd(address: str = address) -> dict[str, Answer]:
            answers = [get(apps.shared, address, who, accept_encoding="gzip") for who in PEOPLE]
            return dict(zip(PEOPLE, await asyncio.gather(*answers), strict=True))

        for who, answer in run(crowd()).items():
            assert answer.status == wanted[who].status, (address, who, answer.body[:300])
            if address != "/metrics":  # it times the very requests
                assert answer.body == wanted[who].body, (address, who)
            for other in PEOPLE:
                if other != who:
                    assert PROOFS[other].encode() not in answer.body, (address, who, other)
                    assert f"s-{other}".encode() not in answer.body, (address, who, other)


def test_a_page_is_made_once_for_all_who_may_see_the_same(apps: Apps, run: Run) -> None:
    """Viewers share Now; an owner, whose offers differ, has one of their own, made from the same gathered figures."""

    async def crowd() -> list[Answer]:
        return await asyncio.gather(*(get(apps.shared, "/", who) for who in ("dan", "eve", "ada", "bob")))

    dan, eve, ada, bob = run(crowd())
    assert DAN.encode() in dan.body
    assert DAN.encode() not in eve.body
    assert (
        dan.body.replace(DAN.encode(), EVE.encode())
        .replace(PROOFS["dan"].encode(), PROOFS["eve"].encode())
        .replace(b">d</summary>", b">e</summary>")
        == eve.body
    )
    his_own = re.compile(rb'href="(/vm/lab/\d+/disown)"')
    assert not set(his_own.findall(ada.body)) & set(his_own.findall(bob.body))


def test_what_somebody_changed_is_there_with_their_next_look(apps: Apps, run: Run, sqlite_database: Database) -> None:
    """A page that was made a moment ago is not good any more once a table has changed."""

    async def look() -> bytes:
        return (await get(apps.shared, "/", "dan")).body

    assert b"brand-new" not in run(look())
    with sqlite_database.write() as connection:
        rows.instance(connection, "brand-new")
    assert b"brand-new" in run(look())


def test_a_tag_is_answered_304_for_all(apps: Apps, run: Run) -> None:
    """If-None-Match is each person's own, though the answer is shared."""

    async def looks() -> tuple[Answer, Answer, Answer]:
        first = await get(apps.shared, "/api/v1/instances", "dan")
        again = get(apps.shared, "/api/v1/instances", "eve", if_none_match=first.headers["etag"])
        return (first, *await asyncio.gather(again, get(apps.shared, "/api/v1/instances", "root")))

    first, again, other = run(looks())
    assert (first.status, again.status, other.status) == (200, 304, 200)
    assert again.body == b""
    assert again.headers["etag"] == first.headers["etag"]


def test_no_route_that_asks_who_asks_is_shared_between_people(apps: Apps) -> None:
    """The application's own routes are checked: a new one is a form until it says otherwise."""
    kinds, shared = GetKinds(), set()
    for route in iter_route_contexts(apps.alone.routes):
        if "GET" in (route.methods or ()) and route.path:
            kind = kinds({"path": route.path, "query_string": b"", "app": apps.alone}, PEOPLE["ada"])
            shared |= {route.path} if kind in (GetKind.OWN, GetKind.ALIKE) else set()
    assert not {path for path in shared if path.startswith(("/tokens", "/sessions", "/launch", "/api/v1/tokens"))}
    assert "/vm/{project}/{gce_id}/{wish}" not in shared


def test_what_is_streamed_is_never_collected_for_sharing(apps: Apps) -> None:
    """An export may be larger than memory: each goes to its own reader, as it is read."""
    kinds = GetKinds()
    streamed = {
        route.path: kinds({"path": route.path, "query_string": b"", "app": apps.shared}, PEOPLE["ada"])
        for route in iter_route_contexts(apps.shared.routes)
        if "GET" in (route.methods or ())
        and route.endpoint
        and "StreamingResponse" in str(inspect.signature(route.endpoint))
    }
    assert {"/events.csv", "/api/v1/jobs/{job_id}/output/text"} <= set(streamed)
    assert set(streamed.values()) == {GetKind.EXPORT}
    assert kinds({"path": "/api/v1/focus", "app": apps.shared}, PEOPLE["ada"]) is GetKind.EXPORT


@pytest.mark.parametrize("address", ["/api/v1/focus?format=csv", "/events.csv", "/events.json"])
def test_an_export_ends_behind_the_sharing(apps: Apps, run: Run, address: str) -> None:
    """An export that waited for its caller to leave kept the event loop busy for ever."""
    answer = run(get(apps.shared, address, "ada", accept="*/*"))
    assert (answer.status, bool(answer.body)) == (200, True)


def test_a_streamed_response_that_is_shared_all_the_same_ends(apps: Apps, run: Run) -> None:
    """A route that does not say that it streams: collected, but its end is seen."""

    def lines() -> StreamingResponse:
        return StreamingResponse(iter(["one\n", "two\n"]), media_type="text/plain")

    apps.shared.add_api_route("/api/v1/lines", lines, response_model=None)
    assert run(get(apps.shared, "/api/v1/lines", "dan")).body == b"one\ntwo\n"
