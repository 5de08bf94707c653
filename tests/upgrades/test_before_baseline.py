"""Databases from before the baseline: refused and left alone, but for the last revision, whose tables are checked."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.upgrades.placing import place, state
from tests.upgrades.recordings import REFUSED, load

from costguard.daemon import backups
from costguard.db import migrate, upgrade_plan
from costguard.db.before_baseline import BASELINE, LAST_BEFORE
from costguard.db.transaction import Database
from costguard.db.version import bring_up_to_date
from costguard.errors import StoreError

_NOW = datetime(2026, 11, 28, tzinfo=UTC)


def _check(url: str) -> None:
    with closing(Database.open(url)) as database:
        migrate.check(database)


_READ_THE_REVISION: list[Callable[[str], object]] = [
    bring_up_to_date,
    migrate.upgrade,
    upgrade_plan.plan,
    _check,
    backups.verify_database,
    backups.unknown_vms_in,
    backups.archives_in,
]


@pytest.mark.parametrize("revision", [REFUSED, "0046", "0099"])
def test_database_from_before_the_baseline_is_refused_and_left_alone(revision: str, empty_database_url: str) -> None:
    """The error names its revision, what can upgrade it, and which revision this version takes over."""
    place(load(REFUSED)[0], empty_database_url)
    _stamp(empty_database_url, revision)
    before = state(empty_database_url)
    for reads in _READ_THE_REVISION:
        with pytest.raises(StoreError) as refused:
            reads(empty_database_url)
        said = str(refused.value)
        assert f"earlier version of Costguard (revision {revision})" in said
        assert f"bring it to revision {LAST_BEFORE}" in said
        assert "git checkout" in said
    assert state(empty_database_url) == before


def test_old_database_can_be_backed_up_and_its_backup_is_refused(empty_database_url: str, tmp_path: Path) -> None:
    """A backup keeps what this version cannot read; nothing is put in the place of another database."""
    place(load(REFUSED)[0], empty_database_url)
    before = state(empty_database_url)
    backup = tmp_path / "old.zip"
    assert backups.backup(empty_database_url, backup, _NOW).revision == REFUSED
    with pytest.raises(StoreError, match=rf"earlier version .*{REFUSED}.*costguard db restore"):
        backups.restore(empty_database_url, backup, _NOW, replace=True)
    assert state(empty_database_url) == before


def test_last_database_before_the_baseline_is_taken_over_at_the_start(empty_database_url: str) -> None:
    """The number changes, and nothing else; another start finds nothing to do."""
    place(load(LAST_BEFORE)[0], empty_database_url)
    before = state(empty_database_url)
    assert migrate.missing_after(LAST_BEFORE)[0] == (BASELINE, "The same tables, as the baseline.")
    bring_up_to_date(empty_database_url)
    _check(empty_database_url)
    if migrate.head() == BASELINE:
        _stamp(empty_database_url, LAST_BEFORE)
        assert state(empty_database_url) == before


def test_database_that_only_says_it_is_the_last_before_is_refused(empty_database_url: str) -> None:
    """Every table that is not as it should be is named; another program's table does no harm."""
    trigger = "count_update_projects" if empty_database_url.startswith("sqlite") else "count_change ON projects"
    place(load(LAST_BEFORE)[0], empty_database_url)
    for change in (
        "ALTER TABLE people DROP COLUMN team_id",
        "ALTER TABLE keeps ADD COLUMN colour INTEGER",
        "DROP INDEX ix_events_kind",
        f"DROP TRIGGER {trigger}",
        "DROP TABLE webhooks",
        "CREATE TABLE spatial_ref_sys (id INTEGER)",
    ):
        _run(empty_database_url, change)
    before = state(empty_database_url)
    tables = "events, keeps, people, projects, webhooks"
    for reads in (bring_up_to_date, upgrade_plan.plan):
        with pytest.raises(StoreError, match=rf"not as that revision makes them: {tables}\. Nothing was changed"):
            reads(empty_database_url)
    assert state(empty_database_url) == before


def _stamp(url: str, revision: str) -> None:
    _run(url, f"UPDATE alembic_version SET version_num = '{revision}'")


def _run(url: str, statement: str) -> None:
    with closing(Database.open(url)) as database, database.write() as connection:
        connection.exec_driver_sql(statement)
