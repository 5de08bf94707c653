"""Instances, lifetimes and storage spans: read what is known, write what changed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, bindparam, case, insert, null, select, update

from costguard.model.instance import InstanceKey, ProvisioningModel, Shape, Status
from costguard.model.lifetime import Attribution, EndReason, Lifetime, StorageSpan
from costguard.model.record import InstanceRecord, KnownInstance
from costguard.store.tables import instances, lifetimes, storage_spans

_BATCH = 500  # SQLite allows 32,766 bound values in one statement, PostgreSQL 65,535


@dataclass(frozen=True, slots=True)
class Standing:
    """The little that is read of every VM that is thought to be there, to see whether anything changed."""

    fingerprint: str
    name: str
    zone: str


@dataclass(frozen=True, slots=True)
class Saved:
    """How many rows of each kind were written."""

    instances: int = 0
    lifetimes: int = 0
    storage: int = 0

    def __add__(self, other: Saved) -> Saved:
        return Saved(self.instances + other.instances, self.lifetimes + other.lifetimes, self.storage + other.storage)


def standings(connection: Connection, project: str) -> dict[str, Standing]:
    """Every VM of the project that is not known to be gone, by its numeric id."""
    table = instances.c
    query = select(table.gce_id, table.fingerprint, table.name, table.zone).where(
        table.project == project, table.gone_at.is_(None)
    )
    return {gce_id: Standing(mark, name, zone) for gce_id, mark, name, zone in connection.execute(query)}


def load(connection: Connection, project: str, gce_ids: Sequence[str]) -> dict[str, KnownInstance]:
    """What is known of these VMs, with all their lifetimes and storage spans; unknown ids are left out."""
    found: dict[str, KnownInstance] = {}
    for batch in _batches(gce_ids):
        rows = connection.execute(
            select(instances).where(instances.c.project == project, instances.c.gce_id.in_(batch))
        ).all()
        ids = [row.id for row in rows]
        keys = {row.id: InstanceKey(project, row.gce_id) for row in rows}
        runs = _by_instance(connection, lifetimes, ids)
        spans = _by_instance(connection, storage_spans, ids)
        for row in rows:
            key = keys[row.id]
            found[row.gce_id] = KnownInstance(
                id=row.id,
                record=record_of(row),
                lifetimes=tuple(lifetime_of(key, run) for run in runs[row.id]),
                storage=tuple(storage_of(key, span) for span in spans[row.id]),
            )
    return found


def save(
    connection: Connection,
    record: InstanceRecord,
    known: KnownInstance | None,
    changed_lifetimes: Sequence[Lifetime],
    changed_storage: Sequence[StorageSpan],
) -> Saved:
    """Write one VM's record and the spans that are new or changed; what is unchanged is not touched.

    A span that changed before the moment up to which it is charged is marked to be charged anew, and so
    are the open spans of a VM that changed hands.
    """
    owned = {
        "preset": record.attribution.preset,
        "owner": record.attribution.owner,
        "job": record.attribution.job,
    }
    wrote_instance = 0
    if known is None:
        instance_id: int = connection.execute(
            insert(instances).values(_instance_row(record)).returning(instances.c.id)
        ).scalar_one()
        wrote_instance = 1
    else:
        instance_id = known.id
        if record != known.record:
            connection.execute(update(instances).where(instances.c.id == instance_id), _instance_row(record))
            wrote_instance = 1
    if known is not None and record.attribution != known.record.attribution:
        for table in (lifetimes, storage_spans):
            connection.execute(
                update(table)
                .where(table.c.instance_id == instance_id, table.c.ended_at.is_(None))
                .values(**owned, charged_to=None)
            )
    _write(connection, lifetimes, instance_id, [_lifetime_row(life) for life in changed_lifetimes], owned)
    _write(connection, storage_spans, instance_id, [_storage_row(span) for span in changed_storage], owned)
    return Saved(wrote_instance, len(changed_lifetimes), len(changed_storage))


def record_of(row: Row[Any]) -> InstanceRecord:
    return InstanceRecord(
        key=InstanceKey(row.project, row.gce_id),
        name=row.name,
        zone=row.zone,
        status=Status(row.status),
        created_at=row.created_at,
        shape=shape_of(row),
        provisioning_model=ProvisioningModel(row.provisioning_model),
        attribution=Attribution(row.preset, row.owner, row.job),
        fingerprint=row.fingerprint,
        first_seen_at=row.first_seen_at,
        owner_source=row.owner_source,
        created_by=row.created_by,
        labels=row.labels,
        last_started_at=row.last_started_at,
        last_stopped_at=row.last_stopped_at,
        termination_at=row.termination_at,
        gone_at=row.gone_at,
    )


def shape_of(row: Row[Any]) -> Shape:
    return Shape(row.machine_type, row.vcpus, row.memory_mib, row.gpu_type, row.gpu_count, row.local_ssd_gib)


def lifetime_of(key: InstanceKey, row: Row[Any]) -> Lifetime:
    return Lifetime(
        key=key,
        started_at=row.started_at,
        shape=shape_of(row),
        provisioning_model=ProvisioningModel(row.provisioning_model),
        zone=row.zone,
        ended_at=row.ended_at,
        end_reason=EndReason(row.end_reason) if row.end_reason is not None else None,
        ended_by=row.ended_by,
        end_is_estimate=row.end_is_estimate,
        id=row.id,
    )


def storage_of(key: InstanceKey, row: Row[Any]) -> StorageSpan:
    return StorageSpan(key, row.name, row.resource, row.size_mib, row.zone, row.started_at, row.ended_at, row.id)


def _batches(values: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(values), _BATCH):
        yield values[start : start + _BATCH]


def _by_instance(connection: Connection, table: Any, ids: Sequence[int]) -> defaultdict[int, list[Row[Any]]]:
    rows: defaultdict[int, list[Row[Any]]] = defaultdict(list)
    query = select(table).where(table.c.instance_id.in_(ids)).order_by(table.c.started_at)
    for row in connection.execute(query):
        rows[row.instance_id].append(row)
    return rows


def _write(
    connection: Connection, table: Any, instance_id: int, rows: Sequence[dict[str, Any]], owned: dict[str, str]
) -> None:
    """Insert the rows without an id and update the others, as one statement for each."""
    new = [{**row, **owned, "instance_id": instance_id} for row in rows if row["id"] is None]
    for row in new:
        del row["id"]
    if new:
        connection.execute(insert(table), new)
    old = [{f"new_{name}": value for name, value in row.items()} for row in rows if row["id"] is not None]
    if not old:
        return
    columns = [name for name in rows[0] if name != "id"]
    statement = (
        update(table)
        .where(table.c.id == bindparam("new_id"))
        .values(
            **{name: bindparam(f"new_{name}") for name in columns},
            charged_to=case(
                (table.c.ended_at.is_not(None), null()),
                (table.c.charged_to > bindparam("new_ended_at"), null()),
                else_=table.c.charged_to,
            ),
        )
    )
    connection.execute(statement, old)


def _instance_row(record: InstanceRecord) -> dict[str, Any]:
    return {
        "project": record.key.project,
        "gce_id": record.key.gce_id,
        "name": record.name,
        "zone": record.zone,
        "status": record.status.value,
        "created_at": record.created_at,
        "last_started_at": record.last_started_at,
        "last_stopped_at": record.last_stopped_at,
        "termination_at": record.termination_at,
        **_shape_row(record.shape),
        "provisioning_model": record.provisioning_model.value,
        "labels": dict(record.labels),
        "preset": record.attribution.preset,
        "owner": record.attribution.owner,
        "owner_source": record.owner_source,
        "job": record.attribution.job,
        "created_by": record.created_by,
        "fingerprint": record.fingerprint,
        "first_seen_at": record.first_seen_at,
        "gone_at": record.gone_at,
    }


def _shape_row(shape: Shape) -> dict[str, Any]:
    return {
        "machine_type": shape.machine_type,
        "vcpus": shape.vcpus,
        "memory_mib": shape.memory_mib,
        "gpu_type": shape.gpu_type,
        "gpu_count": shape.gpu_count,
        "local_ssd_gib": shape.local_ssd_gib,
    }


def _lifetime_row(life: Lifetime) -> dict[str, Any]:
    return {
        "id": life.id,
        "started_at": life.started_at,
        "ended_at": life.ended_at,
        "end_reason": life.end_reason.value if life.end_reason is not None else None,
        "ended_by": life.ended_by,
        "end_is_estimate": life.end_is_estimate,
        "zone": life.zone,
        **_shape_row(life.shape),
        "provisioning_model": life.provisioning_model.value,
    }


def _storage_row(span: StorageSpan) -> dict[str, Any]:
    return {
        "id": span.id,
        "name": span.name,
        "resource": span.resource,
        "size_mib": span.size_mib,
        "zone": span.zone,
        "started_at": span.started_at,
        "ended_at": span.ended_at,
    }
