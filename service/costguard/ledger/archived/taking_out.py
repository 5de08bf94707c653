"""Takes charges out of the rows that are whole elsewhere: they stay rolled up by span, day, price and quantity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Insert,
    Select,
    and_,
    bindparam,
    delete,
    func,
    insert,
    literal,
    literal_column,
    select,
    update,
)

from costguard.db.tables import charge_days, charges, prices
from costguard.ledger.roll_up import LIFETIME, TABLES

_DAY_NUMBER = {
    "sqlite": "CAST(julianday(charges.day) - 2440587.5 AS INTEGER)",
    "postgresql": "charges.day - DATE '1970-01-01'",
}


def take_out(connection: Connection, kind: str, archive_of: Mapping[int, int]) -> int:
    """Takes out the charges of these spans, by id the archive that holds them; returns how many rows went."""
    table, going = TABLES[kind], sorted(archive_of)
    of_going = and_(charges.c.span == kind, charges.c.span_id.in_(going))
    connection.execute(_into_days(connection, kind, of_going))
    gone = connection.execute(delete(charges).where(of_going)).rowcount
    named = update(table).where(table.c.id == bindparam("of_span")).values(archive_id=bindparam("archive"))
    connection.execute(named, [{"of_span": one, "archive": archive_of[one]} for one in going])
    return gone


def may_go(connection: Connection, kind: str, ids: Sequence[int]) -> set[int]:
    """Returns those of these spans whose charges are rows, final and complete, and can be rolled up."""
    table = TABLES[kind]
    is_final = and_(
        *(table.c.id.in_(ids), table.c.archive_id.is_(None), table.c.unpriced == ""),
        table.c.charged_to == table.c.ended_at,
    )
    final = set(connection.scalars(select(table.c.id).where(is_final)))
    return final - set(connection.scalars(_not_of_their_price(kind, ids)))


def _into_days(connection: Connection, kind: str, of_going: ColumnElement[bool]) -> Insert:
    keys = (charges.c.span_id, charges.c.day, charges.c.price_id, charges.c.quantity_millis)
    columns: tuple[ColumnElement[Any], ...] = (keys[0], literal_column(_DAY_NUMBER[connection.dialect.name]), *keys[2:])
    sums = (func.sum(charges.c.seconds), func.sum(charges.c.amount_nanos))
    names = ("is_storage", "span_id", "day", "price_id", "quantity_millis", "seconds", "amount_nanos")
    rolled_up = select(literal(kind != LIFETIME), *columns, *sums).where(of_going).group_by(*keys)
    return insert(charge_days).from_select(names, rolled_up)


def _not_of_their_price(kind: str, ids: Sequence[int]) -> Select[Any]:
    """Spans with a charge whose price is of another resource: the roll-up keeps the price alone."""
    return (
        select(charges.c.span_id)
        .join_from(charges, prices, prices.c.id == charges.c.price_id)
        .where(charges.c.span == kind, charges.c.span_id.in_(ids), prices.c.resource != charges.c.resource)
    )
