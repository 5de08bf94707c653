"""The page Budgets shows every budget."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from urllib.parse import urlencode

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import update
from tests.api import rows
from tests.api.rows import NOW
from tests.pages.html import page_of, tidy

from costguard.access.rules import Rules
from costguard.db import tables
from costguard.db.transaction import Database
from costguard.ledger.accrual import accrual_at
from costguard.model.budget import AtLimit, Budget, Period, Scope
from costguard.model.money import Money
from costguard.model.reminder import Team
from costguard.pages.charts import HEIGHT, burn_down
from costguard.spend import budgets as engine

HOUR, DAY = timedelta(hours=1), timedelta(days=1)


def a_month(database: Database) -> None:
    with database.write() as connection:
        rows.prices(connection)
        rows.project(connection)
        for back in range(1, 29):
            rows.day(connection, (NOW - back * DAY).date(), gpu_nanos=3 * 10**9)
        rows.lifetime(connection, rows.instance(connection, "one"), NOW - 6 * HOUR)
        rows.event(connection, "budget/late/month/2026-11-01/spent/50", NOW - DAY, kind="BudgetThresholdCrossed")


def test_budgets_are_held_against_their_limits(database: Database, client_with: Callable[..., TestClient]) -> None:
    """Spent, forecast and range, a verdict in words, what was sent and when, and how the forecast is made."""
    a_month(database)
    budgets = [
        Budget("late", Scope(), Money.of(100), Period.MONTH),
        Budget("gone", Scope(project="lab"), Money.of(10), Period.WEEK),
        Budget("calm", Scope(preset="t4"), Money.of(500), Period.DAY),
    ]
    page = page_of(client_with(rules=Rules({}, budgets=tuple(budgets))), "/budgets")
    text = tidy(page.text)
    assert "1 of 3 overspent, 1 more on course to be" in text
    assert "late everything · this month, to 30 Nov 2026 · 10 d 12 h left on course to overspend by about $1.40" in text
    assert "$60.18 of $100.00, 60%" in text
    assert "Forecast $101.40 101%" in text
    assert "50% spent, sent 19 Nov, 12:00" in text
    assert "100% forecast" in text
    assert "At the limit People are notified; nothing is stopped. Contact none: set a contact" in text
    assert "gone project lab · this week, to 22 Nov 2026 · 2 d 12 h left overspent by $5.18" in text
    assert "calm preset t4 · today (UTC) · 12 h left on course" in text
    assert "the median of the same weekdays of the last four weeks" in text
    spends = [address for address in page.addresses if address.startswith("/spend?")]
    assert spends[1] == "/spend?from=2026-11-16&to=2026-11-20&group_by=preset&project=lab"
    for address in spends:
        page_of(client_with(), address)


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)  # it is drawn from what the store tested
def test_a_budget_burns_down_from_its_limit(database: Database) -> None:
    """The line falls by what each day cost, to what is left now; the pace is even; a wild range is cut off."""
    a_month(database)
    with database.read() as connection:
        budgets = [
            Budget("all", Scope(), Money.of(120), Period.MONTH),
            Budget("over", Scope(), Money.of(10), Period.WEEK),
            Budget("day", Scope(), Money.of(4), Period.DAY),
        ]
        standings = engine.standings(connection, accrual_at(connection, NOW), budgets)
    month, over, day = (burn_down(standing, NOW) for standing in standings)
    points = [[float(place) for place in point.split(",")] for point in month.line.split()]
    assert points[0] == [0, 0]
    assert len(points) == 21  # 1 November, the 19 midnights since, and now
    assert points[1] == [33, 3.8]  # 3 of 120 dollars, of 150 pixels
    assert points[-1] == [650, 75.2]
    assert (month.now_x, month.now_y) == (65, points[-1][1])
    assert month.other == f"0,0 1000,{HEIGHT}"
    # The axis reaches from the limit to what is left, which is less than nothing.
    assert [level.amount for level in over.levels] == [Money(0), Money.of(10)]
    assert over.levels[0].y < over.now_y <= HEIGHT
    assert [label.text for label in day.labels] == ["00:00", "24:00 UTC"]
    assert day.line.split()[0] == "0,0"


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
def test_a_budget_without_a_forecast_has_no_line_ahead(
    database: Database, client_with: Callable[..., TestClient]
) -> None:
    """Neither a range nor a dotted line stands where the forecast is too early to say."""
    with database.write() as connection:
        rows.prices(connection)
        rows.day(connection, (NOW - DAY).date(), gpu_nanos=3 * 10**9)
    budget = Budget("all", Scope(), Money.of(10), Period.MONTH)
    page = page_of(client_with(rules=Rules({}, budgets=(budget,))), "/budgets")
    assert "Forecast too early to say Now" in tidy(page.text)
    assert "forecast and its range" not in page.text
    assert not {"coming", "band"} & {attrs.get("class") for _, attrs in page.tags}


def test_a_teams_budget_tells_whose_it_is_and_who_answers_for_it(
    database: Database, client_with: Callable[..., TestClient]
) -> None:
    """The spend of its people is counted, not everybody's; thresholds to come stand with their amounts."""
    a_month(database)
    with database.write() as connection:
        rows.day(connection, (NOW - DAY).date(), owner="bob@lab.example", gpu_nanos=7 * 10**9)
    budget = Budget("vision", Scope(team="vision"), Money.of(10), Period.MONTH, (50, 100), contact="cfo@lab.example")
    budget = replace(budget, at_limit=AtLimit.STOP_SPOT)
    teams = (Team("vision", members=frozenset({"bob@lab.example"})),)
    text = tidy(page_of(client_with(rules=Rules({}, budgets=(budget,), teams=teams)), "/budgets").text)
    assert "vision team vision · this month, to 30 Nov 2026 · 10 d 12 h left" in text
    assert "get no VM until the period ends, and their Spot VMs stop once they have saved." in text
    assert "Contact cfo@lab.example" in text
    assert "$7.00 of $10.00, 70%" in text
    assert "50% spent 100% spent, at $10.00" in text


