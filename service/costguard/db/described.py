"""Cursors of PostgreSQL that describe the columns of a statement's result once.

SQLAlchemy asks for the description at each execution, and psycopg makes an object of each column for it: a sixth of the
processor time of what a guard does on PostgreSQL. The same text has columns of the same names while the tables are as
they were, and SQLAlchemy's own cache rests on that, too.
"""

from __future__ import annotations

from typing import Any

import psycopg

_MOST_STATEMENTS = 1000  # that a connection remembers: a guard has some hundreds


class DescribedCursor(psycopg.Cursor[Any]):
    """Remembers descriptions by the statement's text, as long as its connection lasts."""

    _text: object = None

    def execute(self, query: Any, *args: Any, **named: Any) -> Any:
        self._text = query
        return super().execute(query, *args, **named)

    @property
    def description(self) -> list[psycopg.Column] | None:
        """The columns of the result; None where the statement gives no rows."""
        if not isinstance(self._text, str) or self.pgresult is None:
            return super().description
        remembered = _descriptions(self.connection)
        columns = remembered.get(self._text)
        if columns is None or len(columns) != self.pgresult.nfields:
            columns = super().description
            if columns is not None:
                if len(remembered) >= _MOST_STATEMENTS:
                    remembered.clear()
                remembered[self._text] = columns
        return columns


def _descriptions(connection: psycopg.Connection[Any]) -> dict[str, list[psycopg.Column]]:
    kept: dict[str, list[psycopg.Column]] = vars(connection).setdefault("descriptions", {})
    return kept
