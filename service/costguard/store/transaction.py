"""The only place that commits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from sqlalchemy import URL, Connection, Engine

from costguard.store import connect
from costguard.store.errors import explained
from costguard.store.lease import Lease, check_still_held
from costguard.store.remembered import writes

LOCK_TIMEOUT = timedelta(seconds=10)

# Writers take turns on both databases, so that what is read in a transaction holds until its end.
# PostgreSQL frees the turn of a process that froze in mid-transaction; SQLite cannot. The lock's number
# means nothing, but all versions of Costguard must agree on it.
_WRITE = {
    "sqlite": ("PRAGMA query_only = OFF", "BEGIN IMMEDIATE"),
    "postgresql": (
        "SET LOCAL idle_in_transaction_session_timeout = '60s'",
        "SELECT pg_advisory_xact_lock(7166410537)",
    ),
}
_READ = {
    "sqlite": ("PRAGMA query_only = ON", "BEGIN"),
    "postgresql": ("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY",),
}


class Database:
    """One database, shared by all threads of a process. Its errors are StoreErrors that name it."""

    def __init__(self, url: URL, engine: Engine) -> None:
        self.name = connect.describe(url)
        self.dialect = url.get_backend_name()  # "sqlite" or "postgresql"
        self._engine = engine

    @classmethod
    def open(cls, url: str, *, lock_timeout: timedelta = LOCK_TIMEOUT, migrating: bool = False) -> Database:
        """Connects only when first used. `migrating` is for `migrate`: it may make a new SQLite file."""
        parsed = connect.parse(url)
        return cls(parsed, connect.engine(parsed, lock_timeout, migrating=migrating))

    def close(self) -> None:
        self._engine.dispose()

    @contextmanager
    def write(self, fence: Lease | None = None) -> Iterator[Connection]:
        """All of the block is kept, or nothing: an exception undoes it.

        With a fence, LeaseLost unless the lease is still ours; it cannot change hands before the commit.
        """
        with explained(self.name, writing=True), self._engine.begin() as connection:
            writes(connection, True)
            for statement in _WRITE[self.dialect]:
                connection.exec_driver_sql(statement)
            if fence is not None:
                check_still_held(connection, fence)
            yield connection

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """One unmoving view of the database, from the first query on. It never waits for a writer."""
        with explained(self.name, writing=False), self._engine.connect() as connection:
            writes(connection, False)
            for statement in _READ[self.dialect]:
                connection.exec_driver_sql(statement)
            yield connection
