"""What Spot VMs saved, from their stored charges and from what they have run up since."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime, timedelta

from sqlalchemy import Connection

from costguard.engine.accrual import Accrual
from costguard.model.budget import Scope
from costguard.model.instance import ProvisioningModel
from costguard.model.money import Money
from costguard.model.price import SpotUse
from costguard.policy.spot import SpotSaving, spot_saving
from costguard.store import accruing, prices, spot
from costguard.store.accruing import AccruingLifetime, Within
from costguard.store.spend import day_start

_DAY = timedelta(days=1)
_CHARGED_WITHIN = timedelta(days=2)  # what ended longer ago has its charges stored


def saved_by_spot(connection: Connection, accrual: Accrual, first: date, last: date, scope: Scope) -> SpotSaving:
    """On the UTC days [first, last], today's share up to now included."""
    stored = spot.charged(connection, first, last, scope)
    live = _live(connection, accrual, first, last, scope)
    return spot_saving([*stored, *live], prices.by_id(connection), accrual.book)


def _live(connection: Connection, accrual: Accrual, first: date, last: date, scope: Scope) -> Iterator[SpotUse]:
    start, end = day_start(first), day_start(last) + _DAY
    for run, count in _running(connection, accrual, end, scope):
        whose = run.attribution
        if run.lifetime.provisioning_model is not ProvisioningModel.SPOT:
            continue
        if not scope.holds(run.lifetime.key.project, whose.preset, whose.owner, whose.job):
            continue
        since = max(run.charged_to or run.lifetime.started_at, start)
        if since < min(end, run.lifetime.ended_at or accrual.now):
            for charge in accrual.of_lifetime(run.lifetime, since, end).charges:
                amount = charge.quantity * charge.seconds * count
                yield SpotUse(charge.day, charge.price_id, amount, Money(charge.amount.nanos * count))


def _running(
    connection: Connection, accrual: Accrual, end: datetime, scope: Scope
) -> Iterator[tuple[AccruingLifetime, int]]:
    by = {name for name in ("preset", "owner", "job") if getattr(scope, name) is not None}
    yield from accruing.alike_lifetimes(connection, end, by)
    within = Within(end, accrual.now - _CHARGED_WITHIN, with_alike=False)
    yield from ((run, 1) for run in accruing.accruing_lifetimes(connection, within))
