"""Rows of instances, lifetimes and storage spans."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Select,
    Table,
    bindparam,
    case,
    null,
    select,
    tuple_,
    update,
)

from costguard.db.bulk import chunks, insert_rows
from costguard.db.prepared import prepared
from costguard.db.tables import instances, lifetimes, storage_spans
from costguard.db.types import storable
from costguard.ledger.labels import label_history
from costguard.ledger.labels.label_history import LabelChange, keeper_columns, with_keeper
from costguard.ledger.roll_up import SpanGroup, following
from costguard.ledger.rows import lifetime_of, shape_of, storage_of
from costguard.model.instance import InstanceKey, ProvisioningModel, Shape, Status
from costguard.model.keeper import Keeper
from costguard.model.lifetime import Attribution, Lifetime, StorageSpan
from costguard.model.record import InstanceRecord, KnownInstance, RefusedChange

_Value = TypeVar("_Value")
_TEXTS = (str, dict)
_BATCH = 500  # SQLite allows 32,766 bound values in one statement, PostgreSQL 65,535


@dataclass(frozen=True, slots=True)
class ListedVm:
    """The little that is read of every VM that is thought to be there, to see whether anything changed."""

    fingerprint: str
    name: str
    zone: str


@dataclass(frozen=True, slots=True)
class Change:
    """The rows to write of one VM: its record, and the spans that are new or changed."""

    record: InstanceRecord
    stored: KnownInstance | None
    lifetimes: Sequence[Lifetime] = ()
    storage: Sequence[StorageSpan] = ()
    labelled_at: datetime | None = None  # when its labels changed, if they did


@dataclass(frozen=True, slots=True)
class RowsWritten:
    """The number of rows of each kind that were written, and the refused changes."""

    instances: int = 0
    lifetimes: int = 0
    storage: int = 0
    refused: tuple[RefusedChange, ...] = ()


def standings(connection: Connection, project: str) -> dict[str, ListedVm]:
    """Every VM of the project that is not known to be gone, by its numeric id."""
    return standings_of(connection, [project])[project]


def standings_of(connection: Connection, projects: Sequence[str]) -> dict[str, dict[str, ListedVm]]:
    """The same of each of these projects, by project."""
    by_project: dict[str, dict[str, ListedVm]] = {project: {} for project in projects}
    for some in chunks(set(projects)):
        for project, gce_id, mark, name, zone in connection.execute(*_standings(some)).all():
            by_project[project][gce_id] = ListedVm(mark, name, zone)
    return by_project


@prepared
def _standings(projects: list[str]) -> Select[Any]:
    columns = instances.c
    query = select(columns.project, columns.gce_id, columns.fingerprint, columns.name, columns.zone)
    return query.where(columns.project.in_(projects), columns.gone_at.is_(None))


def load(connection: Connection, project: str, gce_ids: Sequence[str]) -> dict[str, KnownInstance]:
    """Loads these VMs, with all their lifetimes and storage spans; unknown ids are left out."""
    instances_by_gce_id: dict[str, KnownInstance] = {}
    for batch in _batches(gce_ids):
        rows = connection.execute(*_instances(project, list(batch))).all()
        ids = [row.id for row in rows]
        keys = {row.id: InstanceKey(project, row.gce_id) for row in rows}
        runs = _by_instance(connection, lifetimes, ids)
        spans = _by_instance(connection, storage_spans, ids)
        for row in rows:
            key = keys[row.id]
            instances_by_gce_id[row.gce_id] = _known(row, key, runs[row.id], spans[row.id])
    return instances_by_gce_id


def load_all(connection: Connection, keys: Iterable[InstanceKey]) -> dict[InstanceKey, KnownInstance]:
    """Loads VMs of any projects, with all their lifetimes and storage spans; unknown ones are left out."""
    loaded: dict[InstanceKey, KnownInstance] = {}
    columns = instances.c
    for batch in _batches(sorted((key.project, key.gce_id) for key in keys)):
        rows = connection.execute(select(instances).where(tuple_(columns.project, columns.gce_id).in_(batch))).all()
        ids = [row.id for row in rows]
        runs = _by_instance(connection, lifetimes, ids)
        spans = _by_instance(connection, storage_spans, ids)
        for row in rows:
            key = InstanceKey(row.project, row.gce_id)
            loaded[key] = _known(row, key, runs[row.id], spans[row.id])
    return loaded


def _known(row: Row[Any], key: InstanceKey, runs: Iterable[Row[Any]], spans: Iterable[Row[Any]]) -> KnownInstance:
    return KnownInstance(
        id=row.id,
        record=record_of(row),
        lifetimes=tuple(lifetime_of(key, run) for run in runs),
        storage=tuple(storage_of(key, span) for span in spans),
    )


@prepared
def _instances(project: str, gce_ids: list[str]) -> Select[Any]:
    return select(instances).where(instances.c.project == project, instances.c.gce_id.in_(gce_ids))


def known(connection: Connection, instance_id: int) -> KnownInstance | None:
    """The same of one VM, by its row."""
    query = select(instances.c.project, instances.c.gce_id).where(instances.c.id == instance_id)
    row = connection.execute(query).one_or_none()
    return load(connection, row.project, [row.gce_id])[row.gce_id] if row is not None else None


def save(connection: Connection, changes: Sequence[Change]) -> RowsWritten:
    """Write the records and spans that are new or changed, a few statements for all; the rest is not touched.

    A span that changed before the moment up to which it is charged is marked to be charged again. The open spans
    of a VM that changed hands follow it, and so do the daily sums of their charges.
    """
    fresh = [change for change in changes if change.stored is None]
    altered = [change for change in changes if change.stored is not None and change.record != change.stored.record]
    ids = {change.record.key: change.stored.id for change in changes if change.stored is not None}
    insert_rows(connection, instances, [_instance_row(change.record) for change in fresh])
    ids.update(_ids_of(connection, [change.record.key for change in fresh]))
    if altered:
        _update(connection, instances, [{"id": ids[c.record.key], **_instance_row(c.record)} for c in altered])
        label_history.store(connection, [label for c in altered for label in _label_changes(c)])
    moved: list[dict[str, Any]] = [
        {"new_instance_id": ids[c.record.key], **{f"new_{name}": value for name, value in _owned(c.record).items()}}
        for c in altered
        if c.stored is not None and c.record.attribution != c.stored.record.attribution
    ]
    spans: list[tuple[Table, list[dict[str, Any]]]] = [
        (
            lifetimes,
            [row for c in changes for row in _span_rows(c, ids[c.record.key], map(_lifetime_row, c.lifetimes))],
        ),
        (
            storage_spans,
            [row for c in changes for row in _span_rows(c, ids[c.record.key], map(_storage_row, c.storage))],
        ),
    ]
    refused: list[RefusedChange] = []
    records = {ids[change.record.key]: change.record for change in changes}
    for table, rows in spans:
        new = [{name: value for name, value in row.items() if name != "id"} for row in rows if row["id"] is None]
        old = [row for row in rows if row["id"] is not None]
        archived = _archived(connection, table, [row["id"] for row in old])
        refused += [_refused(records, row) for row in old if row["id"] in archived]
        old = [row for row in old if row["id"] not in archived]
        if moved or old:
            span_ids = {row["id"] for row in old}
            span_ids.update(_open_spans(connection, table, [move["new_instance_id"] for move in moved]))
            with following(connection, table, span_ids, {row["id"]: _whose(row) for row in old}):
                if moved:
                    _move(connection, table, moved)
                if old:
                    _update(connection, table, old, charged_to=_charged_to_after(table))
        insert_rows(connection, table, new)
    return RowsWritten(len(fresh) + len(altered), len(spans[0][1]), len(spans[1][1]), tuple(refused))


def _ids_of(connection: Connection, keys: Iterable[InstanceKey]) -> Iterator[tuple[InstanceKey, int]]:
    columns = instances.c
    query = select(columns.project, columns.gce_id, columns.id)
    for batch in _batches(sorted((key.project, key.gce_id) for key in keys)):
        rows = connection.execute(query.where(tuple_(columns.project, columns.gce_id).in_(batch)))
        yield from ((InstanceKey(project, gce_id), instance_id) for project, gce_id, instance_id in rows)


def account_again(connection: Connection, instance_id: int) -> None:
    """Have the next look that lists this VM account for it, though nothing that Google tells of it has changed."""
    # What was never listed stays without a fingerprint: it is accounted for as soon as it is.
    seen = instances.c.fingerprint
    connection.execute(
        update(instances).where(instances.c.id == instance_id, seen != "").values(fingerprint=seen + "!")
    )


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
        origin=row.origin,
        keeper=Keeper.of_stored(row.keeper),
        last_started_at=row.last_started_at,
        last_stopped_at=row.last_stopped_at,
        termination_at=row.termination_at,
        gone_at=row.gone_at,
    )


def _batches(values: Sequence[_Value]) -> Iterator[Sequence[_Value]]:
    for start in range(0, len(values), _BATCH):
        yield values[start : start + _BATCH]


def _by_instance(connection: Connection, table: Table, ids: Sequence[int]) -> defaultdict[int, list[Row[Any]]]:
    rows: defaultdict[int, list[Row[Any]]] = defaultdict(list)
    for row in connection.execute(*_spans_of(table, list(ids))):
        rows[row.instance_id].append(row)
    return rows


@prepared
def _spans_of(table: Table, instance_ids: list[int]) -> Select[Any]:
    return select(table).where(table.c.instance_id.in_(instance_ids)).order_by(table.c.started_at)


def _owned(record: InstanceRecord) -> dict[str, str]:
    whose = record.attribution
    return {"preset": whose.preset, "owner": whose.owner, "job": whose.job}


def _span_rows(change: Change, instance_id: int, rows: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """A span that is written counts for the present owner of its VM."""
    for row in rows:
        yield {**row, "instance_id": instance_id, "project": change.record.key.project, **_owned(change.record)}


def _whose(row: Mapping[str, Any]) -> SpanGroup:
    """Returns the span's attribution after this row is written."""
    model = row.get("provisioning_model", ProvisioningModel.STANDARD.value)
    return SpanGroup(row["project"], Attribution(row["preset"], row["owner"], row["job"]), model)


