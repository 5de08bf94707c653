"""Every route that acts, asked with tokens of every role and permission, for VMs and jobs of everybody.

The routes come from the application: a new one without a case here fails the test.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import combinations
from typing import Any

import pytest
from tests.api import rows
from tests.api.conftest import Standstill, deps_of
from tests.api.rows import NOW
from tests.authenticators import authenticator_of, make_principal, sign_in_pages
from tests.in_one_thread import OneThread, in_one_thread
from tests.jobs import job_rows
from tests.jobs.job_service import JobSetup
from tests.schedules import rows as schedule_rows
from tests.sweeps import rows as sweep_rows
from tests.web.test_routes import READS_BY_POST, SAFE, Asked, table

from costguard.access.rules import Access
from costguard.access.tokens import NewToken, TokenService
from costguard.api.app import create_app
from costguard.db.transaction import Database
from costguard.model.access import PERMISSIONS, Permission, Role, Via
from costguard.model.reminder import Team
from costguard.pages.app import add_pages
from costguard.pages.sign_in import add_sign_in

ME, MATE, OTHER = "root@lab.example", "mate@lab.example", "else@lab.example"
# The caller is an admin by the lists: what their tokens may not, only the tokens keep from them.
ACCESS = Access(frozenset({"@lab.example"}), frozenset({MATE, OTHER}), frozenset({ME}))
OWNERS = {"own": ME, "team": MATE, "other": OTHER, "unowned": ""}
WISHES = ("stop", "keep", "claim", "disown")
PAIRS = [frozenset({permission, Permission.ADMIN}) for permission in Permission]
PAIRS.append(frozenset({Permission.INSTANCES, Permission.JOBS}))
REFUSED = {403, 404}  # 404: tokens and sessions of others are not seen


@dataclass(frozen=True)
class Held:
    """A token of ME."""

    role: Role
    permissions: frozenset[Permission]
    headers: Mapping[str, str]

    def may(self, needed: Permission, whose: str, wish: str = "") -> bool:
        if needed not in self.permissions:
            return False
        if needed is Permission.TOKENS:
            return whose == "own" or Permission.ADMIN in self.permissions
        if whose == "own" or self.role is Role.ADMIN or (whose == "unowned" and wish == "claim"):
            return True
        return whose in ("team", "unowned") and self.role is Role.OPERATOR


class House:
    client: OneThread

    def __init__(self, database: Database) -> None:
        clock, self.office = Standstill(), JobSetup(database)
        teams = (Team("vision", frozenset({ME, MATE})),)
        self.office.rules = replace(self.office.rules, access=ACCESS, teams=teams)
        self.authenticator, self._tokens, self._count = (
            authenticator_of(database, clock, ACCESS),
            TokenService(database, clock),
            0,
        )
        deps = replace(
            deps_of(database),
            authenticator=self.authenticator,
            jobs=self.office.it,
            sweeps=self.office.sweeps,
            schedules=self.office.schedules,
            rules=self.office.rules,
        )
        self.app = create_app(deps)
        add_pages(self.app, deps)
        add_sign_in(self.app, sign_in_pages(database, clock, ACCESS))
        with database.write() as connection:
            for whose, owner in OWNERS.items():
                vm = rows.instance(connection, whose, gce_id=whose, owner=owner)
                rows.lifetime(connection, vm, NOW, owner=owner)
                if owner:
                    job_rows.added(connection, whose, owner=owner)
                    job_rows.failed_on_disk(connection, f"{whose}-kept", owner)
                    sweep_rows.added(connection, f"{whose}-sweep", owner)
                    schedule_rows.added(connection, f"{whose}-nightly", owner)

    def tokens(self) -> Iterator[Held]:
        """Makes a token for each role, and of each role one for each permission, and the pairs that open something
        together.
        """
        me = make_principal(Role.ADMIN, ME, Via.OIDC, is_granted=False)
        for role in (Role.VIEWER, Role.OPERATOR, Role.ADMIN):
            all_of_it = sorted(PERMISSIONS[role])
            several = [all_of_it, *combinations(all_of_it, 1), *(p for p in PAIRS if p <= PERMISSIONS[role])]
            for permissions in dict.fromkeys(frozenset(held) for held in several):
                _, secret = self._tokens.make(NewToken("t", permissions, role=role), me)
                yield Held(role, permissions, {"Authorization": f"Bearer {secret}"})

    def post(self, held: Held, path: str, body: Mapping[str, Any], method: str = "POST") -> int:
        """Posts as a program or a page does, each time under a key of its own."""
        self._count += 1
        headers = {**held.headers, "Accept": "application/json"}
        if path.startswith("/api/"):
            headers["Idempotency-Key"] = f"k{self._count}"
            given = {"json": body} if method == "POST" else {"params": body}
        else:
            given = {"data": {**body, "key": f"k{self._count}"}}
        return self.client.request(method, path, headers=headers, **given).status_code


Case = Callable[[House, Held, str], tuple[int, bool] | None]


def of_vm(house: House, held: Held, whose: str, wish: str, path: str) -> tuple[int, bool]:
    status = house.post(held, path.format(vm=whose), {"until": "hours", "hours": "1"} if path.startswith("/vm") else {})
    return status, held.may(Permission.INSTANCES, whose, wish)


def vm_over_rest(wish: str) -> Case:
    return lambda house, held, whose: of_vm(house, held, whose, wish, f"/api/v1/instances/lab/{{vm}}/{wish}")


def vm_on_a_page(wish: str) -> Case:
    return lambda house, held, whose: of_vm(house, held, whose, wish, f"/vm/lab/{{vm}}/{wish}")


def of_job(path: str) -> Case:
    def case(house: House, held: Held, whose: str) -> tuple[int, bool] | None:
        if not OWNERS[whose]:
            return None  # a job is always someone's
        return house.post(
            held, path.format(job=whose), {"agreed": "yes"} if path.startswith("/jobs") else {}
        ), held.may(Permission.JOBS, whose)

    return case


def launch(house: House, held: Held, whose: str) -> tuple[int, bool] | None:
    """A job of one's own with `jobs`; in another's name as an admin alone."""
    if not OWNERS[whose]:
        return None
    body = {"preset": "t4", "command": ["true"], "project": "lab", "owner": OWNERS[whose]}
    named = whose == "own" or Permission.ADMIN in held.permissions
    return house.post(held, "/api/v1/jobs", body), Permission.JOBS in held.permissions and named


def launch_sweep(house: House, held: Held, whose: str) -> tuple[int, bool] | None:
    """Launches a sweep as a job."""
    if not OWNERS[whose]:
        return None
    job = {"preset": "t4", "command": ["{lr}"], "project": "lab", "owner": OWNERS[whose]}
    named = whose == "own" or Permission.ADMIN in held.permissions
    status = house.post(held, "/api/v1/sweeps", {"grid": {"lr": [1]}, "job": job})
    return status, Permission.JOBS in held.permissions and named


def create_schedule(house: House, held: Held, whose: str) -> tuple[int, bool] | None:
    """Creates a schedule as a job."""
    if not OWNERS[whose]:
        return None
    job = {"preset": "t4", "command": ["true"], "project": "lab", "owner": OWNERS[whose]}
    named = whose == "own" or Permission.ADMIN in held.permissions
    status = house.post(held, "/api/v1/schedules", {"every": "day", "job": job})
    return status, Permission.JOBS in held.permissions and named


def launch_on_a_page(house: House, held: Held, whose: str) -> tuple[int, bool] | None:
    if whose != "own":
        return None  # only the master token names another there
    return house.post(held, "/launch", {"preset": "t4", "command": "true"}), held.may(Permission.JOBS, whose)


def token_made(path: str) -> Case:
    def case(house: House, held: Held, whose: str) -> tuple[int, bool] | None:
        if not OWNERS[whose]:
            return None
        form = {"name": "x", "lifetime": "30", "permission": "tokens", "owner": OWNERS[whose]}
        body = {"name": "x", "permissions": ["tokens"], "owner": OWNERS[whose], "role": "viewer"}
        status = house.post(held, path, body if path.startswith("/api") else form)
        return (403 if status == 422 else status), held.may(Permission.TOKENS, whose)

    return case


def session_ended(path: str) -> Case:
    def case(house: House, held: Held, whose: str) -> tuple[int, bool] | None:
        if not OWNERS[whose]:
            return None
        method = "DELETE" if path.startswith("/api") else "POST"
        return house.post(held, path, {"address": OWNERS[whose]}, method), held.may(Permission.TOKENS, whose)

    return case


def token_revoked(method: str, path: str) -> Case:
    def case(house: House, held: Held, whose: str) -> tuple[int, bool] | None:
        if not OWNERS[whose]:
            return None
        by = make_principal(Role.ADMIN, OWNERS[whose], Via.OIDC, is_granted=False)
        made, _ = house._tokens.make(NewToken("x"), by)
        return house.post(held, path.format(token=made.id), {}, method), held.may(Permission.TOKENS, whose)

    return case


def token_confirmed(path: str) -> Case:
    """Confirms a token of a link's session: by admins, whose it is."""

    def case(house: House, held: Held, whose: str) -> tuple[int, bool] | None:
        if not OWNERS[whose]:
            return None
        by = make_principal(Role.ADMIN, OWNERS[whose], Via.LINK)
        made, _ = house._tokens.make(NewToken("x"), replace(by, link_session="s1", link_until=NOW + timedelta(hours=1)))
        status = house.post(held, path.format(token=made.id), {})
        may = Permission.ADMIN in held.permissions
        return (status, may) if held.permissions == PERMISSIONS[Role.ADMIN] or not may else None

    return case


