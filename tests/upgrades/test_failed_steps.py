"""A migration that fails in any step leaves the database as it was: tables, indexes, triggers and rows."""

from __future__ import annotations

from contextlib import closing, suppress
from typing import Any

from sqlalchemy import event
from tests.upgrades.placing import place, state, upgrade_to
from tests.upgrades.recordings import load

from costguard.db import migrate
from costguard.db.transaction import Database


class _Planted(Exception):
    pass


def test_failed_step_leaves_the_old_state_whole(empty_database_url: str) -> None:
    """Each step fails when all but its number is written, is found undone, and then succeeds on the same database."""
    place(load("0001")[0], empty_database_url)
    before = state(empty_database_url)
    for revision, _ in migrate.missing_after("0001"):
        _fail(empty_database_url, revision, before_writing=revision)
        assert state(empty_database_url) == before, revision
        upgrade_to(empty_database_url, revision)
        after = state(empty_database_url)
        assert after != before, f"{revision} does something"
        before = after


def test_failed_upgrade_over_many_revisions_leaves_the_first(empty_database_url: str) -> None:
    """From the first revision to the last: a fault in the last step undoes all of them."""
    place(load("0001")[0], empty_database_url)
    before = state(empty_database_url)
    _fail(empty_database_url, "head", before_writing=migrate.head())
    assert state(empty_database_url) == before


def _fail(url: str, revision: str, before_writing: str) -> None:
    """Upgrades until the number of a revision would be written; the fault is planted there."""
    reached = []

    def plant(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if statement.startswith("UPDATE alembic_version") and f"'{before_writing}'" in statement:
            reached.append(statement)
            raise _Planted

    with closing(Database.open(url, migrating=True)) as database, suppress(_Planted), database.write() as connection:
        event.listen(connection, "before_cursor_execute", plant)
        migrate.upgrade_within(connection, revision)
    assert reached, "the fault was never reached"
