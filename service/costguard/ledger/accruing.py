"""Spans whose charges are not all stored yet: what a reader adds to the sums of those that are."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    CompoundSelect,
    Connection,
    Row,
    Select,
    String,
    Table,
    and_,
    case,
    cast,
    func,
    literal_column,
    or_,
    select,
    type_coerce,
    union_all,
)

from costguard.db.bulk import chunks
from costguard.db.remembered import remembers
from costguard.db.tables import charges, instances, lifetimes, storage_spans
from costguard.ledger import rows
from costguard.model.budget import Scope
from costguard.model.instance import InstanceKey
from costguard.model.lifetime import Attribution, Lifetime, StorageSpan

_Id = TypeVar("_Id", int, str)

_FEW = 5000


@dataclass(frozen=True, slots=True)
class Within:
    """Of all instances, what can have run up something before `end` that is not stored, but for what is alike.

    That is what `alike_lifetimes` and `alike_storage` count; of the `unlike`, which are machine types or resources,
    everything is here. Of spans that ended, only those that did so after `ended_after`: older ones were charged by
    the pass that saw them end, and asking for them would read every span there is.
    """

    end: datetime
    ended_after: datetime
    day: datetime
    scope: Scope
    unlike: frozenset[str | None] = frozenset()


@dataclass(frozen=True, slots=True)
class Alike:
    """Open spans of one kind and group: how many are charged up to, or begun in and not charged yet, each second.

    A lifetime's kind is its shape, provisioning model and zone; a storage span's its resource, MiB and zone.
    """

    kind: tuple[Any, ...]
    whose: tuple[str, ...]  # project, preset, owner and job, as far as they were asked for
    since: Mapping[int, int]  # by the seconds since 1970


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
    return _known_lifetimes(connection, of) if isinstance(of, _SMALL) else _lifetimes(connection, of)


def accruing_storage(connection: Connection, of: Collection[int] | Within) -> list[AccruingStorage]:
    """Storage spans that are open, or ended and not charged to their end: of these instances, or of all."""
    return _known_storage(connection, of) if isinstance(of, _SMALL) else _storage(connection, of)


def alike_lifetimes(
    connection: Connection, end: datetime, day: datetime, by: Collection[str], scope: Scope
) -> list[Alike]:
    """Open lifetimes that are charged up to some moment before `end`, and those that began on that `day`.

    They are told apart by the columns in `by` (of `project`, `preset`, `owner`, `job`), and perhaps by others of
    these. Those that could not be charged whole are left out.
    """
    return _alike(connection, lifetimes, SHAPE, end, day, by, scope)


def alike_storage(
    connection: Connection, end: datetime, day: datetime, by: Collection[str], scope: Scope
) -> list[Alike]:
    return _alike(connection, storage_spans, ("resource", "size_mib"), end, day, by, scope)


SHAPE = ("machine_type", "vcpus", "memory_mib", "gpu_type", "gpu_count", "local_ssd_gib", "provisioning_model")
_WHOSE = ("project", "preset", "owner", "job")


def _alike(
    connection: Connection,
    spans: Table,
    same: Sequence[str],
    end: datetime,
    day: datetime,
    by: Collection[str],
    scope: Scope,
) -> list[Alike]:
    # All that stand before the last that counts count, too: in the index's order the groups come one after the other.
    asked = [name for name in _WHOSE if name in by]
    whose = _WHOSE[: _WHOSE.index(asked[-1]) + 1] if asked else ()
    kind, width = [spans.c[name] for name in (*same, "zone")], len(same) + 1
    names = [spans.c[name] for name in whose]
    charged_to, second = (type_coerce(spans.c[name], BigInteger) // 1_000_000 for name in ("charged_to", "started_at"))
    is_fresh = and_(spans.c.charged_to.is_(None), spans.c.started_at >= day, spans.c.started_at < end)
    is_charged = spans.c.charged_to < end
    # Thousands of moments as one text a group: rows would take ten times as long.
    moments = func.aggregate_strings(case((spans.c.charged_to.is_(None), cast(second, String))), ",")
    query = (
        select(*kind, *names, charged_to, func.count(), moments)
        .where(spans.c.ended_at.is_(None), spans.c.unpriced == "", or_(is_charged, is_fresh))
        .where(*within_scope(spans, scope))
        .group_by(*kind, spans.c.charged_to, *names)
    )
    found: dict[tuple[Any, ...], Counter[int]] = defaultdict(Counter)
    for row in map(tuple, connection.execute(query)):
        *_, charged, count, fresh = row
        since = found[row[:-3]]
        if charged is None:
            since.update(map(int, fresh.split(",")))
        else:
            since[charged] += count
    return [Alike(key[:width], key[width:], since) for key, since in found.items()]


def within_scope(table: Table, scope: Scope) -> list[ColumnElement[bool]]:
    """The conditions on those columns that the table has."""
    wanted = ((name, getattr(scope, name)) for name in _WHOSE if name in table.c)
    return [table.c[name] == value for name, value in wanted if value is not None]


def among(connection: Connection, column: ColumnElement[_Id], wanted: Collection[_Id]) -> Collection[_Id]:
    """Of many values those that the column holds at all, by one look at its index; few are given back as they are."""
    if len(wanted) <= _FEW:
        return wanted
    return set(wanted).intersection(connection.scalars(select(column).distinct()))


def stand(spans: Table) -> tuple[ColumnElement[bool], ...]:
    """The charges of these spans that hold; those after `charged_to` are void, and about to be made anew."""
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


def _lifetimes(connection: Connection, of: Collection[int] | Within) -> list[AccruingLifetime]:
    query = _of(lifetimes, select_lifetimes())
    return [
        AccruingLifetime(
            row.instance_id, row.instance_name, lifetime_of(row), attribution_of(row), row.charged_to, row.unpriced
        )
        for row in _rows(connection, query, lifetimes, of)
    ]


def _storage(connection: Connection, of: Collection[int] | Within) -> list[AccruingStorage]:
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


# What pages ask is remembered: of an instance only what never changes is in it. Passes ask of sets of instances.
_SMALL = (Within, tuple)
_known_lifetimes = remembers(lifetimes)(_lifetimes)
_known_storage = remembers(storage_spans)(_storage)


def _of(table: Table, query: Select[Any]) -> Select[Any]:
    return query.join(instances, instances.c.id == table.c.instance_id)


def _rows(connection: Connection, query: Select[Any], spans: Table, of: Collection[int] | Within) -> Sequence[Row[Any]]:
    if isinstance(of, Within):
        # Their ids first, few or none as a rule: to word this for whole rows took longer than to ask it.
        ids = connection.scalars(_ids_within(spans, of)).all()
        return [row for some in chunks(ids) for row in connection.execute(query.where(spans.c.id.in_(some)))]
    query = query.where(or_(spans.c.ended_at.is_(None), _is_uncharged(spans)))
    return [row for ids in chunks(of) for row in connection.execute(query.where(spans.c.instance_id.in_(ids)))]


def _ids_within(spans: Table, of: Within) -> CompoundSelect[int]:
    query = select(spans.c.id).where(spans.c.started_at < of.end, *within_scope(spans, of.scope))
    kind = spans.c.machine_type if spans is lifetimes else spans.c.resource
    running = query.where(spans.c.ended_at.is_(None))
    behind = or_(spans.c.charged_to.is_(None), spans.c.charged_to < of.end)
    not_charged = spans.c.charged_to.is_(None), spans.c.started_at < of.day
    # Each with its own index: an OR over all would read the table. Written out, for the index on `unpriced`.
    queries = [
        running.where(spans.c.unpriced != literal_column("''"), behind),
        running.where(spans.c.unpriced == "", *not_charged),
        query.where(spans.c.ended_at > of.ended_after, behind, _is_uncharged(spans)),
    ]
    if of.unlike:
        is_unlike = or_(kind.in_([name for name in of.unlike if name is not None]), kind.is_(None))
        queries.append(running.where(spans.c.unpriced == "", behind, ~and_(*not_charged), is_unlike))
    return union_all(*queries)


def _is_uncharged(spans: Table) -> ColumnElement[bool]:
    return or_(spans.c.charged_to.is_(None), spans.c.charged_to < spans.c.ended_at)
