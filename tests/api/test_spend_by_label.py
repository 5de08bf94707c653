"""GET /api/v1/spend/labels: the sums of GET /api/v1/spend by a label's value."""

from __future__ import annotations

import csv
import io
import json
from datetime import timedelta
from decimal import Decimal
from typing import Any
from urllib.parse import quote

import pytest
from fastapi.testclient import TestClient
from tests.api import rows
from tests.api.rows import NOW
from tests.within import charge_due

from costguard.db.transaction import Database
from costguard.ledger.labels import label_history
from costguard.ledger.labels.label_history import LabelChange

_HOUR, _DAY = timedelta(hours=1), timedelta(days=1)
_RANGE = f"from={NOW.date() - 3 * _DAY}&to={NOW.date()}"


@pytest.fixture
def filled(database: Database) -> Database:
    """A VM that went from one experiment to another, one with an empty label, and one without."""
    with database.write() as connection:
        rows.prices(connection)
        moved = rows.instance(connection, "moved", labels={"experiment": "=b"})
        rows.lifetime(connection, moved, NOW - 50 * _HOUR)
        label_history.store(connection, [LabelChange(moved, "experiment", NOW - 30 * _HOUR, "a")])
        rows.lifetime(connection, rows.instance(connection, "empty", labels={"experiment": ""}), NOW - 2 * _HOUR)
        rows.lifetime(connection, rows.instance(connection, "plain"), NOW - _HOUR)
        charge_due(connection, NOW)
    return database


def test_rows_are_values_split_at_the_change(filled: Database, client: TestClient) -> None:
    """The most expensive first; null is no label, and their sum is what GET /api/v1/spend says."""
    answer = client.get(f"/api/v1/spend/labels/experiment?{_RANGE}").json()
    assert [(row["value"], row["seconds"]) for row in answer["rows"]] == [
        ("=b", 30 * 3600),
        ("a", 20 * 3600),
        ("", 2 * 3600),
        (None, 3600),
    ]
    whole = client.get(f"/api/v1/spend?{_RANGE}").json()["total"]
    assert answer["total"] == whole
    assert sum(Decimal(row["total"]) for row in answer["rows"]) == Decimal(whole["total"])


def test_csv_tells_no_label_from_an_empty_one(filled: Database, client: TestClient) -> None:
    """A cell cannot be null, so a column says which it is; no cell is a formula."""
    text = client.get(f"/api/v1/spend/labels/experiment?{_RANGE}&format=csv").text
    lines = list(csv.DictReader(io.StringIO(text, newline="")))
    assert [(line["label:experiment"], line["is_labelled"]) for line in lines] == [
        ("'=b", "yes"),
        ("a", "yes"),
        ("", "yes"),
        ("", "no"),
    ]


def test_label_that_no_vm_has_is_one_row(filled: Database, client: TestClient) -> None:
    """All spend is without it, and none of it is left out."""
    answer = client.get(f"/api/v1/spend/labels/cost-center?{_RANGE}").json()
    assert [(row["value"], row["total"]) for row in answer["rows"]] == [(None, answer["total"]["total"])]


def test_by_label_a_year_is_the_longest(client: TestClient) -> None:
    """It is read from charges, one by one."""
    answer = client.get("/api/v1/spend/labels/experiment?from=2024-01-01&to=2026-01-01")
    assert (answer.status_code, "longer than a year" in answer.text) == (422, True)


def test_label_with_too_many_values_is_refused(database: Database, client: TestClient) -> None:
    """An id that each VM has is no dimension: the answer says how many values there were, and what to do."""
    with database.write() as connection:
        rows.prices(connection)
        vm = rows.instance(connection, "busy", labels={"run": "2000"})
        rows.lifetime(connection, vm, NOW - 5 * _HOUR)
        start = NOW - 4 * _HOUR
        changes = (LabelChange(vm, "run", start + timedelta(seconds=n), str(n)) for n in range(2000))
        label_history.store(connection, list(changes))
    answer = client.get(f"/api/v1/spend/labels/run?{_RANGE}")
    assert answer.status_code == 422
    assert "2,001 values" in answer.text
    assert "Ask for a shorter range" in answer.text


def _spent(client: TestClient, label: str, path: str = "spend", **query: str) -> dict[str, Any]:
    more = "".join(f"&{name}={value}" for name, value in query.items())
    answer = client.get(f"/api/v1/{path}?{_RANGE}&label={quote(label)}{more}")
    assert answer.status_code == 200, answer.text
    answer_json: dict[str, Any] = answer.json()
    return answer_json


