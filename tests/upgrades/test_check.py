"""`costguard db upgrade --check`: what an upgrade would do, said without doing it."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import text
from tests.upgrades.later import LATER
from tests.upgrades.placing import place, state
from tests.upgrades.recordings import load

from costguard.cli import upgrades
from costguard.db import migrate, upgrade_plan
from costguard.db.before_baseline import BASELINE, LAST_BEFORE
from costguard.db.transaction import Database
from costguard.db.upgrade_plan import ChangeKind, TableChange
from costguard.errors import StoreError


def test_plan_names_each_missing_step_and_the_rows_it_concerns(empty_database_url: str, later: Path) -> None:
    """Every kind of change, with the rows of its table; nothing of the database has changed."""
    recording = load(LAST_BEFORE)[0]
    place(recording, empty_database_url)
    before = state(empty_database_url)
    plan = upgrade_plan.plan(empty_database_url, later)
    assert state(empty_database_url) == before
    assert (plan.current, plan.target) == (LAST_BEFORE, LATER[-1])
    assert [step.revision for step in plan.steps] == [revision for revision, _ in migrate.missing_after(None, later)]
    changes = {step.revision: step.changes for step in plan.steps}
    assert changes[BASELINE] == (), "the tables are there"

    def change(kind: ChangeKind, table: str) -> TableChange:
        return TableChange(kind, table, len(recording.tables[table].rows))

    assert changes["9001"] == (change(ChangeKind.ADD_COLUMN, "lifetimes"), change(ChangeKind.INDEX, "lifetimes"))
    assert changes["9002"] == (
        TableChange(ChangeKind.CREATE, "notes", 0),
        change(ChangeKind.COPY, "events"),
        change(ChangeKind.DROP, "events"),
    )
    assert changes["9003"] == (change(ChangeKind.DROP_COLUMN, "attempts"), change(ChangeKind.ADD_COLUMN, "attempts"))
    assert changes["9004"] == (
        change(ChangeKind.UPDATE, "instances"),
        change(ChangeKind.DELETE, "burn_rates"),
        change(ChangeKind.REWRITE, "projects"),
        change(ChangeKind.RENAME, "webhooks"),
    )


def test_more_rows_take_longer(sqlite_url: str, later: Path) -> None:
    """The estimate grows with the rows: by the rates of the changes that touch them."""
    before = upgrade_plan.plan(sqlite_url, later).lasts
    with closing(Database.open(sqlite_url)) as database, database.write() as connection:
        connection.execute(
            text(
                "INSERT INTO events (key, kind, occurred_at, recorded_at, text, data) VALUES (:key, '', 1, 1, '', '')"
            ),
            [{"key": str(number)} for number in range(1000)],
        )
    assert upgrade_plan.plan(sqlite_url, later).lasts > before


def test_database_of_this_version_needs_nothing(database_url: str) -> None:
    """The plan has no steps at the last revision, and says so."""
    plan = upgrade_plan.plan(database_url)
    assert plan.steps == ()
    assert "an upgrade changes nothing" in "\n".join(upgrades.lines(plan))


def test_check_says_locks_and_backup(database_url: str, later: Path) -> None:
    """The text for people has the steps with their subjects, what is locked, and the backup to make."""
    shown = "\n".join(upgrades.lines(upgrade_plan.plan(database_url, later)))
    assert "9002  The table events becomes notes" in shown
    assert "readers" in shown
    assert "costguard db backup" in shown


def test_newer_database_is_refused(tmp_path: Path) -> None:
    """A revision that this version does not know is named with what to install."""
    url = f"sqlite:///{tmp_path / 'newer.db'}"
    place(replace(load(LAST_BEFORE)[0], revision="9999"), url)
    with pytest.raises(StoreError, match="later version"):
        upgrade_plan.plan(url)


def test_tables_of_another_program_are_refused(empty_database_url: str) -> None:
    """A database without a revision whose tables have our names is no new one; other tables do no harm."""
    with closing(Database.open(empty_database_url, migrating=True)) as database:
        with database.write() as connection:
            connection.exec_driver_sql("CREATE TABLE spatial_ref_sys (id INTEGER)")
        assert upgrade_plan.plan(empty_database_url).current is None
        with database.write() as connection:
            connection.exec_driver_sql("CREATE TABLE jobs (id INTEGER)")
        for refused in (upgrade_plan.plan, migrate.upgrade):
            with pytest.raises(StoreError, match=r"another program.*: jobs"):
                refused(empty_database_url)
        with pytest.raises(StoreError, match="another program"):
            migrate.check(database)
