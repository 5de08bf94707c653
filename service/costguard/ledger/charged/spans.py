"""Reads lifetimes, storage spans and charges."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Generic, TypeVar

from sqlalchemy import (
    ColumnElement,
    CompoundSelect,
    Connection,
    Integer,
    Row,
    Select,
    Table,
    cast,
    func,
    literal,
    select,
    union_all,
)

from costguard.db.bulk import CHUNK, chunks
from costguard.db.prepared import prepared
from costguard.db.remembered import remembers_each
from costguard.db.tables import charge_days, charges, instances, lifetimes, prices, storage_spans
from costguard.ledger.accrual import attribution_of, lifetime_of, select_lifetimes, select_storage, stand, storage_of
from costguard.model.lifetime import Attribution, Lifetime, StorageSpan
from costguard.model.moments import day_start
from costguard.model.money import Money

Span = TypeVar("Span", Lifetime, StorageSpan)


@dataclass(frozen=True, slots=True)
class LifetimeFilters:
    projects: Sequence[str] = ()
    gce_id: str | None = None
    presets: Sequence[str] = ()
    owners: Sequence[str] = ()
    end_reasons: Sequence[str] = ()
    is_open: bool | None = None
    started_from: datetime | None = None
    started_before: datetime | None = None


@dataclass(frozen=True, slots=True)
class StoredSpan(Generic[Span]):
    """A lifetime, or storage, with its VM's name, whose money it is, and what its stored charges add up to."""

    id: int
    instance_id: int
    name: str
    span: Span
    attribution: Attribution
    charged: Money
    charged_to: datetime | None
    unpriced: str


@dataclass(frozen=True, slots=True)
class ChargeSum:
    """All charges of one resource of one span at one price, added up over the days."""

    resource: str
    price_id: int
    quantity_millis: int
    started_at: datetime
    ended_at: datetime
    seconds: int
    amount: Money


def lifetimes_page(
    connection: Connection, filters: LifetimeFilters, before_id: int | None, limit: int
) -> list[StoredSpan[Lifetime]]:
    """The lifetimes recorded last, first; `before_id` goes on after a page."""
    query = select_lifetimes().join(instances, instances.c.id == lifetimes.c.instance_id).where(*_conditions(filters))
    if before_id is not None:
        query = query.where(lifetimes.c.id < before_id)
    rows = connection.execute(query.order_by(lifetimes.c.id.desc()).limit(limit)).all()
    return _stored(connection, rows, lifetimes, lifetime_of)


def lifetimes_of(connection: Connection, instance_id: int) -> list[StoredSpan[Lifetime]]:
    """All runs of one VM, the latest first."""
    return lifetimes_of_each(connection, (instance_id,)).get(instance_id, [])


@remembers_each(charges, instances, lifetimes)
def lifetimes_of_each(connection: Connection, instance_ids: Collection[int]) -> dict[int, list[StoredSpan[Lifetime]]]:
    """All runs of each of these VMs, the latest first; those that never ran are left out."""
    rows = [row for some in chunks(instance_ids) for row in connection.execute(*_lifetimes_of(some))]
    runs: dict[int, list[StoredSpan[Lifetime]]] = {}
    for run in _stored(connection, rows, lifetimes, lifetime_of):
        runs.setdefault(run.instance_id, []).append(run)
    return runs


@prepared
def _lifetimes_of(instance_ids: list[int]) -> Select[Any]:
    query = select_lifetimes().join(instances, instances.c.id == lifetimes.c.instance_id)
    return query.where(lifetimes.c.instance_id.in_(instance_ids)).order_by(lifetimes.c.started_at.desc())


def storage_of_instance(connection: Connection, instance_id: int) -> list[StoredSpan[StorageSpan]]:
    """All storage spans of one VM, the latest first."""
    query = select_storage().join(instances, instances.c.id == storage_spans.c.instance_id)
    query = query.where(storage_spans.c.instance_id == instance_id)
    rows = connection.execute(query.order_by(storage_spans.c.started_at.desc(), storage_spans.c.name)).all()
    return _stored(connection, rows, storage_spans, storage_of)


