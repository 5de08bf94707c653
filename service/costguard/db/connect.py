"""Engines for SQLite and PostgreSQL, from a URL."""

from __future__ import annotations

import re
import sqlite3
import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import Any, cast
from weakref import ref

from sqlalchemy import URL, Engine, create_engine, event, make_url

from costguard.db import database_file
from costguard.db.limits import Limits
from costguard.errors import DatabaseUnreachable

# A request or a pass holds one connection at a time; uvicorn and the scheduler bring some dozen threads.
# LIFO: the connection used last has its statements prepared and its pages cached; rotating would fill every connection
# with the same.
_POOL = {"pool_size": 5, "max_overflow": 15, "pool_use_lifo": True}
# A peer that vanished is noticed within about ten seconds, asked or idle, without a word from it. The kernel counts
# what is not acknowledged, so a proxy that takes everything and delivers nothing goes unnoticed: see `silence`.
# https://www.postgresql.org/docs/current/libpq-connect.html#LIBPQ-PARAMKEYWORDS
_TCP = {
    "keepalives": "1",
    "keepalives_idle": "5",  # seconds
    "keepalives_interval": "2",
    "keepalives_count": "3",
    "tcp_user_timeout": "10000",  # milliseconds
}
BEGIN_WRITING = "BEGIN IMMEDIATE"  # in SQLite
_PAUSE, _BETWEEN_TRIES_S = threading.Event(), 0.003
# SQLite copies its log into the file once it has so many pages: each time takes two fsyncs, and a page that changed
# often is copied once. One table of the log's index, of 4,062 frames, finds all of them:
# https://www.sqlite.org/walformat.html#wal_index_format
_PAGES_LOGGED = 4000
_CACHE_KIB = 4000  # of a connection that writes, in place of 2,000: charging changes pages of many days in turn
_STATEMENTS = 1000  # that a connection keeps prepared: a guard has some hundreds
WIDEST_MODE = "widest_mode"
_EXPECTED = "Write sqlite:///path/to/file.db or postgresql://user:password@host:5432/name."


def parse(text: str) -> URL:
    """The URL with the driver that Costguard uses. No error ever repeats the text: it may hold a password."""
    try:
        url = make_url(text)
    except Exception:
        raise DatabaseUnreachable("The database URL cannot be read.", _EXPECTED) from None
    match url.drivername:
        case "sqlite":
            if not url.database or ":memory:" in url.database:
                raise DatabaseUnreachable("A database in memory would forget the ledger.", _EXPECTED)
            return url.set(drivername="sqlite+pysqlite", query=_widest_mode(url))
        case "postgresql" | "postgres" | "postgresql+psycopg":
            return url.set(drivername="postgresql+psycopg")
        case _:
            raise DatabaseUnreachable(f"Costguard does not know databases of the kind {url.drivername!r}.", _EXPECTED)


def _widest_mode(url: URL) -> dict[str, str]:
    """Returns the widest mode for volumes that set modes by themselves, as Kubernetes' fsGroup does."""
    given = url.query.get(WIDEST_MODE)
    if given is None:
        return {}
    if not isinstance(given, str) or not re.fullmatch(r"0?[0-7]{3}", given):
        text = f"The database URL's {WIDEST_MODE} is no file mode."
        raise DatabaseUnreachable(text, f"Write it in octal digits, such as {WIDEST_MODE}=0660.")
    return {WIDEST_MODE: given}


def widest_mode_of(url: URL) -> int:
    return int(str(url.query.get(WIDEST_MODE, "0600")), 8)


def file_of(url: URL) -> Path | None:
    """Returns the file. None: it is no SQLite file."""
    return Path(url.database) if url.get_backend_name() == "sqlite" and url.database else None


def describe(url: URL) -> str:
    """Names this database in a sentence, without user and password."""
    if url.get_backend_name() == "sqlite":
        return f"The SQLite database {url.database}"
    host = url.host or url.query.get("host") or "a local socket"
    return f"The PostgreSQL database {url.database or url.username!r} at {host}" + (f":{url.port}" if url.port else "")


def engines(url: URL, lock_timeout: timedelta, limits: Limits, *, migrating: bool = False) -> tuple[Engine, Engine]:
    """Engines that have not connected yet: one that writes, and one that reads; of PostgreSQL they are the same.

    `migrating` creates a missing SQLite file, and does not enforce foreign keys, so that tables can be rebuilt.
    """
    pool: dict[str, Any] = {**_POOL, "pool_timeout": limits.checkout.total_seconds()}
    if url.get_backend_name() != "sqlite":
        made = _postgresql(url, limits, pool)
        return made, made
    mode, url = widest_mode_of(url), url.set(query={})
    # A connection is for one of the two as long as it lasts: to set query_only again would make SQLite prepare all
    # its statements again (OP_Expire, https://www.sqlite.org/opcode.html), which takes longer than to run most.
    return (
        _sqlite(url, lock_timeout, pool, migrating, mode),
        _sqlite(url, lock_timeout, pool, migrating, mode, is_reading=True),
    )