def test_filter_by_value_counts_what_the_values_row_has(filled: Database, client: TestClient) -> None:
    """Each value, the empty one and none: to the nano-dollar, in all groupings, and as CSV."""
    for row in client.get(f"/api/v1/spend/labels/experiment?{_RANGE}").json()["rows"]:
        label = "!experiment" if row["value"] is None else f"experiment:{row['value']}"
        for group_by in ("day", "preset,owner", "vm"):
            spent = _spent(client, label, group_by=group_by)
            assert {name: spent["total"][name] for name in ("total", "seconds")} == {
                name: row[name] for name in ("total", "seconds")
            }
            assert sum(Decimal(one["total"]) for one in spent["rows"]) == Decimal(row["total"])
    text = client.get(f"/api/v1/spend?{_RANGE}&label=experiment:a&group_by=vm&format=csv").text
    assert [line["vm"] for line in csv.DictReader(io.StringIO(text, newline=""))] == ["moved"]


def test_a_filters_value_may_have_spaces(filled: Database, client: TestClient) -> None:
    """Kinds of resources have them, such as `custom job`."""
    with filled.write() as connection:
        rows.lifetime(connection, rows.instance(connection, "tune", labels={"experiment": "custom job"}), NOW - _HOUR)
        charge_due(connection, NOW)
    spent = _spent(client, "experiment=custom job", group_by="vm")
    assert [(row["vm"]["name"], row["seconds"]) for row in spent["rows"]] == [("tune", 3600)]


def test_forecast_of_a_label_counts_what_runs_with_it_now(filled: Database, client: TestClient) -> None:
    """VMs that had the value once cost it what they cost then, and nothing an hour from now on."""
    forecasts = {
        label: client.get(f"/api/v1/forecast?period=month&label={quote(label)}").json()
        for label in ("experiment:a", "experiment:=b", "experiment:", "!experiment")
    }
    whole = client.get("/api/v1/forecast?period=month").json()
    assert forecasts["experiment:a"]["label"] == "experiment=a"
    assert (forecasts["experiment:a"]["rate_per_hour"], Decimal(forecasts["experiment:a"]["spent"]) > 0) == (
        "0.00",
        True,
    )
    for name in ("spent", "rate_per_hour"):
        assert sum(Decimal(one[name]) for one in forecasts.values()) == Decimal(whole[name])


def test_focus_splits_charges_where_a_label_changed(filled: Database, client: TestClient) -> None:
    """The rows are the same in one file by its tags, or one file for each value, with the costs of GET
    /api/v1/spend.
    """
    everything = _focus(client, "")
    by_filter = [row for value in ("a", "=b", "") for row in _focus(client, f"&label={quote(f'experiment:{value}')}")]
    by_filter += _focus(client, f"&label={quote('!experiment')}")
    assert sorted(map(str, by_filter)) == sorted(map(str, everything))
    cost = sum((Decimal(row["ListCost"]) for row in _focus(client, "&label=experiment:a")), Decimal(0))
    assert cost == Decimal(_spent(client, "experiment:a")["total"]["total"])
    change = (NOW - 30 * _HOUR).strftime("%Y-%m-%dT%H:%M:%SZ")
    tags = {
        name: {json.loads(row["Tags"])["experiment"] for row in everything if row[name] == change}
        for name in ("ChargePeriodEnd", "ChargePeriodStart")
    }
    assert tags == {"ChargePeriodEnd": {"a"}, "ChargePeriodStart": {"=b"}}


def _focus(client: TestClient, query: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(client.get(f"/api/v1/focus?{_RANGE}{query}").text, newline="")))


@pytest.mark.parametrize(
    "label", ["experiment", "=a", ":a", "!", "!experiment=a", "a b=c", "experiment= a", "experiment=a\nb"]
)
def test_malformed_filter_is_refused(client: TestClient, label: str) -> None:
    """A key without a value could mean any of its values, or that it has one: neither is guessed."""
    for path in ("spend", "forecast", "focus"):
        answer = client.get(f"/api/v1/{path}?label={quote(label)}")
        assert (answer.status_code, answer.json()["errors"][0]["where"]) == (422, "query.label")


def test_bill_has_no_filter_by_label(client: TestClient) -> None:
    """The amount paid is known by VM and day, not by the part of a day in which a label held."""
    answer = client.get("/api/v1/spend?label=experiment:a&basis=bill")
    assert (answer.status_code, "no filter by label" in answer.text) == (422, True)
