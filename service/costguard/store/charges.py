"""Charges: which spans are due, what was charged, and the roll-up of days."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    Table,
    bindparam,
    case,
    delete,
    func,
    insert,
    literal,
    null,
    select,
    text,
    union_all,
    update,
)

from costguard.model.instance import ProvisioningModel
from costguard.model.lifetime import Charge, Lifetime, StorageSpan
from costguard.store.accruing import CHUNK, chunks, lifetime_of, select_lifetimes, select_storage, storage_of
from costguard.store.tables import (
    UNCHARGED,
    charges,
    daily_spend,
    instances,
    lifetimes,
    storage_spans,
)

LIFETIME = "lifetime"
STORAGE = "storage"
_TABLES = {LIFETIME: lifetimes, STORAGE: storage_spans}


@dataclass(frozen=True, slots=True)
class Due:
    """A span with charges to be stored after `charged_to` (None: all of them), and its VM's name."""

    kind: str  # LIFETIME or STORAGE
    id: int
    span: Lifetime | StorageSpan
    name: str
    charged_to: datetime | None
    unpriced: str


@dataclass(frozen=True, slots=True)
class Entry:
    """What a due span came to: its charges after `since` replace those that are stored."""

    due: Due
    since: datetime | None
    charged_to: datetime
    charges: Sequence[Charge]
    unpriced: str


def due(connection: Connection, midnight: datetime) -> list[Due]:
    """Spans that ended and are not charged to their end, or are open and not charged to the last midnight."""
    found = [
        Due(LIFETIME, row.id, lifetime_of(row), row.name, row.charged_to, row.unpriced)
        for row in connection.execute(_due(lifetimes, select_lifetimes(), midnight))
    ]
    storage = select_storage().add_columns(instances.c.name.label("vm_name"))
    found += [
        Due(STORAGE, row.id, storage_of(row), row.vm_name, row.charged_to, row.unpriced)
        for row in connection.execute(_due(storage_spans, storage, midnight))
    ]
    return found


def store(connection: Connection, entries: Sequence[Entry]) -> set[date]:
    """Replace the charges of these spans; the days that gained or lost some, to be rolled up anew."""
    touched = {charge.day for entry in entries for charge in entry.charges}
    for kind, table in _TABLES.items():
        mine = [entry for entry in entries if entry.due.kind == kind]
        if not mine:
            continue
        by_since: dict[datetime | None, list[int]] = defaultdict(list)
        for entry in mine:
            by_since[entry.since].append(entry.due.id)
        for since, ids in by_since.items():
            touched |= _remove(connection, kind, ids, since)
        rows = [_row(entry, charge) for entry in mine for charge in entry.charges]
        if rows:
            connection.execute(insert(charges), rows)
        statement = update(table).where(table.c.id == bindparam("span_id"))
        connection.execute(
            statement.values(charged_to=bindparam("to"), unpriced=bindparam("gap")),
            [{"span_id": entry.due.id, "to": entry.charged_to, "gap": entry.unpriced} for entry in mine],
        )
    return touched


def recharge_since(connection: Connection, since: datetime, region: str | None = None) -> int:
    """Have every span of a region (or of all) that is charged past this moment charged anew from its day on."""
    day = since.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    marked = 0
    for table in _TABLES.values():
        conditions = [table.c.charged_to > since - timedelta(minutes=1)]  # the one-minute minimum reaches further
        if region is not None:
            conditions.append(table.c.zone.startswith(f"{region}-", autoescape=True))
        anew = case((table.c.started_at >= day, null()), else_=literal(day, table.c.charged_to.type))
        marked += connection.execute(update(table).where(*conditions).values(charged_to=anew)).rowcount
    return marked


def recharge_unpriced(connection: Connection) -> int:
    """Have every span that could not be priced whole charged anew from its start."""
    return sum(
        connection.execute(update(table).where(text("unpriced <> ''")).values(charged_to=None)).rowcount
        for table in _TABLES.values()
    )


