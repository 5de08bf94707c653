"""GET /api/v1/instances and one instance."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from fastapi.testclient import TestClient
from tests.api import rows
from tests.api.conftest import PRESETS
from tests.api.rows import NOW

from costguard.access.rules import Rules, by_name
from costguard.api.app import create_app
from costguard.api.deps import Deps
from costguard.db.transaction import Database
from costguard.keepers.reading import VmFacts, read_keeper
from costguard.model.reminder import Enforcement, ReminderRule

HOUR = timedelta(hours=1)
MIDNIGHT = NOW.replace(hour=0)


def test_money_is_stored_charges_plus_what_ran_up_since(database: Database, client: TestClient) -> None:
    """The open lifetime, the VM in all and the rate are exact dollars, with the live part up to this moment."""
    with database.write() as connection:
        rows.prices(connection)
        vm = rows.instance(connection, "trainer")
        before = rows.lifetime(
            connection, vm, MIDNIGHT - 48 * HOUR, ended_at=MIDNIGHT - 47 * HOUR, charged_to=MIDNIGHT - 47 * HOUR
        )
        rows.charge(connection, "lifetime", before, MIDNIGHT - 48 * HOUR, MIDNIGHT - 47 * HOUR, 1_000_000_007)
        now = rows.lifetime(connection, vm, MIDNIGHT - 2 * HOUR, charged_to=MIDNIGHT)
        rows.charge(connection, "lifetime", now, MIDNIGHT - 2 * HOUR, MIDNIGHT, 1_060_000_000)
        disk = rows.storage(connection, vm, MIDNIGHT - 48 * HOUR, charged_to=MIDNIGHT)
        rows.charge(connection, "storage", disk, MIDNIGHT - 48 * HOUR, MIDNIGHT, 192_000_000)
    (seen,) = client.get("/api/v1/instances").json()["instances"]
    assert seen["rate_per_hour"] == {"amount": "0.534", "currency": "USD", "complete": True}
    assert seen["lifetime_cost"]["amount"] == "7.42"  # 2 h stored and 12 h live, at 0.53
    assert seen["total_cost"]["amount"] == "8.660000007"  # and 1.000000007 before, 60 h of disk at 0.004
    assert seen["started_at"] == "2026-11-19T22:00:00Z"
    assert seen["due_at"] == "2026-11-20T06:00:00Z"
    assert seen["owner_source"] == "label"


def test_the_unpriced_are_never_shown_as_zero(database: Database, client: TestClient) -> None:
    """An amount without a price is null with the reason, comes first, and is counted in the totals."""
    with database.write() as connection:
        rows.prices(connection)
        rows.lifetime(connection, rows.instance(connection, "cheap"), NOW - HOUR)
        dear = rows.instance(connection, "dear", **rows.H100, preset="other")
        rows.lifetime(connection, dear, NOW - HOUR, **rows.H100)
    answer = client.get("/api/v1/instances").json()
    assert [instance["name"] for instance in answer["instances"]] == ["dear", "cheap"]
    dear_one = answer["instances"][0]
    assert dear_one["rate_per_hour"] == {"amount": None, "currency": "USD", "complete": False}
    assert dear_one["total_cost"]["amount"] is None
    assert "gpu:nvidia-h100-80gb" in dear_one["unpriced"][0]
    assert answer["totals"] == {"instances": 2, "running": 2, "rate_per_hour": "0.53", "unpriced": 1}


@pytest.mark.parametrize("sort", ["rate", "age", "name"])
def test_pages_hold_every_instance_once(database: Database, client: TestClient, sort: str) -> None:
    """Following the cursors gives every instance once, those that are gone last."""
    with database.write() as connection:
        rows.prices(connection)
        for number in range(7):
            vm = rows.instance(connection, f"vm-{number % 3}", gce_id=str(number))
            if number % 2:
                rows.lifetime(connection, vm, NOW - HOUR)
        for number in range(5):
            rows.instance(connection, "old", gce_id=str(100 + number), gone_at=NOW - (number // 2) * HOUR)
    seen: list[tuple[str, bool]] = []
    cursor: str | None = ""
    while cursor is not None:
        parameters = {"gone": "true", "sort": sort, "limit": "2"} | ({"cursor": cursor} if cursor else {})
        answer = client.get("/api/v1/instances", params=parameters).json()
        assert answer["totals"]["instances"] == 7
        seen += [(instance["gce_id"], instance["gone_at"] is not None) for instance in answer["instances"]]
        cursor = answer["next_cursor"]
    assert len(seen) == len(set(seen)) == 12
    assert [gone for _, gone in seen] == [False] * 7 + [True] * 5


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("project=lab", {"a", "b"}),
        ("project=lab&project=shop", {"a", "b", "c"}),
        ("owner=", {"c"}),
        ("spot=true", {"b"}),
        ("gpu=none", {"c"}),
        ("gpu=any", {"a", "b"}),
        ("gpu=nvidia-tesla-t4&status=running", {"a"}),
        ("preset=other", {"c"}),
        ("name=b", {"b"}),
        ("gone=true", {"a", "b", "c", "d"}),
    ],
)
def test_filters(database: Database, client: TestClient, query: str, expected: set[str]) -> None:
    """Every filter that is given must hold; repeated ones hold for any of their values."""
    with database.write() as connection:
        rows.instance(connection, "a")
        rows.instance(connection, "b", provisioning_model="spot", status="stopped")
        rows.instance(connection, "c", project="shop", owner="", preset="other", gpu_type=None, gpu_count=0)
        rows.instance(connection, "d", project="attic", gone_at=NOW)
    answer = client.get(f"/api/v1/instances?{query}").json()
    assert {instance["name"] for instance in answer["instances"]} == expected


def test_unread_zones_are_told(database: Database, client: TestClient) -> None:
    """A VM in a zone that could not be read stays, is marked, and was surely seen in the last whole look."""
    unread = [{"scope": "us-central1-a", "code": "unreachable", "reason": "Google did not reach the zone."}]
    with database.write() as connection:
        rows.project(connection, unread=unread, last_complete_at=NOW - HOUR)
        rows.instance(connection, "hidden")
        rows.instance(connection, "visible", zone="us-central1-b")
    answer = client.get("/api/v1/instances?sort=name").json()
    hidden, visible = answer["instances"]
    assert (hidden["unread"], hidden["last_seen_at"]) == ("Google did not reach the zone.", "2026-11-20T11:00:00Z")
    assert (visible["unread"], visible["last_seen_at"]) == ("", "2026-11-20T12:00:00Z")
    assert [part["scope"] for part in answer["unread"]] == ["us-central1-a"]


def test_one_instance_with_its_history(database: Database, client: TestClient) -> None:
    """Each lifetime and disk lists its charges by resource with the price; they add up to the cost."""
    with database.write() as connection:
        rows.prices(connection)
        vm = rows.instance(connection, "trainer", gce_id="42")
        rows.lifetime(connection, vm, MIDNIGHT - HOUR)
        rows.storage(connection, vm, MIDNIGHT - HOUR)
    answer = client.get("/api/v1/instances/lab/42").json()
    (run,) = answer["lifetimes"]
    assert run["cost"]["amount"] == "6.89"
    assert {
        charge["resource"]: (charge["quantity"], charge["rate"], charge["amount"]) for charge in run["charges"]
    } == {
        "n1:core": ("4", "0.03", "1.56"),
        "n1:ram": ("15", "0.004", "0.78"),
        "gpu:nvidia-tesla-t4": ("1", "0.35", "4.55"),
    }
    (disk,) = answer["storage"]
    assert (disk["size_gib"], disk["cost"]["amount"], disk["charges"][0]["seconds"]) == ("70", "0.052", 13 * 3600)
    assert answer["instance"]["total_cost"]["amount"] == "6.942"


def test_idleness_is_told_with_its_evidence(database: Database, client: TestClient) -> None:
    """The state, since when, the evidence in words, and whether it is weak; in the list and for one VM alike."""
    with database.write() as connection:
        vm = rows.instance(connection, "forgotten", gce_id="42")
        rows.lifetime(connection, vm, NOW - 3 * HOUR)
        rows.measured(connection, vm, NOW - 3 * HOUR)
    idle = {
        "state": "idle",
        "since": "2026-11-20T10:00:00Z",
        "evidence": "GPU under 5 % for 2 h (max 3 %)",
        "is_weak": False,
    }
    (listed,) = client.get("/api/v1/instances").json()["instances"]
    assert listed["idle"] == idle
    assert client.get("/api/v1/instances/lab/42").json()["instance"]["idle"] == idle


@pytest.mark.parametrize(
    "given",
    [
        {"run_started_at": NOW - 30 * HOUR},
        {"good_until": NOW - HOUR},
        {},
    ],
    ids=["of the run before", "too old", "stopped since"],
)
def test_what_does_not_hold_now_is_null(database: Database, client: TestClient, given: dict[str, Any]) -> None:
    """Evidence is of one run and good for a while; a VM that does not run is neither busy nor idle."""
    stopped = {} if given else {"ended_at": NOW - HOUR, "charged_to": NOW - HOUR, "end_reason": "stopped"}
    with database.write() as connection:
        vm = rows.instance(connection, "forgotten", status="stopped" if stopped else "running")
        rows.lifetime(connection, vm, NOW - 3 * HOUR, **stopped)
        rows.measured(connection, vm, **{"run_started_at": NOW - 3 * HOUR, **given})
    (seen,) = client.get("/api/v1/instances").json()["instances"]
    assert seen["idle"] is None


def test_idleness_has_a_described_shape(client: TestClient) -> None:
    """OpenAPI tells what may stand there: an object with these four fields, or null."""
    shapes = client.get("/openapi.json").json()["components"]["schemas"]
    assert set(shapes["IdleOut"]["properties"]) == {"state", "since", "evidence", "is_weak"}
    assert {"type": "null"} in shapes["InstanceOut"]["properties"]["idle"]["anyOf"]


def test_one_vm_says_why_it_was_not_stopped(database: Database, deps: Deps) -> None:
    """The reason is a word for programs, a sentence, and what is missing and when it comes."""
    stops = replace(PRESETS[0], reminders=ReminderRule(enforcement=Enforcement.STOP))
    client = TestClient(create_app(replace(deps, rules=Rules(by_name([stops]), channel="#gpus"))))
    with database.write() as connection:
        late = rows.instance(connection, "late", gce_id="41")
        rows.lifetime(connection, late, NOW - 7 * HOUR)
        rows.instance(connection, "left", gce_id="42", gone_at=NOW - HOUR)
        rows.instance(connection, "resting", gce_id="43", status="stopped")
    assert client.get("/api/v1/instances/lab/41").json()["not_stopped"] == {
        "cause": "not_due",
        "sentence": "Not stopped: its limit of 8 h has not passed, and whether it is idle is not known; and shadow "
        "mode is on, in which rules stop nothing (preset t4: stop after 3 unanswered reminders and 1 h); still "
        "missing: the limit, 3 unanswered reminders and 1 h of grace; it is due Fri 13:00 UTC.",
        "rule": "preset t4: stop after 3 unanswered reminders and 1 h",
        "missing": ["the limit", "3 unanswered reminders", "1 h of grace"],
        "at": "2026-11-20T13:00:00Z",
    }
    assert client.get("/api/v1/instances/lab/42").json()["not_stopped"]["cause"] == "gone"
    assert client.get("/api/v1/instances/lab/43").json()["not_stopped"]["cause"] == "not_running"


def test_a_vm_says_who_keeps_it_and_is_found_by_that(database: Database, client: TestClient) -> None:
    """The keeper with its names and evidence; filters by keeper, cluster and pool; spend by pool."""
    labels = {"goog-gke-node": "", "goog-k8s-cluster-name": "train", "goog-k8s-node-pool-name": "t4"}
    origin = {"created-by": "projects/1/zones/us-central1-a/instanceGroupManagers/gke-train-t4-82e0c046-grp"}
    keeper = read_keeper(VmFacts(labels, origin))
    with database.write() as connection:
        rows.prices(connection)
        node = rows.instance(connection, "node", gce_id="7", labels=labels, keeper=keeper.stored())
        rows.lifetime(connection, node, NOW - HOUR)
        rows.lifetime(connection, rows.instance(connection, "mine", gce_id="8"), NOW - HOUR)
    answer = client.get("/api/v1/instances/lab/7").json()["instance"]
    assert answer["keeper"] == {
        "kind": "gke",
        "name": "train",
        "cluster": "train",
        "pool": "t4",
        "group": origin["created-by"],
        "place": "",
        "product": "",
        "evidence": [*sorted(labels), "created-by"],
        "doubt": "",
    }
    assert "belongs to GKE cluster train (node pool t4)" in answer["never_stopped"]

    def found(**query: str) -> list[str]:
        return [vm["name"] for vm in client.get("/api/v1/instances", params=query).json()["instances"]]

    assert found(keeper="gke") == found(cluster="train") == found(cluster="train/t4") == ["node"]
    assert found(cluster="train/v100") == []
    by_pool = client.get("/api/v1/spend/labels/costguard-pool", params={"from": "2026-11-20"}).json()["rows"]
    assert {row["value"] for row in by_pool} == {"train/t4", None}
