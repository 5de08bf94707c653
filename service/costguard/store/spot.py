"""What Spot VMs used, by the price that it was billed at."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from fractions import Fraction
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

from sqlalchemy import BigInteger, Connection, Engine, Select, cast, func, select, text

from costguard.model.attempt import Outcome
from costguard.model.budget import Scope
from costguard.model.instance import InstanceKey, ProvisioningModel
from costguard.model.lifetime import Lifetime
from costguard.model.money import Money
from costguard.model.price import SpotUse
from costguard.store.remembered import remembers
from costguard.store.rows import lifetime_of, shape_of
from costguard.store.spend import Amounts, Grouping, day_start, rolled_up
from costguard.store.tables import UNCHARGED, charges, instances, interruptions, jobs, lifetimes, prices

_MOST_KEPT = 500
_KIND = ("machine_type", "vcpus", "memory_mib", "gpu_type", "gpu_count", "local_ssd_gib", "zone")
_NO_KEY = InstanceKey("", "")
_Days: TypeAlias = dict[tuple[date, Scope], tuple[Amounts, tuple[SpotUse, ...]]]

# Adding up a day's charges of a large ledger takes a fiftieth of a second, and what was rolled up of them tells
# whether they are the same: whatever changes one changes the other, in one transaction.
_known: WeakKeyDictionary[Engine, _Days] = WeakKeyDictionary()


def charged(connection: Connection, first: date, last: date, scope: Scope) -> list[SpotUse]:
    """The stored charges of Spot VMs on the days [first, last]."""
    rolled = rolled_up(connection, first, last, (Grouping.DAY, Grouping.PROVISIONING_MODEL), scope)
    kept = _known.setdefault(connection.engine, {})
    found: list[SpotUse] = []
    for (name, model), amounts in rolled:
        if model != ProvisioningModel.SPOT.value:
            continue
        day = date.fromisoformat(name)
        before = kept.get((day, scope))
        if before is None or before[0] != amounts:
            if len(kept) >= _MOST_KEPT:
                kept.clear()
            before = kept[day, scope] = amounts, tuple(_charged_on(connection, day, scope))
        found += before[1]
    return found


def _charged_on(connection: Connection, day: date, scope: Scope) -> Sequence[SpotUse]:
    of = charges.c
    # PostgreSQL adds BIGINTs up to NUMERIC; a day of ten thousand VMs fits BIGINT.
    used, nanos = (cast(func.sum(each), BigInteger) for each in (of.seconds * of.quantity_millis, of.amount_nanos))
    # Only machines have Spot prices, so that these are the charges of lifetimes.
    query = (
        select(of.price_id, used, nanos)
        .join_from(charges, prices, prices.c.id == of.price_id)
        .where(of.day == day, prices.c.provisioning_model == ProvisioningModel.SPOT.value)
        .group_by(of.price_id)
    )
    if scope != Scope():
        query = _within(query.join(lifetimes, lifetimes.c.id == of.span_id), scope)
    return [
        SpotUse(day, price_id, Fraction(amount, 1000), Money(cost))
        for price_id, amount, cost in connection.execute(query)
    ]


@remembers(lifetimes)
def uncharged(connection: Connection, scope: Scope, ended_after: datetime) -> list[tuple[Lifetime, datetime, int]]:
    """Runs of Spot VMs with charges that are not stored: from when on, and how many are alike in all of this.

    Of those that ended, the ones that did so lately: older ones were charged by the pass that saw them end.
    """
    of = lifetimes.c
    since = func.coalesce(of.charged_to, of.started_at, type_=of.started_at.type).label("since")
    is_spot = of.provisioning_model == ProvisioningModel.SPOT.value
    kind = [of[name] for name in _KIND]
    open_ones = _within(select(*kind, since, func.count()).where(of.ended_at.is_(None), is_spot), scope)
    ended = _within(select(lifetimes, since).where(of.ended_at > ended_after, text(UNCHARGED), is_spot), scope)
    return [
        *(
            (Lifetime(_NO_KEY, row.since, shape_of(row), ProvisioningModel.SPOT, row.zone), row.since, row[-1])
            for row in connection.execute(open_ones.group_by(*kind, since))
        ),
        *((lifetime_of(_NO_KEY, row), row.since, 1) for row in connection.execute(ended)),
    ]


def _within(query: Select[Any], scope: Scope) -> Select[Any]:
    """`query` reads lifetimes already."""
    if scope == Scope():
        return query
    columns = (instances.c.project, lifetimes.c.preset, lifetimes.c.owner, lifetimes.c.job)
    wanted = (scope.project, scope.preset, scope.owner, scope.job)
    conditions = [column == value for column, value in zip(columns, wanted, strict=True) if value is not None]
    return query.join(instances, instances.c.id == lifetimes.c.instance_id).where(*conditions)


def lost_to_preemptions(connection: Connection, first: date, last: date, scope: Scope) -> Money:
    """What jobs had paid for work that they had to do again after a preemption on these days."""
    of = interruptions.c
    columns = (jobs.c.project, jobs.c.preset, jobs.c.owner, jobs.c.id)
    wanted = (scope.project, scope.preset, scope.owner, scope.job)
    query = (
        select(cast(func.coalesce(func.sum(of.lost_nanos), 0), BigInteger))
        .join_from(interruptions, jobs, jobs.c.id == of.job_id)
        .where(of.outcome == Outcome.PREEMPTED.value)
        .where(of.happened_at >= day_start(first), of.happened_at < day_start(last) + timedelta(days=1))
        .where(*(column == value for column, value in zip(columns, wanted, strict=True) if value is not None))
    )
    return Money(connection.execute(query).scalar_one())