def _stored(
    connection: Connection, rows: Sequence[Row[Any]], spans: Table, span_of: Callable[[Row[Any]], Span]
) -> list[StoredSpan[Span]]:
    sums = charged_sums(connection, spans, [row.id for row in rows])
    return [
        StoredSpan(
            id=row.id,
            instance_id=row.instance_id,
            name=row.instance_name,
            span=span_of(row),
            attribution=attribution_of(row),
            charged=sums.get(row.id, Money()),
            charged_to=row.charged_to,
            unpriced=row.unpriced,
        )
        for row in rows
    ]


def charged_sums(connection: Connection, spans: Table, span_ids: Sequence[int]) -> dict[int, Money]:
    """Sums the stored charges of each span."""
    sums: dict[int, Money] = {}
    for chunk in chunks(span_ids):
        for row in connection.execute(*_sums(spans, chunk)):
            sums[row.span_id] = sums.get(row.span_id, Money()) + Money(int(row.nanos))
    return sums


def charged_sums_of_both(
    connection: Connection, lifetime_ids: Collection[int], storage_ids: Collection[int]
) -> tuple[dict[int, Money], dict[int, Money]]:
    """Sums the stored charges of each of these runs, and of each of these storage spans, in one query where they are
    few.
    """
    if max(len(lifetime_ids), len(storage_ids)) > CHUNK:
        return (
            charged_sums(connection, lifetimes, [*lifetime_ids]),
            charged_sums(connection, storage_spans, [*storage_ids]),
        )
    sums: tuple[dict[int, Money], dict[int, Money]] = ({}, {})
    for span_id, nanos, is_storage in connection.execute(*_sums_of_both(sorted(lifetime_ids), sorted(storage_ids))):
        of_kind = sums[bool(is_storage)]
        of_kind[span_id] = of_kind.get(span_id, Money()) + Money(int(nanos))
    return sums


@prepared
def _sums(spans: Table, span_ids: Sequence[int]) -> CompoundSelect[Any]:
    return union_all(*_parts_of_sums(spans, span_ids))


@prepared
def _sums_of_both(lifetime_ids: list[int], storage_ids: list[int]) -> CompoundSelect[Any]:
    return union_all(*_parts_of_sums(lifetimes, lifetime_ids), *_parts_of_sums(storage_spans, storage_ids))


def _parts_of_sums(spans: Table, span_ids: Sequence[int]) -> tuple[Select[Any], Select[Any]]:
    """Rows of span, nano-dollars, and whether it is storage: of present charges, and of archived ones."""
    is_storage = literal(spans is storage_spans).label("is_storage")
    present, archived = charges.c, charge_days.c
    return (
        select(present.span_id, func.sum(present.amount_nanos).label("nanos"), is_storage)
        .join_from(charges, spans, spans.c.id == present.span_id)
        .where(present.span_id.in_(span_ids), *stand(spans))
        .group_by(present.span_id),
        select(archived.span_id, func.sum(archived.amount_nanos).label("nanos"), is_storage)
        .where(is_archived(spans), archived.span_id.in_(span_ids))
        .group_by(archived.span_id),
    )


def charges_of(connection: Connection, spans: Table, span_ids: Sequence[int]) -> dict[int, list[ChargeSum]]:
    """The stored charges of each of these spans by resource and price, in the order they ran up."""
    sums_by_span: dict[int, list[ChargeSum]] = {}
    for chunk in chunks(span_ids):
        for row in connection.execute(*_charges_of(spans, chunk)):
            sums_by_span.setdefault(row.span_id, []).append(
                ChargeSum(
                    resource=row.resource,
                    price_id=row.price_id,
                    quantity_millis=row.quantity_millis,
                    started_at=row.started_at,
                    ended_at=row.ended_at,
                    seconds=int(row.seconds),
                    amount=Money(int(row.nanos)),
                )
            )
        _add_archived(connection, spans, chunk, sums_by_span)
    return sums_by_span


