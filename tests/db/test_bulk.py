"""Many rows are written in a few statements, and each as if it were written alone."""

from __future__ import annotations

from datetime import date, timedelta
from fractions import Fraction

import pytest
from sqlalchemy import func, select

from costguard.db.bulk import add_rows, add_to_rows, adding, beginning, ending, stored, stored_rows
from costguard.db.tables import changes, daily_totals
from costguard.db.transaction import Database
from costguard.model.money import rounded

NAMES = [column.name for column in daily_totals.c]
KEYS = len(daily_totals.primary_key)
Row = tuple[object, ...]


def rows_of(count: int, figure: int) -> list[Row]:
    return [(date(2026, 1, 1) + timedelta(days=n), "p", "gpu", "spot", figure, n, 0, -1) for n in range(count)]


def kept(database: Database) -> list[Row]:
    with database.read() as connection:
        return [tuple(row) for row in connection.execute(select(daily_totals).order_by(daily_totals.c.day))]


@pytest.mark.parametrize("count", [0, 1, 499, 500, 501, 1000, 1553])
def test_every_row_is_written_once(database: Database, count: int) -> None:
    """It is so however many there are, as statements take 500 rows or one."""
    with database.write() as connection:
        add_rows(connection, daily_totals, NAMES, stored_rows(connection, daily_totals, NAMES, rows_of(count, 7)))
    assert kept(database) == rows_of(count, 7)


@pytest.mark.parametrize("count", [0, 1, 501])
def test_rows_of_a_beginning_and_an_ending_are_written_whole(database: Database, count: int) -> None:
    """They are stored as they were, whatever characters are in them, and what the block says follows them."""
    rows = [
        (row[0], f"tab\tand {n}", "back\\slash\\n", "line\nend\r", *row[4:]) for n, row in enumerate(rows_of(count, 7))
    ]
    with database.write() as connection:
        as_stored = stored_rows(connection, daily_totals, NAMES, rows)
        parts = [beginning(connection, row[:2]) + ending(connection, row[2:]) for row in as_stored]
        with adding(connection, daily_totals, NAMES, parts):
            figures = sum(int(str(row[4])) for row in rows)
        assert connection.scalar(select(func.coalesce(func.sum(daily_totals.c.machine_nanos), 0))) == figures
    assert kept(database) == rows


def test_nothing_is_written_where_the_block_fails(database: Database) -> None:
    """Rows that are on their way do not outlive an error."""

    def add_and_fail() -> None:
        with database.write() as connection:
            row = stored_rows(connection, daily_totals, NAMES, rows_of(1, 7))[0]
            with adding(connection, daily_totals, NAMES, [beginning(connection, ()) + ending(connection, row)]):
                raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        add_and_fail()
    assert kept(database) == []


@pytest.mark.parametrize("count", [0, 1, 51, 1553])
def test_figures_are_added_to_rows_that_are_stored(database: Database, count: int) -> None:
    """A row with a new key is inserted, as by one statement for each."""
    with database.write() as connection:
        for rows in (rows_of(count // 2, 7), rows_of(count, -2)):
            as_stored = stored_rows(connection, daily_totals, NAMES, rows)
            add_to_rows(connection, daily_totals, NAMES, KEYS, as_stored)
    twice = [(*row[:4], 5, 2 * n, 0, -2) for n, row in enumerate(rows_of(count // 2, 7))]
    assert kept(database) == twice + rows_of(count, -2)[count // 2 :]


def test_each_change_is_counted(database: Database) -> None:
    """A reader that remembers the table reads it again after rows were written so."""
    with database.write() as connection:
        before = connection.scalar(select(changes.c.number).where(changes.c.table_name == "daily_totals"))
        add_to_rows(
            connection, daily_totals, NAMES, KEYS, stored_rows(connection, daily_totals, NAMES, rows_of(500, 1))
        )
        after = connection.scalar(select(changes.c.number).where(changes.c.table_name == "daily_totals"))
        assert connection.scalar(select(func.count()).select_from(daily_totals)) == 500
    assert before is not None
    assert after is not None
    assert after > before


def test_rows_are_converted_as_one_by_one(database: Database) -> None:
    """It is only faster to convert all at once."""
    with database.read() as connection:
        one_by_one = stored(connection, daily_totals, NAMES)
        assert stored_rows(connection, daily_totals, NAMES, rows_of(3, 1)) == list(map(one_by_one, rows_of(3, 1)))
        assert stored_rows(connection, daily_totals, NAMES, []) == []


def test_quotients_are_rounded_as_fractions_are() -> None:
    """Halves go to the even number, below zero too."""
    for numerator in range(-60, 61):
        for denominator in (1, 2, 3, 4, 8, 10):
            assert rounded(numerator, denominator) == round(Fraction(numerator, denominator))