def _label_changes(change: Change) -> Iterator[LabelChange]:
    if change.stored is not None and change.labelled_at is not None:
        old, new = change.stored.record, change.record
        # A keeper that is read for the first time kept the VM before.
        keeper = old.keeper or new.keeper
        before = with_keeper(old.labels, keeper.stored() if keeper else {})
        after = with_keeper(new.labels, new.keeper.stored() if new.keeper else {})
        yield from label_history.changes_of(change.stored.id, before, after, change.labelled_at)


def _open_spans(connection: Connection, table: Table, instance_ids: Sequence[int]) -> Iterator[int]:
    for some in chunks(instance_ids):
        yield from connection.scalars(*_open_ids(table, some))


@prepared
def _open_ids(table: Table, instance_ids: list[int]) -> Select[Any]:
    return select(table.c.id).where(table.c.instance_id.in_(instance_ids), table.c.ended_at.is_(None))


def _archived(connection: Connection, table: Table, span_ids: Sequence[int]) -> set[int]:
    """Spans that stay as they were billed: their ends came from Google long ago, and Google forgets within weeks."""
    archived: set[int] = set()
    for some in chunks(span_ids):
        query = select(table.c.id).where(table.c.id.in_(some), table.c.archive_id.is_not(None))
        archived.update(connection.scalars(query))
    return archived


