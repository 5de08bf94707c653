"""`costguard budgets` against a real server, and its bars."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from tests.api import rows
from tests.api.rows import NOW
from tests.cli.conftest import Run, serving

from costguard.cli import budgets
from costguard.db.transaction import Database
from costguard.model.budget import AtLimit, Budget, Period, Scope
from costguard.model.money import Money
from costguard.model.reminder import Team

DAY = timedelta(days=1)
BUDGETS = [
    Budget("lab", Scope(project="lab"), Money.of(60), Period.MONTH),
    Budget("ada", Scope(owner="ada@lab.example"), Money.of(500), Period.WEEK, at_limit=AtLimit.REFUSE),
    Budget("vision", Scope(team="vision"), Money.of(50), Period.MONTH, contact="cfo@lab.example"),
]
VISION = Team("vision", members=frozenset({"bob@lab.example"}))


def test_budgets_shows_spent_forecast_and_what_was_crossed(sqlite_database: Database, run: Run) -> None:
    """A line a budget with a bar, a line a crossed threshold with when, and how the forecast is made."""
    with sqlite_database.write() as connection:
        rows.project(connection)
        for back in range(1, 29):
            rows.day(connection, (NOW - back * DAY).date(), gpu_nanos=3 * 10**9)
        rows.event(connection, "budget/lab/month/2026-11-01/spent/50", NOW - DAY, kind="BudgetThresholdCrossed")
    with serving(sqlite_database, budgets=BUDGETS, teams=[VISION]) as url:
        shown = run("budgets", COSTGUARD_URL=url)
        as_json = run("budgets", "--json", COSTGUARD_URL=url)
    assert shown.returncode == 0, shown.stderr
    lines = shown.stdout.splitlines()
    assert lines[1].split()[:4] == ["lab", "project", "lab", "2026-12-01"]
    assert "█" * 22 + "▒" * 2 + "!" in lines[1]
    assert "$57.00  95%" in lines[1]
    assert "owner ada@lab.example" in lines[2]
    assert "team vision" in lines[3]
    assert "$0.00   0%" in lines[3]
    assert "cfo@lab.example is the contact for vision." in lines
    assert "ada: once it is spent, jobs get no VM." in lines
    assert "lab: spent past 50% ($30.00) since 2026-11-19 12:00 UTC" in lines
    assert "lab: forecast past 100% ($60.00) now" in lines
    assert "Forecast: Spent so far" in lines[-1]
    assert [budget["name"] for budget in json.loads(as_json.stdout)["budgets"]] == ["lab", "ada", "vision"]


def test_without_a_budget_it_says_how_to_set_one(run: Run) -> None:
    """The lines can be pasted into the settings file."""
    assert "[budgets.team]" in run("budgets").stdout


@pytest.mark.parametrize(
    ("spent", "expected", "grounded", "bar"),
    [
        ("0.00", "0.00", True, "·" * 24 + " "),
        ("50.00", "75.00", True, "█" * 12 + "▒" * 6 + "·" * 6 + " "),
        ("100.00", "100.00", True, "█" * 24 + " "),
        ("99.99", "300.00", True, "█" * 23 + "▒" + "!"),
        ("250.00", "300.00", True, "█" * 24 + "!"),
        ("50.00", "300.00", False, "█" * 12 + "·" * 12 + " "),
    ],
)
def test_a_bar_ends_at_the_limit(spent: str, expected: str, grounded: bool, bar: str) -> None:
    """It is full only when all is spent, and marked when more will be; too early to say, it shows what is spent."""
    forecast = {"expected": expected, "is_grounded": grounded}
    assert budgets.bar({"limit": "100.00", "spent": spent, "forecast": forecast}) == bar


def test_too_early_to_say_is_said(sqlite_database: Database, run: Run) -> None:
    """The column of forecasts holds no figure on a first day, and no threshold on the forecast is crossed."""
    with sqlite_database.write() as connection:
        rows.prices(connection)
        rows.project(connection, first_seen_at=NOW - timedelta(hours=1))
        rows.lifetime(connection, rows.instance(connection, "one"), NOW - timedelta(hours=1))
    with serving(sqlite_database, budgets=BUDGETS, teams=[VISION]) as url:
        shown = run("budgets", COSTGUARD_URL=url).stdout
    assert "too early to say" in shown
    assert "forecast past" not in shown
