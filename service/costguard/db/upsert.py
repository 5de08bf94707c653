"""Insert or update many rows, writing only those that differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from sqlalchemy import Connection, Table, or_
from sqlalchemy.dialects import postgresql, sqlite


def upsert(
    connection: Connection,
    table: Table,
    rows: Sequence[Mapping[str, Any]],
    key_columns: Sequence[str],
    update_columns: Sequence[str] | None = None,
) -> int:
    """Writes rows, and returns how many were written; one that is stored as given already is left alone.

    All rows have the same columns. `update_columns` are set where the key exists: all given ones unless named; with an
    empty list the stored row wins. Of two rows with one key the later wins.
    """
    if not rows:
        return 0
    if update_columns is None:
        update_columns = [name for name in rows[0] if name not in key_columns]
    statement = _statement(connection.dialect.name, table, tuple(key_columns), tuple(update_columns))
    # One statement run many times: one long VALUES list is ten times slower, and may name a key only once.
    result = connection.execute(statement, [dict(row) for row in rows], execution_options={"preserve_rowcount": True})
    return result.rowcount


@cache
def _statement(dialect: str, table: Table, key_columns: Sequence[str], update_columns: Sequence[str]) -> Any:
    """Returns the statement, made once: making it takes longer than running it."""
    # The two dialects' inserts have the same methods, but no common type that has them.
    insert: Any = sqlite.insert if dialect == "sqlite" else postgresql.insert
    statement = insert(table)
    if not update_columns:
        return statement.on_conflict_do_nothing(index_elements=list(key_columns))
    return statement.on_conflict_do_update(
        index_elements=list(key_columns),
        set_={name: statement.excluded[name] for name in update_columns},
        where=or_(*(table.c[name].is_distinct_from(statement.excluded[name]) for name in update_columns)),
    )