def test_a_forecast_without_history_is_shown_as_such(
    database: Database, client_with: Callable[..., TestClient]
) -> None:
    """Nothing is said to be on course, nor lost, from a first day alone."""
    with database.write() as connection:
        rows.prices(connection)
        rows.project(connection, first_seen_at=NOW - HOUR)
        rows.lifetime(connection, rows.instance(connection, "one"), NOW - HOUR)
    client = client_with(rules=Rules({}, budgets=(Budget("new", Scope(), Money.of(100), Period.MONTH),)))
    text = tidy(page_of(client, "/budgets").text)
    assert "Forecast too early to say" in text
    assert "no whole day was watched yet" in text
    assert "Forecast for November too early to say" in tidy(page_of(client, "/spend").text)


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
@pytest.mark.parametrize("days_known", [2, 3])
def test_spend_budgets_and_the_api_forecast_one_figure(
    database: Database, client_with: Callable[..., TestClient], days_known: int
) -> None:
    """The figure and range of everything and of one owner are the same, or too early to say, under the same
    condition.
    """
    a_month(database)
    with database.write() as connection:
        connection.execute(update(tables.projects).values(first_seen_at=NOW - (days_known + 1) * DAY))
        rows.lifetime(connection, rows.instance(connection, "two"), NOW - HOUR)
    owner = "ada@lab.example"
    budgets = tuple(
        Budget(name, scope, Money.of(1000), Period.MONTH)
        for name, scope in (("all", Scope()), ("ada", Scope(owner=owner)))
    )
    client = client_with(rules=Rules({}, budgets=budgets))
    cards = tidy(page_of(client, "/budgets").text)
    of_budgets = {budget["name"]: budget["forecast"] for budget in client.get("/api/v1/budgets").json()["budgets"]}
    for name, filters in (("all", {}), ("ada", {"owner": owner})):
        made = client.get("/api/v1/forecast", params=filters).json()["forecast"]
        assert made == of_budgets[name]
        assert made["is_grounded"] == (days_known >= 3)
        expected, low, high = (f"${Decimal(made[key]):,.2f}" for key in ("expected", "low", "high"))
        spent = tidy(page_of(client, f"/spend?{urlencode(filters)}").text)
        if days_known >= 3:
            assert f"Forecast for November {expected} {low} – {high}" in spent
            assert f"Forecast {expected} {Decimal(made['expected']) // 10}% Range {low} – {high}" in cards
        else:
            assert "Forecast for November too early to say All of October" in spent
            assert "Forecast too early to say Now" in cards


def test_without_budgets_the_page_says_how_to_set_one(client: TestClient) -> None:
    """An empty page is a beginning."""
    text = tidy(page_of(client, "/budgets").text)
    assert "There are no budgets yet." in text
    assert '[budgets.team] limit = 2500 period = "month"' in text
