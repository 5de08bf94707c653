"""What Spot VMs saved, from their stored charges and from what they have run up since."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import date, timedelta

from sqlalchemy import Connection

from costguard.ledger import prices
from costguard.ledger.accrual import Accrual
from costguard.ledger.meter import Begun, day_of, second_of
from costguard.model.budget import Scope
from costguard.model.instance import ProvisioningModel, Shape
from costguard.model.money import Money
from costguard.model.price import SpotUse
from costguard.spend import spot_rows
from costguard.spend.spend_rows import day_start
from costguard.spend.spot import SpotSaving, spot_saving

_DAY = timedelta(days=1)


def saved_by_spot(connection: Connection, accrual: Accrual, first: date, last: date, scope: Scope) -> SpotSaving:
    """On the UTC days [first, last], today's share up to now included."""
    periods = accrual.book.steady(ProvisioningModel.STANDARD, first, last)
    stored = spot_rows.charged(connection, periods, scope)
    live = _live(connection, accrual, first, last, scope)
    return spot_saving([*stored, *live], prices.by_id(connection), accrual.book)


def _live(connection: Connection, accrual: Accrual, first: date, last: date, scope: Scope) -> Iterator[SpotUse]:
    start, end = day_start(first), day_start(last) + _DAY
    until = min(end, accrual.now)
    if until <= start:
        return
    alike: dict[tuple[Shape, str], Counter[int]] = defaultdict(Counter)
    for run, uncharged_from, count in spot_rows.uncharged(connection, scope, accrual.charged_before):
        since = max(uncharged_from, start)
        meter = accrual.meter(run.shape, run.zone, ProvisioningModel.SPOT, until) if run.ended_at is None else None
        if meter is not None and day_of(until) <= since < until:
            alike[run.shape, run.zone][second_of(since)] += count
        elif since < min(end, run.ended_at or accrual.now):
            for charge in accrual.of_lifetime(run, since, end).charges:
                amount = charge.quantity * charge.seconds * count
                yield SpotUse(charge.day, charge.price_id, amount, Money(charge.amount.nanos * count))
    for (shape, zone), begun in alike.items():
        meter = accrual.meter(shape, zone, ProvisioningModel.SPOT, until)
        for price_id, amount, nanos in meter.used(Begun(begun)) if meter is not None else ():
            yield SpotUse(day_of(until).date(), price_id, amount, Money(nanos))
