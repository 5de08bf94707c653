"""A fleet with a VM, a TPU node and what Vertex AI and Colab Enterprise run, told in rows."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from sqlalchemy import select, update
from tests.api import rows
from tests.api.rows import NOW, T4
from tests.reminders import reminder_rows

from costguard.db.tables import instances, lifetimes
from costguard.db.transaction import Database
from costguard.keepers.reading import recorded_keeper
from costguard.model.instance import InstanceKind, vertex_id
from costguard.model.managed.machines import Seller
from costguard.model.managed.origin import TPU_NODE, VERTEX

HOUR, REGION = timedelta(hours=1), "us-central1"
BOB = {"owner": "bob@lab.example", "owner_source": "creator", "created_by": "bob@lab.example"}
NOBODY = {"owner": "", "owner_source": "", "created_by": ""}
_RESOURCES: tuple[tuple[InstanceKind, str, str, Seller, timedelta, Mapping[str, str]], ...] = (
    (InstanceKind.CUSTOM_JOB, "fine-tune", "4567", Seller.TRAINING, 30 * HOUR, {}),
    (InstanceKind.DEPLOYED_MODEL, "llama", "88/99", Seller.PREDICTION, 50 * HOUR, {}),
    (InstanceKind.COLAB_RUNTIME, "notes", "12", Seller.COLAB, 5 * HOUR, BOB),
    (InstanceKind.PERSISTENT_RESOURCE, "warm", "warm", Seller.TRAINING, 9 * HOUR, NOBODY),
)


def tell(database: Database) -> Mapping[str, str]:
    """Returns the addresses of the pages of its resources, by name."""
    addresses = {}
    with database.write() as connection:
        rows.prices(connection)
        rows.prices(connection, _prices())
        rows.project(connection)
        vm = rows.instance(connection, "debug-ada", gce_id="9500")
        rows.lifetime(connection, vm, NOW - 3 * HOUR)
        node = {TPU_NODE: "node"}
        rows.instance(connection, "v5e-dev", gce_id="tpu.77", status="stopped", origin=node, keeper=_kept(node))
        for kind, name, path, seller, age, owner in _RESOURCES:
            number, _, part = path.partition("/")
            gce_id, origin = vertex_id(kind, REGION, number, part), {VERTEX: f"{kind.collection}/{path}"}
            shape = {**T4, "machine_type": f"n1-standard-4 ({seller})"}
            columns = {"zone": REGION, "created_at": NOW - age, "origin": origin, "keeper": _kept(origin)}
            row = rows.instance(connection, name, gce_id=gce_id, **columns, **shape, **owner)
            whose = {"owner": owner["owner"]} if owner else {}
            rows.lifetime(connection, row, NOW - age, **{**shape, "zone": REGION, **whose})
            addresses[name] = f"/vm/lab/{gce_id}"
    return addresses


def act(database: Database) -> None:
    """Costguard stopped a custom job two hours ago and a VM one hour ago, and Bob kept his notebook: for Savings."""
    with database.write() as connection:
        columns = (instances.c.name, instances.c.id, instances.c.gce_id, lifetimes.c.id.label("run"))
        query = select(*columns).join_from(lifetimes, instances, lifetimes.c.instance_id == instances.c.id)
        runs = {row.name: row for row in connection.execute(query)}
        job, vm, notebook = runs["fine-tune"], runs["debug-ada"], runs["notes"]
        for ended, at in ((job, NOW - 2 * HOUR), (vm, NOW - HOUR)):
            reminder_rows.stop(connection, ended.id, ended.run, at)
            run = lifetimes.c.id == ended.run
            connection.execute(update(lifetimes).where(run).values(ended_at=at, end_reason="stopped"))
        reminder_rows.keep(connection, notebook.id, f"run:{notebook.id}:{notebook.run}", NOW + 5 * HOUR)
        rows.event(
            connection, "stopped", NOW - 2 * HOUR, text="fine-tune was stopped.", name=job.name, gce_id=job.gce_id
        )


def _prices() -> dict[tuple[str, str, str], int]:
    """Returns the prices of a T4 and its host, of each service."""
    return {
        (resource, "standard", unit): nanos
        for seller in Seller
        for resource, unit, nanos in (
            (f"{seller.mark}-n1:core", "h", 36_352_650),
            (f"{seller.mark}-n1:ram", "GiBy.h", 4_872_550),
            (f"gpu:nvidia-tesla-t4:{seller.mark}", "h", 402_500_000),
        )
    }


def _kept(origin: Mapping[str, str]) -> dict[str, Any]:
    return recorded_keeper({}, origin, REGION, "").stored()
