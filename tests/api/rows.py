"""Rows written straight into the tables, for tests of what is read from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

from sqlalchemy import Connection, insert, select
from tests.rolled_up import total_days

from costguard.db import tables
from costguard.ledger.labels.label_history import keeper_columns
from costguard.model.keeper import Keeper
from costguard.model.price import EVERYWHERE, is_address

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
EARLIER = datetime(2026, 1, 1, tzinfo=UTC)

# Dollars per unit. An n1-standard-4 costs 4 x 0.03 + 15 x 0.004 = 0.18 an hour, a T4 0.35 more.
RATES = {
    ("n1:core", "standard", "h"): 30_000_000,
    ("n1:ram", "standard", "GiBy.h"): 4_000_000,
    ("gpu:nvidia-tesla-t4", "standard", "h"): 350_000_000,
    ("n1:core", "spot", "h"): 10_000_000,
    ("n1:ram", "spot", "GiBy.h"): 1_000_000,
    ("gpu:nvidia-tesla-t4", "spot", "h"): 110_000_000,
    ("disk:pd-standard", "standard", "GiBy.mo"): 41_200_000,
    ("external-ip", "standard", "h"): 5_000_000,
    ("external-ip:spot", "standard", "h"): 2_500_000,
}
N1 = {"machine_type": "n1-standard-4", "vcpus": 4, "memory_mib": 15 * 1024, "local_ssd_gib": 0}
T4 = {**N1, "gpu_type": "nvidia-tesla-t4", "gpu_count": 1}
H100 = {
    "machine_type": "a3-highgpu-8g",
    "vcpus": 208,
    "memory_mib": 1872 * 1024,
    "gpu_type": "nvidia-h100-80gb",
    "gpu_count": 8,
    "local_ssd_gib": 0,
}


def prices(connection: Connection, rates: Mapping[tuple[str, str, str], int] | None = None) -> None:
    rows = [
        {
            "resource": resource,
            "region": EVERYWHERE if is_address(resource) else "us-central1",
            "provisioning_model": model,
            "unit": unit,
            "rate_nanos": rate,
            "in_force_from": EARLIER,
            "source": "snapshot 2026-11-20",
            "recorded_at": EARLIER,
        }
        for (resource, model, unit), rate in (rates or RATES).items()
    ]
    connection.execute(insert(tables.prices), rows)


def instance(connection: Connection, name: str, **given: Any) -> int:
    """A running T4 in us-central1-a, unless something else is given; its row's id."""
    row = {
        "project": "lab",
        "gce_id": str(7_000_000_000_000_000_000 + sum(ord(c) * 131**i for i, c in enumerate(name)) % 10**17),
        "name": name,
        "zone": "us-central1-a",
        "status": "running",
        "created_at": EARLIER,
        **T4,
        "provisioning_model": "standard",
        "labels": {},
        "preset": "t4",
        "owner": "ada@lab.example",
        "owner_source": "label",
        "job": "",
        "created_by": "ada@lab.example",
        "fingerprint": "f",
        "first_seen_at": EARLIER,
        **given,
        **(keeper_columns(Keeper.of_stored(given["keeper"])) if given.get("keeper") else {}),
    }
    return _insert(connection, tables.instances, row)


def lifetime(connection: Connection, instance_id: int, started_at: datetime, **given: Any) -> int:
    row = {
        "instance_id": instance_id,
        "project": _project_of(connection, instance_id),
        "started_at": started_at,
        "zone": "us-central1-a",
        **T4,
        "provisioning_model": "standard",
        "preset": "t4",
        "owner": "ada@lab.example",
        "job": "",
        **given,
    }
    return _insert(connection, tables.lifetimes, row)


def measured(connection: Connection, instance_id: int, run_started_at: datetime, **given: Any) -> None:
    """Idle for two hours by its GPUs, unless something else is given; good for an hour from NOW."""
    row = {
        "instance_id": instance_id,
        "run_started_at": run_started_at,
        "measured_at": NOW,
        "good_until": NOW + timedelta(hours=1),
        "state": "idle",
        "since": NOW - timedelta(hours=2),
        "sentence": "GPU under 5 % for 2 h (max 3 %)",
        "is_weak": False,
        "announced": "idle",
        **given,
    }
    connection.execute(insert(tables.utilisation), row)


def storage(connection: Connection, instance_id: int, started_at: datetime, **given: Any) -> int:
    row = {
        "instance_id": instance_id,
        "project": _project_of(connection, instance_id),
        "name": "boot",
        "resource": "disk:pd-standard",
        "size_mib": 70 * 1024,  # 70 GiB at 0.0412 a month: 0.004 an hour in November, which has 721
        "zone": "us-central1-a",
        "started_at": started_at,
        "preset": "t4",
        "owner": "ada@lab.example",
        "job": "",
        **given,
    }
    return _insert(connection, tables.storage_spans, row)


def charge(
    connection: Connection, span: str, span_id: int, started_at: datetime, ended_at: datetime, nanos: int
) -> None:
    """Stores one charge, at the price with the lowest id."""
    row = {
        "span": span,
        "span_id": span_id,
        "resource": "gpu:nvidia-tesla-t4" if span == "lifetime" else "disk:pd-standard",
        "started_at": started_at,
        "ended_at": ended_at,
        "day": started_at.date(),
        "seconds": int((ended_at - started_at).total_seconds()),
        "quantity_millis": 1000,
        "price_id": 1,
        "amount_nanos": nanos,
    }
    connection.execute(insert(tables.charges), row)


def day(connection: Connection, day: date, **given: Any) -> None:
    row = {
        "day": day,
        "project": "lab",
        "preset": "t4",
        "owner": "ada@lab.example",
        "job": "",
        "provisioning_model": "standard",
        "machine_nanos": 0,
        "gpu_nanos": 0,
        "storage_nanos": 0,
        "seconds": 0,
        **given,
    }
    connection.execute(insert(tables.daily_spend), row)
    total_days(connection, [day])


def project(connection: Connection, name: str = "lab", unread: Sequence[Mapping[str, str]] = (), **given: Any) -> None:
    row = {
        "project": name,
        "first_seen_at": EARLIER,
        "last_tried_at": NOW,
        "last_complete_at": NOW,
        "unread": list(unread),
        **given,
    }
    connection.execute(insert(tables.projects), row)


def event(connection: Connection, key: str, occurred_at: datetime, **given: Any) -> int:
    row = {
        "key": key,
        "kind": "LifetimeStarted",
        "occurred_at": occurred_at,
        "recorded_at": NOW,
        "project": "lab",
        "text": f"{key} started.",
        "data": {},
        **given,
    }
    return _insert(connection, tables.events, row)


def _project_of(connection: Connection, instance_id: int) -> str:
    query = select(tables.instances.c.project).where(tables.instances.c.id == instance_id)
    return str(connection.execute(query).scalar_one())


def _insert(connection: Connection, table: Any, row: Mapping[str, Any]) -> int:
    (row_id,) = connection.execute(insert(table).values(**row).returning(table.c.id)).one()
    return int(row_id)
