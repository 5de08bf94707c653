"""Checks the version of a database without Alembic, which would slow every start."""

from __future__ import annotations

from sqlalchemy import Column, Connection, MetaData, String, Table, inspect, select

from costguard.db.transaction import Database
from costguard.errors import StoreError

HEAD = "0111"  # the last of alembic/versions

_version = Table("alembic_version", MetaData(), Column("version_num", String))


def bring_up_to_date(url: str) -> None:
    """Runs the migrations that are missing; Alembic is imported only when some are. Raises StoreError."""
    if not _is_at_head(url):
        from costguard.db.migrate import upgrade

        upgrade(url)


def revision_in(connection: Connection) -> str | None:
    """Returns the revision of a database; None where there are no tables yet."""
    return connection.scalar(select(_version.c.version_num)) if inspect(connection).has_table(_version.name) else None


def _is_at_head(url: str) -> bool:
    database = Database.open(url)
    try:
        with database.read() as connection:
            return revision_in(connection) == HEAD
    except StoreError:  # no database or no tables yet; what else it may be, the migration tells
        return False
    finally:
        database.close()
