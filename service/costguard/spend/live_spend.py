"""What has accrued since charges were last stored, by day and by whose money it is."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from typing import TypeAlias

from sqlalchemy import Connection

from costguard.ledger import running_totals
from costguard.ledger.accrual import Accrual, figures_of
from costguard.ledger.accruing import AccruingSpan, accruing_spans, uncharged_instances
from costguard.ledger.running_totals import accrued
from costguard.model.budget import Scope
from costguard.model.instance import ProvisioningModel
from costguard.model.lifetime import Attribution, Lifetime
from costguard.spend.spend_rows import Amounts, UnpricedSpan, amounts_of, day_start

_DAY = timedelta(days=1)

InstanceKind: TypeAlias = tuple[str, Attribution, str]  # project, whose money it is, provisioning model


@dataclass(frozen=True, slots=True)
class Live:
    figures: list[tuple[date, InstanceKind, Amounts]]
    unpriced: list[UnpricedSpan]


def live(connection: Connection, accrual: Accrual, first: date, last: date, scope: Scope, by: Collection[str]) -> Live:
    """What is not stored of the UTC days [first, last], up to now, told apart at least by the columns in `by`.

    Open spans are in the running totals. Those that ended and are not charged yet, or cannot be priced whole, are
    billed one by one. A day's figure is the same in every range, since charges are cut at midnight.
    """
    if first > accrual.now.date():
        return Live([], [])
    sums: dict[tuple[date, InstanceKind], list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    totals = running_totals.read(connection, accrual, scope, by)
    for group, since, figures in totals.rows:
        kind = group.project, Attribution(group.preset, group.owner, group.job), group.provisioning_model
        for day, amounts in accrued(since, figures, accrual.now):
            if first <= day <= last:
                _add(sums, day, kind, amounts)
    gaps = []
    start, end = day_start(first), day_start(last) + _DAY
    for span in _one_by_one(connection, accrual, scope, totals.unpriced):
        bill = accrual.bill(span.span, max(span.since, start), end)
        for day, billed in figures_of(bill):
            _add(sums, day, kind_of(span), billed)
        if bill.unpriced and max(span.since, start) < min(end, span.span.ended_at or accrual.now):
            gaps.append(_gap(span, bill.unpriced))
    return Live([(day, kind, amounts_of(of_day)) for (day, kind), of_day in sums.items()], gaps)


def kind_of(span: AccruingSpan) -> InstanceKind:
    """Storage counts as standard."""
    model = span.span.provisioning_model if isinstance(span.span, Lifetime) else ProvisioningModel.STANDARD
    return span.span.key.project, span.attribution, model.value


def _one_by_one(
    connection: Connection, accrual: Accrual, scope: Scope, unpriced: Collection[int]
) -> Iterator[AccruingSpan]:
    """Spans that are in no total."""
    for span in accruing_spans(connection, sorted({*unpriced, *uncharged_instances(connection)})):
        whose = span.attribution
        is_in_totals = span.span.ended_at is None and running_totals.is_priced(accrual, span.span)
        if not is_in_totals and scope.holds(span.span.key.project, whose.preset, whose.owner, whose.job):
            yield span


def _gap(accruing: AccruingSpan, reason: str) -> UnpricedSpan:
    _, attribution, model = kind_of(accruing)
    return UnpricedSpan(
        kind="lifetime" if isinstance(accruing.span, Lifetime) else "storage",
        id=accruing.span.id or 0,
        key=accruing.span.key,
        name=accruing.name,
        attribution=attribution,
        provisioning_model=model,
        started_at=accruing.span.started_at,
        ended_at=accruing.span.ended_at,
        reason=reason,
    )


def _add(
    sums: dict[tuple[date, InstanceKind], list[int]], day: date, kind: InstanceKind, figures: Collection[int]
) -> None:
    of_day = sums[day, kind]
    for place, figure in enumerate(figures):
        of_day[place] += figure
