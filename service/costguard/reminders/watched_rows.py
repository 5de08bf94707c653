"""Reads the VMs that exist, with the lifetimes that decisions depend on."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from operator import attrgetter
from typing import Any, TypeAlias

import orjson
from sqlalchemy import ColumnElement, Connection, Row, Select, Text, and_, cast, func, select, tuple_

from costguard.db.bulk import chunks
from costguard.db.prepared import prepared
from costguard.db.remembered import MOST_AT_ONCE, is_writing, remembers_each
from costguard.db.tables import instances, lifetimes, storage_spans
from costguard.keepers.reading import keeper_of
from costguard.ledger.rows import shape_from
from costguard.model.instance import InstanceKey, ProvisioningModel, Shape, Status
from costguard.model.keeper import Keeper

OpenStorage: TypeAlias = tuple[int, str | None, int, str]  # a VM, resource, MiB and zone

_BY_NAME = attrgetter("key.project", "name")
_MOST_IN_CHUNKS = 20_000  # VMs that are read by name, a thousand at a time
_OWN = 11  # how many columns `_columns` gives
_SHAPE = ("machine_type", "vcpus", "memory_mib", "gpu_type", "gpu_count", "local_ssd_gib")


# Ten thousand rows are read in every pass, and calling an enum is slow.
_STATUS = {status.value: status for status in Status}
_MODEL = {model.value: model for model in ProvisioningModel}


@dataclass(frozen=True, slots=True)
class WatchedRow:
    """A running VM has an open lifetime; a stopped one the last it had (`lifetime_id` 0 if none)."""

    instance_id: int
    key: InstanceKey
    name: str
    zone: str
    status: Status
    preset: str
    owner: str
    labels: Mapping[str, str]
    origin: Mapping[str, str]  # metadata that says who keeps it
    shape: Shape
    provisioning_model: ProvisioningModel
    lifetime_id: int = 0
    started_at: datetime | None = None  # of the open lifetime
    rests_since: datetime | None = None  # the end of the last lifetime, or the VM's making where it never ran
    job: str = ""  # that it was launched for
    age_from: datetime | None = None  # when a person last started it, where Google alone began it again since

    keeper: Keeper | None = None  # that a stop from outside would go behind the back of


def read(connection: Connection, ids: Collection[int] | None = None) -> list[WatchedRow]:
    """All VMs that are not gone, or these of them, by project and name."""
    if ids is None or len(ids) > MOST_AT_ONCE or is_writing(connection):
        return _read(connection, ids)
    rows = _of_each(connection, ids).values()
    return sorted(sorted(rows, key=_by_run), key=_BY_NAME)


def _by_run(row: WatchedRow) -> tuple[bool, int]:
    return row.started_at is None, row.instance_id


@remembers_each(instances, lifetimes)
def _of_each(connection: Connection, ids: Collection[int]) -> dict[int, WatchedRow]:
    return {row.instance_id: row for row in _read(connection, ids)}


def open_storage(connection: Connection, ids: Collection[int] | None = None) -> list[OpenStorage]:
    """Storage that bills now, of all VMs or at least of these."""
    if ids is not None and len(ids) <= MOST_AT_ONCE:
        return [row for some in _storage_of_each(connection, ids).values() for row in some]
    return [tuple(row) for some in _in_chunks(ids) for row in connection.execute(*_open_storage(some))]


@remembers_each(storage_spans)
def _storage_of_each(connection: Connection, ids: Collection[int]) -> dict[int, list[OpenStorage]]:
    by_instance: dict[int, list[OpenStorage]] = {}
    for some in chunks(ids):
        for row in connection.execute(*_open_storage(some)):
            by_instance.setdefault(row.instance_id, []).append(tuple(row))
    return by_instance


@prepared
def _open_storage(ids: Sequence[int] | None) -> Select[Any]:
    columns = storage_spans.c
    query = select(columns.instance_id, columns.resource, columns.size_mib, columns.zone)
    return query.where(columns.ended_at.is_(None), *_among(columns.instance_id, ids))


def _read(connection: Connection, ids: Collection[int] | None) -> list[WatchedRow]:
    return sorted([*_running(connection, ids), *_resting(connection, ids)], key=_BY_NAME)


def read_some(connection: Connection, ids: Collection[int]) -> list[WatchedRow]:
    """Reads those of these VMs that are not gone, by project and name, and perhaps others where these are many."""
    if len(ids) <= MOST_AT_ONCE:
        return read(connection, ids)
    rows = [row for some in _in_chunks(ids) for row in _read(connection, some)]
    return sorted(rows, key=_BY_NAME)


def _in_chunks(ids: Collection[int] | None) -> list[list[int] | None]:
    """Cuts them into chunks. None stands for all, which are read where more are asked for than chunks are worth."""
    if ids is None or len(ids) > _MOST_IN_CHUNKS:
        return [None]
    return [*chunks(ids)] or [[]]


def _running(connection: Connection, ids: Collection[int] | None) -> Iterator[WatchedRow]:
    # By place, as everywhere here: a hundred thousand rows are read in a pass, and names take several times as long.
    for row in connection.execute(*_select_running(_named(ids))).all():
        lifetime_id, started_at, age_from, model = row[_OWN : _OWN + 4]
        yield _row(row[:_OWN], model, row[_OWN + 4 :], lifetime_id, started_at=started_at, age_from=age_from)


@prepared
def _select_running(ids: Sequence[int] | None) -> Select[Any]:
    columns = lifetimes.c
    return (
        select(
            *_columns(),
            columns.id.label("lifetime_id"),
            columns.started_at,
            columns.age_from,
            columns.provisioning_model,
            *(columns[name] for name in _SHAPE),
        )
        .join_from(instances, lifetimes, and_(columns.instance_id == instances.c.id, columns.ended_at.is_(None)))
        .where(instances.c.gone_at.is_(None), *_among(instances.c.id, ids))
    )


def _resting(connection: Connection, ids: Collection[int] | None) -> Iterator[WatchedRow]:
    resting = list(connection.execute(*_select_resting(_named(ids))))
    last: dict[int, Row[Any]] = {}
    for chunk in chunks([row.id for row in resting]):
        last |= {row.instance_id: row for row in connection.execute(*_last_ended(chunk))}
    for row in resting:
        before = last.get(row[0])
        model, created_at = row[_OWN : _OWN + 2]
        lifetime_id, since = (0, created_at) if before is None else (before.id, before.ended_at)
        yield _row(row[:_OWN], model, row[_OWN + 2 :], lifetime_id, rests_since=since)


@prepared
def _select_resting(ids: Sequence[int] | None) -> Select[Any]:
    columns = lifetimes.c
    is_open = select(columns.id).where(columns.instance_id == instances.c.id, columns.ended_at.is_(None)).exists()
    own = [instances.c[name] for name in ("provisioning_model", "created_at", *_SHAPE)]
    return select(*_columns(), *own).where(instances.c.gone_at.is_(None), ~is_open, *_among(instances.c.id, ids))


@prepared
def _last_ended(instance_ids: Sequence[int]) -> Select[Any]:
    columns = lifetimes.c
    latest = (
        select(columns.instance_id, func.max(columns.started_at).label("started_at"))
        .where(columns.instance_id.in_(instance_ids))
        .group_by(columns.instance_id)
        .subquery()
    )
    same = and_(columns.instance_id == latest.c.instance_id, columns.started_at == latest.c.started_at)
    return select(columns.id, columns.instance_id, columns.ended_at).join_from(lifetimes, latest, same)


def _columns() -> list[ColumnElement[Any]]:
    names = ("id", "project", "gce_id", "name", "zone", "status", "preset", "owner", "job")
    texts = (cast(instances.c[name], Text).label(name) for name in ("labels", "origin"))
    return [*(instances.c[name] for name in names), *texts]


@lru_cache(maxsize=4096)  # many VMs have the same, and share them
def _words(text: str) -> Mapping[str, str]:
    labels: dict[str, str] = orjson.loads(text)
    return labels


@lru_cache(maxsize=4096)  # the nodes of a pool have the same
def _keeper(labels: str, origin: str, zone: str) -> Keeper | None:
    return keeper_of(_words(labels), _words(origin), zone)


def in_projects_of_kind(connection: Connection, places: Collection[tuple[str, str]]) -> list[int]:
    """Returns the instances that are not gone of these projects and kinds of keepers."""
    columns, kind = instances.c, func.coalesce(instances.c.keeper_kind, "")
    query = select(columns.id).where(columns.gone_at.is_(None), tuple_(columns.project, kind).in_(sorted(places)))
    return list(connection.scalars(query))


def _named(ids: Collection[int] | None) -> list[int] | None:
    """Few are asked for by name; for many, all are read."""
    return list(ids) if ids is not None and len(ids) <= MOST_AT_ONCE else None


def _among(column: ColumnElement[Any], ids: Sequence[int] | None) -> list[ColumnElement[bool]]:
    return [] if ids is None else [column.in_(ids)]


def _row(
    head: Sequence[Any],
    model: str,
    shape: Sequence[Any],
    lifetime_id: int,
    started_at: datetime | None = None,
    rests_since: datetime | None = None,
    age_from: datetime | None = None,
) -> WatchedRow:
    instance_id, project, gce_id, name, zone, status, preset, owner, job, labels, origin = head
    return WatchedRow(
        instance_id=instance_id,
        key=InstanceKey(project, gce_id),
        name=name,
        zone=zone,
        status=_STATUS[status],
        preset=preset,
        owner=owner,
        labels=_words(labels),
        origin=_words(origin),
        shape=shape_from(*shape),
        provisioning_model=_MODEL[model],
        lifetime_id=lifetime_id,
        started_at=started_at,
        rests_since=rests_since,
        job=job,
        age_from=age_from,
        keeper=_keeper(labels, origin, zone),
    )
