"""Every route, asked by everybody: the table is made from the application itself, so that no route is forgotten."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta

import pytest
from fastapi import FastAPI
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute, iter_route_contexts
from starlette.routing import Mount
from tests.api.conftest import Standstill, deps_of
from tests.authenticators import authenticator_of, begin_session, make_principal, sign_in_pages
from tests.in_one_thread import OneThread, in_one_thread
from tests.jobs import job_rows
from tests.jobs.job_service import JobSetup

from costguard.access.sessions import Sessions
from costguard.access.tokens import NewToken, TokenService
from costguard.api.app import create_app
from costguard.db.transaction import Database
from costguard.jobs.reports.agent_events import AgentEvents, AgentTokens
from costguard.model.access import PERMISSIONS, Credentials, Permission, Principal, Role, Via
from costguard.model.attempt import AttemptState
from costguard.pages.app import add_pages
from costguard.pages.sign_in import add_sign_in
from costguard.web.authentication import OPEN_PATHS
from costguard.web.permissions import Needs

OWNER = "ana@lab.example"
AGENTS = AgentTokens(b"k" * 32)
MASTER = "the master token"
EVENTS = "/api/v1/attempts/{attempt}/events"
CLAIMS = "/api/v1/vm-claims"  # a VM shows what it is in the body: tests/api/test_vm_claims.py
OF_AGENTS = {
    CLAIMS,
    EVENTS,
    "/api/v1/attempts/{attempt}/stage",
    "/api/v1/attempts/{attempt}/code",
    "/api/v1/attempts/{attempt}/rclone",
    "/api/v1/attempts/{attempt}/py-spy",
}
# Who only reads may ask these, though they are posted: nothing is changed by them.
READS_BY_POST = {"/api/v1/quotes", "/api/v1/sweep-quotes", "/api/v1/schedule-quotes", "/launch/quote"}
SAFE = {"GET", "HEAD", "OPTIONS"}


@dataclass(frozen=True)
class Asked:
    """A method of one route; `needs` is None where everybody may come in."""

    method: str
    path: str
    needs: Permission | None

    @property
    def address(self) -> str:
        """Returns an address of nothing that there is.

        The parameter is known to no route of the API, which says so at once.
        """
        return re.sub(r"\{[^}]*\}", "nothing", self.path) + ("?nonsense=1" if self.path.startswith("/api/") else "")


@dataclass(frozen=True)
class Comer:
    """A caller, and what they may do."""

    name: str
    permissions: frozenset[Permission] | None  # None: nobody knows them
    headers: Mapping[str, str]


class House:
    client: OneThread

    def __init__(self, database: Database) -> None:
        clock = Standstill()
        self.office = JobSetup(database)
        self.authenticator = authenticator_of(database, clock, master="the master's token")
        deps = replace(
            deps_of(database),
            authenticator=self.authenticator,
            jobs=self.office.it,
            sweeps=self.office.sweeps,
            schedules=self.office.schedules,
            rules=self.office.rules,
            agent_events=AgentEvents(database, clock, AGENTS, lambda: None),
        )
        self.app = create_app(deps)
        add_pages(self.app, deps)
        add_sign_in(self.app, sign_in_pages(database, clock))
        self._tokens = TokenService(database, clock)
        self._sessions = Sessions(database, clock, timedelta(hours=1))
        with database.write() as connection:
            job_rows.added(connection)
            job_rows.attempt(connection, state=AttemptState.BOOTING, gce_id="71")

    def status(self, route: Asked, comer: Comer) -> int:
        # A form, where the route is a page's: the API then says that it is no JSON, once the authenticator is passed.
        headers = {"Accept": "application/json", **comer.headers}
        body = b"" if route.method in SAFE else b"{}" if route.path.startswith("/api/") else b"nothing=1"
        kind = "application/json" if route.path.startswith("/api/") else "application/x-www-form-urlencoded"
        return self.client.request(
            route.method, route.address, content=body, headers={"Content-Type": kind, **headers}
        ).status_code

    def strangers(self) -> Iterator[Comer]:
        yield Comer("no token", None, {})
        yield Comer("a wrong token", None, _bearer("cgt_0123456789_nonsense"))
        yield Comer("an attempt's token", None, _bearer(AGENTS.of("cg-j7k2m9q4-1")))
        yield Comer("an unknown cookie", None, {"Cookie": "costguard_session=nonsense"})
        _, expired = self._tokens.make(NewToken("old", lasts=timedelta(microseconds=1)), self._person(Role.ADMIN))
        made, revoked = self._tokens.make(NewToken("lost"), self._person(Role.ADMIN))
        self._tokens.revoke(made.id, self._person(Role.ADMIN))
        yield Comer("a revoked token", None, _bearer(revoked or ""))
        yield Comer("an expired token", None, _bearer(self._expired()))
        assert expired

    def comers(self) -> Iterator[Comer]:
        for role in Role:
            _, cookie = begin_session(self.office.database, self._sessions, OWNER, Via.LINK, role)
            who = self.authenticator.who(Credentials(session=cookie))
            assert isinstance(who, Principal)
            proof = {"X-CSRF-Token": self.authenticator.csrf(who)}
            shown = {"Cookie": f"costguard_session={cookie}"}
            yield Comer(f"{role.value}, signed in", PERMISSIONS[role], {**shown, **proof})
            if role is not Role.NOBODY:
                _, secret = self._tokens.make(NewToken(role.value), self._person(role))
                yield Comer(f"{role.value}'s token", PERMISSIONS[role], _bearer(secret or ""))
        for permission in Permission:
            only = frozenset({permission})
            _, secret = self._tokens.make(NewToken("narrow", only), self._person(Role.ADMIN))
            yield Comer(f"an admin's token for {permission.value} alone", only, _bearer(secret or ""))
        yield Comer(MASTER, PERMISSIONS[Role.ADMIN], _bearer("the master's token"))

    def browser_of_others(self) -> Comer:
        """An admin's, that some other page makes ask: without the proof of ours."""
        _, cookie = begin_session(self.office.database, self._sessions, OWNER, Via.LINK, Role.ADMIN)
        return Comer("another page", frozenset(), {"Cookie": f"costguard_session={cookie}"})

    def _person(self, role: Role) -> Principal:
        return make_principal(role, OWNER, Via.LINK)

    def _expired(self) -> str:
        class Yesterday:
            def now(self) -> object:
                return Standstill().now() - timedelta(days=1)

        made = TokenService(self.office.database, Yesterday())  # type: ignore[arg-type]
        return made.make(NewToken("old", lasts=timedelta(hours=1)), self._person(Role.ADMIN))[1] or ""


