"""The generation of the database, which a restore raises, and where the database was last opened."""

from __future__ import annotations

import hashlib
from datetime import datetime
from pathlib import Path

from sqlalchemy import Connection, delete, func, inspect, select, text, update
from sqlalchemy.exc import ProgrammingError

from costguard.db.tables import events, installation, leases, metadata, sessions, sign_in_links, stops
from costguard.db.upsert import upsert
from costguard.events.audit_log import append
from costguard.model.action import StopOutcome
from costguard.model.event import Event
from costguard.model.generation import FIRST, Cause, Generation

_ROW = 1
_INSTALLATION = select(installation).where(installation.c.id == _ROW)
ID_GAP = 1_000_000  # more than a ledger gains between a backup and its restore


def read(connection: Connection) -> Generation:
    row = connection.execute(_INSTALLATION).one_or_none()
    if row is None:
        return Generation()
    return Generation(row.generation, row.began_at, Cause(row.cause) if row.cause else None, row.backup_at)


def read_if_any(connection: Connection) -> Generation:
    """As `read`, of a database that may be older than its table."""
    return read(connection) if inspect(connection).has_table(installation.name) else Generation()


def home_of(connection: Connection) -> str:
    """Where this database is, as a digest: the file itself, or the server and its database.

    A copy of the file has another inode, and a dump that was restored into a new database another oid.
    """
    if connection.dialect.name == "sqlite":
        file = connection.exec_driver_sql("PRAGMA database_list").one()[2]
        place = f"{Path(file).resolve()}|{Path(file).stat().st_ino}"
    else:
        oid = connection.scalar(text("SELECT oid FROM pg_database WHERE datname = current_database()"))
        place = f"{_server_of(connection)}|{oid}"
    return hashlib.sha256(place.encode()).hexdigest()[:32]


def _server_of(connection: Connection) -> str:
    """Which server it is, by itself; "" where a managed one lets nobody ask."""
    try:
        with connection.begin_nested():
            return str(connection.scalar(text("SELECT system_identifier FROM pg_control_system()")))
    except ProgrammingError:
        return ""


def is_elsewhere(connection: Connection, home: str) -> bool:
    """Whether the database was last opened to act in another place than this."""
    stored_home = connection.scalar(select(installation.c.home).where(installation.c.id == _ROW))
    return bool(stored_home) and stored_home != home


def leave_home(connection: Connection) -> None:
    """It was restored on purpose: where it is opened next is where it is at home."""
    connection.execute(update(installation).values(home=""))


def free_leases(connection: Connection, now: datetime) -> None:
    """No holder of a lease from before the backup acts again, and the epochs since are skipped."""
    connection.execute(update(leases).values(expires_at=now, epoch=leases.c.epoch + ID_GAP))


def settle_in(connection: Connection, home: str) -> None:
    """Remember where the database is."""
    row = {"id": _ROW, "generation": FIRST, "home": home}
    upsert(connection, installation, [row], ["id"], ["home"])


def begin(connection: Connection, new: Generation, event: Event, now: datetime) -> None:
    """Write down that a generation begins, and make what the one before left pending safe.

    Ids that the lost time may have given out are not given out again where the database can skip them: those of events
    on both, since receivers of webhooks know events by them, and all on PostgreSQL.
    """
    row = {
        "id": _ROW,
        "generation": new.number,
        "began_at": new.began_at,
        "cause": new.cause.value if new.cause is not None else "",
        "backup_at": new.backup_at,
    }
    upsert(connection, installation, [row], ["id"], ["generation", "began_at", "cause", "backup_at"])
    _skip_ids(connection)
    _append_far_on(connection, event, now)
    # A session that ended since the backup stays ended, and a link that was used since stays used.
    connection.execute(delete(sessions))
    connection.execute(delete(sign_in_links))


def withdraw_stops(connection: Connection, why: str, now: datetime) -> int:
    """Stops that Google may not have been asked for are over. What it accepted is settled by the ledger."""
    pending = [StopOutcome.INTENDED.value, StopOutcome.UNKNOWN.value]
    columns = stops.c
    mine = update(stops).where(columns.outcome.in_(pending), columns.settled_at.is_(None))
    done = connection.execute(mine.values(outcome=StopOutcome.NOT_NEEDED.value, settled_at=now, error=why))
    return done.rowcount


def _append_far_on(connection: Connection, event: Event, now: datetime) -> None:
    """Events that follow have higher ids than this one, on both databases."""
    last = connection.scalar(select(func.max(events.c.id))) or 0
    append(connection, [event], now)
    at = last + ID_GAP
    connection.execute(update(events).where(events.c.key == event.key).values(id=at))
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT setval(pg_get_serial_sequence('events', 'id'), :at)"), {"at": at})


def _skip_ids(connection: Connection) -> None:
    if connection.dialect.name != "postgresql":
        return
    for table in metadata.sorted_tables:
        if table.autoincrement_column is None or table is events:
            continue
        column = table.autoincrement_column.name
        last = connection.scalar(select(func.max(table.c[column]))) or 0
        sequence = text("SELECT setval(pg_get_serial_sequence(:table, :column), :at)")
        connection.execute(sequence, {"table": table.name, "column": column, "at": last + ID_GAP})
