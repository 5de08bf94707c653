"""Every page, and every list of the API, over a year of a million lifetimes, ten thousand VMs and a thousand jobs."""

from __future__ import annotations

import gc
import re
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

from fastapi import FastAPI
from fastapi.routing import iter_route_contexts
from fastapi.testclient import TestClient
from sqlalchemy import update
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from tests.authenticators import authenticator_of, begin_session
from tests.benchmarks import busy_year, year
from tests.benchmarks.databases import both
from tests.benchmarks.measure import Measured

from costguard.access.rules import Rules
from costguard.access.sessions import Sessions
from costguard.api.app import create_app
from costguard.api.deps import DaemonStatus, Deps
from costguard.db.tables import changes
from costguard.db.transaction import Database
from costguard.model.access import Role, Via
from costguard.pages.app import add_pages
from costguard.web.authentication import COOKIES, RequestAuthenticator

_ROUNDS = 20
_GOAL_MS, _GOAL_P95_MS, _GOAL_CHANGED_MS, _GOAL_KB = 100, 250, 150, 300
_YEAR = f"from={year.LAST - timedelta(days=year.DAYS - 1)}&to={year.LAST}"
_RUNNING, _GONE = f"acme/{1_000_000 + year.VMS}", "acme/1000005"

# What is asked of a route: one address or more. Every other route that needs nothing is asked as it stands.
_ADDRESSES = {
    "/": ("/", "/?preset=preset-1", "/?owner=owner-3%40example.com", "/?sort=age", "/?name=vm-21"),
    "/vm/{project}/{gce_id}": (f"/vm/{_RUNNING}", f"/vm/{_GONE}"),
    "/jobs": ("/jobs", "/jobs?all=yes", "/jobs?owner=owner-3%40example.com"),
    "/jobs/{job_id}": ("/jobs/j5",),
    "/spend": ("/spend", f"/spend?{_YEAR}", f"/spend?group_by=owner&{_YEAR}", "/spend?owner=owner-3%40example.com"),
    "/savings": ("/savings", f"/savings?{_YEAR}", f"/savings?owner=owner-3%40example.com&{_YEAR}"),
    "/events": ("/events", "/events?kind=InstancePreempted"),
    "/api/v1/instances": ("/api/v1/instances", "/api/v1/instances?sort=age&preset=preset-1"),
    "/api/v1/instances/{project}/{gce_id}": (f"/api/v1/instances/{_RUNNING}",),
    "/api/v1/jobs/{job_id}": ("/api/v1/jobs/j5",),
    "/api/v1/jobs/{job_id}/alike": ("/api/v1/jobs/j5/alike",),
    "/api/v1/jobs/{job_id}/lineage": ("/api/v1/jobs/j5/lineage",),
    "/api/v1/jobs/{job_id}/attempts": ("/api/v1/jobs/j5/attempts",),
    "/api/v1/jobs/{job_id}/diagnosis": ("/api/v1/jobs/j5/diagnosis",),
    "/api/v1/jobs/{job_id}/output": ("/api/v1/jobs/j5/output",),
    "/api/v1/jobs/{job_id}/profile": ("/api/v1/jobs/j5/profile",),
    "/jobs/{job_id}/profile": ("/jobs/j5/profile",),
    "/api/v1/jobs/{job_id}/progress": ("/api/v1/jobs/j5/progress",),
    "/api/v1/savings": ("/api/v1/savings", f"/api/v1/savings?{_YEAR}"),
    "/api/v1/spend": ("/api/v1/spend", f"/api/v1/spend?{_YEAR}&group_by=day&group_by=preset"),
    "/api/v1/spend/labels/{label}": (f"/api/v1/spend/labels/experiment?{_YEAR}",),
}
# One row or none, forms, exports of everything, a stream without an end, what only VMs ask, and sweeps, of which this
# ledger has none.
_LEFT_OUT = {
    "/api/docs/{name}",  # a part of /api/docs
    "/api/v1",
    "/api/v1/attempts/{attempt}/code",
    "/api/v1/attempts/{attempt}/py-spy",
    "/api/v1/attempts/{attempt}/rclone",
    "/api/v1/code/{sha256}",
    "/api/v1/jobs/{job_id}/output/text",  # of a bucket
    "/api/v1/events/stream",
    "/api/v1/reminders/preview",
    "/api/v1/requests/{request_id}",
    "/api/v1/schedules/{schedule_id}",
    "/api/v1/stages",  # this ledger has none
    "/api/v1/sweeps/{sweep_id}",
    "/events.csv",
    "/events.json",
    "/healthz",
    "/jobs/{job_id}/cancel",
    "/jobs/{job_id}/output",  # the same
    "/launch",
    "/openapi.json",
    "/problems/{kind}",
    "/readyz",
    "/sessions/end",
    "/sessions/{session_id}/end",
    "/slack/commands",
    "/slack/interactions",
    "/schedules/{schedule_id}",
    "/sweeps/{sweep_id}",
    "/tokens/{token_id}/revoke",
    "/vm/{project}/{gce_id}/{action}",
}
_NEEDED = re.compile(r'(?:src|href)="(/static/[^"]+)"')
_WITHIN = re.compile(r"url\(['\"]?([^'\")]+)['\"]?\)")


