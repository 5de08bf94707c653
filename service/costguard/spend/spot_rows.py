"""Reads the use of Spot VMs, by billed price."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from fractions import Fraction
from typing import Any, TypeAlias

from sqlalchemy import BigInteger, ColumnElement, Connection, Select, Table, cast, func, select

from costguard.db.bulk import chunks
from costguard.db.remembered import remembers
from costguard.db.scoped import within_scope
from costguard.db.tables import (
    charge_days,
    charges,
    daily_spot,
    daily_spot_totals,
    interruptions,
    jobs,
    lifetimes,
    prices,
)
from costguard.ledger.accrual import uncharged_ids
from costguard.ledger.charged.spans import is_archived
from costguard.ledger.rows import lifetime_of, shape_of
from costguard.model.attempt import Outcome
from costguard.model.budget import Scope
from costguard.model.instance import InstanceKey, ProvisioningModel
from costguard.model.lifetime import Lifetime
from costguard.model.moments import day_start
from costguard.model.money import Money
from costguard.model.price import SpotUse
from costguard.spend.job_costs import spans_of

_KIND = ("machine_type", "vcpus", "memory_mib", "gpu_type", "gpu_count", "local_ssd_gib", "zone")
_NO_KEY = InstanceKey("", "")

Days: TypeAlias = tuple[date, date]  # the first and the last


def charged(connection: Connection, periods: Sequence[Days], scope: Scope) -> Sequence[SpotUse]:
    """The stored charges of Spot VMs, added up by price within each of these periods."""
    if scope.job is None:
        return _rolled_up(connection, tuple(periods), scope)
    # A job has few lifetimes, and they have an index: nothing is rolled up for it.
    spans = spans_of(lifetimes, [scope.job]).where(*within_scope(lifetimes, scope))
    ids = [row.id for row in connection.execute(spans)]
    return [use for some in chunks(ids) for use in _of_lifetimes(connection, periods, some)]


@remembers(daily_spot, daily_spot_totals)
def _rolled_up(connection: Connection, periods: tuple[Days, ...], scope: Scope) -> Sequence[SpotUse]:
    table = daily_spot_totals if scope.owner is None else daily_spot
    query = _by_price(table, table.c.used_millis).where(*within_scope(table, scope))
    return _within_each(connection, query, table.c.day, periods)


def _of_lifetimes(connection: Connection, periods: Sequence[Days], ids: Sequence[int]) -> Sequence[SpotUse]:
    columns = charges.c
    query = (
        _by_price(charges, columns.seconds * columns.quantity_millis)
        .join_from(charges, prices, prices.c.id == columns.price_id)
        .where(columns.span == "lifetime", columns.span_id.in_(ids))
        .where(prices.c.provisioning_model == ProvisioningModel.SPOT.value)
    )
    archived = charge_days.c
    of_archived = (
        _by_price(charge_days, archived.seconds * archived.quantity_millis)
        .join_from(charge_days, prices, prices.c.id == archived.price_id)
        .where(is_archived(lifetimes), archived.span_id.in_(ids))
        .where(prices.c.provisioning_model == ProvisioningModel.SPOT.value)
    )
    of_rows = _within_each(connection, query, columns.day, periods)
    return [*of_rows, *_within_each(connection, of_archived, archived.day, periods)]


def _by_price(table: Table, used_millis: ColumnElement[int]) -> Select[Any]:
    # PostgreSQL adds BIGINTs up to NUMERIC; years of ten thousand VMs fit BIGINT.
    sums = [cast(func.sum(column), BigInteger) for column in (used_millis, table.c.amount_nanos)]
    return select(table.c.price_id, *sums).group_by(table.c.price_id)


def _within_each(
    connection: Connection, query: Select[Any], day: ColumnElement[date], periods: Sequence[Days]
) -> Sequence[SpotUse]:
    return [
        SpotUse(first, price_id, Fraction(used, 1000), Money(cost))
        for first, last in periods
        for price_id, used, cost in connection.execute(query.where(day.between(first, last)))
    ]


@remembers(lifetimes)
def uncharged(connection: Connection, scope: Scope) -> list[tuple[Lifetime, datetime, int]]:
    """Runs of Spot VMs with charges that are not stored: from when on, and how many open ones are alike in this."""
    columns = lifetimes.c
    since = func.coalesce(columns.charged_to, columns.started_at, type_=columns.started_at.type).label("since")
    mine = (columns.provisioning_model == ProvisioningModel.SPOT.value, *within_scope(lifetimes, scope))
    kind = [columns[name] for name in _KIND]
    still: Select[Any] = (
        select(*kind, since, func.count().label("many")).where(columns.ended_at.is_(None), *mine).group_by(*kind, since)
    )
    runs = [
        (Lifetime(_NO_KEY, row.since, shape_of(row), ProvisioningModel.SPOT, row.zone), row.since, row.many)
        for row in connection.execute(still)
    ]
    for some in chunks(uncharged_ids(connection, lifetimes)):
        # A run that ended keeps its start, which its minimum and its free first minute depend on.
        ended = connection.execute(select(lifetimes).where(columns.id.in_(some), *mine))
        runs += [(lifetime_of(_NO_KEY, row), row.charged_to or row.started_at, 1) for row in ended]
    return runs


def lost_to_preemptions(connection: Connection, first: date, last: date, scope: Scope) -> Money:
    """Returns the amount that jobs had paid for work that they had to do again after a preemption on these days."""
    lost = interruptions.c
    columns = (jobs.c.project, jobs.c.preset, jobs.c.owner, jobs.c.id)
    wanted = (scope.project, scope.preset, scope.owner, scope.job)
    query = (
        select(cast(func.coalesce(func.sum(lost.lost_nanos), 0), BigInteger))
        .join_from(interruptions, jobs, jobs.c.id == lost.job_id)
        .where(lost.outcome == Outcome.PREEMPTED.value)
        .where(lost.happened_at >= day_start(first), lost.happened_at < day_start(last) + timedelta(days=1))
        .where(*(column == value for column, value in zip(columns, wanted, strict=True) if value is not None))
    )
    return Money(connection.execute(query).scalar_one())
