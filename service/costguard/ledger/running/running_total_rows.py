"""Rows of running totals: one for each group and day."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import date, datetime
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Select,
    Table,
    and_,
    case,
    cast,
    delete,
    func,
    literal_column,
    null,
    select,
    type_coerce,
)

from costguard.db.bulk import chunks
from costguard.db.prepared import prepared
from costguard.db.remembered import remembers
from costguard.db.scoped import within_scope
from costguard.db.table_sums import add_sums
from costguard.db.tables import UNPRICED_RANK, instances, lifetimes, running_totals, storage_spans
from costguard.ledger.accrual import SHAPE
from costguard.ledger.labels.label_history import KEPT_BY, has_changed, label_value
from costguard.model.budget import Scope

Kind: TypeAlias = tuple[Any, ...]
"""The kind of a lifetime: shape, provisioning model and zone; of storage: resource, MiB and zone."""

_GROUP = ("project", "preset", "owner", "job")
KINDS: tuple[tuple[Table, tuple[str, ...]], ...] = (
    (lifetimes, (*SHAPE, "zone")),
    (storage_spans, ("resource", "size_mib", "zone")),
)


class Group(NamedTuple):
    """The attribution of a total, and the keeper of its VMs. Storage counts as standard.

    Teams are made of projects and owners when they are read.
    """

    project: str
    preset: str
    owner: str
    job: str
    provisioning_model: str
    keeper_kind: str  # "": not read yet
    keeper_product: str  # "": none


_WIDTH = len(Group._fields)


class TotalFigures(NamedTuple):
    """Rates in nano-dollars an hour; amounts in nano-dollars that will have accrued by the end of the day.

    `seconds` are those of `running` lifetimes by then.
    """

    machine_rate: int = 0
    gpu_rate: int = 0
    storage_rate: int = 0
    running: int = 0
    machine_nanos: int = 0
    gpu_nanos: int = 0
    storage_nanos: int = 0
    seconds: int = 0


Totals: TypeAlias = dict[tuple[Group, date], list[int]]


@dataclass(frozen=True, slots=True)
class OpenSpans:
    """Open spans of one kind and group, `count` of them, with the same moment up to which their charges are stored."""

    kind: Kind
    owned_by: tuple[str, str, str, str]  # project, preset, owner, job
    since: datetime
    count: int
    kept_by: tuple[str, str] = ("", "")  # kind and product of the keeper


def read(
    connection: Connection, by: Collection[str], scope: Scope, last: date | None = None
) -> Iterator[tuple[Group, date, TotalFigures]]:
    """The totals of this scope that accrue on `last` or before, added up over the columns that `by` does not name."""
    for day, *row in connection.execute(
        *_added_up(frozenset(by), last, scope.project, scope.preset, scope.owner, scope.job)
    ):
        yield Group(*row[:_WIDTH]), day, TotalFigures(*row[_WIDTH:])


@prepared
def _added_up(
    by: frozenset[str], last: date | None, project: str | None, preset: str | None, owner: str | None, job: str | None
) -> Select[Any]:
    totals = running_totals.c
    group = [totals[name] if name in (*by, "provisioning_model") else literal_column("''") for name in Group._fields]
    # PostgreSQL adds BIGINTs up to NUMERIC.
    sums = [cast(func.sum(totals[name]), BigInteger) for name in TotalFigures._fields]
    query = select(totals.day, *group, *sums).where(
        *within_scope(running_totals, Scope(project, preset, owner, job=job))
    )
    if last is not None:
        query = query.where(totals.day <= last)
    columns = [column for column in group if column.key in running_totals.c]
    return query.group_by(totals.day, *columns)


def read_all(connection: Connection) -> Totals:
    """Every row that is not nothing."""
    rows = map(tuple, connection.execute(select(running_totals)))
    figures = _WIDTH + 1
    return {(Group(*row[:_WIDTH]), row[_WIDTH]): list(row[figures:]) for row in rows if any(row[figures:])}


def add(connection: Connection, totals: Totals) -> None:
    """Add these figures to the rows of their groups and days; rows that come to nothing are deleted."""
    add_sums(connection, running_totals, {(*group, day): sums for (group, day), sums in totals.items() if any(sums)})


def replace(connection: Connection, totals: Totals) -> None:
    connection.execute(delete(running_totals))
    add(connection, totals)


def open_spans(connection: Connection, instance_ids: Collection[int] | None = None) -> Iterator[OpenSpans]:
    """All open lifetimes and storage, or those of these instances, counted by what they are billed by."""
    for table, names in KINDS:
        for some in [None] if instance_ids is None else chunks(instance_ids):
            rows = connection.execute(*_open_spans(table, tuple(names), some))
            for project, preset, owner, job, keeper, product, *kind, moment, count in rows:
                yield OpenSpans(tuple(kind), (project, preset, owner, job), moment, count, (keeper, product))


@prepared
def _open_spans(table: Table, names: tuple[str, ...], instance_ids: list[int] | None) -> Select[Any]:
    since = func.coalesce(table.c.charged_to, table.c.started_at, type_=table.c.started_at.type).label("since")
    columns = [*(table.c[name] for name in _GROUP), *KEPT_BY, *(table.c[name] for name in names)]
    query = select(*columns, since, func.count()).join_from(table, instances, instances.c.id == table.c.instance_id)
    query = query.where(table.c.ended_at.is_(None)).group_by(*columns, since)
    return query if instance_ids is None else query.where(table.c.instance_id.in_(instance_ids))


def open_spans_by_label(
    connection: Connection, label: str, start: datetime, end: datetime, scope: Scope, *, labelled_alone: bool
) -> Iterator[tuple[str | None, OpenSpans]]:
    """Open lifetimes and storage of this scope that accrue before `end`, with the label's value; whose they are is "".

    Without those of VMs whose label changed after `start`, and with `labelled_alone` of those without it.
    """
    value = label_value(label).label("value")
    for table, names in KINDS:
        since = func.coalesce(table.c.charged_to, table.c.started_at, type_=table.c.started_at.type).label("since")
        columns = [table.c[name] for name in names]
        query = select(value, *columns, since, func.count()).join_from(
            table, instances, instances.c.id == table.c.instance_id
        )
        query = query.where(table.c.ended_at.is_(None), since < end, ~has_changed(table.c.instance_id, label, start))
        if labelled_alone:
            query = query.where(label_value(label).is_not(None))
        query = query.where(*within_scope(table, scope)).group_by(value, *columns, since)
        for its_value, *kind, moment, count in connection.execute(query):
            yield its_value, OpenSpans(tuple(kind), ("", "", "", ""), moment, count)


class UnpricedSpans(NamedTuple):
    """Open spans of VMs that cannot be priced whole. A VM's spans may have prices that its others lack.

    `began` is the UTC day on which they began, in days since 1970; None where stored charges say already that they are
    unpriced. `value` is that of the requested label.
    """

    spans: OpenSpans
    began: int | None
    value: str | None


@remembers(instances, lifetimes, storage_spans)
def unpriced_spans(
    connection: Connection, names: tuple[str | None, ...] | None, label: str | None, since: datetime | None
) -> list[UnpricedSpans]:
    """Reads open spans of VMs whose stored rate leaves something out, counted by what they are billed by; with `names`
    those of these machine types and resources instead.

    With a label there are none of VMs whose label changed after `since`.
    """
    spans: list[UnpricedSpans] = []
    for table, kind in KINDS:
        rows = connection.execute(_unpriced_spans(table, kind, names, label, since))
        for project, preset, owner, job, *rest in rows:
            *of_kind, moment, began, value, count = rest
            open_spans = OpenSpans(tuple(of_kind), (project, preset, owner, job), moment, count)
            spans.append(UnpricedSpans(open_spans, began, value))
    return spans


@lru_cache(maxsize=64)
def _unpriced_spans(
    table: Table,
    kind: tuple[str, ...],
    names: tuple[str | None, ...] | None,
    label: str | None,
    since: datetime | None,
) -> Select[Any]:
    moment = _since(table).label("since")
    began = case((is_unpriced(table), null()), else_=utc_day(table.c.started_at)).label("began")
    value: ColumnElement[Any] = null().label("value") if label is None else label_value(label).label("value")
    columns = [*(table.c[name] for name in (*_GROUP, *kind)), moment, began, value]
    query = select(*columns, func.count()).where(table.c.ended_at.is_(None), among_unpriced(table, names))
    if label is not None and since is not None:
        query = query.join_from(table, instances, instances.c.id == table.c.instance_id)
        query = query.where(~has_changed(table.c.instance_id, label, since))
    return query.group_by(*columns if label is not None else columns[:-1])


def _since(table: Table) -> ColumnElement[datetime]:
    """The moment from which a span is not charged. Of machines that are not known nothing is billed, whenever they
    began: those of a day are one group, from its beginning.
    """
    moment = func.coalesce(table.c.charged_to, table.c.started_at, type_=table.c.started_at.type)
    if table is not lifetimes:
        return moment
    is_unknown = and_(table.c.vcpus == literal_column("0"), table.c.gpu_count == literal_column("0"))
    start_of_day = utc_day(moment) * literal_column(str(_DAY_MICROSECONDS), BigInteger)
    chosen = case((is_unknown, start_of_day), else_=type_coerce(moment, BigInteger))
    return type_coerce(chosen, table.c.started_at.type)


def among_unpriced(table: Table, names: Collection[str | None] | None) -> ColumnElement[bool]:
    """The condition that a span's VM has a stored rate that leaves something out; with `names` that the span is of one
    of these machine types or resources.
    """
    if names is None:
        return table.c.instance_id.in_(_UNPRICED)
    column = table.c.machine_type if table is lifetimes else table.c.resource
    is_one: ColumnElement[bool] = column.in_([name for name in names if name is not None])
    return is_one | column.is_(None) if table is storage_spans and None in names else is_one


_UNPRICED = select(instances.c.id).where(
    instances.c.gone_at.is_(None), instances.c.rate_rank == literal_column(str(UNPRICED_RANK))
)


@remembers(lifetimes, storage_spans)
def open_kinds(connection: Connection) -> list[Kind]:
    """Reads the kinds of all open lifetimes and storage."""
    return [
        tuple(row)
        for table, names in KINDS
        for row in connection.execute(
            select(*(table.c[name] for name in names)).where(table.c.ended_at.is_(None)).distinct()
        )
    ]


def is_unpriced(spans: Table) -> ColumnElement[bool]:
    """The condition that stored charges leave a part of a span out for want of a price."""
    # Written out rather than bound: SQLite uses a partial index only where it can see the constant.
    return spans.c.unpriced != literal_column("''")


def utc_day(moment: ColumnElement[datetime], before: int = 0) -> ColumnElement[int]:
    """The UTC day of a moment, or of so many microseconds before it, in days since 1970."""
    microseconds = type_coerce(moment, BigInteger) - literal_column(str(before), BigInteger)
    return type_coerce(microseconds // literal_column(str(_DAY_MICROSECONDS), BigInteger), BigInteger)


_DAY_MICROSECONDS = 86_400_000_000