class _Standstill:
    def now(self) -> datetime:
        return year.NOW


class Timed:
    """Stands between the server and the application: how long the last answer took, by the clock and of the process's
    CPU, and its bytes as they are sent.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self.ms = self.cpu_ms = 0.0
        self.size = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.size = 0

        async def counted(message: Message) -> None:
            self.size += len(message.get("body", b""))
            await send(message)

        begun, cpu_begun = time.perf_counter(), time.process_time()
        await self._app(scope, receive, counted)
        self.ms, self.cpu_ms = (time.perf_counter() - begun) * 1000, (time.process_time() - cpu_begun) * 1000


def pages(folder: Path) -> Iterator[Measured]:
    with both(folder, "pages") as databases:
        for name, database in databases:
            busy_year.fill(database)
            yield from times(name, database, _ROUNDS)
        yield from weights(databases[0][1])


def times(name: str, database: Database, rounds: int) -> Iterator[Measured]:
    """Server times: from the request's arrival until its answer was sent, compressed; the client's own is not in it.

    Then those of the first look after something changed everywhere, when nothing that is kept is good any more.
    """
    app, cookies = app_over(database)
    timed = Timed(app)
    client = TestClient(timed, cookies=cookies)
    gc.collect()
    gc.freeze()  # as `serve` does; here it is the databases' filling as well

    def look(address: str) -> float:
        answer = client.get(address)
        assert answer.status_code == 200, f"{address}: {answer.text[:500]}"
        return timed.ms

    for address in addresses(app):
        look(address)  # compiles the template and the statements
        again = [look(address) for _ in range(rounds)]
        yield Measured(f"{address}, {name}", "ms", again, _GOAL_MS, _GOAL_P95_MS)
        again = []
        for _ in range(max(1, rounds // 4)):
            with database.write() as connection:
                connection.execute(update(changes).values(number=changes.c.number + 1))
            again.append(look(address))
        yield Measured(f"{address}, {name}, all changed", "ms", again, _GOAL_CHANGED_MS)


def weights(database: Database) -> Iterator[Measured]:
    """Measures pages with all that they load, as a browser that keeps nothing gets them."""
    app, cookies = app_over(database)
    timed = Timed(app)
    client = TestClient(timed, cookies=cookies)
    for address in addresses(app):
        if address.startswith("/api/") or address == "/metrics":
            continue
        page = client.get(address)
        whole, loaded = timed.size, set[str]()
        waiting = _NEEDED.findall(page.text)
        while waiting:
            path = waiting.pop().replace("&amp;", "&")
            if path not in loaded:
                loaded.add(path)
                response = client.get(path)
                assert response.status_code == 200, path
                whole += timed.size
                if ".css" in path:
                    waiting += [str(response.url.join(link).path) for link in _WITHIN.findall(response.text)]
        yield Measured(f"First visit of {address}, compressed", "kB", [whole / 1000], _GOAL_KB)


def addresses(app: FastAPI) -> list[str]:
    """Returns all addresses that can be got, so that no page is forgotten; a page with parameters gets them here."""
    addresses: list[str] = []
    for route in iter_route_contexts(app.routes):
        path = route.path or ""
        if "GET" not in (route.methods or ()) or path in _LEFT_OUT:
            continue
        assert path in _ADDRESSES or "{" not in path, f"no address is known for {path}"
        addresses += _ADDRESSES.get(path, (path,))
    return addresses


def app_over(
    database: Database, archive: Path | None = None, rules: Rules = busy_year.RULES
) -> tuple[FastAPI, dict[str, str]]:
    """Makes the application with the real authenticator, and the cookie of an administrator's browser."""
    clock = _Standstill()
    sessions = Sessions(database, clock, timedelta(hours=12))
    _, cookie = begin_session(database, sessions, "ada@lab.example", Via.LINK, Role.ADMIN)
    deps = replace(deps_over(database, authenticator_of(database, clock), rules), archive=archive)
    app = create_app(deps)
    add_pages(app, deps)
    return app, {COOKIES[1]: cookie}


def deps_over(database: Database, authenticator: RequestAuthenticator, rules: Rules = busy_year.RULES) -> Deps:
    """Makes what an application over a database of the benchmarks needs, at their moment."""
    return Deps(
        database=database,
        clock=_Standstill(),
        rules=rules,
        authenticator=authenticator,
        version="1",
        stale_after=timedelta(minutes=10),
        status=lambda: DaemonStatus(last_pass_at=year.NOW),
    )
