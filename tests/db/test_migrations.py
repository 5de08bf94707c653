"""Migrations, compared with the tables; and databases that are not of this version."""

from __future__ import annotations

import multiprocessing
import os
from contextlib import closing
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import inspect, text

from costguard.db import migrate
from costguard.db.tables import metadata
from costguard.db.transaction import Database
from costguard.errors import DatabaseUnreachable, StoreError


def test_the_migrations_make_what_the_tables_say(database: Database) -> None:
    """After upgrade to head, Alembic finds no difference from tables.py on either database."""
    # Alembic takes SQLite's default '' for a difference from ''; the migration is the same for both.
    options = {"compare_type": True, "compare_server_default": database.dialect == "postgresql"}
    with database.read() as connection:
        context = MigrationContext.configure(connection, opts=options)
        assert compare_metadata(context, metadata) == []


def test_partial_indexes_are_partial_on_both_databases(database: Database) -> None:
    """The indexes of what is open or present hold only those rows; Alembic's comparison does not look at this."""
    expected = {
        index.name
        for table in metadata.tables.values()
        for index in table.indexes
        if index.dialect_options["sqlite"]["where"] is not None
    }
    assert "ix_lifetimes_open" in expected
    with database.read() as connection:
        inspector = inspect(connection)
        partial = {
            index["name"]
            for table in metadata.tables
            for index in inspector.get_indexes(table)
            if index.get("dialect_options", {}).get(f"{database.dialect}_where") is not None
        }
    assert partial == expected


def test_a_second_upgrade_changes_nothing(database_url: str, database: Database) -> None:
    """Upgrading a database of this version is harmless, and what it holds stays."""
    with database.write() as connection:
        connection.execute(text("INSERT INTO leases VALUES ('daemon', 'a', 1, 2)"))
    assert migrate.upgrade(database_url) == migrate.upgrade(database_url)
    with database.read() as connection:
        assert connection.execute(text("SELECT count(*) FROM leases")).scalar_one() == 1


def test_two_processes_may_upgrade_at_once(empty_database_url: str) -> None:
    """Both end well, and the database is whole."""
    processes = multiprocessing.get_context("spawn")
    barrier = processes.Barrier(2)
    other = processes.Process(target=_upgrade_together, args=(empty_database_url, barrier))
    other.start()
    _upgrade_together(empty_database_url, barrier)
    other.join()
    assert other.exitcode == 0
    with closing(Database.open(empty_database_url)) as database:
        migrate.check(database)


def _upgrade_together(url: str, barrier: multiprocessing.synchronize.Barrier) -> None:
    barrier.wait(timeout=60)
    migrate.upgrade(url)


def test_a_newer_database_is_refused_and_left_alone(database_url: str, database: Database) -> None:
    """A revision that this version does not know: neither used nor upgraded, and the error says what to install."""
    with database.write() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(StoreError, match=r"later version .*9999.* Install that version"):
        migrate.check(database)
    with pytest.raises(StoreError):
        migrate.upgrade(database_url)


def test_an_older_database_names_the_command(empty_database_url: str) -> None:
    """The database is refused before its migrations with the command that runs them."""
    with closing(Database.open(empty_database_url, migrating=True)) as database:
        with database.write() as connection:
            connection.execute(text("CREATE TABLE spatial_ref_sys (id INTEGER)"))
        with pytest.raises(StoreError, match=r"no tables yet.*costguard db upgrade"):
            migrate.check(database)
        with pytest.raises(StoreError, match="costguard db upgrade"), database.read() as connection:
            connection.execute(text("SELECT * FROM events"))


def test_a_missing_file_is_not_made_by_looking_at_it(tmp_path: Path) -> None:
    """A mistyped path is an error with the command to run, not a new, empty database."""
    path = tmp_path / "typo.db"
    with (
        closing(Database.open(f"sqlite:///{path}")) as database,
        pytest.raises(DatabaseUnreachable, match="costguard db upgrade"),
    ):
        migrate.check(database)
    assert not path.exists()


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    """The folder of a new SQLite database must be there; the error names it."""
    with pytest.raises(DatabaseUnreachable, match=f"no folder {tmp_path / 'absent'}"):
        migrate.upgrade(f"sqlite:///{tmp_path / 'absent' / 'costguard.db'}")


def test_what_cannot_be_opened_as_a_file_is_unreachable(tmp_path: Path) -> None:
    """A folder in the file's place gives an error that speaks of folder and rights."""
    with pytest.raises(DatabaseUnreachable, match="may write there"):
        migrate.upgrade(f"sqlite:///{tmp_path}")


def test_a_file_that_is_no_database_is_not_touched(tmp_path: Path) -> None:
    """Any other file in the database's place is refused, and keeps its content."""
    path = tmp_path / "notes.txt"
    path.write_text("not a database, but someone's notes\n" * 100)
    with pytest.raises(DatabaseUnreachable, match="no SQLite database"):
        migrate.upgrade(f"sqlite:///{path}")
    assert path.read_text().startswith("not a database")


def test_odd_paths_work(tmp_path: Path) -> None:
    """Blanks, percent signs, question marks and number signs in a path are part of the path."""
    folder = tmp_path / "50% of #1?"
    folder.mkdir()
    # In a URL a question mark would begin the options; escaping is the URL's business.
    path = str(folder).replace("%", "%25").replace("?", "%3F")
    assert migrate.upgrade(f"sqlite:///{path}/ledger.db")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_folder_says_what_to_allow(tmp_path: Path) -> None:
    """A database in a folder where we may not write is an error about rights, when it is there and when it is not."""
    folder = tmp_path / "locked"
    folder.mkdir()
    migrate.upgrade(f"sqlite:///{folder}/ledger.db")
    (folder / "ledger.db").chmod(0o444)
    folder.chmod(0o555)
    with pytest.raises(DatabaseUnreachable, match="is read-only"):
        migrate.upgrade(f"sqlite:///{folder}/ledger.db")
    with pytest.raises(DatabaseUnreachable, match="may write there"):
        migrate.upgrade(f"sqlite:///{folder}/new.db")
    folder.chmod(0o755)
