"""Costs that have accrued by the value of a label since charges were stored: equal spans are added up together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date, timedelta

from sqlalchemy import Connection

from costguard.ledger import running_totals
from costguard.ledger.accrual import Accrual, accruing_spans, uncharged_instances
from costguard.ledger.label_history import changes_since
from costguard.model.budget import Scope
from costguard.spend.label_days import LabelValues, pieces_of, present_values
from costguard.spend.spend_rows import day_start
from costguard.spend.vm_charges import accruing_ids

_DAY = timedelta(days=1)


def running_by_value(
    connection: Connection, accrual: Accrual, first: date, last: date, label: str, scope: Scope
) -> Iterator[tuple[date, str | None, Sequence[int]]]:
    """Machine, GPU and storage in nano-dollars, and seconds, of parts of the UTC days [first, last] up to now.

    One by one come only VMs whose label changed since, and spans that ended or have no price.
    """
    start, end = day_start(first), day_start(last) + _DAY
    changes = changes_since(connection, label, start)
    totals, unpriced = running_totals.by_label(connection, accrual, label, start, end, scope)
    for (value, since), figures in totals.items():
        for day, amounts in running_totals.accrued(since, figures, accrual.now):
            if first <= day <= last:
                yield day, value, amounts
    alone = changes.keys() & accruing_ids(connection, end) if changes else set()
    ids = sorted({*alone, *unpriced, *uncharged_instances(connection)})
    values = LabelValues(present_values(connection, label, ids), changes)
    for span in accruing_spans(connection, ids):
        is_open = span.span.ended_at is None
        if is_open and span.instance_id not in changes and running_totals.is_priced(accrual, span.span):
            continue  # it is in the totals
        for piece in pieces_of(accrual, span, start, end, scope):
            for value, part in values.parts(piece):
                yield piece.day, value, part