CASES: Mapping[tuple[str, str], tuple[Case, ...]] = {
    **{("POST", f"/api/v1/instances/{{project}}/{{gce_id}}/{wish}"): (vm_over_rest(wish),) for wish in WISHES},
    ("POST", "/vm/{project}/{gce_id}/{action}"): tuple(vm_on_a_page(wish) for wish in WISHES),
    ("POST", "/api/v1/jobs"): (launch,),
    ("POST", "/api/v1/jobs/{job_id}/cancel"): (of_job("/api/v1/jobs/{job}/cancel"),),
    ("POST", "/api/v1/jobs/{job_id}/never-mind"): (of_job("/api/v1/jobs/{job}/never-mind"),),
    ("POST", "/api/v1/jobs/{job_id}/drill"): (of_job("/api/v1/jobs/{job}/drill"),),
    ("POST", "/api/v1/jobs/{job_id}/delete-disk"): (of_job("/api/v1/jobs/{job}-kept/delete-disk"),),
    ("POST", "/api/v1/sweeps"): (launch_sweep,),
    ("POST", "/api/v1/sweeps/{sweep_id}/resume"): (of_job("/api/v1/sweeps/{job}-sweep/resume"),),
    ("POST", "/api/v1/sweeps/{sweep_id}/cancel"): (of_job("/api/v1/sweeps/{job}-sweep/cancel"),),
    ("POST", "/api/v1/sweeps/{sweep_id}/keep"): (of_job("/api/v1/sweeps/{job}-sweep/keep"),),
    ("POST", "/sweeps/{sweep_id}/keep"): (of_job("/sweeps/{job}-sweep/keep"),),
    ("POST", "/api/v1/schedules"): (create_schedule,),
    **{
        ("POST", f"{where}/schedules/{{schedule_id}}/{verb}"): (of_job(f"{where}/schedules/{{job}}-nightly/{verb}"),)
        for where in ("/api/v1", "")
        for verb in ("pause", "resume", "run")
    },
    ("POST", "/launch"): (launch_on_a_page,),
    ("POST", "/sweeps/{sweep_id}/resume"): (of_job("/sweeps/{job}-sweep/resume"),),
    ("POST", "/sweeps/{sweep_id}/cancel"): (of_job("/sweeps/{job}-sweep/cancel"),),
    ("POST", "/jobs/{job_id}/cancel"): (of_job("/jobs/{job}/cancel"),),
    ("POST", "/jobs/{job_id}/never-mind"): (of_job("/jobs/{job}/never-mind"),),
    ("POST", "/jobs/{job_id}/drill"): (of_job("/jobs/{job}/drill"),),
    ("POST", "/jobs/{job_id}/delete-disk"): (of_job("/jobs/{job}-kept/delete-disk"),),
    ("POST", "/api/v1/tokens"): (token_made("/api/v1/tokens"),),
    ("POST", "/tokens"): (token_made("/tokens"),),
    ("DELETE", "/api/v1/tokens/{token_id}"): (token_revoked("DELETE", "/api/v1/tokens/{token}"),),
    ("POST", "/tokens/{token_id}/revoke"): (token_revoked("POST", "/tokens/{token}/revoke"),),
    ("POST", "/api/v1/tokens/{token_id}/confirm"): (token_confirmed("/api/v1/tokens/{token}/confirm"),),
    ("POST", "/tokens/{token_id}/confirm"): (token_confirmed("/tokens/{token}/confirm"),),
    ("DELETE", "/api/v1/sessions"): (session_ended("/api/v1/sessions"),),
    ("POST", "/sessions/end"): (session_ended("/sessions/end"),),
}
# Sessions of one's own and of others are tried one by one in tests/access.
ELSEWHERE = {
    ("POST", "/api/v1/stages/{digest}/delete"),  # operators may: nothing is lost that is not at its source
    ("POST", "/api/v1/schedules/{schedule_id}/end"),  # for good: by the same rule, tests/schedules/test_submit.py
    ("POST", "/schedules/{schedule_id}/end"),
    ("DELETE", "/api/v1/sessions/{session_id}"),
    ("POST", "/sessions/{session_id}/end"),
    ("PUT", "/api/v1/code/{sha256}"),  # belongs to nobody: tests/api/test_code.py
}


