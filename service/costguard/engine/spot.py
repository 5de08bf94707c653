"""What Spot VMs saved, from their stored charges and from what they have run up since."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime, timedelta

from sqlalchemy import Connection

from costguard.engine.accrual import Accrual
from costguard.model.budget import Scope
from costguard.model.instance import InstanceKey, ProvisioningModel, Shape
from costguard.model.lifetime import Lifetime
from costguard.model.money import Money
from costguard.model.price import SpotUse
from costguard.policy.meter import day_of
from costguard.policy.spot import SpotSaving, spot_saving
from costguard.store import accruing, prices, spot
from costguard.store.accruing import Within
from costguard.store.spend import day_start
from costguard.store.types import EPOCH

_DAY = timedelta(days=1)
_NO_KEY = InstanceKey("", "")
_CHARGED_WITHIN = timedelta(days=2)  # what ended longer ago has its charges stored


def saved_by_spot(connection: Connection, accrual: Accrual, first: date, last: date, scope: Scope) -> SpotSaving:
    """On the UTC days [first, last], today's share up to now included."""
    stored = spot.charged(connection, first, last, scope)
    live = _live(connection, accrual, first, last, scope)
    return spot_saving([*stored, *live], prices.by_id(connection), accrual.book)


def _live(connection: Connection, accrual: Accrual, first: date, last: date, scope: Scope) -> Iterator[SpotUse]:
    start, end = day_start(first), day_start(last) + _DAY
    for run, since, count in _running(connection, min(end, accrual.now), end, scope):
        since = max(since, start)
        if run.provisioning_model is ProvisioningModel.SPOT and since < min(end, run.ended_at or accrual.now):
            for charge in accrual.of_lifetime(run, since, end).charges:
                amount = charge.quantity * charge.seconds * count
                yield SpotUse(charge.day, charge.price_id, amount, Money(charge.amount.nanos * count))


def _running(
    connection: Connection, until: datetime, end: datetime, scope: Scope
) -> Iterator[tuple[Lifetime, datetime, int]]:
    """What is not charged up to its end, or to now: from when on, and how many do the same."""
    for alike in accruing.alike_lifetimes(connection, end, day_of(until), (), scope):
        *shape, model, zone = alike.kind
        since = EPOCH + timedelta(seconds=alike.since)
        yield Lifetime(_NO_KEY, since, Shape(*shape), ProvisioningModel(model), zone), since, alike.count
    for run in accruing.accruing_lifetimes(connection, Within(end, until - _CHARGED_WITHIN, day_of(until), scope)):
        yield run.lifetime, run.charged_to or run.lifetime.started_at, 1
