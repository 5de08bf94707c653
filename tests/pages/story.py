"""A small fleet with something of everything, written straight into the tables."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

from tests.api import rows
from tests.api.rows import H100, NOW

from costguard.db.transaction import Database

HOUR = timedelta(hours=1)
UNREAD = {"scope": "us-central1-b", "code": "unreachable", "reason": "Google could not reach us-central1-b."}


def tell(database: Database) -> dict[str, str]:
    """A forgotten T4, an unpriced H100, an unread Spot VM, one that is stopped, one gone; addresses by name."""
    addresses = {}
    fleet: dict[str, dict[str, Any]] = {
        "forgotten": {},
        "dear": {**H100, "preset": "multi-gpu", "owner": "", "owner_source": ""},
        "far": {"zone": "us-central1-b", "provisioning_model": "spot", "owner": "bob@lab.example"},
        "resting": {"status": "stopped"},
        "left": {"gone_at": NOW - HOUR},
    }
    with database.write() as connection:
        rows.prices(connection)
        rows.project(connection, "lab", [UNREAD])
        for number, (name, given) in enumerate(fleet.items()):
            gce_id = str(9_000 + number)
            row_id = rows.instance(connection, name, gce_id=gce_id, **given)
            addresses[name] = f"/vm/lab/{gce_id}"
            if name in ("forgotten", "dear", "far"):
                shape = H100 if name == "dear" else {}
                rows.lifetime(connection, row_id, NOW - 9 * HOUR, **shape)
            if name == "left":
                ended = {"ended_at": NOW - HOUR, "charged_to": NOW - HOUR, "end_reason": "preempted"}
                run = rows.lifetime(connection, row_id, NOW - 3 * HOUR, **ended)
                rows.charge(connection, "lifetime", run, NOW - 3 * HOUR, NOW - HOUR, 700_000_000)
            else:
                rows.storage(connection, row_id, NOW - 9 * HOUR)
        rows.event(connection, "forgotten", NOW - 9 * HOUR, gce_id="9000", name="forgotten")
        for day, preset in ((2, "t4"), (3, "t4"), (3, "multi-gpu")):
            rows.day(connection, date(2026, 11, day), preset=preset, gpu_nanos=12_340_000_000, seconds=7200)
    return addresses
