"""Descriptions of results that a PostgreSQL connection remembers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from costguard.db.described import DescribedCursor
from costguard.db.limits import Limits
from costguard.db.silence import connect


@pytest.fixture
def connection(postgres_url: str) -> Iterator[psycopg.Connection[Any]]:
    with connect(Limits(), postgres_url.replace("+psycopg", "")) as opened:
        yield opened
        opened.rollback()


def _described(connection: psycopg.Connection[Any], text: str) -> list[Any] | None:
    cursor = connection.execute(text)
    assert isinstance(cursor, DescribedCursor)
    return None if cursor.description is None else [tuple(column) for column in cursor.description]


def test_a_statement_is_described_as_psycopg_does_each_time(connection: psycopg.Connection[Any]) -> None:
    """Two statements in turns have their own names and types each."""
    texts = ("SELECT 1 AS one, 'a'::text AS letter", "SELECT now() AS moment")
    own = [[tuple(column) for column in psycopg.Cursor(connection).execute(text).description or ()] for text in texts]
    assert own[0] != own[1]
    assert [_described(connection, text) for text in (*texts, *texts)] == [*own, *own]


def test_columns_are_made_once(connection: psycopg.Connection[Any]) -> None:
    """The second execution of a statement gives the very objects of the first."""
    first, again = (connection.execute("SELECT 1 AS one").description for _ in range(2))
    assert first is again


def test_a_statement_without_rows_has_no_description(connection: psycopg.Connection[Any]) -> None:
    """A new table and a row that is inserted give no columns, as with psycopg's own cursor."""
    assert _described(connection, "CREATE TEMPORARY TABLE kept (one int) ON COMMIT DROP") is None
    assert _described(connection, "INSERT INTO kept VALUES (1)") is None


def test_a_table_that_gained_a_column_is_described_again(connection: psycopg.Connection[Any]) -> None:
    """The same text has two columns then."""
    connection.execute("CREATE TEMPORARY TABLE kept (one int) ON COMMIT DROP")
    everything = "SELECT * FROM kept"
    assert [column[0] for column in _described(connection, everything) or ()] == ["one"]
    connection.execute("ALTER TABLE kept ADD COLUMN two int")
    assert [column[0] for column in _described(connection, everything) or ()] == ["one", "two"]
