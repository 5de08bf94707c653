"""Database errors in plain words, with what to do next."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import DBAPIError, OperationalError, TimeoutError

from costguard.errors import DatabaseSilent, DatabaseUnreachable, StoreError

UPGRADE = "Run `costguard db upgrade`."
_SHOW_SCHEMA = {"42P01", "42703"}  # no such table, no such column
_WAITED = {"55P03", "40P01", "40001"}  # lock timeout, deadlock, serialization
_READ_ONLY = "25006"
_TOO_LONG = "57014"
_FROZE = "25P03"  # the server ended a transaction in which nothing had happened for too long


@contextmanager
def explained(name: str, *, writing: bool) -> Iterator[None]:
    """Turns what the driver says about the database `name` into a StoreError.

    Errors that are mistakes of ours, such as a broken constraint, pass through as they are.
    """
    try:
        yield
    except TimeoutError as error:
        raise DatabaseSilent(
            f"{name} was not asked: all connections were in use.",
            "Send fewer requests at a time. If there are few, the database is slow or silent: look at its server.",
        ) from error
    except DBAPIError as error:
        writing = writing or error.statement is None  # opening SQLite's file writes too
        if isinstance(error.orig, sqlite3.Error):
            meaning = _sqlite(name, error.orig, writing)
        else:
            meaning = _postgresql(name, error, writing)
        if meaning is None:
            raise
        raise meaning from error


def _sqlite(name: str, error: sqlite3.Error, writing: bool) -> StoreError | None:
    # The low byte is the primary code; the rest says more than we need.
    match getattr(error, "sqlite_errorcode", 0) & 0xFF:
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return StoreError(
                f"{name} is locked by another process.",
                "Nothing was written. Find who holds it (`fuser` names the processes that have the file open), "
                "let only one `costguard serve` use it, and try again.",
            )
        case sqlite3.SQLITE_FULL:
            return StoreError(f"{name} could not grow.", "Nothing was written. Free space on its disk and try again.")
        case sqlite3.SQLITE_CANTOPEN:
            return DatabaseUnreachable(
                f"{name} cannot be opened.",
                "If it has not been made yet, run `costguard db upgrade`; "
                "otherwise check that its folder exists and that this user may write there.",
            )
        case sqlite3.SQLITE_READONLY if writing:
            return DatabaseUnreachable(
                f"{name} is read-only.", "Let this user write to the file and to the folder that it is in."
            )
        case sqlite3.SQLITE_PERM | sqlite3.SQLITE_AUTH | sqlite3.SQLITE_IOERR:
            return DatabaseUnreachable(
                f"{name} cannot be used: {error}.", "Check its disk (is it full?) and its permissions."
            )
        case sqlite3.SQLITE_NOTADB | sqlite3.SQLITE_CORRUPT:
            return DatabaseUnreachable(
                f"{name} is damaged, or no SQLite database at all: {error}.",
                "Check the path in the settings; if it is right, put back the last backup.",
            )
        case _ if str(error).startswith(("no such table", "no such column")) or "has no column named" in str(error):
            return StoreError(f"{name} lacks what this version needs: {error}.", UPGRADE)
        case _:
            return None


def _postgresql(name: str, error: DBAPIError, writing: bool) -> StoreError | None:
    silent_s: float | None = getattr(error.orig, "silent_s", None)
    if silent_s is not None:
        return DatabaseSilent(
            f"{name} did not answer within {silent_s:.3g} s.",
            "The connection was given up; the next question opens a new one. "
            "If this goes on, look at the server and at what lies between: proxy, NAT, firewall.",
        )
    state = getattr(error.orig, "sqlstate", None) or ""
    words = str(error.orig).strip().splitlines()[0] if str(error.orig).strip() else "no reason was given"
    if state in _WAITED:
        return StoreError(
            f"{name} kept us waiting for another writer: {words}.", "Nothing was written. Try again in a moment."
        )
    if state == _TOO_LONG:
        return DatabaseUnreachable(
            f"{name} took too long over one statement, which was cancelled.",
            "Nothing was changed. Look at what keeps the server busy, and try again.",
        )
    if state == "53100":
        return StoreError(
            f"{name} could not grow: {words}.", "Nothing was written. Free space on the server's disk and try again."
        )
    if state in _SHOW_SCHEMA:
        return StoreError(f"{name} lacks what this version needs: {words}.", UPGRADE)
    if state == "42501":
        return DatabaseUnreachable(f"{name} refuses: {words}.", "Grant the user in the database URL this right.")
    if state == _READ_ONLY and writing:
        return DatabaseUnreachable(f"{name} is read-only: {words}.", "Name the primary server, not a standby.")
    if state.startswith("28") or state == "3D000":
        return DatabaseUnreachable(
            f"{name} does not let us in: {words}.", "Check user, password and database name in the database URL."
        )
    if state == _FROZE or state[:2] in {"08", "53", "57", "58"} or _no_answer(error, state):
        return DatabaseUnreachable(
            f"{name} cannot be reached: {words}.", "Check that the server runs, and its address in the database URL."
        )
    return None


def _no_answer(error: DBAPIError, state: str) -> bool:
    """Says whether the server did not answer: it did not come to a statement, or the connection broke."""
    return error.connection_invalidated or (
        not state and (error.statement is None or isinstance(error, OperationalError))
    )
