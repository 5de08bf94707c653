"""Polling gets a 304 when nothing is new, and no cache keeps a response."""

from __future__ import annotations

from datetime import timedelta

from fastapi.testclient import TestClient
from tests.api import rows
from tests.api.conftest import Standstill, deps_of
from tests.api.rows import NOW
from tests.jobs import job_rows

from costguard.api.app import create_app
from costguard.api.deps import Deps
from costguard.db.transaction import Database

POLLED = ("instances", "jobs", "jobs/j7k2m9q4", "jobs/j7k2m9q4/output", "spend", "budgets", "forecast", "presets")


class Ticking(Standstill):
    """A second later each time it is asked."""

    def __init__(self) -> None:
        self.seconds = 0

    def now(self) -> object:  # type: ignore[override]
        self.seconds += 1
        return NOW + timedelta(seconds=self.seconds)


def _client(database: Database) -> TestClient:
    deps = deps_of(database)
    ticking = Deps(**{name: getattr(deps, name) for name in deps.__slots__} | {"clock": Ticking()})
    return TestClient(create_app(ticking))


def test_nothing_new_is_a_304(sqlite_database: Database) -> None:
    """The tag stays as time goes by, however it is sent back; with news it is another. No cache keeps an answer."""
    with sqlite_database.write() as connection:
        rows.prices(connection)
        job_rows.added(connection)
        rows.instance(connection, "rested", status="stopped")
    client = _client(sqlite_database)
    for path in (*POLLED, "prices", "events", "requests", "tokens", "projects"):
        first = client.get(f"/api/v1/{path}")
        tag = first.headers["etag"]
        assert (tag.startswith('W/"'), first.headers["cache-control"]) == (True, "no-store"), path
        for etags in (tag, tag.removeprefix("W/"), f'"else", {tag}', "*"):
            again = client.get(f"/api/v1/{path}", headers={"If-None-Match": etags})
            assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag), (path, etags)
        assert client.get(f"/api/v1/{path}", headers={"If-None-Match": '"else"'}).status_code == 200
    tag = client.get("/api/v1/instances").headers["etag"]
    with sqlite_database.write() as connection:
        rows.instance(connection, "new")
    assert client.get("/api/v1/instances", headers={"If-None-Match": tag}).status_code == 200


def test_errors_and_answers_to_changes_are_kept_by_nobody(sqlite_database: Database) -> None:
    """Neither has a tag."""
    client = _client(sqlite_database)
    answers = (
        client.get("/api/v1/jobs/nothing"),
        client.get("/api/v1/spend?from=never"),
        client.post("/api/v1/tokens", json={"name": "nightly", "owner": "ana@example.com"}),
    )
    assert [answer.status_code for answer in answers] == [404, 422, 201]
    assert all(answer.headers["cache-control"] == "no-store" for answer in answers)
    assert all("etag" not in answer.headers for answer in answers)
