"""Spans whose charges are not all stored yet: what a reader adds to the sums of those that are."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Connection, Row, Select, Table, func, literal, null, or_, select

from costguard.model.instance import InstanceKey
from costguard.model.lifetime import Attribution, Lifetime, StorageSpan
from costguard.store import rows
from costguard.store.tables import charges, instances, lifetimes, storage_spans

_Id = TypeVar("_Id", int, str)

CHUNK = 1000  # ids in one IN list: far below either database's limit on parameters


@dataclass(frozen=True, slots=True)
class Within:
    """Of all instances, what can have run up something before `end` that is not stored.

    Of spans that ended, only those that did so after `ended_after`: older ones were charged by the pass
    that saw them end, and asking for them would read every span there is.
    """

    end: datetime
    ended_after: datetime
    with_alike: bool = True  # False: without those that `alike_lifetimes` and `alike_storage` count


@dataclass(frozen=True, slots=True)
class AccruingLifetime:
    """A lifetime, whose money it is, and up to when its charges are stored (None: none are)."""

    instance_id: int
    name: str  # of the VM
    lifetime: Lifetime
    attribution: Attribution
    charged_to: datetime | None
    unpriced: str


@dataclass(frozen=True, slots=True)
class AccruingStorage:
    instance_id: int
    name: str  # of the VM
    span: StorageSpan
    attribution: Attribution
    charged_to: datetime | None
    unpriced: str


def accruing_lifetimes(connection: Connection, of: Collection[int] | Within) -> list[AccruingLifetime]:
    """Lifetimes that are open, or ended and not charged to their end: of these instances, or of all."""
    query = _of(lifetimes, select_lifetimes())
    return [
        AccruingLifetime(
            row.instance_id, row.instance_name, lifetime_of(row), attribution_of(row), row.charged_to, row.unpriced
        )
        for row in _rows(connection, query, lifetimes, of)
    ]


def accruing_storage(connection: Connection, of: Collection[int] | Within) -> list[AccruingStorage]:
    """Storage spans that are open, or ended and not charged to their end: of these instances, or of all."""
    query = _of(storage_spans, select_storage())
    return [
        AccruingStorage(
            row.instance_id,
            row.instance_name,
            storage_of(row),
            attribution_of(row),
            row.charged_to,
            row.unpriced,
        )
        for row in _rows(connection, query, storage_spans, of)
    ]


def alike_lifetimes(connection: Connection, end: datetime, by: Collection[str]) -> list[tuple[AccruingLifetime, int]]:
    """Open lifetimes that are charged up to the same moment, of one shape and zone: one of them, and how many.

    What they run up from there on is the same for each. They are told apart by the columns in `by` (of
    `preset`, `owner`, `job`); the others are empty. Those without a price are left out.
    """
    same = ("machine_type", "vcpus", "memory_mib", "gpu_type", "gpu_count", "local_ssd_gib", "provisioning_model")
    query = _alike(lifetimes, same, end, by).add_columns(
        null().label("end_reason"), literal("").label("ended_by"), literal(0).label("end_is_estimate")
    )
    return [
        (AccruingLifetime(row.instance_id, "", lifetime_of(row), attribution_of(row), row.charged_to, ""), row.how_many)
        for row in connection.execute(query)
    ]


def alike_storage(connection: Connection, end: datetime, by: Collection[str]) -> list[tuple[AccruingStorage, int]]:
    """The same for storage of one kind and size."""
    query = _alike(storage_spans, ("resource", "size_mib"), end, by).add_columns(literal("").label("name"))
    return [
        (AccruingStorage(row.instance_id, "", storage_of(row), attribution_of(row), row.charged_to, ""), row.how_many)
        for row in connection.execute(query)
    ]


_WHOSE = ("preset", "owner", "job")


def _alike(spans: Table, same: Sequence[str], end: datetime, by: Collection[str]) -> Select[Any]:
    keys = [spans.c[name] for name in (*same, "zone", "charged_to", *(name for name in _WHOSE if name in by))]
    blank = [literal("").label(name) for name in _WHOSE if name not in by]
    one = [func.min(spans.c[name]).label(name) for name in ("id", "instance_id", "started_at")]
    gce_id = func.min(instances.c.gce_id).label("gce_id")
    return (
        select(*keys, *blank, instances.c.project, gce_id, *one, func.count().label("how_many"))
        .add_columns(null().label("ended_at"))
        .join_from(spans, instances, instances.c.id == spans.c.instance_id)
        .where(spans.c.ended_at.is_(None), spans.c.unpriced == "", spans.c.charged_to < end, spans.c.started_at < end)
        .group_by(*keys, instances.c.project)
    )


def chunks(ids: Collection[_Id]) -> Iterator[list[_Id]]:
    remaining = iter(sorted(ids))
    while chunk := list(islice(remaining, CHUNK)):
        yield chunk


def stand(spans: Table) -> tuple[ColumnElement[bool], ...]:
    """The charges of these spans that hold; those after `charged_to` are void, and about to be made anew."""
    kind = "lifetime" if spans is lifetimes else "storage"
    return charges.c.span == kind, charges.c.started_at < spans.c.charged_to


def select_lifetimes() -> Select[Any]:
    return select(lifetimes, instances.c.project, instances.c.gce_id, instances.c.name.label("instance_name"))


def select_storage() -> Select[Any]:
    return select(
        storage_spans,
        instances.c.project,
        instances.c.gce_id,
        instances.c.name.label("instance_name"),
    )


def attribution_of(row: Row[Any]) -> Attribution:
    return Attribution(row.preset, row.owner, row.job)


def lifetime_of(row: Row[Any]) -> Lifetime:
    return rows.lifetime_of(InstanceKey(row.project, row.gce_id), row)


def storage_of(row: Row[Any]) -> StorageSpan:
    return rows.storage_of(InstanceKey(row.project, row.gce_id), row)


def _of(table: Table, query: Select[Any]) -> Select[Any]:
    return query.join(instances, instances.c.id == table.c.instance_id)


def _rows(connection: Connection, query: Select[Any], spans: Table, of: Collection[int] | Within) -> Sequence[Row[Any]]:
    uncharged = or_(spans.c.charged_to.is_(None), spans.c.charged_to < spans.c.ended_at)
    if isinstance(of, Within):
        behind = or_(spans.c.charged_to.is_(None), spans.c.charged_to < of.end)
        query = query.where(spans.c.started_at < of.end, behind)
        # Two queries, each with its own index: an OR over both would scan the table.
        running = query.where(spans.c.ended_at.is_(None))
        if not of.with_alike:
            running = running.where(or_(spans.c.charged_to.is_(None), spans.c.unpriced != ""))
        return [
            *connection.execute(running),
            *connection.execute(query.where(spans.c.ended_at > of.ended_after, uncharged)),
        ]
    query = query.where(or_(spans.c.ended_at.is_(None), uncharged))
    return [row for ids in chunks(of) for row in connection.execute(query.where(spans.c.instance_id.in_(ids)))]
