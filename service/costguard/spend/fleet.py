"""Instances with their money, as the pages, the API and the command line show them, and their filters."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import (
    ColumnElement,
    CompoundSelect,
    Connection,
    Select,
    Table,
    exists,
    false,
    func,
    literal,
    or_,
    select,
    union_all,
)

from costguard.db.bulk import chunks
from costguard.db.prepared import prepared
from costguard.db.remembered import remembers
from costguard.db.tables import UNPRICED_RANK, charges, instances, lifetimes, storage_spans
from costguard.ledger import accrual as accruing
from costguard.ledger import fleet_rows
from costguard.ledger.accrual import Accrual, AccruingSpan
from costguard.ledger.charged.spans import charged_sums_of_both
from costguard.ledger.fleet_rows import BEYOND, Burning, Filters, FleetInstance, Place, PresentInstance, Sort
from costguard.ledger.idle import utilisation
from costguard.ledger.idle.utilisation import Measured
from costguard.ledger.labels.label_history import label_value
from costguard.ledger.running import burn_rates
from costguard.model.budget import LabelFilter
from costguard.model.keeper import KIND_LABEL
from costguard.model.lifetime import StorageSpan
from costguard.model.money import ZERO, Money, Priced
from costguard.model.utilisation import Evidence


@dataclass(frozen=True, slots=True)
class ChargedSums:
    """Sums of stored charges: of the open lifetime, and of all the VM ever did."""

    lifetime: Money = ZERO
    total: Money = ZERO


_NO_CHARGES = ChargedSums()


@dataclass(frozen=True, slots=True)
class Gap:
    """The reason why a span could not be priced whole."""

    reason: str
    in_open_lifetime: bool


@remembers(charges, lifetimes, storage_spans)
def charged(connection: Connection, ids: tuple[int, ...]) -> dict[int, ChargedSums]:
    """Sums the stored charges of each instance; an instance without any is left out."""
    charged_of: dict[int, ChargedSums] = {}
    runs, storage = dict[int, tuple[int, bool]](), dict[int, tuple[int, bool]]()  # instance, and whether it is running
    for chunk in chunks(ids):
        for span_id, instance_id, is_running, is_storage in connection.execute(*_spans_of(chunk)):
            (storage if is_storage else runs)[span_id] = instance_id, bool(is_running)
    # By the spans' ids: joined with the instances' spans at once, SQLite would read all charges there are.
    for rows, sums in zip((runs, storage), charged_sums_of_both(connection, runs, storage), strict=True):
        for span_id, amount in sums.items():
            instance_id, is_running = rows[span_id]
            before = charged_of.get(instance_id, _NO_CHARGES)
            charged_of[instance_id] = ChargedSums(amount if is_running else before.lifetime, before.total + amount)
    return charged_of


@prepared
def _spans_of(instance_ids: list[int]) -> CompoundSelect[Any]:
    return union_all(
        *(
            select(spans.c.id, spans.c.instance_id, _is_running(spans), literal(spans is storage_spans)).where(
                spans.c.instance_id.in_(instance_ids)
            )
            for spans in (lifetimes, storage_spans)
        )
    )


def _is_running(spans: Table) -> ColumnElement[bool]:
    return (spans.c.ended_at.is_(None) if spans is lifetimes else false()).label("is_running")


@remembers(lifetimes, storage_spans)
def gaps_between_charges(connection: Connection, ids: tuple[int, ...]) -> dict[int, list[Gap]]:
    """Lists the unpriced parts of these instances, which stored charges leave out."""
    gaps_by_instance: dict[int, list[Gap]] = {}
    for chunk in chunks(ids):
        for row in connection.execute(*_gaps(chunk)):
            gaps_by_instance.setdefault(row.instance_id, []).append(Gap(row.unpriced, bool(row.is_running)))
    return gaps_by_instance


@prepared
def _gaps(instance_ids: list[int]) -> CompoundSelect[Any]:
    """Runs come before storage, the latest first."""
    gaps = union_all(
        *(
            select(
                spans.c.instance_id,
                spans.c.unpriced,
                _is_running(spans),
                literal(spans is storage_spans).label("is_storage"),
                spans.c.started_at.label("started_at"),
            ).where(spans.c.instance_id.in_(instance_ids), spans.c.unpriced != "")
            for spans in (lifetimes, storage_spans)
        )
    )
    columns = gaps.selected_columns
    return gaps.order_by(columns.is_storage, columns.started_at.desc())


@dataclass(frozen=True, slots=True)
class Choices:
    """Each in alphabetical order; an owner of "" stands for nobody."""

    projects: tuple[str, ...]
    presets: tuple[str, ...]
    owners: tuple[str, ...]
    statuses: tuple[str, ...]


@remembers(instances)
def read(connection: Connection) -> Choices:
    columns = instances.c
    query = (
        select(columns.project, columns.preset, columns.owner, columns.status)
        .where(columns.gone_at.is_(None))
        .distinct()
    )
    rows = connection.execute(query).all()
    return Choices(*(_sorted(row[place] for row in rows) for place in range(4)))


MOST_VALUES = 200


@remembers(instances)
def values_of_label(connection: Connection, label: str, since: datetime) -> tuple[LabelFilter, ...]:
    """The values that VMs have, or had when they went after that moment; the first few hundred, and last no label."""
    query: Select[Any]
    value, is_there = label_value(label), or_(instances.c.gone_at.is_(None), instances.c.gone_at > since)
    if label == KIND_LABEL:
        query = _by_index(instances.c.keeper_product, is_there)
    else:
        query = select(value).where(is_there, value.is_not(None)).distinct().order_by(value)
    values = connection.scalars(query.limit(MOST_VALUES))
    return *(LabelFilter(label, one) for one in values), LabelFilter(label, None)


def _by_index(column: ColumnElement[str], is_there: ColumnElement[bool]) -> Select[Any]:
    """Each value once, by a step in the column's index from one to the next, not by all rows that have it."""
    values = select(func.min(column).label("value")).where(column.is_not(None)).cte("listed_values", recursive=True)
    following = select(func.min(column)).where(column > values.c.value).scalar_subquery()
    values = values.union_all(select(following).where(values.c.value.is_not(None)))
    has_vm = exists().where(column == values.c.value, is_there)
    return select(values.c.value).where(values.c.value.is_not(None), has_vm).order_by(values.c.value)


