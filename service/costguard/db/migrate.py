"""Migrates a database to this version, and refuses any other."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, inspect

import costguard
from costguard.db import connect, tables
from costguard.db.errors import UPGRADE
from costguard.db.transaction import Database
from costguard.errors import DatabaseUnreachable, StoreError

_LOCK_TIMEOUT = timedelta(minutes=1)


def migrations_folder() -> Path:
    """The migrations in the installed package, or those of the checkout."""
    packaged = Path(costguard.__file__).parent / "migrations"
    return packaged if packaged.is_dir() else Path(__file__).parents[3] / "alembic"


def upgrade(url: str) -> str:
    """Runs the migrations that are missing, all or none, and returns the revision. Makes a missing SQLite file.

    Of two processes that upgrade at once, the second waits and finds nothing to do.
    """
    _check_folder(url)
    return _migrate(url, "head")


def downgrade(url: str, revision: str) -> str:
    """Takes the database back to a revision, or to nothing with "base". What later tables held is lost."""
    return _migrate(url, revision)


def upgrade_within(connection: Connection, revision: str = "head") -> str:
    """As `upgrade`, within a write of the caller's, up to a revision that this version knows."""
    config = _config()
    config.attributes["connection"] = connection
    command.upgrade(config, revision)
    return revision_of(connection) or ""


def head() -> str:
    return ScriptDirectory.from_config(_config()).get_current_head() or ""


def missing_after(revision: str | None) -> list[tuple[str, str]]:
    """The revisions that an upgrade runs, in their order, each with the first line of what it says of itself."""
    script = ScriptDirectory.from_config(_config())
    newest_first = script.iterate_revisions("head", revision or "base")
    return [(step.revision, step.doc) for step in newest_first][::-1]


def revision_of(connection: Connection) -> str | None:
    """None: the database has no tables yet."""
    return MigrationContext.configure(connection).get_current_revision()


def check_known(revision: str, name: str) -> None:
    """Raises StoreError for a revision that only a later version has."""
    _refuse_newer(ScriptDirectory.from_config(_config()), revision, name)


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
    """Raises StoreError or StoreError unless the database is exactly at this version."""
    with database.read() as connection:
        current = revision_of(connection)
        if current is None:
            check_empty(connection, database.name)
    script = ScriptDirectory.from_config(_config())
    if current == script.get_current_head():
        return
    _refuse_newer(script, current, database.name)
    state = "has no tables yet" if current is None else "was made by an earlier version of Costguard"
    raise StoreError(f"{database.name} {state}.", UPGRADE)


def _migrate(url: str, target: str) -> str:
    database = Database.open(url, lock_timeout=_LOCK_TIMEOUT, migrating=True)
    config = _config()
    script = ScriptDirectory.from_config(config)
    try:
        with database.write() as connection:
            current = revision_of(connection)
            _refuse_newer(script, current, database.name)
            if current is None:
                check_empty(connection, database.name)
            config.attributes["connection"] = connection
            if target == "head":
                command.upgrade(config, target)
            else:
                command.downgrade(config, target)
            return revision_of(connection) or ""
    finally:
        database.close()


def _config() -> Config:
    config = Config()
    # ConfigParser would take a percent sign in the path for an interpolation.
    config.set_main_option("script_location", str(migrations_folder()).replace("%", "%%"))
    return config


def _refuse_newer(script: ScriptDirectory, current: str | None, name: str) -> None:
    revisions = {revision.revision for revision in script.walk_revisions()}
    if current is not None and current not in revisions:
        raise StoreError(
            f"{name} was made by a later version of Costguard (revision {current}).",
            "Install that version, or put back the backup that was made before its upgrade.",
        )


def _check_folder(url: str) -> None:
    parsed = connect.parse(url)
    if parsed.get_backend_name() != "sqlite":
        return
    folder = Path(parsed.database or "").absolute().parent
    if not folder.is_dir():
        raise DatabaseUnreachable(
            f"{connect.describe(parsed)} cannot be made: there is no folder {folder}.",
            "Make the folder, or name another file in the database URL.",
        )
