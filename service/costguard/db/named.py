"""Rows that people name: by their id, or by a name that several may have had."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, Table, TextClause, select, tuple_

from costguard.db.types import storable
from costguard.errors import Conflict

_MOST_NAMED = 10  # ids in the error that tells rows of one name apart


@dataclass(frozen=True, slots=True)
class RowFilters:
    """Each of several values lets any of them through; empty ones let everything."""

    state: tuple[str, ...] = ()
    owner: tuple[str, ...] = ()


def page(
    connection: Connection, table: Table, filters: RowFilters, after: tuple[datetime, str] | None, limit: int
) -> Sequence[Row[Any]]:
    """The newest rows first; `after` is the creation and the id of the last one that was read."""
    query = select(table)
    for column, wanted in ((table.c.state, filters.state), (table.c.owner, filters.owner)):
        query = query.where(column.in_(map(str, wanted))) if wanted else query
    if after is not None:
        query = query.where(tuple_(table.c.created_at, table.c.id) < after)
    return connection.execute(query.order_by(table.c.created_at.desc(), table.c.id.desc()).limit(limit)).all()


def id_of(connection: Connection, table: Table, is_open: TextClause, named: str, noun: str) -> str:
    """The id of the row with this id, else with this name: the open one, or the newest where all have ended.

    What names no row is returned as it is. Raises Conflict where several open ones have the name.
    """
    text_, at = storable(named), table.c
    if connection.scalar(select(at.id).where(at.id == text_)) is not None:
        return named
    of_name = select(at.id).where(at.name == text_).order_by(at.created_at.desc(), at.id)
    still_open = list(connection.scalars(of_name.where(is_open).limit(_MOST_NAMED)))
    if len(still_open) > 1:
        raise Conflict(f"Several open {noun} are named {named!r}: {', '.join(still_open)}.", "Name one by its id.")
    return next(iter(still_open), None) or connection.scalar(of_name.limit(1)) or named
