"""Spans whose charges are not all stored yet: what a reader adds to the sums of those that are."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Connection, Row, Select, Table, or_, select, text

from costguard.db.bulk import chunks
from costguard.db.remembered import remembers
from costguard.db.tables import UNCHARGED, charges, instances, lifetimes, storage_spans
from costguard.ledger import rows
from costguard.model.budget import Scope
from costguard.model.instance import InstanceKey
from costguard.model.lifetime import Attribution, Lifetime, StorageSpan

_Id = TypeVar("_Id", int, str)

_FEW = 5000
SHAPE = ("machine_type", "vcpus", "memory_mib", "gpu_type", "gpu_count", "local_ssd_gib", "provisioning_model")
_SCOPE = ("project", "preset", "owner", "job")


@dataclass(frozen=True, slots=True)
class AccruingSpan:
    """A lifetime or storage, whose money it is, and up to when its charges are stored (None: none are)."""

    instance_id: int
    name: str  # of the VM
    span: Lifetime | StorageSpan
    attribution: Attribution
    charged_to: datetime | None
    unpriced: str

    @property
    def since(self) -> datetime:
        """From when on it is not charged."""
        return self.charged_to or self.span.started_at


def accruing_spans(connection: Connection, instance_ids: Collection[int]) -> list[AccruingSpan]:
    """Lifetimes, then storage, of these instances that are open, or ended and not charged to their end."""
    # A page asks for the same VMs again, as a tuple: of an instance only what never changes is in it.
    return _remembered(connection, instance_ids) if isinstance(instance_ids, tuple) else _read(connection, instance_ids)


def _read(connection: Connection, instance_ids: Collection[int]) -> list[AccruingSpan]:
    spans: list[AccruingSpan] = []
    for table, query, span_of in (
        (lifetimes, select_lifetimes(), lifetime_of),
        (storage_spans, select_storage(), storage_of),
    ):
        is_uncharged = or_(table.c.charged_to.is_(None), table.c.charged_to < table.c.ended_at)
        query = query.join(instances, instances.c.id == table.c.instance_id)
        query = query.where(or_(table.c.ended_at.is_(None), is_uncharged))
        for some in chunks(instance_ids):
            for row in connection.execute(query.where(table.c.instance_id.in_(some))):
                whose = attribution_of(row)
                spans.append(
                    AccruingSpan(row.instance_id, row.instance_name, span_of(row), whose, row.charged_to, row.unpriced)
                )
    return spans


_remembered = remembers(lifetimes, storage_spans)(_read)


def uncharged_ids(connection: Connection, table: Table, column: str = "id") -> list[int]:
    """Of spans that ended and are not charged to their end: few, and only between two steps of a pass."""
    # SQLite cannot know how few there are, so the query names the index that holds nothing else.
    hint = f"INDEXED BY ix_{table.name}_uncharged" if connection.dialect.name == "sqlite" else ""
    # No part of this text comes from outside.
    query = text(f"SELECT {column} FROM {table.name} {hint} WHERE {UNCHARGED}")  # noqa: S608
    return list(connection.scalars(query))


def uncharged_instances(connection: Connection) -> set[int]:
    """VMs that have such spans."""
    return {
        instance_id
        for table in (lifetimes, storage_spans)
        for instance_id in uncharged_ids(connection, table, "instance_id")
    }


def within_scope(table: Table, scope: Scope) -> list[ColumnElement[bool]]:
    """The conditions on those columns that the table has."""
    wanted = ((name, getattr(scope, name)) for name in _SCOPE if name in table.c)
    return [table.c[name] == value for name, value in wanted if value is not None]


def among(connection: Connection, column: ColumnElement[_Id], wanted: Collection[_Id]) -> Collection[_Id]:
    """Of many values those that the column holds at all, by one look at its index; few are given back as they are."""
    if len(wanted) <= _FEW:
        return wanted
    return set(wanted).intersection(connection.scalars(select(column).distinct()))


def stand(spans: Table) -> tuple[ColumnElement[bool], ...]:
    """The charges of these spans that hold; those after `charged_to` are void, and about to be replaced."""
    kind = "lifetime" if spans is lifetimes else "storage"
    return charges.c.span == kind, charges.c.started_at < spans.c.charged_to


def select_lifetimes() -> Select[Any]:
    return select(lifetimes, instances.c.gce_id, instances.c.name.label("instance_name"))


def select_storage() -> Select[Any]:
    return select(storage_spans, instances.c.gce_id, instances.c.name.label("instance_name"))


def attribution_of(row: Row[Any]) -> Attribution:
    return Attribution(row.preset, row.owner, row.job)


def lifetime_of(row: Row[Any]) -> Lifetime:
    return rows.lifetime_of(InstanceKey(row.project, row.gce_id), row)


def storage_of(row: Row[Any]) -> StorageSpan:
    return rows.storage_of(InstanceKey(row.project, row.gce_id), row)
