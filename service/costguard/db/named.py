"""Rows that people name: by their id, or by a name that several may have had."""

from __future__ import annotations

from sqlalchemy import Connection, Table, TextClause, select

from costguard.db.types import storable
from costguard.errors import Conflict

_MOST_NAMED = 10  # ids in the error that tells rows of one name apart


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