def _bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def table(app: FastAPI) -> list[Asked]:
    """Each method of each route, with the one permission that it needs."""
    rows = []
    for route in iter_route_contexts(app.routes):
        if isinstance(route.original_route, Mount):
            assert route.path == "/static"
            continue
        assert route.path is not None
        wanted = _permissions(route.dependant) if isinstance(route.original_route, APIRoute) else []
        assert len(wanted) <= 1, f"{route.path} needs {wanted}: one would do"
        rows += [Asked(method, route.path, wanted[0] if wanted else None) for method in sorted(route.methods or ())]
    return rows


def _permissions(dependant: Dependant) -> list[Permission]:
    own = [dependant.call.permission] if isinstance(dependant.call, Needs) else []
    return own + [permission for below in dependant.dependencies for permission in _permissions(below)]


@pytest.fixture
def house(sqlite_database: Database) -> Iterator[House]:
    house = House(sqlite_database)
    with in_one_thread(house.app) as house.client:
        yield house
    house.authenticator.close()


def test_every_route_needs_a_permission_or_is_open_on_purpose(house: House) -> None:
    """A route that changes something needs more than to read."""
    for route in table(house.app):
        is_open = route.path in OPEN_PATHS or route.path.startswith("/sign-in") or route.path in OF_AGENTS
        is_anybodys = route.path in {"/openapi.json", "/api/v1", "/api/v1/me", "/sign-out"}  # of those who are known
        assert (route.needs is None) == (is_open or is_anybodys), route
        if route.method not in SAFE and route.path not in READS_BY_POST and route.needs is not None:
            assert route.needs is not Permission.READ, route


def test_strangers_get_nowhere(house: House) -> None:
    """No token, a wrong, expired or revoked one, an agent's: 401 at every route that is not open."""
    strangers = list(house.strangers())
    for route in table(house.app):
        if (route.needs is None and route.path in OPEN_PATHS) or route.path.startswith("/sign-in"):
            continue
        if route.path == CLAIMS:
            continue
        for stranger in strangers:
            assert house.status(route, stranger) == 401, (route, stranger.name)
    assert (
        house.client.request(
            "POST",
            EVENTS.format(attempt="cg-j7k2m9q4-2"),
            json={"events": []},
            headers=_bearer(AGENTS.of("cg-j7k2m9q4-1")),
        ).status_code
        == 401
    )
    assert (
        house.client.request(
            "POST",
            EVENTS.format(attempt="cg-j7k2m9q4-1"),
            json={"events": []},
            headers=_bearer(AGENTS.of("cg-j7k2m9q4-1")),
        ).status_code
        == 200
    )


def test_each_comes_as_far_as_they_may(house: House) -> None:
    """The answer by role and by token is 403 without the permission, and an answer of the route's with it."""
    comers = list(house.comers())
    rows = [route for route in table(house.app) if route.needs is not None]
    assert len(rows) > 40
    for row in rows:
        for comer in comers:
            if comer.name == MASTER and row.method not in SAFE and not row.path.startswith("/api/"):
                continue  # it speaks for nobody, and a page's form has no place to say for whom
            may = row.needs in (comer.permissions or ())
            status = house.status(row, comer)
            assert status < 500, (row, comer.name, status)
            assert (status == 403) == (not may), (row, comer.name, status)
            assert status != 401, (row, comer.name)


def test_pages_of_others_change_nothing(house: House) -> None:
    """A browser that is signed in, and sends no proof of our pages: 403 at whatever is not only read."""
    for route in table(house.app):
        if route.method not in SAFE and (route.needs is not None or route.path == "/sign-out"):
            assert house.status(route, house.browser_of_others()) == 403, route


def test_no_body_is_taken_in_that_does_not_fit(house: House) -> None:
    """Megabytes are refused before they are understood."""
    answer = house.client.request(
        "POST", "/api/v1/jobs", json={"name": "x" * (3 << 20)}, headers=_bearer("the master's token")
    )
    assert (answer.status_code, answer.json()["next"]) == (413, "Send less at once.")
