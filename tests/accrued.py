"""Computes what has accrued, span by span: the reference of running totals."""

from __future__ import annotations

from collections import Counter
from datetime import date, datetime, timedelta

from sqlalchemy import Connection, select

from costguard.db import tables
from costguard.ledger.accrual import Accrual, CostKind, accrual_at, accruing_spans, figures_of, kind_of
from costguard.ledger.running.running_totals import drifted
from costguard.model.budget import Scope
from costguard.spend.spend import live

_EVER = date(1970, 1, 1)
_NANOS_A_SPAN = 100  # rates are whole nano-dollars an hour: a day of a span is off by some dozens, never by a cent


def span_by_span(connection: Connection, accrual: Accrual) -> tuple[dict[tuple[date, CostKind], list[int]], int]:
    """Each span's own bill after its stored charges, by day and group; and how many spans there are."""
    sums_by_kind: dict[tuple[date, CostKind], Counter[int]] = {}
    spans = accruing_spans(connection, list(connection.scalars(select(tables.instances.c.id))))
    for span in spans:
        for day, figures in figures_of(accrual.bill(span.span, span.since)):
            sums_by_kind.setdefault((day, kind_of(span)), Counter()).update(dict(enumerate(figures)))
    return {key: [sums[place] for place in range(4)] for key, sums in sums_by_kind.items() if any(sums.values())}, len(
        spans
    )


def assert_totals_hold(connection: Connection, now: datetime) -> None:
    """The totals are what the ledger gives, and they tell what each span's bill does: to the cent and second."""
    accrual = accrual_at(connection, now)
    assert drifted(connection, accrual) == {}
    expected, spans = span_by_span(connection, accrual)
    answer = live(connection, accrual, _EVER, now.date() + timedelta(days=1), Scope(), _COLUMNS)
    answered = {
        (day, kind): [amounts.machine.nanos, amounts.gpu.nanos, amounts.storage.nanos, amounts.seconds]
        for day, kind, amounts in answer
    }
    for key in {**expected, **answered}:
        right, shown = expected.get(key, [0] * 4), answered.get(key, [0] * 4)
        assert shown[3] == right[3], f"seconds of {key}"
        assert all(
            abs(one - other) <= _NANOS_A_SPAN * spans for one, other in zip(shown[:3], right[:3], strict=True)
        ), f"{key}: {shown} against {right}"


_COLUMNS = ("project", "preset", "owner", "job")
