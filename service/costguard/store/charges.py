"""Charges: which spans are due, and what was charged."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Table, bindparam, case, delete, insert, literal, null, select, text, update

from costguard.model.lifetime import Charge, Lifetime, StorageSpan
from costguard.store.accruing import chunks, lifetime_of, select_lifetimes, select_storage, storage_of
from costguard.store.tables import UNCHARGED, charges, instances, lifetimes, storage_spans
from costguard.store.types import Timestamp

LIFETIME = "lifetime"
STORAGE = "storage"
_TABLES = {LIFETIME: lifetimes, STORAGE: storage_spans}
_MANY = 20  # spans with the same charges: from here on one statement for all is quicker than a row each
_DUE = (
    ("uncharged", UNCHARGED),
    ("open_charged_to", "ended_at IS NULL AND charged_to < :midnight"),
    ("open_charged_to", "ended_at IS NULL AND charged_to IS NULL AND started_at < :midnight"),
)


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
    found: list[Due] = []
    for kind, table, query, read in (
        (LIFETIME, lifetimes, select_lifetimes(), lifetime_of),
        (STORAGE, storage_spans, select_storage(), storage_of),
    ):
        query = query.add_columns(instances.c.name.label("vm_name"))
        query = query.join(instances, instances.c.id == table.c.instance_id)
        for some in chunks(_due_ids(connection, table, midnight)):
            rows = connection.execute(query.where(table.c.id.in_(some)))
            found += [Due(kind, row.id, read(row), row.vm_name, row.charged_to, row.unpriced) for row in rows]
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
        _insert(connection, kind, table, mine)
        by_outcome: dict[tuple[datetime, str], list[int]] = defaultdict(list)
        for entry in mine:
            by_outcome[entry.charged_to, entry.unpriced].append(entry.due.id)
        for (charged_to, unpriced), ids in by_outcome.items():
            for some in chunks(ids):
                statement = update(table).where(table.c.id.in_(some))
                connection.execute(statement.values(charged_to=charged_to, unpriced=unpriced))
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


def _due_ids(connection: Connection, table: Table, midnight: datetime) -> list[int]:
    """Found by the partial indexes alone, so that a pass with nothing due costs nothing, whatever the history.

    Neither planner can know that nearly every span that ended is charged, so they are told.
    """
    is_sqlite = connection.dialect.name == "sqlite"
    if not is_sqlite:
        connection.exec_driver_sql("SET LOCAL enable_seqscan = off")
    found: list[int] = []
    for index, condition in _DUE:
        hint = f"INDEXED BY ix_{table.name}_{index}" if is_sqlite else ""
        # No part of this text comes from outside.
        query = text(f"SELECT id FROM {table.name} {hint} WHERE {condition}")  # noqa: S608
        if ":midnight" in condition:
            query = query.bindparams(bindparam("midnight", midnight, Timestamp))
        found += connection.execute(query).scalars()
    if not is_sqlite:
        connection.exec_driver_sql("SET LOCAL enable_seqscan = on")
    return found


def _remove(connection: Connection, kind: str, ids: Collection[int], since: datetime | None) -> set[date]:
    touched: set[date] = set()
    for some in chunks(ids):
        statement = delete(charges).where(charges.c.span == kind, charges.c.span_id.in_(some))
        if since is not None:
            statement = statement.where(charges.c.started_at >= since)
        touched |= set(connection.execute(statement.returning(charges.c.day)).scalars())
    return touched


def _insert(connection: Connection, kind: str, table: Table, entries: Iterable[Entry]) -> None:
    """Spans that share their charges get them by one statement a charge, the others row by row."""
    sharing: dict[int, list[Entry]] = defaultdict(list)
    for entry in entries:
        sharing[id(entry.charges)].append(entry)
    rows: list[dict[str, Any]] = []
    for alike in sharing.values():
        for charge in alike[0].charges:
            columns = _columns(kind, charge)
            if len(alike) < _MANY:
                rows += [{**columns, "span_id": entry.due.id} for entry in alike]
                continue
            values = [literal(value, charges.c[name].type).label(name) for name, value in columns.items()]
            for some in chunks([entry.due.id for entry in alike]):
                source = select(*values, table.c.id).where(table.c.id.in_(some))
                connection.execute(insert(charges).from_select([*columns, "span_id"], source))
    if rows:
        connection.execute(insert(charges), rows)


def _columns(kind: str, charge: Charge) -> dict[str, Any]:
    return {
        "span": kind,
        "resource": charge.resource,
        "started_at": charge.started_at,
        "ended_at": charge.ended_at,
        "day": charge.day,
        "seconds": charge.seconds,
        "quantity_millis": round(charge.quantity * 1000),
        "price_id": charge.price_id,
        "amount_nanos": charge.amount.nanos,
    }
