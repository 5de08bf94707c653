"""A migration that fails in any step leaves the database as it was: tables, indexes, triggers and rows."""

from __future__ import annotations

from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from sqlalchemy import event
from tests.upgrades.later import LATER
from tests.upgrades.placing import place, state, upgrade_to
from tests.upgrades.recordings import load

from costguard.db import migrate
from costguard.db.before_baseline import LAST_BEFORE
from costguard.db.transaction import Database


class _Planted(Exception):
    pass


def test_failed_step_leaves_the_old_state_whole(empty_database_url: str, later: Path) -> None:
    """Each step fails when all but its number is written, is found undone, and then succeeds on the same database."""
    place(load(LAST_BEFORE)[0], empty_database_url)
    migrate.upgrade(empty_database_url)
    before = state(empty_database_url)
    steps = [revision for revision, _ in migrate.missing_after(migrate.head(), later)]
    assert steps == LATER
    for revision in steps:
        _fail(empty_database_url, revision, revision, later)
        assert state(empty_database_url) == before, revision
        upgrade_to(empty_database_url, revision, later)
        after = state(empty_database_url)
        assert after != before, f"{revision} does something"
        before = after


def test_failed_upgrade_over_many_revisions_leaves_the_first(empty_database_url: str, later: Path) -> None:
    """A fault in the last step undoes all of them, from a revision that is taken over to the last."""
    place(load(LAST_BEFORE)[0], empty_database_url)
    before = state(empty_database_url)
    _fail(empty_database_url, None, LATER[-1], later)
    assert state(empty_database_url) == before


def _fail(url: str, revision: str | None, before_writing: str, folder: Path) -> None:
    """Upgrades, all the way where no revision is given, until a number would be written; the fault is planted there."""
    reached = []

    def plant(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if statement.startswith("UPDATE alembic_version") and f"'{before_writing}'" in statement:
            reached.append(statement)
            raise _Planted

    with closing(Database.open(url, migrating=True)) as database, suppress(_Planted), database.write() as connection:
        event.listen(connection, "before_cursor_execute", plant)
        if revision is None:
            migrate.upgrade_whole(connection, database.name, folder)
        else:
            migrate.upgrade_within(connection, revision, folder)
    assert reached, "the fault was never reached"
