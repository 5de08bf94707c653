"""Costs of VMs while a label had a value, day by day: from charges, split at the moment at which the label changed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any, TypeAlias

from sqlalchemy import ColumnElement, Connection, Row, Select, Table, select

from costguard.db.bulk import chunks
from costguard.db.scoped import within_scope
from costguard.db.tables import charge_days, charges, instances, lifetimes, prices, storage_spans
from costguard.ledger.accrual import (
    Accrual,
    AccruingSpan,
    CostKind,
    accruing_spans,
    attribution_of,
    figures_of,
    kind_of,
    stand,
)
from costguard.ledger.charged.spans import is_archived
from costguard.ledger.labels.label_history import changes_since, has_changed
from costguard.ledger.labels.label_values import LabelValues, has_value, present_values, values_among
from costguard.ledger.roll_up import parts_of_archived, parts_of_charges
from costguard.model.budget import LabelFilter, Scope
from costguard.model.instance import ProvisioningModel
from costguard.model.lifetime import Attribution
from costguard.model.moments import day_start
from costguard.model.money import Amounts, add_figures
from costguard.spend import spend_rows
from costguard.spend.vm_charges import accruing_ids, charged

_DAY = timedelta(days=1)
_KINDS = ("project", "preset", "owner", "job", "provisioning_model")
_PARTS = ("machine_nanos", "gpu_nanos", "storage_nanos", "seconds")
_MICROSECOND = timedelta(microseconds=1)
_Figures: TypeAlias = Sequence[int]  # machine, GPU and storage in nano-dollars, and seconds


@dataclass(frozen=True, slots=True)
class Piece:
    """A charge, or all charges of a day where only their sum is kept."""

    instance_id: int
    kind: CostKind
    day: date
    started_at: datetime
    ended_at: datetime
    figures: _Figures


@dataclass(frozen=True, slots=True)
class LabelPart:
    """The cost of one VM on a day while its label had the value of the scope."""

    instance_id: int
    kind: CostKind
    day: date
    figures: _Figures


def parts_of(values: LabelValues, piece: Piece) -> Iterator[tuple[str | None, list[int]]]:
    """A charge in parts by the values that the label had: as long as each had it, and whole together."""
    start, end, figures = piece.started_at, piece.ended_at, piece.figures
    cuts = [c.changed_at for c in values.changes.get(piece.instance_id, ()) if start < c.changed_at < end]
    length, begin, spent = (end - start) // _MICROSECOND, start, [0] * len(figures)
    for cut in [*cuts, end]:
        share = (cut - start) // _MICROSECOND
        until = list(figures) if cut == end else [figure * share // length for figure in figures]
        yield values.at(piece.instance_id, begin), [one - other for one, other in zip(until, spent, strict=True)]
        begin, spent = cut, until


def label_days(
    connection: Connection, accrual: Accrual, first: date, last: date, scope: Scope, by: Collection[str]
) -> list[tuple[date, CostKind, Amounts]]:
    """Returns the spend in the scope, its label included, on the UTC days [first, last] up to now.

    Kept apart at least by the columns in `by`: days that are rolled up are read from their sums, others from charges.
    """
    sums: dict[tuple[date, CostKind], list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    wanted = _label_of(scope)
    ranges = spend_rows.not_rolled_up(connection, wanted.label, first, last)
    keys = ("day", *(name for name in _KINDS if name in by))
    rows = spend_rows.rolled_up_by_label(connection, wanted.label, first, last, ranges, scope, keys, wanted)
    for row, figures in rows:
        project, preset, owner, job, model = (row.get(name, "") for name in _KINDS)
        add_figures(sums[row["day"], (project, Attribution(preset, owner, job), model)], figures)
    for start, end in ranges:
        for part in charged_parts(connection, start, end, scope):
            add_figures(sums[part.day, part.kind], part.figures)
    for part in running_parts(connection, accrual, first, last, scope):
        add_figures(sums[part.day, part.kind], part.figures)
    return [(day, kind, Amounts._make(figures)) for (day, kind), figures in sums.items()]


def label_parts(connection: Connection, accrual: Accrual, first: date, last: date, scope: Scope) -> Iterator[LabelPart]:
    """The same VM by VM; a VM may have several parts of a day. Raises ValueError for a scope without a label."""
    yield from charged_parts(connection, first, last, scope)
    yield from running_parts(connection, accrual, first, last, scope)


def charged_parts(connection: Connection, first: date, last: date, scope: Scope) -> Iterator[LabelPart]:
    """Yields the charged parts, from charges."""
    wanted, since = _label_of(scope), day_start(first)
    changes = changes_since(connection, wanted.label, since)
    projects = _projects(connection, wanted)
    values = LabelValues(present_values(connection, wanted.label, changes), changes)
    among = select(instances.c.id).where(has_value(wanted), ~has_changed(instances.c.id, wanted.label, since))
    for vm in charged(connection, first, last, scope, by_day=True, among=among):
        kind = projects[vm.instance_id], vm.attribution, vm.provisioning_model
        yield LabelPart(vm.instance_id, kind, vm.day or first, vm.figures)
    yield from _parts_of_value(values, wanted, charged_pieces(connection, first, last, scope, sorted(changes)))


def running_parts(
    connection: Connection, accrual: Accrual, first: date, last: date, scope: Scope
) -> Iterator[LabelPart]:
    """Yields the parts that have accrued since charges were stored."""
    wanted = _label_of(scope)
    values = values_among(connection, wanted.label, day_start(first), accruing_ids(connection, day_start(last) + _DAY))
    mine = sorted(
        instance_id
        for instance_id, value in values.present.items()
        if value == wanted.value or instance_id in values.changes
    )
    start, end = day_start(first), day_start(last) + _DAY
    for span in accruing_spans(connection, mine):
        yield from _parts_of_value(values, wanted, pieces_of(accrual, span, start, end, scope))


def _parts_of_value(values: LabelValues, wanted: LabelFilter, pieces: Iterable[Piece]) -> Iterator[LabelPart]:
    for piece in pieces:
        for value, figures in parts_of(values, piece):
            if value == wanted.value:
                yield LabelPart(piece.instance_id, piece.kind, piece.day, figures)


def _label_of(scope: Scope) -> LabelFilter:
    if scope.label is None:
        raise ValueError("the scope has no label")
    return scope.label


def _projects(connection: Connection, wanted: LabelFilter) -> dict[int, str]:
    """Returns the projects of the VMs that have the value now."""
    query = select(instances.c.id, instances.c.project).where(has_value(wanted))
    return {row.id: row.project for row in connection.execute(query)}


def charged_pieces(
    connection: Connection, first: date, last: date, scope: Scope, instance_ids: Sequence[int]
) -> Iterator[Piece]:
    """Each stored charge of these VMs, with its moments."""
    for spans in (lifetimes, storage_spans):
        single, by_day = _single(spans, first, last), _by_day(spans, first, last)
        for some in chunks(instance_ids):
            mine = (spans.c.instance_id.in_(some), *within_scope(spans, scope))
            for row in connection.execute(single.where(*mine)):
                yield _piece(spans, row, row.charge_started_at, row.charge_ended_at)
            for row in connection.execute(by_day.where(*mine)):
                # Of archived charges the day is kept: the span bounds it.
                start = max(row.started_at, day_start(row.day))
                yield _piece(spans, row, start, min(row.ended_at, day_start(row.day) + _DAY))


def _piece(spans: Table, row: Row[Any], start: datetime, end: datetime) -> Piece:
    model = row.provisioning_model if spans is lifetimes else ProvisioningModel.STANDARD.value
    figures = [int(row._mapping[name]) for name in _PARTS]
    return Piece(row.instance_id, (row.project, attribution_of(row), model), row.day, start, end, figures)


def _kinds(spans: Table) -> list[ColumnElement[Any]]:
    names = ("instance_id", "project", "preset", "owner", "job", "started_at", "ended_at", "provisioning_model")
    return [spans.c[name] for name in names if name in spans.c]


def _single(spans: Table, first: date, last: date) -> Select[Any]:
    parts = [part.label(name) for name, part in parts_of_charges(spans).items()]
    moments = charges.c.started_at.label("charge_started_at"), charges.c.ended_at.label("charge_ended_at")
    query = select(*_kinds(spans), charges.c.day, *moments, *parts)
    query = query.join_from(charges, spans, charges.c.span_id == spans.c.id)
    return query.where(charges.c.day.between(first, last), *stand(spans))


def _by_day(spans: Table, first: date, last: date) -> Select[Any]:
    parts = [part.label(name) for name, part in parts_of_archived(spans).items()]
    query = select(*_kinds(spans), charge_days.c.day, *parts)
    query = query.join_from(charge_days, spans, charge_days.c.span_id == spans.c.id)
    query = query.join(prices, prices.c.id == charge_days.c.price_id)
    return query.where(is_archived(spans), charge_days.c.day.between(first, last))


def pieces_of(accrual: Accrual, span: AccruingSpan, start: datetime, end: datetime, scope: Scope) -> Iterator[Piece]:
    """Yields the pieces of one span that have accrued within [start, end)."""
    project, whose, _ = kind = kind_of(span)
    since, until = max(span.since, start), min(end, span.span.ended_at or accrual.now)
    if since < until and scope.holds(project, whose.preset, whose.owner, whose.job):
        bill = accrual.bill(span.span, since, end)
        for charge, (day, figures) in zip(bill.charges, figures_of(bill), strict=True):
            yield Piece(span.instance_id, kind, day, charge.started_at, charge.ended_at, figures)
