"""The API lists stops, and those that would have been."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal

import pytest
from fastapi.testclient import TestClient
from tests.api import rows
from tests.api.rows import NOW
from tests.reminders import reminder_rows

from costguard.access.rules import Rules
from costguard.db.transaction import Database

HOUR, DAY = timedelta(hours=1), timedelta(days=1)


@pytest.fixture
def ledger(database: Database) -> Database:
    """Makes a ledger with one VM stopped by a rule five hours ago, and one that would have been, thirty hours ago."""
    with database.write() as connection:
        rows.prices(connection)
        one, two = rows.instance(connection, "one"), rows.instance(connection, "two", owner="")
        run = rows.lifetime(connection, one, NOW - 9 * HOUR, ended_at=NOW - 5 * HOUR)
        reminder_rows.stop(connection, one, run, NOW - 5 * HOUR)
        other = rows.lifetime(connection, two, NOW - 60 * HOUR)
        reminder_rows.stop(connection, two, other, NOW - 30 * HOUR, outcome="shadow")
    return database


def test_enforcement_tells_what_was_saved_and_what_would_have_been(ledger: Database, client: TestClient) -> None:
    """Each with its rule, reminder and evidence; sums in exact dollars, with the method in words."""
    answer = client.get("/api/v1/enforcement").json()
    assert (answer["from"], answer["to"], answer["is_shadow"]) == ("2026-11-01", "2026-11-20", True)
    (stop,) = answer["stops"]
    assert (stop["name"], stop["outcome"], stop["rule"], stop["asked_by"]) == ("one", "done", "preset t4", "")
    assert stop["reminder"].startswith("reminder/run:")
    assert stop["evidence"] == {"idle": "GPU under 5 % for 2 h (max 3 %)"}
    assert stop["saved"] == {
        "amount": {"amount": "2.65", "currency": "USD", "complete": True},
        "since": "2026-11-20T07:00:00Z",
        "until": "2026-11-20T12:00:00Z",
        "bound": "now",
    }
    assert answer["saved"]["amount"] == "2.65"
    assert "estimate" in answer["method"]
    (shadow,) = answer["shadow_stops"]
    assert (shadow["name"], shadow["would_have_saved"]["bound"]) == ("two", "longest")
    assert (shadow["would_have_saved"]["amount"]["amount"], shadow["cost"]["amount"]) == ("12.72", "15.90")
    assert (answer["would_have_saved"]["amount"], answer["shadow_cost"]["amount"]) == ("12.72", "15.90")


def test_a_period_is_whole_utc_days(ledger: Database, client_with: Callable[..., TestClient]) -> None:
    """Both ends included; outside of it nothing was decided."""
    client = client_with(rules=Rules({}, is_shadow=False))
    yesterday = client.get("/api/v1/enforcement", params={"from": "2026-11-19", "to": "2026-11-19"}).json()
    assert (len(yesterday["stops"]), len(yesterday["shadow_stops"]), yesterday["is_shadow"]) == (0, 1, False)
    october = client.get("/api/v1/enforcement", params={"to": "2026-10-31"}).json()
    assert (october["from"], october["stops"], october["shadow_stops"]) == ("2026-10-01", [], [])
    assert october["saved"]["amount"] == "0.00"


def test_a_period_that_ends_before_it_begins_is_refused(client: TestClient) -> None:
    """The answer says which parameter is wrong, and what to do."""
    answer = client.get("/api/v1/enforcement", params={"from": "2026-11-20", "to": "2026-11-19"})
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["where"] == "query.from"
    assert "first day" in answer.json()["next"]


def test_savings_of_spot_stops_and_keeps_stand_side_by_side(ledger: Database, client: TestClient) -> None:
    """Each with its method; only what the scope holds, and nothing that could not be compared."""
    with ledger.write() as connection:
        spot = rows.instance(connection, "spot", provisioning_model="spot")
        rows.lifetime(connection, spot, NOW - 2 * HOUR, provisioning_model="spot")
        kept = rows.instance(connection, "kept", owner="bob@lab.example")
        run = rows.lifetime(connection, kept, NOW - 10 * HOUR)
        reminder_rows.keep(connection, kept, f"run:{kept}:{run}", NOW + HOUR, reason="a demo")
    answer = client.get("/api/v1/savings").json()
    assert (answer["from"], answer["to"]) == ("2026-11-01", "2026-11-20")
    cost, on_demand, saved = (Decimal(answer["spot"][part]) for part in ("cost", "on_demand", "saved"))
    assert cost > 0
    assert saved == on_demand - cost > 0
    assert answer["spot"]["percent"] == 100 * saved // on_demand
    stops = answer["stops"]
    assert (stops["carried_out"], stops["saved"]["amount"], stops["only_recorded"]) == (1, "2.65", 1)
    assert stops["would_have_saved"]["amount"] == "12.72"
    (keep,) = answer["keeps"]["keeps"]
    assert (keep["name"], keep["reason"], keep["owner"]) == ("kept", "a demo", "bob@lab.example")
    theirs = client.get("/api/v1/savings", params={"owner": "bob@lab.example"}).json()
    assert (theirs["stops"]["carried_out"], len(theirs["keeps"]["keeps"]), theirs["spot"]["cost"]) == (0, 1, "0.00")
    assert client.get("/api/v1/savings", params={"from": "2026-11-20", "to": "2026-11-19"}).status_code == 422