def roll_up_days(connection: Connection, days: Collection[date]) -> None:
    """Make the daily spend of these days anew from their charges and from whose the spans are now."""
    ordered = sorted(days)
    for at in range(0, len(ordered), CHUNK):
        some = ordered[at : at + CHUNK]
        connection.execute(delete(daily_spend).where(daily_spend.c.day.in_(some)))
        parts = union_all(_of_lifetimes(some), _of_storage(some)).subquery()
        keys = [parts.c[name] for name in ("day", "project", "preset", "owner", "job", "provisioning_model")]
        amounts = ("machine_nanos", "gpu_nanos", "storage_nanos", "seconds")
        rolled = select(*keys, *(func.sum(parts.c[name]).label(name) for name in amounts)).group_by(*keys)
        connection.execute(insert(daily_spend).from_select([*(key.name for key in keys), *amounts], rolled))


def days_of(connection: Connection, kind: str, span_ids: Collection[int]) -> set[date]:
    """The days on which these spans have charges."""
    found: set[date] = set()
    for ids in chunks(span_ids):
        query = select(charges.c.day).where(charges.c.span == kind, charges.c.span_id.in_(ids)).distinct()
        found |= set(connection.execute(query).scalars())
    return found


def _due(table: Table, query: Select[Any], midnight: datetime) -> Select[Any]:
    ended = select(table.c.id).where(text(UNCHARGED))
    behind = select(table.c.id).where(table.c.ended_at.is_(None), table.c.charged_to < midnight)
    fresh = select(table.c.id).where(
        table.c.ended_at.is_(None), table.c.charged_to.is_(None), table.c.started_at < midnight
    )
    return query.join(instances, instances.c.id == table.c.instance_id).where(
        table.c.id.in_(union_all(ended, behind, fresh).subquery().select())
    )


def _remove(connection: Connection, kind: str, ids: Collection[int], since: datetime | None) -> set[date]:
    touched: set[date] = set()
    for some in chunks(ids):
        statement = delete(charges).where(charges.c.span == kind, charges.c.span_id.in_(some))
        if since is not None:
            statement = statement.where(charges.c.started_at >= since)
        touched |= set(connection.execute(statement.returning(charges.c.day)).scalars())
    return touched


def _row(entry: Entry, charge: Charge) -> dict[str, Any]:
    return {
        "span": entry.due.kind,
        "span_id": entry.due.id,
        "resource": charge.resource,
        "started_at": charge.started_at,
        "ended_at": charge.ended_at,
        "day": charge.day,
        "seconds": charge.seconds,
        "quantity_millis": round(charge.quantity * 1000),
        "price_id": charge.price_id,
        "amount_nanos": charge.amount.nanos,
    }


def _of_lifetimes(days: Sequence[date]) -> Select[Any]:
    is_gpu = charges.c.resource.startswith("gpu:")
    return _part(
        lifetimes,
        LIFETIME,
        days,
        lifetimes.c.provisioning_model,
        machine_nanos=case((is_gpu, 0), else_=charges.c.amount_nanos),
        gpu_nanos=case((is_gpu, charges.c.amount_nanos), else_=0),
        storage_nanos=literal(0),
        # Each run has vCPUs, and no run has two kinds: their seconds are the run's.
        seconds=case((charges.c.resource.endswith(":core"), charges.c.seconds), else_=0),
    )


def _of_storage(days: Sequence[date]) -> Select[Any]:
    return _part(
        storage_spans,
        STORAGE,
        days,
        literal(ProvisioningModel.STANDARD.value),
        machine_nanos=literal(0),
        gpu_nanos=literal(0),
        storage_nanos=charges.c.amount_nanos,
        seconds=literal(0),
    )


def _part(
    table: Table, kind: str, days: Sequence[date], model: ColumnElement[str], **amounts: ColumnElement[int]
) -> Select[Any]:
    return (
        select(
            charges.c.day,
            instances.c.project,
            table.c.preset,
            table.c.owner,
            table.c.job,
            model.label("provisioning_model"),
            *(amount.label(name) for name, amount in amounts.items()),
        )
        .join_from(charges, table, table.c.id == charges.c.span_id)
        .join(instances, instances.c.id == table.c.instance_id)
        .where(charges.c.span == kind, charges.c.day.in_(days))
    )
