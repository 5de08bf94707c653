"""The health report describes the database."""

from __future__ import annotations

from costguard.db import health_rows
from costguard.db.transaction import Database


def test_the_size_of_either_database_is_known(database: Database) -> None:
    """The size is that on its disk."""
    with database.read() as connection:
        assert health_rows.size(connection) > 100_000