def _sqlite(
    url: URL, lock_timeout: timedelta, pool: dict[str, Any], migrating: bool, widest_mode: int, is_reading: bool = False
) -> Engine:
    assert url.database
    file = Path(url.database).absolute()
    # Without mode=rw a mistyped path would silently become a new, empty database.
    address = file.as_uri() + "?mode=rw"
    checked = False  # once: a mode that is changed later is for the next start, and fails no pass

    def connect() -> sqlite3.Connection:
        nonlocal checked
        if not checked:
            if migrating:
                database_file.make(file)
            database_file.check(file, widest_mode)
            checked = True
        connection = sqlite3.connect(
            address,
            uri=True,
            timeout=lock_timeout.total_seconds(),
            isolation_level=None,  # the driver's own BEGIN is deferred, and comes only before writes
            check_same_thread=False,
            cached_statements=_STATEMENTS,
            factory=_Connection,
        )
        connection.patience_s = lock_timeout.total_seconds()
        try:
            if migrating and not file.stat().st_size:
                connection.execute("PRAGMA auto_vacuum = INCREMENTAL")  # only a new file takes it
            _write_ahead(connection)
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute(f"PRAGMA foreign_keys = {'OFF' if migrating else 'ON'}")
            if is_reading:
                connection.execute("PRAGMA query_only = ON")
            elif not migrating:
                # A statement of many rows keeps the pages that it changes until its end, by default in a file.
                connection.execute("PRAGMA temp_store = MEMORY")
                connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
                connection.execute(f"PRAGMA wal_autocheckpoint = {_PAGES_LOGGED}")
                connection.execute("PRAGMA busy_timeout = 0")  # it waits by itself: see `_Cursor`
        except BaseException:
            connection.close()
            raise
        return connection

    return create_engine(url, creator=connect, hide_parameters=True, **pool)


class _Connection(sqlite3.Connection):
    """Ends what is half read with its transaction, as Python did until 3.10 (https://bugs.python.org/issue44092).

    A query that an error left half read would keep its view for all who read over the connection later.
    """

    patience_s = 0.0

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self._cursors: list[ref[sqlite3.Cursor]] = []

    def cursor(self, *_: Any) -> Any:
        made = super().cursor(_Cursor)
        self._cursors.append(ref(made))
        return made

    def commit(self) -> None:
        self._end_reading()
        super().commit()

    def rollback(self) -> None:
        self._end_reading()
        super().rollback()

    def _end_reading(self) -> None:
        for cursor in self._cursors:
            if (open_cursor := cursor()) is not None:
                open_cursor.close()
        self._cursors.clear()


class _Cursor(sqlite3.Cursor):
    """Waits for the turn to write by trying every few milliseconds.

    SQLite tries every 0.1 s (sqliteDefaultBusyCallback of its main.c). Another process that writes short transactions
    in a row then has the lock at each try: agents' reports waited 2.9 s for a pass over 10,000 VMs that held it for
    0.15 s at most.
    """

    def execute(self, sql: str, *parameters: Any) -> Any:
        if sql != BEGIN_WRITING:
            return super().execute(sql, *parameters)
        until_s = time.monotonic() + cast(_Connection, self.connection).patience_s
        while True:
            try:
                return super().execute(sql)
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > until_s:
                    raise
            _PAUSE.wait(_BETWEEN_TRIES_S)


def _write_ahead(connection: sqlite3.Connection) -> None:
    """The mode is the file's. SQLite does not wait to set it: a process that locked a new file is setting it, too."""
    try:
        connection.execute("PRAGMA journal_mode = WAL")
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_BUSY:
            raise


def _postgresql(url: URL, limits: Limits, pool: dict[str, Any]) -> Engine:
    # Only here: a guard on SQLite has no use for the driver.
    from costguard.db import silence

    seconds = max(1, int(limits.connect.total_seconds()))
    defaults = {"connect_timeout": str(seconds), "application_name": "costguard", **_TCP}
    made = create_engine(
        url.set(query=defaults | dict(url.query)),
        hide_parameters=True,
        pool_pre_ping=True,  # a restarted server costs no request
        **pool,
    )

    @event.listens_for(made, "do_connect")
    def open_connection(_dialect: object, _record: object, arguments: Any, named: Any) -> Any:
        return silence.connect(limits, *arguments, **named)

    @event.listens_for(made, "connect")
    def set_up(connection: Any, _record: object) -> None:
        # Not as a start-up option: poolers such as PgBouncer refuse those.
        connection.execute("SET jit = off")  # it costs more than these queries take
        # PostgreSQL's own 4 is of turning disks: sums of the fleet would read the table of all VMs there ever were
        # in place of the index on those that are there.
        connection.execute("SET random_page_cost = 1.1")
        connection.commit()

    return made
