"""The troubles of a database are what the guard meets: its own errors, with nothing half done."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta

import pytest
from sqlalchemy import text
from tests.simulation.database_trouble import DatabaseTrouble, DatabaseTroubleKind

from costguard.db.transaction import Database
from costguard.errors import DatabaseSilent, DatabaseUnreachable, StoreError

_ADD = text("INSERT INTO leases VALUES (:name, 'a', 0, 0)")


@pytest.fixture
def troubled(database_url: str) -> Iterator[tuple[Database, DatabaseTrouble, list[timedelta]]]:
    waits: list[timedelta] = []
    trouble = DatabaseTrouble(random.Random(1), waits.append)
    with closing(Database.open(database_url)) as database, trouble.attached(database):
        yield database, trouble, waits


def _add(database: Database, name: str) -> None:
    with database.write() as connection:
        connection.execute(_ADD, {"name": name})


def _names(database: Database) -> list[str]:
    with database.read() as connection:
        return sorted(connection.execute(text("SELECT name FROM leases")).scalars())


@pytest.mark.parametrize(
    ("kind", "error", "is_kept"),
    [
        (DatabaseTroubleKind.LOCKED, StoreError, False),
        (DatabaseTroubleKind.RESTARTED, DatabaseUnreachable, False),
        (DatabaseTroubleKind.COMMIT_LOST, DatabaseUnreachable, True),
    ],
)
def test_trouble_is_the_guards_own_error_and_ends(
    troubled: tuple[Database, DatabaseTrouble, list[timedelta]],
    kind: DatabaseTroubleKind,
    error: type[StoreError],
    is_kept: bool,
) -> None:
    """Nothing is half done: a commit whose answer was lost is kept, and of all others nothing."""
    database, trouble, _ = troubled
    _add(database, "before")
    end = trouble.begin(kind, 1.0)
    with pytest.raises(error):
        _add(database, "within")
    end()
    _add(database, "after")
    assert _names(database) == ["after", "before", *(["within"] if is_kept else [])]
    assert trouble.struck[kind] == 1


def test_a_silent_server_costs_its_time(postgres_url: str) -> None:
    """The wait passes in the world's time, and the next question is asked over a new connection."""
    waits: list[timedelta] = []
    trouble = DatabaseTrouble(random.Random(1), waits.append)
    with closing(Database.open(postgres_url)) as database, trouble.attached(database):
        end = trouble.begin(DatabaseTroubleKind.SILENT, 1.0)
        with pytest.raises(DatabaseSilent):
            _names(database)
        end()
        assert _names(database) == []
    assert waits == [timedelta(seconds=20)]
