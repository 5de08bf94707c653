"""Rows of unknown VMs with our labels, with an admin's decision."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, Row, Select, select, text, update

from costguard.db.bulk import chunks
from costguard.db.prepared import prepared
from costguard.db.remembered import remembers
from costguard.db.tables import UNKNOWN_THERE, unknown_vms
from costguard.db.types import storable
from costguard.db.upsert import upsert
from costguard.model.instance import InstanceKey, Status


class UnknownVmVerdict(StrEnum):
    NONE = ""
    ADOPT = "adopt"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class UnknownVm:
    """`job` is what its label says. `reason` is why it is not adopted, in words."""

    key: InstanceKey
    name: str
    zone: str
    job: str
    generation: int
    request_uuid: str
    status: Status
    reason: str
    found_at: datetime
    verdict: UnknownVmVerdict = UnknownVmVerdict.NONE
    verdict_by: str = ""


@remembers(unknown_vms)
def there(connection: Connection) -> list[UnknownVm]:
    """All that are there and were not adopted, by project and name."""
    return [_vm(row) for row in connection.execute(_THERE)]


_THERE = (
    select(unknown_vms)
    .where(text(UNKNOWN_THERE))
    .order_by(unknown_vms.c.project, unknown_vms.c.name, unknown_vms.c.gce_id)
)


def of_jobs(connection: Connection, job_ids: Collection[str]) -> dict[str, list[UnknownVm]]:
    """Returns unknown VMs that are there, by the job that their labels name."""
    vms_by_job: dict[str, list[UnknownVm]] = {}
    for some in chunks(set(job_ids)):
        for row in connection.execute(*_of_jobs(some)):
            vms_by_job.setdefault(row.job, []).append(_vm(row))
    return vms_by_job


@prepared
def _of_jobs(job_ids: list[str]) -> Select[Any]:
    return select(unknown_vms).where(text(UNKNOWN_THERE), unknown_vms.c.job.in_(job_ids))


def save(connection: Connection, seen: Sequence[UnknownVm]) -> int:
    """Writes those that are new or changed; of a verdict nothing is touched. How many were written."""
    rows = [
        {
            "project": vm.key.project,
            "gce_id": vm.key.gce_id,
            "name": storable(vm.name),
            "zone": storable(vm.zone),
            "job": storable(vm.job),
            "generation": vm.generation,
            "request_uuid": storable(vm.request_uuid),
            "status": vm.status.value,
            "reason": storable(vm.reason),
            "found_at": vm.found_at,
            "cleared_at": None,
        }
        for vm in seen
    ]
    return upsert(connection, unknown_vms, rows, ["project", "gce_id"], ["status", "reason", "cleared_at", "zone"])


def clear(connection: Connection, keys: Collection[InstanceKey], now: datetime) -> None:
    """They are gone, or were adopted."""
    columns = unknown_vms.c
    for key in keys:
        mine = update(unknown_vms).where(
            columns.project == key.project, columns.gce_id == key.gce_id, text(UNKNOWN_THERE)
        )
        connection.execute(mine.values(cleared_at=now))


def decide(connection: Connection, key: InstanceKey, verdict: UnknownVmVerdict, by: str, now: datetime) -> bool:
    """Records an admin's decision about it. False: no such VM is there."""
    columns = unknown_vms.c
    mine = update(unknown_vms).where(columns.project == key.project, columns.gce_id == key.gce_id, text(UNKNOWN_THERE))
    values = {"verdict": verdict.value, "verdict_by": storable(by), "verdict_at": now}
    return connection.execute(mine.values(values)).rowcount == 1


def verdict_on(connection: Connection, key: InstanceKey) -> UnknownVmVerdict:
    columns = unknown_vms.c
    query = select(columns.verdict).where(
        columns.project == key.project, columns.gce_id == key.gce_id, text(UNKNOWN_THERE)
    )
    return UnknownVmVerdict(connection.scalar(query) or "")


def _vm(row: Row[Any]) -> UnknownVm:
    return UnknownVm(
        InstanceKey(row.project, row.gce_id),
        row.name,
        row.zone,
        row.job,
        row.generation,
        row.request_uuid,
        Status(row.status),
        row.reason,
        row.found_at,
        UnknownVmVerdict(row.verdict),
        row.verdict_by,
    )
