"""Upserts write what differs, and nothing else."""

from __future__ import annotations

from typing import Any

from sqlalchemy import select

from costguard.db.tables import leases, projects
from costguard.db.transaction import Database
from costguard.db.types import EPOCH
from costguard.db.upsert import upsert


def lease(name: str, epoch: int = 1, holder: str = "a") -> dict[str, Any]:
    return {"name": name, "holder": holder, "epoch": epoch, "expires_at": EPOCH}


def stored(database: Database) -> list[tuple[str, str, int]]:
    with database.read() as connection:
        columns = leases.c.name, leases.c.holder, leases.c.epoch
        return [tuple(row) for row in connection.execute(select(*columns).order_by(leases.c.name))]


def test_new_rows_are_inserted_and_known_ones_updated(database: Database) -> None:
    """The one call does both, and tells how many rows were written."""
    with database.write() as connection:
        assert upsert(connection, leases, [lease("a"), lease("b")], ["name"]) == 2
        assert upsert(connection, leases, [lease("b", 2), lease("c")], ["name"]) == 2
    assert stored(database) == [("a", "a", 1), ("b", "a", 2), ("c", "a", 1)]


def test_rows_that_are_stored_as_given_are_not_written(database: Database) -> None:
    """The write of a thousand unchanged rows and one changed writes one."""
    rows = [lease(f"{n:04}") for n in range(1000)]
    with database.write() as connection:
        assert upsert(connection, leases, rows, ["name"]) == 1000
        assert upsert(connection, leases, rows, ["name"]) == 0
        rows[7]["epoch"] = 2
        assert upsert(connection, leases, rows, ["name"]) == 1


def test_null_and_json_count_as_changes_only_when_they_change(database: Database) -> None:
    """A NULL equals a NULL, and equal JSON is equal."""
    row = {
        "project": "p",
        "first_seen_at": EPOCH,
        "last_tried_at": EPOCH,
        "last_complete_at": None,
        "unread": [{"scope": "us-central1-a"}],
    }
    with database.write() as connection:
        assert upsert(connection, projects, [row], ["project"]) == 1
        assert upsert(connection, projects, [row], ["project"]) == 0
        assert upsert(connection, projects, [row | {"last_complete_at": EPOCH}], ["project"]) == 1
        assert upsert(connection, projects, [row], ["project"]) == 1
        assert upsert(connection, projects, [row | {"unread": []}], ["project"]) == 1


def test_only_the_named_columns_are_updated(database: Database) -> None:
    """Other columns are given for new rows alone; with none named the stored row wins."""
    with database.write() as connection:
        upsert(connection, leases, [lease("a")], ["name"])
        upsert(connection, leases, [lease("a", 5, "b")], ["name"], ["epoch"])
        assert upsert(connection, leases, [lease("a", 9, "c")], ["name"], []) == 0
    assert stored(database) == [("a", "a", 5)]


def test_of_two_rows_with_one_key_the_later_wins(database: Database) -> None:
    """A key that is named twice in one call is no error."""
    with database.write() as connection:
        upsert(connection, leases, [lease("a", 1), lease("a", 2)], ["name"])
    assert stored(database) == [("a", "a", 2)]


def test_no_rows_is_no_work(database: Database) -> None:
    """An empty list writes nothing."""
    with database.write() as connection:
        assert upsert(connection, leases, [], ["name"]) == 0