def _sorted(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(values)))


__all__ = ["Cursor", "FleetPage", "FleetTotals", "InstanceView", "Sort", "fleet_page", "views"]


_NOTHING = Priced()


@dataclass(frozen=True, slots=True)
class InstanceView:
    instance: FleetInstance
    started_at: datetime | None  # of the lifetime that is open; None when it does not run
    due_at: datetime | None  # when the preset's limit passes; None: no limit, or it does not run
    rate: Priced  # per hour now: the machine if it runs, and storage
    lifetime_cost: Priced  # of the open lifetime so far
    total_cost: Priced  # of all lifetimes and all storage, ever
    unpriced: tuple[str, ...]  # in sentences, what has no price
    idle: Evidence | None = None  # None: it does not run, or was not measured lately
    counts_from: datetime | None = (
        None  # since when its limit counts; earlier than `started_at` where Google restarted it
    )


@dataclass(frozen=True, slots=True)
class FleetTotals:
    """Totals over all instances that passed the filters, not this page alone.

    Instances that are gone are not counted.
    """

    instances: int
    running: int
    rate: Money  # of what can be priced
    unpriced: int  # instances


@dataclass(frozen=True, slots=True)
class Cursor:
    """The end of a page: the place of its last row among the present, or among the gone."""

    gone: bool
    rank: int
    name: str
    id: int


@dataclass(frozen=True, slots=True)
class FleetPage:
    """`burning` is what `totals` adds up, in groups."""

    rows: tuple[InstanceView, ...]
    next: Cursor | None
    totals: FleetTotals
    burning: tuple[Burning, ...]


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def fleet_page(
    connection: Connection,
    accrual: Accrual,
    limits: Mapping[str, timedelta | None],
    filters: Filters,
    *,
    sort: Sort = Sort.RATE,
    with_gone: bool = False,
    after: Cursor | None = None,
    size: int = 100,
) -> FleetPage:
    """Reads a page of the fleet. Instances that are gone come after all others, the latest first."""
    place = None if after is None else (after.rank, after.name, after.id)
    wanted = 0 if after is not None and after.gone else size + 1
    if burn_rates.are_current(connection, accrual):
        places = fleet_rows.ranked(connection, filters, sort, place, wanted) if wanted else []
        burning = fleet_rows.burning_by(connection, filters)
    else:
        # A price came into force since the last pass: the rates that are kept are not of this moment.
        present = burn_rates.of_present(connection, accrual, filters)
        ordered = sorted((_rank_of(vm, rate, sort), vm.name, vm.id) for vm, rate in present)
        places = [rank for rank in ordered if place is None or rank > place][:wanted]
        burning = burn_rates.grouped(present)
    here, more = places[:size], len(places) > size
    gone: list[int] = []
    if with_gone and not more:
        gone_after = (_EPOCH + after.rank * _MICROSECOND, after.id) if after is not None and after.gone else None
        gone = fleet_rows.gone_ids(connection, filters, gone_after, size - len(here) + 1)
        more = len(here) + len(gone) > size
        gone = gone[: size - len(here)]
    rows = views(connection, accrual, limits, [*(instance_id for _, _, instance_id in here), *gone])
    return FleetPage(tuple(rows), _end_of(here, gone, rows) if more else None, _totals(burning), tuple(burning))


