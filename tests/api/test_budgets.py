"""Budgets and forecasts over REST."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from fastapi.testclient import TestClient
from tests.api import rows
from tests.api.rows import NOW

from costguard.access.rules import Rules
from costguard.db.transaction import Database
from costguard.model.budget import AtLimit, Budget, Period, Scope
from costguard.model.money import Money
from costguard.model.reminder import Team

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
BUDGETS = [
    Budget("lab", Scope(project="lab"), Money.of(100), Period.MONTH),
    Budget(
        "ada",
        Scope(owner="ada@lab.example"),
        Money.of("50"),
        Period.DAY,
        thresholds=(),
        forecast_thresholds=(50,),
        at_limit=AtLimit.STOP_SPOT,
    ),
]


@pytest.fixture
def ledger(database: Database) -> Database:
    """Three dollars on each of the last 28 days, and a T4 since six hours."""
    with database.write() as connection:
        rows.prices(connection)
        rows.project(connection)
        for back in range(1, 29):
            rows.day(connection, (NOW - back * DAY).date(), gpu_nanos=3 * 10**9)
        rows.lifetime(connection, rows.instance(connection, "one"), NOW - 6 * HOUR)
        rows.event(connection, "budget/lab/month/2026-11-01/spent/50", NOW - DAY, kind="BudgetThresholdCrossed")
    return database


def test_budgets_tell_spent_forecast_and_thresholds(ledger: Database, client_with: Callable[..., TestClient]) -> None:
    """The figures are exact dollars, with the method in words, and with when each threshold notified."""
    answer = client_with(rules=Rules({}, budgets=tuple(BUDGETS))).get("/api/v1/budgets").json()
    lab, ada = answer["budgets"]
    assert (lab["name"], lab["project"], lab["period"], lab["limit"]) == ("lab", "lab", "month", "100.00")
    assert (lab["starts_at"], lab["ends_at"]) == ("2026-11-01T00:00:00Z", "2026-12-01T00:00:00Z")
    assert (lab["spent"], lab["spent_percent"], lab["rate_per_hour"]) == ("60.18", 60, "0.53")
    assert lab["forecast"]["expected"] == "101.40"  # 60.18, 10.5 days at 3 less one, and one of what runs now
    assert lab["forecast_percent"] == 101
    assert "four weeks" in lab["forecast"]["method"]
    assert lab["forecast"]["days_known"] == 28
    assert [
        (threshold["on"], threshold["percent"], threshold["is_crossed"], threshold["first_at"])
        for threshold in lab["thresholds"]
    ] == [
        ("spent", 50, True, "2026-11-19T12:00:00Z"),
        ("spent", 80, False, None),
        ("spent", 100, False, None),
        ("forecast", 100, True, None),
    ]
    assert (ada["spent"], ada["spent_percent"], ada["owner"]) == ("3.18", 6, "ada@lab.example")
    assert (lab["at_limit"], ada["at_limit"]) == ("tell", "stop-spot")
    assert [threshold["amount"] for threshold in ada["thresholds"]] == ["25.00"]


def test_any_scope_has_a_forecast(ledger: Database, client: TestClient) -> None:
    """The scope is by project, preset, owner and period; the month of everything is the default."""
    month = client.get("/api/v1/forecast").json()
    assert (month["period"], month["spent"], month["forecast"]["expected"]) == ("month", "60.18", "101.40")
    nobody = client.get("/api/v1/forecast", params={"owner": "", "period": "week"}).json()
    assert (nobody["spent"], nobody["forecast"]["high"], nobody["owner"]) == ("0.00", "0.00", "")


def test_a_teams_budget_and_forecast_count_its_people(ledger: Database, client_with: Callable[..., TestClient]) -> None:
    """The spend of other people does not count; the contact is named.

    An unknown team is refused in words, not forecast as nothing.
    """
    with ledger.write() as connection:
        rows.day(connection, (NOW - DAY).date(), owner="bob@lab.example", gpu_nanos=7 * 10**9)
    budget = Budget("vision", Scope(team="vision"), Money.of(10), Period.MONTH, contact="cfo@lab.example")
    teams = (Team("vision", members=frozenset({"bob@lab.example"})),)
    client = client_with(rules=Rules({}, budgets=(budget,), teams=teams))
    (shown,) = client.get("/api/v1/budgets").json()["budgets"]
    assert (shown["team"], shown["spent"], shown["spent_percent"], shown["contact"]) == (
        "vision",
        "7.00",
        70,
        "cfo@lab.example",
    )
    forecast = client.get("/api/v1/forecast", params={"team": "vision"}).json()
    assert (forecast["team"], forecast["spent"], forecast["rate_per_hour"]) == ("vision", "7.00", "0.00")
    refused = client.get("/api/v1/forecast", params={"team": "sound"})
    assert refused.status_code == 422
    assert refused.json()["detail"] == "There is no team sound in the settings."
    assert "vision" in refused.json()["next"]


@pytest.mark.parametrize("query", [{"period": "year"}, {"team": "x"}, {"owner": "\0"}])
def test_what_cannot_be_asked_is_refused(client: TestClient, query: dict[str, str]) -> None:
    """A misspelt filter is an error, not a forecast of everything."""
    assert client.get("/api/v1/forecast", params=query).status_code == 422


def test_an_empty_ledger_has_budgets_of_nought(client: TestClient) -> None:
    """The ledger before the first pass has nothing spent and nothing to forecast from."""
    (budget,) = client.get("/api/v1/budgets").json()["budgets"]
    assert (budget["spent"], budget["forecast"]["expected"], budget["forecast"]["is_grounded"]) == (
        "0.00",
        "0.00",
        False,
    )
