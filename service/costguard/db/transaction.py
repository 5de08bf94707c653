"""The only place that commits."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

from sqlalchemy import URL, Connection, Engine

from costguard.db import connect
from costguard.db.errors import explained
from costguard.db.lease import Lease, check_still_held, renew_in_passing
from costguard.db.limits import MIGRATING, Limits
from costguard.db.remembered import are_of_one_database, writes

LOCK_TIMEOUT = timedelta(seconds=9)  # shorter than a statement may take, whose error would say less
_INCREMENTAL = 2  # https://www.sqlite.org/pragma.html#pragma_auto_vacuum
_PAGES = 1000  # 4 MB, some hundredths of a second
_MILLISECOND = timedelta(milliseconds=1)
_LONGEST_PAUSE_S = 1.0

# Writers take turns on both databases, so that what is read in a transaction holds until its end.
# PostgreSQL frees the turn of a process that froze in mid-transaction; SQLite cannot. The lock's number
# means nothing, but all versions of Costguard must agree on it.
_TURN = "SELECT pg_advisory_xact_lock(7166410537)"


def _opening(dialect: str, limits: Limits, lock_timeout: timedelta, *, writing: bool) -> str:
    """Returns the statement that begins each transaction.

    The limits are the transaction's: poolers such as PgBouncer give its connection to others afterwards.
    """
    if dialect == "sqlite":
        return connect.BEGIN_WRITING if writing else "BEGIN"
    values = {"statement_timeout": limits.statement}
    if writing:
        values |= {"lock_timeout": lock_timeout, "idle_in_transaction_session_timeout": limits.idle_in_transaction}
        # One that froze in the midst of reading a large answer is not idle: its server process waits to send the rest.
        values |= {"tcp_user_timeout": limits.idle_in_transaction}
    settings = [f"SET LOCAL {name} = {value // _MILLISECOND}" for name, value in values.items()]
    snapshot = [] if writing else ["SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY"]
    return "; ".join(snapshot + settings)


class Database:
    """A database, shared by all threads of a process. Its errors are StoreErrors that name it."""

    def __init__(
        self,
        url: URL,
        engine: Engine,
        reader: Engine,
        limits: Limits,
        lock_timeout: timedelta,
        pause: Callable[[float], object] = threading.Event().wait,
    ) -> None:
        self.name = connect.describe(url)
        self.dialect = url.get_backend_name()  # "sqlite" or "postgresql"
        self.file = connect.file_of(url)  # None: it is no SQLite database
        self._engine = engine
        self._reader = reader  # of PostgreSQL the same
        are_of_one_database(engine, reader)
        self._pause = pause
        self._view = threading.local()
        self._begin_writing = _opening(self.dialect, limits, lock_timeout, writing=True)
        self._begin_reading = _opening(self.dialect, limits, lock_timeout, writing=False)

    @classmethod
    def open(
        cls,
        url: str,
        *,
        lock_timeout: timedelta = LOCK_TIMEOUT,
        migrating: bool = False,
        limits: Limits | None = None,
        pause: Callable[[float], object] = threading.Event().wait,
    ) -> Database:
        """Connects only when first used. `migrating` is for `migrate`: it may make a new SQLite file."""
        parsed = connect.parse(url)
        limits = limits or (MIGRATING if migrating else Limits())
        engine, reader = connect.engines(parsed, lock_timeout, limits, migrating=migrating)
        return cls(parsed, engine, reader, limits, lock_timeout, pause)

    def close(self) -> None:
        self._engine.dispose()
        self._reader.dispose()

    @contextmanager
    def write(self, fence: Lease | None = None) -> Iterator[Connection]:
        """All of the block is kept, or nothing: an exception undoes it.

        With a fence, LeaseLost unless the lease is still ours; it cannot change hands before the commit.
        """
        committed = None
        with self._writing() as connection:
            if fence is not None:
                check_still_held(connection, fence)
                committed = renew_in_passing(connection, fence) if self.dialect == "sqlite" else None
            yield connection
        if committed is not None:
            committed()

    @contextmanager
    def write_and_pause(self, fence: Lease | None = None) -> Iterator[Connection]:
        """Writes as `write` does, for one of many transactions in a row: the file's lock is then free for as long as it
        was held.

        Writers of an SQLite file do not queue, they try again from time to time. Of PostgreSQL they queue.
        """
        with self.write(fence) as connection:
            began = time.monotonic()
            yield connection
        if self.dialect == "sqlite":
            self._pause(min(time.monotonic() - began, _LONGEST_PAUSE_S))

    @contextmanager
    def write_out_of_turn(self) -> Iterator[Connection]:
        """Waits for no other writer on PostgreSQL. For one statement that is right whatever others write."""
        with self._writing(in_turn=False) as connection:
            yield connection

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Reads one unmoving view of the database, from the first query on. It never waits for a writer."""
        if (shared := getattr(self._view, "connection", None)) is not None:
            yield shared
            return
        with explained(self.name, writing=False), self._reader.connect() as connection:
            writes(connection, False)
            connection.exec_driver_sql(self._begin_reading)
            yield connection

    @contextmanager
    def one_view(self) -> Iterator[None]:
        """Makes this thread's reads in the block one view: a page of many parts is of one moment, and costs less."""
        with self.read() as connection:
            self._view.connection = connection
            try:
                yield
            finally:
                self._view.connection = None

    def sync(self) -> None:
        """Syncs the database, so that all commits by now outlive a power cut. Raises OSError.

        A commit to PostgreSQL does by itself. SQLite syncs its log before it writes it into the file, and not at each
        commit (https://www.sqlite.org/pragma.html#pragma_synchronous): what is in no log any more has been synced.
        """
        if self.file is None:
            return
        path = self.file.resolve()
        try:
            log = os.open(path.with_name(f"{path.name}-wal"), os.O_RDONLY)
        except FileNotFoundError:
            return
        try:
            os.fsync(log)
        finally:
            os.close(log)

    def give_back_space(self, fence: Lease | None = None) -> None:
        """Shortens an SQLite file by its free pages, a few megabytes in one transaction.

        A file made without auto_vacuum keeps them for new rows until `costguard db compact`, and so does PostgreSQL.
        """
        while self.dialect == "sqlite":
            with self.write_and_pause(fence) as connection:
                is_able = connection.exec_driver_sql("PRAGMA auto_vacuum").scalar_one() == _INCREMENTAL
                free: int = connection.exec_driver_sql("PRAGMA freelist_count").scalar_one()
                if not is_able or not free:
                    return
                # A step of the statement frees one page, and Python's driver takes one step of what gives no rows.
                for _ in range(min(free, _PAGES)):
                    connection.exec_driver_sql("PRAGMA incremental_vacuum(1)")

    @contextmanager
    def _writing(self, *, in_turn: bool = True) -> Iterator[Connection]:
        with explained(self.name, writing=True), self._engine.begin() as connection:
            writes(connection, True)
            connection.exec_driver_sql(self._begin_writing)
            if in_turn and self.dialect == "postgresql":
                connection.exec_driver_sql(_TURN)
            yield connection