@prepared
def _charges_of(spans: Table, span_ids: Sequence[int]) -> Select[Any]:
    first = func.min(charges.c.started_at).label("started_at")
    return (
        select(
            charges.c.span_id,
            charges.c.resource,
            charges.c.price_id,
            charges.c.quantity_millis,
            first,
            func.max(charges.c.ended_at).label("ended_at"),
            func.sum(charges.c.seconds).label("seconds"),
            func.sum(charges.c.amount_nanos).label("nanos"),
        )
        .join_from(charges, spans, spans.c.id == charges.c.span_id)
        .where(charges.c.span_id.in_(span_ids), *stand(spans))
        .group_by(charges.c.span_id, charges.c.resource, charges.c.price_id, charges.c.quantity_millis)
        .order_by(charges.c.span_id, first, charges.c.resource)
    )


def is_archived(spans: Table) -> ColumnElement[bool]:
    """The archived charges of this kind of span, by day."""
    return charge_days.c.is_storage == literal(spans is storage_spans)


def is_archived_by_day(spans: Table) -> ColumnElement[bool]:
    """The same, for queries of a few days: SQLite would else read all of a kind and not the days' index."""
    return cast(charge_days.c.is_storage, Integer) == int(spans is storage_spans)


def _add_archived(
    connection: Connection, spans: Table, span_ids: Sequence[int], sums_by_span: dict[int, list[ChargeSum]]
) -> None:
    """Adds archived charges.

    Their days are kept, and no moments within them: the span's own bound the first and last.
    """
    for row in connection.execute(*_archived_of(spans, span_ids)):
        sums_by_span.setdefault(row.span_id, []).append(
            ChargeSum(
                resource=row.resource,
                price_id=row.price_id,
                quantity_millis=row.quantity_millis,
                started_at=max(row.started_at, day_start(row.first)),
                ended_at=min(row.ended_at, day_start(row.last) + timedelta(days=1)),
                seconds=int(row.seconds),
                amount=Money(int(row.nanos)),
            )
        )


@prepared
def _archived_of(spans: Table, span_ids: Sequence[int]) -> Select[Any]:
    columns = charge_days.c
    first = func.min(columns.day, type_=columns.day.type).label("first")
    return (
        select(
            *(columns.span_id, columns.price_id, columns.quantity_millis, prices.c.resource, first),
            spans.c.started_at,
            spans.c.ended_at,
            func.max(columns.day, type_=columns.day.type).label("last"),
            func.sum(columns.seconds).label("seconds"),
            func.sum(columns.amount_nanos).label("nanos"),
        )
        .join_from(charge_days, spans, spans.c.id == columns.span_id)
        .join(prices, prices.c.id == columns.price_id)
        .where(is_archived(spans), columns.span_id.in_(span_ids))
        .group_by(columns.span_id, columns.price_id, columns.quantity_millis, prices.c.resource)
        .group_by(spans.c.started_at, spans.c.ended_at)
        .order_by(columns.span_id, first, prices.c.resource)
    )


def _conditions(filters: LifetimeFilters) -> list[ColumnElement[bool]]:
    several = (
        (instances.c.project, filters.projects),
        (lifetimes.c.preset, filters.presets),
        (lifetimes.c.owner, filters.owners),
        (lifetimes.c.end_reason, filters.end_reasons),
    )
    conditions: list[ColumnElement[bool]] = [column.in_(wanted) for column, wanted in several if wanted]
    if filters.gce_id is not None:
        conditions.append(instances.c.gce_id == filters.gce_id)
    if filters.is_open is not None:
        ended = lifetimes.c.ended_at
        conditions.append(ended.is_(None) if filters.is_open else ended.is_not(None))
    if filters.started_from is not None:
        conditions.append(lifetimes.c.started_at >= filters.started_from)
    if filters.started_before is not None:
        conditions.append(lifetimes.c.started_at < filters.started_before)
    return conditions
