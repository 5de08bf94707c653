"""The kind and product of a VM's keeper as columns, of VMs whose keeper was read before there were any."""

from __future__ import annotations

import json
from contextlib import closing

from sqlalchemy import text
from tests.upgrades.placing import upgrade_to

from costguard.db.transaction import Database

_VM = (
    "INSERT INTO instances (project, gce_id, name, zone, status, created_at, machine_type, vcpus, memory_mib, "
    "gpu_count, local_ssd_gib, provisioning_model, labels, keeper, preset, owner, owner_source, job, created_by, "
    "fingerprint, first_seen_at) VALUES ('lab', :gce_id, 'vm', 'us-central1-a', 'running', 1, 'n1', 1, 1, 0, 0, "
    "'spot', '{}', :keeper, '', '', '', '', '', '', 1)"
)
_TOTAL = (
    "INSERT INTO running_totals (project, preset, owner, job, provisioning_model, day, machine_rate, gpu_rate, "
    "storage_rate, running, machine_nanos, gpu_nanos, storage_nanos, seconds) "
    "VALUES ('lab', 't4', '{owner}', '', 'spot', '2026-01-01', 1, 2, 3, 4, 5, 6, 7, 8)"
)
_KEEPERS = {
    "1": {},
    "2": {"keeper": "nobody"},
    "3": {"keeper": "vertex", "name": "45", "product": "custom job", "evidence": ["costguard-vertex"]},
}


def test_columns_are_filled_from_the_keepers_that_were_read(empty_database_url: str) -> None:
    """A VM without the part has NULL; totals stay, with their own key, until a pass makes them again."""
    upgrade_to(empty_database_url, "0110")
    with closing(Database.open(empty_database_url, migrating=True)) as database, database.write() as connection:
        for gce_id, keeper in _KEEPERS.items():
            connection.execute(text(_VM), {"gce_id": gce_id, "keeper": json.dumps(keeper)})
        for owner in ("ada", "bob"):
            connection.execute(text(_TOTAL.format(owner=owner)))
    upgrade_to(empty_database_url, "0111")
    with closing(Database.open(empty_database_url)) as database, database.read() as connection:
        columns = connection.execute(text("SELECT gce_id, keeper_kind, keeper_product FROM instances ORDER BY 1"))
        assert [tuple(row) for row in columns] == [
            ("1", None, None),
            ("2", "nobody", None),
            ("3", "vertex", "custom job"),
        ]
        totals = connection.execute(
            text("SELECT owner, keeper_kind, keeper_product, seconds FROM running_totals ORDER BY owner")
        )
        assert [tuple(row) for row in totals] == [("ada", "", "", 8), ("bob", "", "", 8)]
