"""Costs that are not charged yet: of open lifetimes and storage, and of those that ended."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator
from datetime import date, datetime, timedelta

from sqlalchemy import Connection

from costguard.ledger.accrual import Accrual, CostKind, figures_of, kind_of, uncharged_spans
from costguard.ledger.running import burn_rates, running_totals
from costguard.ledger.running import running_total_rows as rows
from costguard.ledger.running.running_total_rows import OpenSpans, UnpricedSpans
from costguard.ledger.running.running_totals import accrued, model_of, rates_by_kind, span_of
from costguard.model.budget import Scope
from costguard.model.lifetime import Attribution, Lifetime
from costguard.model.moments import day_start
from costguard.model.money import Amounts, add_figures


def costs(
    connection: Connection, accrual: Accrual, first: date, last: date, scope: Scope, by: Collection[str]
) -> list[tuple[date, CostKind, Amounts]]:
    """Returns what accrues on the UTC days [first, last], up to now, and is not charged, kept apart at least by the
    columns in `by`. The scope has no label.

    Open spans are in the running totals; those that cannot be priced whole are billed in groups of what is alike, and
    those that ended and are not charged yet one by one. A day's figure is the same in every range, since charges are
    cut at midnight.
    """
    sums: dict[tuple[date, CostKind], list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for group, since, totals in running_totals.read(connection, accrual, scope, by, last):
        kind = group.project, Attribution(group.preset, group.owner, group.job), group.provisioning_model
        for day, amounts in accrued(since, totals, accrual.now):
            if first <= day <= last:
                add_figures(sums[day, kind], amounts)
    start, end = day_start(first), day_start(last) + timedelta(days=1)
    for spans, *_ in unpriced(connection, accrual, scope):
        project, preset, owner, job = spans.owned_by
        kind = project, Attribution(preset, owner, job), model_of(spans)
        for day, figures in billed(accrual, spans, start, end):
            add_figures(sums[day, kind], figures)
    for span in uncharged_spans(connection):
        whose = span.attribution
        if scope.holds(span.span.key.project, whose.preset, whose.owner, whose.job):
            for day, charged in figures_of(accrual.bill(span.span, max(span.since, start), end)):
                add_figures(sums[day, kind_of(span)], charged)
    return [(day, kind, Amounts._make(of_day)) for (day, kind), of_day in sums.items()]


def unpriced(
    connection: Connection,
    accrual: Accrual,
    scope: Scope = Scope(),
    label: str | None = None,
    since: datetime | None = None,
) -> list[UnpricedSpans]:
    """Reads the open spans of a scope that cannot be priced whole, in groups of what is billed alike: the totals hold
    all others.

    With a label, those of VMs whose label changed after `since` are left out.
    """
    rate_of = rates_by_kind(accrual)
    names = unpriced_names(connection, accrual)
    groups = rows.unpriced_spans(connection, names, label, since if label is not None else None)
    return [group for group in groups if scope.holds(*group.spans.owned_by) and rate_of(group.spans.kind) is None]


def unpriced_names(connection: Connection, accrual: Accrual) -> tuple[str | None, ...] | None:
    """Returns the machine types and resources of open spans of which some cannot be priced; None where the stored rates
    tell their VMs.
    """
    if burn_rates.are_current(connection, accrual):
        return None
    rate_of = rates_by_kind(accrual)
    return tuple({kind[0]: None for kind in rows.open_kinds(connection) if rate_of(kind) is None})


def billed(accrual: Accrual, spans: OpenSpans, start: datetime, end: datetime) -> Iterator[tuple[date, list[int]]]:
    """Yields by day what these spans accrue within [start, end) as far as it has a price: machine, GPU and storage in
    nano-dollars, and seconds.
    """
    span = span_of(spans.kind, spans.since)
    if not (span.shape.is_known if isinstance(span, Lifetime) else span.resource):
        return  # no part of it is known
    bill = accrual.bill(span, max(spans.since, start), end)
    for day, figures in figures_of(bill):
        yield day, [figure * spans.count for figure in figures]