def views(
    connection: Connection, accrual: Accrual, limits: Mapping[str, timedelta | None], ids: Sequence[int]
) -> list[InstanceView]:
    """These instances with their money, in this order, in a fixed number of queries."""
    instance_ids = tuple(ids)
    gaps = gaps_between_charges(connection, instance_ids)
    sums = charged(connection, instance_ids)
    spans: dict[int, list[AccruingSpan]] = defaultdict(list)
    for span in accruing.accruing_spans(connection, instance_ids):
        spans[span.instance_id].append(span)
    measured = utilisation.of_instances(connection, ids, accrual.now)
    return [
        _view(
            vm,
            accrual,
            limits.get(vm.preset),
            sums.get(vm.id, _NO_CHARGES),
            spans[vm.id],
            gaps.get(vm.id, ()),
            measured.get(vm.id),
        )
        for vm in fleet_rows.known(connection, ids)
    ]


def _view(
    vm: FleetInstance,
    accrual: Accrual,
    limit: timedelta | None,
    charges: ChargedSums,
    spans: Sequence[AccruingSpan],
    gaps: Sequence[Gap],
    measured: Measured | None,
) -> InstanceView:
    rate, lifetime, total = _NOTHING, Priced(charges.lifetime), Priced(charges.total)
    started_at: datetime | None = None
    counts_from: datetime | None = None
    reasons = {gap.reason: None for gap in gaps}
    if any(gap.in_open_lifetime for gap in gaps):
        lifetime = Priced(lifetime.amount, whole=False)
    if reasons:
        total = Priced(total.amount, whole=False)
    for accruing_span in spans:
        span, live = accruing_span.span, accrual.cost(accruing_span.span, accruing_span.charged_to)
        cost = Priced(live.amount, not live.unpriced)
        total += cost
        if isinstance(span, StorageSpan):
            if span.ended_at is None:
                rate += Priced.of(accrual.storage_rate(span.resource, span.size_mib, span.zone))
        elif span.is_open:
            started_at, counts_from = span.started_at, span.counts_from
            lifetime += cost
            rate += Priced.of(accrual.rate(span.shape, span.zone, span.provisioning_model))
        if live.unpriced:
            reasons[live.unpriced] = None
    due_at = None if limit is None or counts_from is None else counts_from + limit
    idle = measured.evidence if measured is not None and measured.run_started_at == started_at else None
    return InstanceView(vm, started_at, due_at, rate, lifetime, total, tuple(reasons), idle, counts_from)


def _totals(burning: Sequence[Burning]) -> FleetTotals:
    return FleetTotals(
        instances=sum(group.count for group in burning),
        running=sum(group.running for group in burning),
        rate=Money(sum(group.rate.nanos for group in burning)),
        unpriced=sum(group.unpriced for group in burning),
    )


def _rank_of(instance: PresentInstance, rate: Priced, sort: Sort) -> int:
    if sort is Sort.RATE:
        return -rate.amount.nanos if rate.whole else UNPRICED_RANK
    if sort is Sort.AGE:
        return BEYOND if instance.started_at is None else (instance.started_at - _EPOCH) // _MICROSECOND
    return 0


def _end_of(here: Sequence[Place], gone: Sequence[int], rows: Sequence[InstanceView]) -> Cursor:
    last = rows[-1].instance
    if gone and last.gone_at is not None:
        return Cursor(True, (last.gone_at - _EPOCH) // _MICROSECOND, last.name, last.id)
    return Cursor(False, *here[-1])
