"""Migrates a database to this version, and refuses any other."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, inspect

import costguard
from costguard.db import connect, tables
from costguard.db.before_baseline import (
    BASELINE,
    LAST_BEFORE,
    check_tables,
    of_same_tables,
    refuse_before,
    take_over,
)
from costguard.db.errors import UPGRADE
from costguard.db.transaction import Database
from costguard.errors import DatabaseUnreachable, StoreError

_LOCK_TIMEOUT = timedelta(minutes=1)


def _folder() -> Path:
    """The migrations in the installed package, or those of the checkout."""
    packaged = Path(costguard.__file__).parent / "migrations"
    return packaged if packaged.is_dir() else Path(__file__).parents[3] / "alembic"


MIGRATIONS = _folder()  # what takes a folder runs those of another one in tests


def upgrade(url: str, folder: Path = MIGRATIONS) -> str:
    """Runs the migrations that are missing, all or none, and returns the revision. Makes a missing SQLite file.

    Of two processes that upgrade at once, the second waits and finds nothing to do.
    """
    _check_place(url)
    opened = closing(Database.open(url, lock_timeout=_LOCK_TIMEOUT, migrating=True))
    with opened as database, database.write() as connection:
        return upgrade_whole(connection, database.name, folder)


def upgrade_whole(connection: Connection, name: str, folder: Path = MIGRATIONS) -> str:
    """Upgrades as `upgrade` does, within a write to the database of this name."""
    if check_upgradable(connection, name, folder) == LAST_BEFORE:
        take_over(connection)
    return upgrade_within(connection, folder=folder)


def upgrade_within(connection: Connection, revision: str = "head", folder: Path = MIGRATIONS) -> str:
    """Upgrades as `upgrade` does, within a write of the caller's, up to a revision that this version knows."""
    config = _config(folder)
    config.attributes["connection"] = connection
    command.upgrade(config, of_same_tables(revision))
    return revision_of(connection) or ""


@contextmanager
def empty_database() -> Iterator[Connection]:
    """A write to a new SQLite database without tables, which is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="costguard-upgrade-") as folder:
        url = f"sqlite:///{Path(folder) / 'empty.db'}"
        with closing(Database.open(url, migrating=True)) as database, database.write() as connection:
            yield connection


def head(folder: Path = MIGRATIONS) -> str:
    return _script(folder).get_current_head() or ""


def missing_after(revision: str | None, folder: Path = MIGRATIONS) -> list[tuple[str, str]]:
    """The revisions that an upgrade runs, in their order, each with the first line of what it says of itself."""
    if revision == LAST_BEFORE:
        return [(BASELINE, "The same tables, as the baseline."), *missing_after(BASELINE, folder)]
    newest_first = _script(folder).iterate_revisions("head", revision or "base")
    return [(step.revision, step.doc) for step in newest_first][::-1]


def revision_of(connection: Connection) -> str | None:
    """Returns the revision. None: the database has no tables yet."""
    return MigrationContext.configure(connection).get_current_revision()


def check_known(revision: str, name: str, folder: Path = MIGRATIONS) -> None:
    """Raises StoreError for a revision that this version cannot upgrade: too early, or only of a later version."""
    if revision == LAST_BEFORE or revision in {step.revision for step in _script(folder).walk_revisions()}:
        return
    refuse_before(revision, name)
    raise StoreError(
        f"{name} was made by a later version of Costguard (revision {revision}).",
        "Install that version, or put back the backup that was made before its upgrade.",
    )


def check_upgradable(connection: Connection, name: str, folder: Path = MIGRATIONS) -> str | None:
    """Returns the revision. Raises StoreError for a database that an upgrade would refuse."""
    current = revision_of(connection)
    if current is None:
        check_empty(connection, name)
        return None
    check_known(current, name, folder)
    if current == LAST_BEFORE:
        with empty_database() as empty:
            upgrade_within(empty, BASELINE, folder)
            check_tables(connection, empty, name)
    return current


def check_empty(connection: Connection, name: str) -> None:
    """Raises StoreError where tables of another program have our names; others, as of an extension, do no harm."""
    taken = sorted(tables.metadata.tables.keys() & set(inspect(connection).get_table_names()))
    if taken:
        raise StoreError(
            f"{name} holds tables of another program, and the names of these are needed: {', '.join(taken)}.",
            "Name a database of its own in the database URL. If it is Costguard's, its table alembic_version is lost: "
            "put back the last backup.",
        )


def check(database: Database) -> None:
    """Raises StoreError unless the database is exactly at this version."""
    with database.read() as connection:
        current = check_upgradable(connection, database.name)
    if current != head():
        state = "has no tables yet" if current is None else "was made by an earlier version of Costguard"
        raise StoreError(f"{database.name} {state}.", UPGRADE)


def _config(folder: Path) -> Config:
    config = Config()
    # ConfigParser would take a percent sign in the path for an interpolation.
    config.set_main_option("script_location", str(folder).replace("%", "%%"))
    return config


def _script(folder: Path) -> ScriptDirectory:
    return ScriptDirectory.from_config(_config(folder))


def _check_place(url: str) -> None:
    parsed = connect.parse(url)
    if parsed.get_backend_name() != "sqlite":
        return
    folder = Path(parsed.database or "").absolute().parent
    if not folder.is_dir():
        raise DatabaseUnreachable(
            f"{connect.describe(parsed)} cannot be made: there is no folder {folder}.",
            "Make the folder, or name another file in the database URL.",
        )
