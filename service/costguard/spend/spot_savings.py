"""Savings of Spot VMs, from stored charges and from what has accrued since."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import date, timedelta

from sqlalchemy import Connection

from costguard.ledger import prices
from costguard.ledger.accrual import Accrual
from costguard.ledger.pricing import billed_seconds
from costguard.model.budget import Scope
from costguard.model.instance import ProvisioningModel
from costguard.model.lifetime import Lifetime
from costguard.model.money import Money
from costguard.model.price import SpotUse
from costguard.spend import spot_rows
from costguard.spend.spend_rows import day_start
from costguard.spend.spot import SpotSaving, spot_saving

_DAY, _INSTANT = timedelta(days=1), timedelta(microseconds=1)


def saved_by_spot(connection: Connection, accrual: Accrual, first: date, last: date, scope: Scope) -> SpotSaving:
    """Returns the saving on the UTC days [first, last], today's share up to now included."""
    periods = accrual.book.steady(ProvisioningModel.STANDARD, first, last)
    stored = spot_rows.charged(connection, periods, scope)
    live = _live(connection, accrual, first, last, scope)
    return spot_saving([*stored, *live], prices.by_id(connection), accrual.book)


def _live(connection: Connection, accrual: Accrual, first: date, last: date, scope: Scope) -> Iterator[SpotUse]:
    start, end = day_start(first), day_start(last) + _DAY
    until = min(end, accrual.now)
    if until <= start:
        return
    # From then on nothing changes price, and alike VMs cost what one costs, times their seconds together.
    steady = max(day_start((until - _INSTANT).date()), accrual.book.unchanged_around(until)[0] or start)
    alike: Counter[Lifetime] = Counter()
    for run, uncharged_from, count in spot_rows.uncharged(connection, scope):
        since = max(uncharged_from, start)
        if since >= min(end, run.ended_at or accrual.now):
            continue
        if run.ended_at is None and since >= steady:
            alike[replace(run, started_at=steady)] += count * billed_seconds(since, until)
            continue
        for charge in accrual.bill(run, since, end).charges:
            amount = charge.quantity * charge.seconds * count
            yield SpotUse(charge.day, charge.price_id, amount, Money(charge.amount.nanos * count))
    for run, seconds in alike.items():
        for charge in accrual.bill(run, None, until).charges:
            if charge.seconds:
                cost = Money(charge.amount.nanos * seconds // charge.seconds)
                yield SpotUse(charge.day, charge.price_id, charge.quantity * seconds, cost)
