"""Open lifetimes and storage that cannot be priced whole: the running totals hold all others."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime

from sqlalchemy import Connection

from costguard.ledger.accrual import Accrual, figures_of
from costguard.ledger.running import burn_rates
from costguard.ledger.running import running_total_rows as rows
from costguard.ledger.running.running_total_rows import OpenSpans, UnpricedSpans
from costguard.ledger.running.running_totals import rates_by_kind, span_of
from costguard.model.budget import Scope
from costguard.model.lifetime import Lifetime


def read(
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
    groups = rows.unpriced_spans(connection, names(connection, accrual), label, since if label is not None else None)
    return [group for group in groups if scope.holds(*group.spans.owned_by) and rate_of(group.spans.kind) is None]


def names(connection: Connection, accrual: Accrual) -> tuple[str | None, ...] | None:
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
