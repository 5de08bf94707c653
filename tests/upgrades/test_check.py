"""`costguard db upgrade --check`: what an upgrade would do, said without doing it."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from tests.upgrades.placing import place, state, upgrade_to
from tests.upgrades.recordings import load

from costguard.cli import upgrades
from costguard.db import migrate, upgrade_plan
from costguard.db.transaction import Database
from costguard.db.upgrade_plan import ChangeKind, TableChange
from costguard.errors import StoreError


def test_plan_names_each_missing_step_and_the_rows_it_concerns(empty_database_url: str) -> None:
    """The events of the recording are copied by 0021; nothing of the database has changed."""
    recording = load("0018")[0]
    place(recording, empty_database_url)
    before = state(empty_database_url)
    plan = upgrade_plan.plan(empty_database_url)
    assert state(empty_database_url) == before
    assert plan.current == "0018"
    assert [step.revision for step in plan.steps] == [revision for revision, _ in migrate.missing_after("0018")]
    changes = {step.revision: step.changes for step in plan.steps}
    assert TableChange(ChangeKind.COPY, "facts", len(recording.tables["facts"].rows)) in changes["0021"]
    assert TableChange(ChangeKind.DROP_COLUMN, "instances", len(recording.tables["instances"].rows)) in changes["0025"]
    assert plan.lasts.total_seconds() > 0


def test_more_rows_take_longer(tmp_path: Path) -> None:
    """The estimate grows with the rows: by the rates of the changes that touch them."""
    lasts = []
    for number, recording in enumerate(sorted(load("0018"), key=lambda recording: len(recording.tables["facts"].rows))):
        place(recording, f"sqlite:///{tmp_path / f'{number}.db'}")
        lasts.append(upgrade_plan.plan(f"sqlite:///{tmp_path / f'{number}.db'}").lasts)
    assert lasts[0] < lasts[-1]


def test_database_of_this_version_needs_nothing(database_url: str) -> None:
    """At the last revision the plan has no steps, and says so."""
    plan = upgrade_plan.plan(database_url)
    assert plan.steps == ()
    assert "an upgrade changes nothing" in "\n".join(upgrades.lines(plan))


def test_check_says_locks_and_backup(empty_database_url: str) -> None:
    """The text for people has the steps with their subjects, what is locked, and the backup to make."""
    upgrade_to(empty_database_url, "0020")
    shown = "\n".join(upgrades.lines(upgrade_plan.plan(empty_database_url)))
    assert "0021  The table facts becomes events" in shown
    assert "readers" in shown
    assert "costguard db backup" in shown


def test_newer_database_is_refused(tmp_path: Path) -> None:
    """A revision that this version does not know is named with what to install."""
    recording = load("0018")[0]
    url = f"sqlite:///{tmp_path / 'newer.db'}"
    place(type(recording)("9999", "", recording.schema, recording.tables), url)
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
