"""The roll-up of days: charges are added up as they are stored, so that a year is read as fast as a day."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import date
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    Table,
    case,
    delete,
    func,
    insert,
    literal,
    or_,
    select,
    union_all,
)

from costguard.model.instance import ProvisioningModel
from costguard.model.price import OF_A_RUN
from costguard.store.accruing import CHUNK
from costguard.store.charges import LIFETIME, STORAGE
from costguard.store.tables import (
    charges,
    daily_owners,
    daily_spend,
    daily_spot,
    daily_spot_totals,
    daily_totals,
    lifetimes,
    prices,
    storage_spans,
)


def roll_up_days(connection: Connection, days: Collection[date]) -> None:
    """Make all that is rolled up of these days anew, from their charges and from whose the spans are now."""
    ordered = sorted(days)
    for at in range(0, len(ordered), CHUNK):
        some = ordered[at : at + CHUNK]
        connection.execute(delete(daily_spend).where(daily_spend.c.day.in_(some)))
        parts = union_all(_of_lifetimes(some), _of_storage(some)).subquery()
        keys = [parts.c[name] for name in ("day", "project", "preset", "owner", "job", "provisioning_model")]
        amounts = ("machine_nanos", "gpu_nanos", "storage_nanos", "seconds")
        rolled = select(*keys, *(func.sum(parts.c[name]).label(name) for name in amounts)).group_by(*keys)
        connection.execute(insert(daily_spend).from_select([*(key.name for key in keys), *amounts], rolled))
        connection.execute(delete(daily_spot).where(daily_spot.c.day.in_(some)))
        connection.execute(insert(daily_spot).from_select(list(daily_spot.c), _spot(some)))
        total_days(connection, some)


def total_days(connection: Connection, days: Collection[date]) -> None:
    """Make what is rolled up of these days with fewer columns anew, from what is with more."""
    for table, of in ((daily_totals, daily_spend), (daily_owners, daily_spend), (daily_spot_totals, daily_spot)):
        connection.execute(delete(table).where(table.c.day.in_(days)))
        keys = [of.c[key.name] for key in table.primary_key]
        sums = [func.sum(of.c[column.name]) for column in table.c if not column.primary_key]
        totals = select(*keys, *sums).where(of.c.day.in_(days)).group_by(*keys)
        connection.execute(insert(table).from_select([column.name for column in table.c], totals))


def _spot(days: Sequence[date]) -> Select[Any]:
    """In the order of the table's columns. By the price alone: only machines have Spot prices."""
    keys = (charges.c.day, lifetimes.c.project, lifetimes.c.preset, lifetimes.c.owner, charges.c.price_id)
    return (
        select(*keys, func.sum(charges.c.seconds * charges.c.quantity_millis), func.sum(charges.c.amount_nanos))
        .join_from(charges, prices, prices.c.id == charges.c.price_id)
        .join(lifetimes, lifetimes.c.id == charges.c.span_id)
        .where(charges.c.span == LIFETIME, charges.c.day.in_(days))
        .where(prices.c.provisioning_model == ProvisioningModel.SPOT.value)
        .group_by(*keys)
    )


def parts_of_charges(spans: Table) -> dict[str, ColumnElement[int]]:
    """Of each charge of these spans, what counts as machine, GPU and storage, and as seconds run."""
    amount, none = charges.c.amount_nanos, literal(0)
    if spans is storage_spans:
        return {"machine_nanos": none, "gpu_nanos": none, "storage_nanos": amount, "seconds": none}
    is_gpu = charges.c.resource.startswith("gpu:")
    # Each run has one of these: its seconds are the run's.
    is_of_a_run = or_(*(charges.c.resource.endswith(ending) for ending in OF_A_RUN))
    return {
        "machine_nanos": case((is_gpu, 0), else_=amount),
        "gpu_nanos": case((is_gpu, amount), else_=0),
        "storage_nanos": none,
        "seconds": case((is_of_a_run, charges.c.seconds), else_=0),
    }


def _of_lifetimes(days: Sequence[date]) -> Select[Any]:
    return _part(lifetimes, LIFETIME, days, lifetimes.c.provisioning_model)


def _of_storage(days: Sequence[date]) -> Select[Any]:
    return _part(storage_spans, STORAGE, days, literal(ProvisioningModel.STANDARD.value))


def _part(table: Table, kind: str, days: Sequence[date], model: ColumnElement[str]) -> Select[Any]:
    return (
        select(
            charges.c.day,
            table.c.project,
            table.c.preset,
            table.c.owner,
            table.c.job,
            model.label("provisioning_model"),
            *(amount.label(name) for name, amount in parts_of_charges(table).items()),
        )
        .join_from(charges, table, table.c.id == charges.c.span_id)
        .where(charges.c.span == kind, charges.c.day.in_(days))
    )