@pytest.fixture
def house(sqlite_database: Database) -> Iterator[House]:
    house = House(sqlite_database)
    with in_one_thread(house.app) as house.client:
        yield house
    house.authenticator.close()


def acting(house: House) -> list[Asked]:
    return [
        route
        for route in table(house.app)
        if route.method not in SAFE and route.needs is not None and route.path not in READS_BY_POST
    ]


def test_no_route_that_acts_is_left_out(house: House) -> None:
    """A route that changes something has a case below; a case has a route."""
    assert {(route.method, route.path) for route in acting(house)} == {*CASES, *ELSEWHERE}


def test_a_token_acts_by_its_own_role_and_permissions(house: House) -> None:
    """An admin's token for less reaches their own, their team's, or nothing: 403 or 404 for what it does not cover.

    What a token may not do even to what is its owner's or unowned, it is not asked to do to what others own.
    """
    tokens = list(house.tokens())
    needs = {(route.method, route.path): route.needs for route in acting(house)}
    assert len(tokens) > 20
    tried = 0
    for (method, path), cases in CASES.items():
        for case in cases:
            for held in tokens:
                may_some = {needs[method, path], Permission.ADMIN} & held.permissions
                for whose in OWNERS if may_some else ("own", "unowned"):
                    outcome = case(house, held, whose)
                    if outcome is None:
                        continue
                    status, may = outcome
                    context = (method, path, held.role.value, sorted(held.permissions), whose, status)
                    assert status < 500, context
                    assert (status not in REFUSED) == may, context
                    tried += 1
    assert tried > 1000
