"""Errors, tokens and what every answer has in common."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import Connection
from tests.api.conftest import Standstill
from tests.authenticators import keyed

from costguard.db.transaction import Database
from costguard.errors import StoreError

READS = ("instances", "lifetimes", "events", "prices", "spend", "presets", "budgets", "forecast", "projects")


class BrokenClock(Standstill):
    def now(self) -> object:  # type: ignore[override]
        raise RuntimeError("secret detail")


class LockedDatabase:
    """A database that is locked whenever it is read."""

    def read(self) -> AbstractContextManager[Connection]:
        raise StoreError("The database x is locked.", "Stop the other process.")


WRONG = (
    "instances?limit=0",
    "instances?limit=ten",
    "instances?sort=colour",
    "instances?projct=lab",
    "instances?name=%00",
    "instances?status=sleeping",
    "lifetimes?started_from=2026-11-20T00:00:00",
    "events?since=0001-01-01T00:00:00%2B14:00",
    "spend?from=yesterday",
    "spend?from=2026-11-21&to=2026-11-20",
    "spend?from=2010-01-01&to=2026-11-20",
    "spend?from=0001-01-01",
    "spend?group_by=day,colour",
    "spend?format=xml",
    "prices?history=perhaps",
)
LISTS = ("instances", "lifetimes", "events", "jobs", "requests", "reminders", "tokens", "prices")
CURSORS = ("nonsense", "!", "W10", "WyJmYWN0cyIsICJ4Il0", "WyJyYXRlIiwxLC01LCIiLDFd", "bnVsbA")


@pytest.fixture
def database(sqlite_database: Database) -> Database:
    """Makes a database. These answers rest on no SQL of either kind."""
    return sqlite_database


def test_a_wrong_parameter_is_a_problem_that_names_it(client: TestClient) -> None:
    """The answer is a 422 problem that names the parameter and says what to do, whatever is wrong with it."""
    for query in WRONG:
        answer = client.get(f"/api/v1/{query}")
        problem = answer.json()
        assert (answer.status_code, answer.headers["content-type"]) == (422, "application/problem+json"), query
        assert (problem["status"], problem["title"]) == (422, "Unprocessable Entity")
        assert problem["errors"][0]["where"].startswith("query.")
        assert problem["next"]


def test_a_cursor_that_no_page_gave_is_refused(client: TestClient) -> None:
    """A made up cursor, or one of another list, is a 422 problem."""
    for path in LISTS:
        for cursor in CURSORS:
            answer = client.get(f"/api/v1/{path}", params={"cursor": cursor})
            assert answer.status_code == 422, (path, cursor)
            assert "next_cursor" in answer.json()["next"]


def test_what_is_not_there_is_a_404_problem(client: TestClient) -> None:
    """Unknown paths and instances, and pages that would load from elsewhere, are 404 problems."""
    for path in ("/nothing", "/api/v1/instances/lab/1", "/docs", "/redoc"):
        answer = client.get(path)
        assert (answer.status_code, answer.headers["content-type"]) == (404, "application/problem+json"), path
        assert answer.json()["instance"] == path


def test_a_method_that_a_path_does_not_have_is_a_405_problem(client: TestClient) -> None:
    """The header names those that it has."""
    answer = client.post("/api/v1/instances")
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD")
    assert "a method that `Allow` names" in answer.json()["next"]


def test_a_mistake_of_ours_tells_nothing_of_the_inside(client_with: Callable[..., TestClient]) -> None:
    """An unexpected error is a 500 problem without the error's own words."""
    answer = client_with(clock=BrokenClock()).get("/api/v1/spend")
    assert (answer.status_code, answer.headers["content-type"]) == (500, "application/problem+json")
    assert "secret" not in answer.text
    assert "traceback" in answer.json()["next"]


def test_a_database_that_does_not_answer_is_a_503_problem(client_with: Callable[..., TestClient]) -> None:
    """The store's error about the database, and what to do, reaches the caller."""
    answer = client_with(database=LockedDatabase()).get("/api/v1/projects")
    assert (answer.status_code, answer.json()["next"]) == (503, "Stop the other process.")


@pytest.mark.parametrize("header", [None, "Bearer wrong", "Basic s3cret", "Bearer", "s3cret", "Bearer s3cret2"])
def test_without_the_token_nothing_answers_but_health(
    client_with: Callable[..., TestClient], header: str | None
) -> None:
    """Every path, unknown ones too, asks for the token; /healthz and /readyz do not."""
    client = client_with(authenticator=keyed("s3cret"))
    headers = {} if header is None else {"Authorization": header}
    for path in ("/", "/openapi.json", "/nothing", *(f"/api/v1/{name}" for name in READS)):
        answer = client.get(path, headers=headers)
        assert (answer.status_code, answer.headers["content-type"]) == (401, "application/problem+json"), path
        assert answer.headers["www-authenticate"].startswith("Bearer")
    assert client.get("/healthz").status_code == 200
    assert client.get("/readyz").status_code == 503


def test_with_the_token_everything_answers(client_with: Callable[..., TestClient]) -> None:
    """The bearer token opens every path; the scheme's case does not matter."""
    client = client_with(authenticator=keyed("s3cret"))
    for path in ("/api/v1", "/openapi.json", *(f"/api/v1/{name}" for name in READS)):
        assert client.get(path, headers={"Authorization": "bearer s3cret"}).status_code == 200, path


def test_the_index_links_every_path(client: TestClient) -> None:
    """/api/v1 names the version and every path that /openapi.json describes."""
    answer = client.get("/api/v1").json()
    assert answer["version"] == "1.2.3"
    assert set(answer["paths"]) == set(client.get("/openapi.json").json()["paths"])
    assert {"/healthz", "/readyz"} < set(answer["paths"])


def test_the_description_has_no_floats_for_money(client: TestClient) -> None:
    """No amount of money is a JSON number with a fraction; hours, shares, speeds and values of metrics may be."""
    schemas = client.get("/openapi.json").json()["components"]["schemas"]
    fractions = [name for name, schema in schemas.items() if '"type": "number"' in json.dumps(schema)]
    assert fractions == [
        "AchievedSavingOut",
        "AgentEventsResponse",
        "AlikeResponse",
        "BoundNumberOut",
        "BoundStretchOut",
        "BuyingWayOut",
        "CureOut",
        "CurvePointOut",
        "DrillOut",
        "ExpectedCostOut",
        "HotFunctionOut",
        "JobBody",
        "MachineCostOut",
        "MemberStopOut",
        "MetricValueOut",
        "OverridesBody",
        "PresetPriceOut",
        "ProfileResponse",
        "ProgressOut",
        "PromisedSavingOut",
        "QuoteBody",
        "SaveIntervalOut",
        "ScheduleQuoteBody",
        "StandstillOut",
        "SweepBody",
        "SweepQuoteBody",
    ]


def test_an_empty_ledger_answers(database: Database, client: TestClient) -> None:
    """Before the first pass every list is empty, and spend is nothing."""
    for name in READS:
        assert client.get(f"/api/v1/{name}").status_code == 200
    assert client.get("/api/v1/spend").json()["total"]["total"] == "0.00"
