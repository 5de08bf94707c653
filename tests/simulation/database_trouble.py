"""Makes trouble between the guard and its database, by the driver's own errors, so that the guard explains them."""

from __future__ import annotations

import random
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from enum import StrEnum
from typing import Any

import psycopg
from sqlalchemy import event

from costguard.db.silence import Silence
from costguard.db.transaction import Database

_TURNS = ("BEGIN IMMEDIATE", "SELECT pg_advisory_xact_lock")


class DatabaseTroubleKind(StrEnum):
    LOCKED = "database locked"  # another writer does not end, and the wait for it is given up
    RESTARTED = "database restarted"  # the server ends the connection; of SQLite, its disk gives an error
    SILENT = "database silent"  # a statement is never answered; SQLite has no connection that could be silent
    COMMIT_LOST = "commit's answer lost"  # the transaction is committed, and no answer comes


class DatabaseTrouble:
    """Strikes statements by chance while it is on. `wait` is how a wait for an answer passes time."""

    def __init__(self, chance: random.Random, wait: Callable[[timedelta], None]) -> None:
        self._chance = chance
        self._wait = wait
        self._active: dict[DatabaseTroubleKind, float] = {}
        self._is_quiet = False
        self.struck: Counter[str] = Counter()

    def begin(self, kind: DatabaseTroubleKind, chance: float) -> Callable[[], object]:
        """Each statement that it concerns meets it with this chance, until what is returned is called."""
        self._active[kind] = chance
        return lambda: self._active.pop(kind, None)

    @contextmanager
    def attached(self, database: Database) -> Iterator[None]:
        """Strikes, within the block, the queries to this database, over any of its connections."""
        dialect = database._engine.dialect  # nothing that is read is committed
        commit = dialect.do_commit
        engines = {database._engine, database._reader}

        def committed(connection: Any) -> None:
            commit(connection)
            if self._meets(DatabaseTroubleKind.COMMIT_LOST):
                if database.dialect == "sqlite":
                    raise _sqlite_error("disk I/O error", sqlite3.SQLITE_IOERR)
                getattr(connection, "dbapi_connection", connection).close()
                raise psycopg.OperationalError("consuming input failed: server closed the connection unexpectedly")

        for engine in engines:
            event.listen(engine, "do_execute", self._before_statement)
        dialect.do_commit = committed  # type: ignore[method-assign, assignment]
        try:
            yield
        finally:
            for engine in engines:
                event.remove(engine, "do_execute", self._before_statement)
            dialect.do_commit = commit  # type: ignore[method-assign]

    def _before_statement(self, cursor: Any, statement: str, _parameters: Any, _context: Any) -> None:
        is_sqlite = isinstance(cursor, sqlite3.Cursor)
        if statement.startswith(_TURNS) and self._meets(DatabaseTroubleKind.LOCKED):
            self._wait(timedelta(seconds=9))
            if is_sqlite:
                raise _sqlite_error("database is locked", sqlite3.SQLITE_BUSY)
            raise psycopg.errors.LockNotAvailable("canceling statement due to lock timeout")
        if self._meets(DatabaseTroubleKind.RESTARTED):
            if is_sqlite:
                raise _sqlite_error("disk I/O error", sqlite3.SQLITE_IOERR)
            info = cursor.connection.info
            with psycopg.connect(info.dsn, password=info.password, autocommit=True) as server:
                server.execute("SELECT pg_terminate_backend(%s)", (info.backend_pid,))
        if not is_sqlite and self._meets(DatabaseTroubleKind.SILENT):
            self._wait(timedelta(seconds=20))
            cursor.connection.close()
            raise Silence(20)

    def _meets(self, kind: DatabaseTroubleKind) -> bool:
        chance = self._active.get(kind, 0.0)
        if self._is_quiet or not chance or self._chance.random() >= chance:
            return False
        self.struck[kind] += 1
        return True

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Nothing strikes within: what the judge itself asks the database is no part of the life."""
        before, self._is_quiet = self._is_quiet, True
        try:
            yield
        finally:
            self._is_quiet = before


def _sqlite_error(words: str, code: int) -> sqlite3.OperationalError:
    error = sqlite3.OperationalError(words)
    error.sqlite_errorcode = code
    return error
