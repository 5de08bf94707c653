"""The daily sums, made from charges alone: what the product's own are held against."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import date
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, Table, delete, func, insert, literal, select, union_all

from costguard.db.tables import (
    charges,
    daily_owners,
    daily_presets,
    daily_spend,
    daily_spot,
    daily_spot_totals,
    daily_totals,
    lifetimes,
    prices,
    storage_spans,
)
from costguard.ledger.roll_up import LIFETIME, STORAGE, parts_of_charges
from costguard.model.instance import ProvisioningModel

ROLLED_UP = (daily_spend, daily_totals, daily_presets, daily_owners, daily_spot, daily_spot_totals)


def sums(connection: Connection) -> dict[str, list[tuple[Any, ...]]]:
    """Every row of every daily sum, without those that are nothing."""
    return {
        table.name: sorted(row for row in map(tuple, connection.execute(select(table))) if any(row[-_figures(table) :]))
        for table in ROLLED_UP
    }


def _figures(table: Table) -> int:
    return sum(not column.primary_key for column in table.c)


def roll_up_days(connection: Connection, days: Collection[date]) -> None:
    """Make all that is rolled up of these days again, from their charges and from whose the spans are now."""
    connection.execute(delete(daily_spend).where(daily_spend.c.day.in_(days)))
    standard = literal(ProvisioningModel.STANDARD.value)
    of_lifetimes = _part(lifetimes, LIFETIME, list(days), lifetimes.c.provisioning_model)
    parts = union_all(of_lifetimes, _part(storage_spans, STORAGE, list(days), standard)).subquery()
    keys = [parts.c[name] for name in ("day", "project", "preset", "owner", "job", "provisioning_model")]
    amounts = ("machine_nanos", "gpu_nanos", "storage_nanos", "seconds")
    rolled = select(*keys, *(func.sum(parts.c[name]).label(name) for name in amounts)).group_by(*keys)
    connection.execute(insert(daily_spend).from_select([*(key.name for key in keys), *amounts], rolled))
    connection.execute(delete(daily_spot).where(daily_spot.c.day.in_(days)))
    connection.execute(insert(daily_spot).from_select(list(daily_spot.c), _spot(list(days))))
    total_days(connection, days)


def total_days(connection: Connection, days: Collection[date]) -> None:
    """Make what is rolled up of these days with fewer columns again, from what is with more."""
    coarse = ((table, daily_spend) for table in (daily_totals, daily_presets, daily_owners))
    for table, detailed in (*coarse, (daily_spot_totals, daily_spot)):
        connection.execute(delete(table).where(table.c.day.in_(days)))
        keys = [detailed.c[key.name] for key in table.primary_key]
        figures = [func.sum(detailed.c[column.name]) for column in table.c if not column.primary_key]
        totals = select(*keys, *figures).where(detailed.c.day.in_(days)).group_by(*keys)
        connection.execute(insert(table).from_select([column.name for column in table.c], totals))


def _spot(days: Sequence[date]) -> Select[Any]:
    """Selects the sums in the order of the table's columns. By the price alone: only machines have Spot prices."""
    keys = (charges.c.day, lifetimes.c.project, lifetimes.c.preset, lifetimes.c.owner, charges.c.price_id)
    return (
        select(*keys, func.sum(charges.c.seconds * charges.c.quantity_millis), func.sum(charges.c.amount_nanos))
        .join_from(charges, prices, prices.c.id == charges.c.price_id)
        .join(lifetimes, lifetimes.c.id == charges.c.span_id)
        .where(charges.c.span == LIFETIME, charges.c.day.in_(days))
        .where(prices.c.provisioning_model == ProvisioningModel.SPOT.value)
        .group_by(*keys)
    )


def _part(table: Table, kind: str, days: Sequence[date], model: ColumnElement[str]) -> Select[Any]:
    return (
        select(
            charges.c.day,
            *(table.c[name] for name in ("project", "preset", "owner", "job")),
            model.label("provisioning_model"),
            *(amount.label(name) for name, amount in parts_of_charges(table).items()),
        )
        .join_from(charges, table, table.c.id == charges.c.span_id)
        .where(charges.c.span == kind, charges.c.day.in_(days))
    )
