"""GET /api/v1/discounts."""

from __future__ import annotations

from datetime import timedelta

import pytest
from fastapi.testclient import TestClient
from tests.api import rows
from tests.api.rows import NOW

from costguard.store.transaction import Database

DAY = timedelta(days=1)


@pytest.fixture
def used(database: Database) -> Database:
    """An N1 T4 on demand since the month began, the same on Spot, and a VM that never gets this discount."""
    month = NOW.replace(day=1, hour=0)
    with database.write() as connection:
        rows.prices(connection)
        rows.lifetime(connection, rows.instance(connection, "steady"), month)
        spot = rows.instance(connection, "spot", provisioning_model="spot")
        rows.lifetime(connection, spot, month, provisioning_model="spot")
        rows.lifetime(connection, rows.instance(connection, "before"), month - 20 * DAY, ended_at=month - DAY)
    return database


def test_a_month_of_steady_use_earns_a_discount(used: Database, client: TestClient) -> None:
    """19.5 of 30 days: the second quarter is 20 % off, 4.5 days of the third 40 %; of cores, memory and the GPU."""
    answer = client.get("/api/v1/discounts").json()
    assert answer["month"] == "2026-11"
    assert {one["resource"]: one["discount"] for one in answer["discounts"]} == {
        "n1:core": "9.504",  # 0.12 an hour, 24 h a day: 7.5 x 0.2 + 4.5 x 0.4 days
        "n1:ram": "4.752",
        "gpu:nvidia-tesla-t4": "27.72",
    }
    assert answer["total"] == "41.976"
    assert "estimate" in answer["method"]


def test_other_months_and_projects(used: Database, client: TestClient) -> None:
    """Each month counts for itself; a month of little use earns nothing."""
    assert client.get("/api/v1/discounts?month=2026-12").json()["discounts"] == []
    assert client.get("/api/v1/discounts?project=none-of-ours").json()["total"] == "0.00"
    assert client.get("/api/v1/discounts?month=2026-13").status_code == 422


def test_one_vm_after_another_earns_as_one(database: Database, client: TestClient) -> None:
    """Runs that ended and runs that go on, of several shapes and zones, add up to one whole use of the month."""
    month = NOW.replace(day=1, hour=0)
    with database.write() as connection:
        rows.prices(connection)
        double = {**rows.N1, "machine_type": "n1-standard-8", "vcpus": 8, "memory_mib": 30 * 1024, "gpu_type": None}
        for name, first, last, given in (
            ("first", 0, 10, {}),
            ("second", 10, None, {"zone": "us-central1-b"}),
            ("wide", 5, 6, {**double, "gpu_count": 0}),
        ):
            vm = rows.instance(connection, name, **given)
            ended_at = None if last is None else month + last * DAY
            rows.lifetime(connection, vm, month + first * DAY, ended_at=ended_at, **given)
    answer = client.get("/api/v1/discounts").json()
    assert {one["resource"]: one["discount"] for one in answer["discounts"]} == {
        "n1:core": "9.504",
        "n1:ram": "4.752",
        "gpu:nvidia-tesla-t4": "27.72",
    }


def test_shared_core_n1_vms_earn_too(database: Database, client: TestClient) -> None:
    """f1-micro and g1-small are N1 machine types, which Google discounts (see tests/gce/test_shared_core.py)."""
    month = NOW.replace(day=1, hour=0)
    micro = {"machine_type": "f1-micro", "vcpus": 1, "memory_mib": 614, "gpu_type": None, "gpu_count": 0}
    with database.write() as connection:
        rows.prices(connection, {("f1-micro:whole", "standard", "h"): 10_000_000})
        rows.lifetime(connection, rows.instance(connection, "micro", **micro), month, **micro)
    answer = client.get("/api/v1/discounts").json()
    assert [(one["resource"], one["discount"]) for one in answer["discounts"]] == [("f1-micro:whole", "0.792")]
