"""Lifetimes, events, prices, presets, budgets and projects."""

from __future__ import annotations

from datetime import timedelta

from fastapi.testclient import TestClient
from sqlalchemy import insert
from tests.api import rows
from tests.api.rows import NOW

from costguard.db import tables
from costguard.db.transaction import Database

HOUR = timedelta(hours=1)


def test_pages_of_lifetimes_hold_every_one_once(database: Database, client: TestClient) -> None:
    """Following the cursors gives every lifetime that fits once, those recorded last first."""
    with database.write() as connection:
        vm = rows.instance(connection, "vm")
        ids = [
            rows.lifetime(connection, vm, NOW - (20 - n) * HOUR, ended_at=NOW - (19 - n) * HOUR, charged_to=NOW)
            for n in range(5)
        ]
        rows.lifetime(connection, vm, NOW - HOUR)
    seen: list[int] = []
    cursor: str | None = ""
    while cursor is not None:
        more = f"&cursor={cursor}" if cursor else ""
        answer = client.get(f"/api/v1/lifetimes?state=ended&limit=2{more}").json()
        seen += [lifetime["id"] for lifetime in answer["lifetimes"]]
        cursor = answer["next_cursor"]
    assert seen == ids[::-1]


def test_lifetimes_tell_why_they_ended_and_what_they_cost(database: Database, client: TestClient) -> None:
    """Filters hold for owner, reason and time; the cost of what runs is up to now."""
    with database.write() as connection:
        rows.prices(connection)
        vm = rows.instance(connection, "vm")
        given = {"ended_at": NOW - HOUR, "charged_to": NOW - HOUR, "end_reason": "preempted", "ended_by": "system"}
        ended = rows.lifetime(connection, vm, NOW - 2 * HOUR, owner="bob", **given)
        rows.charge(connection, "lifetime", ended, NOW - 2 * HOUR, NOW - HOUR, 530_000_000)
        rows.lifetime(connection, vm, NOW - HOUR)
    (lifetime,) = client.get(
        "/api/v1/lifetimes?end_reason=preempted&owner=bob&started_before=2026-11-20T10:30:00Z"
    ).json()["lifetimes"]
    assert (lifetime["ended_by"], lifetime["seconds"], lifetime["cost"]["amount"]) == ("system", 3600, "0.53")
    (running,) = client.get("/api/v1/lifetimes?state=open").json()["lifetimes"]
    assert (running["ended_at"], running["cost"]["amount"]) == (None, "0.53")
    assert (
        client.get("/api/v1/lifetimes?gce_id=1&project=lab&started_from=2026-01-01T00:00:00Z").json()["lifetimes"] == []
    )


def test_pages_of_events_hold_every_one_once(database: Database, client: TestClient) -> None:
    """Events come by when they happened, the latest first, however they were recorded."""
    with database.write() as connection:
        for number in (3, 1, 4, 0, 2):
            rows.event(connection, f"f{number}", NOW - number // 2 * HOUR)
        rows.event(connection, "else", NOW, kind="PriceRefused", project="")
    seen: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        more = f"&cursor={cursor}" if cursor else ""
        answer = client.get(f"/api/v1/events?kind=LifetimeStarted&limit=2{more}").json()
        seen += [event["text"][:2] for event in answer["events"]]
        cursor = answer["next_cursor"]
    assert seen == ["f0", "f1", "f2", "f3", "f4"]


def test_prices_are_those_in_force(database: Database, client: TestClient) -> None:
    """The list without history has only prices in force, with their age, sources and exact rates."""
    with database.write() as connection:
        rows.prices(connection)
        rows.prices(connection, {("gpu:nvidia-l4", "standard", "h"): 1})
        gpu = tables.prices.c
        row = connection.execute(tables.prices.select().where(gpu.resource == "gpu:nvidia-l4")).one()._asdict()
        later = {**row, "id": None, "in_force_from": NOW - HOUR, "rate_nanos": 560_040_000, "source": "catalog"}
        del later["id"]
        connection.execute(insert(tables.prices), {**later, "recorded_at": NOW - HOUR})
    answer = client.get("/api/v1/prices?resource=gpu:nvidia-l4").json()
    assert [(price["rate"], price["is_in_force"]) for price in answer["prices"]] == [("0.56004", True)]
    assert (answer["age_seconds"], answer["sources"]) == (3600, ["catalog", "snapshot 2026-11-20"])
    history = client.get("/api/v1/prices?resource=gpu:nvidia-l4&history=true").json()["prices"]
    assert [(price["rate"], price["is_in_force"]) for price in history] == [("0.56004", True), ("0.000000001", False)]


def test_refused_prices_and_unpriced_use_are_loud(database: Database, client: TestClient) -> None:
    """A refusal says why; a VM in use without a price is listed, before and after charges are stored."""
    with database.write() as connection:
        rows.prices(connection)
        refusal = {
            "resource": "n1:core",
            "region": "us-central1",
            "provisioning_model": "spot",
            "unit": "h",
            "rate_nanos": 0,
            "in_force_from": NOW,
            "source": "catalog",
            "reason": "It is zero.",
            "refused_at": NOW,
        }
        connection.execute(insert(tables.price_refusals), refusal)
        vm = rows.instance(connection, "h100", **rows.H100)
        rows.lifetime(connection, vm, NOW - HOUR, **rows.H100)
        rows.lifetime(
            connection, rows.instance(connection, "odd"), NOW - 50 * HOUR, charged_to=NOW, unpriced="No price."
        )
    answer = client.get("/api/v1/prices").json()
    assert [(price["resource"], price["reason"]) for price in answer["refused"]] == [("n1:core", "It is zero.")]
    assert answer["unpriced_total"] == 2
    assert {instance["name"] for instance in answer["unpriced"]} == {"h100", "odd"}


def test_presets_and_budgets_are_as_they_were_set(client: TestClient) -> None:
    """Limits are whole seconds, never null for zero; amounts are exact dollars."""
    t4, other = client.get("/api/v1/presets").json()["presets"]
    assert (t4["limit_seconds"], t4["match"]["gpu_types"], other["limit_seconds"]) == (
        8 * 3600,
        ["nvidia-tesla-t4"],
        None,
    )
    (budget,) = client.get("/api/v1/budgets").json()["budgets"]
    assert (budget["limit"], budget["period"], budget["project"]) == ("5000.00", "month", None)


def test_projects_tell_how_well_they_are_known(database: Database, client: TestClient) -> None:
    """Each project shows its last whole look, what was not read, and whether that is too long ago."""
    unread = [{"scope": "project", "code": "permission", "reason": "The role is missing."}]
    with database.write() as connection:
        rows.project(connection, "fresh", instance_count=3)
        rows.project(connection, "lost", unread=unread, last_complete_at=NOW - HOUR)
        rows.project(connection, "never", last_complete_at=None)
    projects = {project["project"]: project for project in client.get("/api/v1/projects").json()["projects"]}
    assert {name: project["is_stale"] for name, project in projects.items()} == {
        "fresh": False,
        "lost": True,
        "never": True,
    }
    assert projects["lost"]["unread"][0]["reason"] == "The role is missing."
    assert projects["fresh"]["instances"] == 3