def _refused(records: Mapping[int, InstanceRecord], row: Mapping[str, Any]) -> RefusedChange:
    return RefusedChange(records[row["instance_id"]], row.get("name", ""), row["started_at"], row["ended_at"])


def _move(connection: Connection, table: Table, moved: Sequence[dict[str, Any]]) -> None:
    statement = (
        update(table)
        .where(table.c.instance_id == bindparam("new_instance_id"), table.c.ended_at.is_(None))
        .values(**{name: bindparam(f"new_{name}") for name in ("preset", "owner", "job")})
    )
    connection.execute(statement, moved)


def _update(connection: Connection, table: Table, rows: Sequence[dict[str, Any]], **also: Any) -> None:
    """Set all columns of the rows by id, in one executemany."""
    columns: dict[str, Any] = {name: bindparam(f"new_{name}") for name in rows[0] if name != "id"}
    statement = update(table).where(table.c.id == bindparam("new_id")).values(**columns, **also)
    connection.execute(statement, [{f"new_{name}": value for name, value in row.items()} for row in rows])


def _charged_to_after(table: Table) -> ColumnElement[Any]:
    """A span that had ended or lacked a price, that ends before what is charged, or that began at another moment, is
    charged again from its start.
    """
    return case(
        (table.c.unpriced != "", null()),
        (table.c.ended_at.is_not(None), null()),
        (table.c.started_at != bindparam("new_started_at"), null()),
        (table.c.charged_to > bindparam("new_ended_at"), null()),
        else_=table.c.charged_to,
    )


def _instance_row(record: InstanceRecord) -> dict[str, Any]:
    row = _unchecked_row(record)
    return {name: storable(value) if isinstance(value, _TEXTS) else value for name, value in row.items()}


def _unchecked_row(record: InstanceRecord) -> dict[str, Any]:
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
        "origin": dict(record.origin),
        **keeper_columns(record.keeper),
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
        "ended_by": storable(life.ended_by),
        "end_is_estimate": life.end_is_estimate,
        "zone": life.zone,
        "age_from": life.age_from,
        **_shape_row(life.shape),
        "provisioning_model": life.provisioning_model.value,
    }


def _storage_row(span: StorageSpan) -> dict[str, Any]:
    return {
        "id": span.id,
        "name": storable(span.name),
        "resource": span.resource,
        "size_mib": span.size_mib,
        "zone": span.zone,
        "started_at": span.started_at,
        "ended_at": span.ended_at,
        "disk_id": span.disk_id,
    }
