"""Reads charges of VMs one by one, and cuts them at the moments at which a label of the VM changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Select, Table, select

from costguard.db.bulk import chunks
from costguard.db.scoped import within_scope
from costguard.db.tables import charge_days, charges, lifetimes, prices, storage_spans
from costguard.ledger.accrual import Accrual, AccruingSpan, CostKind, attribution_of, figures_of, kind_of, stand
from costguard.ledger.charged.spans import is_archived
from costguard.ledger.labels.label_values import LabelValues
from costguard.ledger.roll_up import parts_of_archived, parts_of_charges
from costguard.model.budget import Scope
from costguard.model.instance import ProvisioningModel
from costguard.model.moments import day_start

_DAY = timedelta(days=1)
_PARTS = ("machine_nanos", "gpu_nanos", "storage_nanos", "seconds")
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Piece:
    """A charge, or all charges of a day where only their sum is kept."""

    instance_id: int
    kind: CostKind
    day: date
    started_at: datetime
    ended_at: datetime
    figures: Sequence[int]  # machine, GPU and storage in nano-dollars, and seconds


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
