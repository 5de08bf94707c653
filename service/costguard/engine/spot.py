"""What Spot VMs saved, from their stored charges and from what they have run up since."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, timedelta

from sqlalchemy import Connection

from costguard.engine.accrual import Accrual
from costguard.model.budget import Scope
from costguard.model.money import Money
from costguard.model.price import SpotUse
from costguard.policy.spot import SpotSaving, spot_saving
from costguard.store import prices, spot
from costguard.store.spend import day_start

_DAY = timedelta(days=1)
_CHARGED_WITHIN = timedelta(days=2)


def saved_by_spot(connection: Connection, accrual: Accrual, first: date, last: date, scope: Scope) -> SpotSaving:
    """On the UTC days [first, last], today's share up to now included."""
    stored = spot.charged(connection, first, last, scope)
    live = _live(connection, accrual, first, last, scope)
    return spot_saving([*stored, *live], prices.by_id(connection), accrual.book)


def _live(connection: Connection, accrual: Accrual, first: date, last: date, scope: Scope) -> Iterator[SpotUse]:
    start, end = day_start(first), day_start(last) + _DAY
    for run, uncharged_from, count in spot.uncharged(connection, scope, accrual.now - _CHARGED_WITHIN):
        since = max(uncharged_from, start)
        if since < min(end, run.ended_at or accrual.now):
            for charge in accrual.of_lifetime(run, since, end).charges:
                amount = charge.quantity * charge.seconds * count
                yield SpotUse(charge.day, charge.price_id, amount, Money(charge.amount.nanos * count))
