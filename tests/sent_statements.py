"""Counts the statements that are sent to a database."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import event

from costguard.db.transaction import Database


@contextmanager
def counted(database: Database) -> Iterator[list[str]]:
    """The statements that are sent to this database within the block."""
    sent: list[str] = []

    def before(_connection: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        sent.append(statement)

    engines = {database._engine, database._reader}
    for engine in engines:
        event.listen(engine, "before_cursor_execute", before)
    try:
        yield sent
    finally:
        for engine in engines:
            event.remove(engine, "before_cursor_execute", before)
